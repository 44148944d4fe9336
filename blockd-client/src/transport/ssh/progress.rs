//! How far a call has come, shared by the thread that makes it and the task that waits for it.

use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::transport::TransportError;
use crate::vocabulary::HostAddress;

/// One call: to whom, until when, and how far.
#[derive(Clone)]
pub(super) struct Progress {
    host: HostAddress,
    deadline: Duration,
    until: Instant,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Set just before the command is sent, so it may be set though the command never left.
    started: AtomicBool,
    aborted: AtomicBool,
    /// The socket in use, to be shut down when time is up. Taken for an instant by either side.
    socket: Mutex<Option<TcpStream>>,
}

impl Progress {
    pub(super) fn new(host: HostAddress, deadline: Duration) -> Self {
        Self {
            host,
            deadline,
            until: Instant::now() + deadline,
            shared: Arc::default(),
        }
    }

    pub(super) fn host(&self) -> HostAddress {
        self.host
    }

    /// What is left of the deadline, but no more than `at_most`.
    ///
    /// # Errors
    ///
    /// Nothing is left.
    pub(super) fn left(&self, at_most: Duration) -> Result<Duration, TransportError> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() || self.shared.aborted.load(Ordering::Acquire) {
            return Err(self.timed_out());
        }
        Ok(left.min(at_most))
    }

    /// From here on the command may run on the host.
    pub(super) fn started(&self) {
        self.shared.started.store(true, Ordering::Release);
    }

    /// Says which socket to shut down when time is up.
    pub(super) fn uses(&self, socket: Option<TcpStream>) {
        *self
            .shared
            .socket
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = socket;
    }

    /// Ends the call from outside, whatever it is waiting for.
    pub(super) fn abort(&self) {
        self.shared.aborted.store(true, Ordering::Release);
        let socket = self
            .shared
            .socket
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(socket) = &*socket {
            // Fails only if the connection is gone already, which is what is wanted.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    pub(super) fn timed_out(&self) -> TransportError {
        TransportError::Deadline {
            host: self.host,
            deadline: self.deadline,
            started: self.shared.started.load(Ordering::Acquire),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    fn progress(deadline: Duration) -> Progress {
        Progress::new("127.0.0.1".parse().unwrap(), deadline)
    }

    #[test]
    fn an_aborted_call_wakes_whoever_waits_for_the_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let progress = progress(Duration::from_mins(1));
        progress.uses(Some(socket.try_clone().unwrap()));
        let waiting = std::thread::spawn(move || socket.read(&mut [0; 1]).unwrap_or(0));
        progress.abort();
        assert_eq!(waiting.join().unwrap(), 0);
        assert!(progress.left(Duration::from_secs(1)).is_err());
    }

    #[test]
    fn a_call_that_waited_in_line_past_its_deadline_is_not_begun() {
        let late = progress(Duration::ZERO);
        let error = late.left(Duration::from_secs(1)).unwrap_err();
        assert!(!error.may_have_started());
        late.started();
        assert!(
            late.left(Duration::from_secs(1))
                .unwrap_err()
                .may_have_started()
        );
    }
}
