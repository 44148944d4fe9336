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
