//! One operation a volume at a time, and each runs to its end.
//!
//! A caller may give up at any moment, and gRPC then drops what it was served with. A half-made file system must not be
//! left to that, so an accepted operation runs in a task of its own that owns its guard: the repeat meets ABORTED until
//! the first attempt has ended, and then the answer that a repeat gets. Nobody waits for a volume here.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tonic::Status;
use tracing::{Instrument, Span};

use crate::error::{Classify, ErrorKind};
use crate::status::into_status;

/// The volumes that an operation is working on. Clones share the table.
#[derive(Debug, Clone, Default)]
pub struct VolumeLocks {
    table: Arc<Table>,
}

#[derive(Debug, Default)]
struct Table {
    // A std mutex: taken for the length of one set operation, never across an await.
    busy: Mutex<HashSet<String>>,
    // Told whenever the set becomes empty.
    emptied: Notify,
}

/// Another operation on the volume is pending.
#[derive(Debug, thiserror::Error)]
#[error("an operation on {id} is pending; try again when it has ended")]
pub struct Busy {
    id: String,
}

/// The right to work on a volume; given back when dropped.
#[derive(Debug)]
#[must_use = "the volume is free again as soon as the guard is dropped"]
pub struct VolumeGuard {
    id: String,
    table: Arc<Table>,
}

impl VolumeLocks {
    /// Takes the volume, or refuses: CSI wants a refusal, not a queue. Notes the id in the current span as `volume.id`.
    ///
    /// # Errors
    ///
    /// [`Busy`] while another guard of the same id lives.
    pub fn try_acquire(&self, id: &str) -> Result<VolumeGuard, Busy> {
        Span::current().record("volume.id", id);
        if !self.table.busy().insert(id.to_owned()) {
            return Err(Busy { id: id.to_owned() });
        }
        Ok(VolumeGuard {
            id: id.to_owned(),
            table: Arc::clone(&self.table),
        })
    }

    /// How many volumes are taken.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.table.busy().len()
    }

    /// Waits until no volume is taken.
    ///
    /// For the end of a process: a server that has answered its last call may still have operations running whose
    /// callers gave up. New operations must be out of the question by then, or this waits for them too.
    pub async fn idle(&self) {
        loop {
            // Registered before looking, so that an end in between is not missed.
            let mut emptied = pin!(self.table.emptied.notified());
            emptied.as_mut().enable();
            if self.in_flight() == 0 {
                return;
            }
            emptied.await;
        }
    }
}

impl Table {
    fn busy(&self) -> MutexGuard<'_, HashSet<String>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for VolumeGuard {
    fn drop(&mut self) {
        let mut busy = self.table.busy();
        busy.remove(&self.id);
        if busy.is_empty() {
            self.table.emptied.notify_waiters();
        }
    }
}

impl Classify for Busy {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Aborted
    }
}

/// Runs `operation` in its own task, which owns `guard` until the end.
///
/// The guard is a [`VolumeGuard`], or several in a tuple, or whatever else must not be given back earlier. The task keeps
/// the caller's span.
///
/// # Guarantees
///
/// - The operation is not cancelled when the caller gives up, and the guard is held until it has ended.
/// - A panic frees the guard and answers INTERNAL; other volumes' operations go on.
///
/// # Assumptions
///
/// The operation ends by itself: each of its effects has a deadline. The process may still die at any point.
///
/// # Errors
///
/// The operation's error as a status; UNAVAILABLE, which is not final, when the process ends before the operation.
pub async fn run_to_completion<G, T, E>(
    guard: G,
    operation: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Result<T, Status>
where
    G: Send + 'static,
    T: Send + 'static,
    E: Classify,
{
    let task = async move {
        let outcome = operation.await.map_err(|error| into_status(&error));
        drop(guard);
        outcome
    };
    match tokio::spawn(task.in_current_span()).await {
        Ok(outcome) => outcome,
        Err(end) if end.is_panic() => {
            tracing::error!("operation panicked");
            Err(Status::internal("the operation panicked; see the log"))
        }
        Err(_cancelled) => Err(Status::unavailable("the plugin is stopping; try again")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;
    use tonic::Code;

    use super::*;

    #[test]
    fn a_taken_volume_is_refused_until_its_guard_is_dropped() {
        let locks = VolumeLocks::default();
        let guard = locks.try_acquire("hv/a").unwrap();

        let refused = locks.clone().try_acquire("hv/a").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Aborted);
        drop(guard);

        assert!(locks.try_acquire("hv/a").is_ok());
    }

    #[test]
    fn volumes_do_not_wait_for_each_other() {
        let locks = VolumeLocks::default();
        let _a = locks.try_acquire("hv/a").unwrap();

        assert!(locks.try_acquire("hv/b").is_ok());
    }

    #[tokio::test]
    async fn an_operation_whose_caller_is_gone_keeps_its_guard_and_ends() {
        let locks = VolumeLocks::default();
        let (finish, finished) = oneshot::channel::<()>();
        let guard = locks.try_acquire("hv/a").unwrap();
        let operation = async { finished.await.map_err(|_| Busy { id: String::new() }) };

        let caller = tokio::time::timeout(
            Duration::from_millis(1),
            run_to_completion(guard, operation),
        );
        assert!(caller.await.is_err());
        assert!(locks.try_acquire("hv/a").is_err());

        finish.send(()).unwrap();
        locks.idle().await;
        assert!(locks.try_acquire("hv/a").is_ok());
    }

    #[tokio::test]
    async fn a_panicking_operation_frees_its_guards_and_answers_internal() {
        let locks = VolumeLocks::default();
        let guards = (
            locks.try_acquire("hv/a").unwrap(),
            locks.try_acquire("hv/b").unwrap(),
        );

        let outcome = run_to_completion(guards, async {
            assert_eq!(1, 2, "a bug");
            Ok::<_, Busy>(())
        });

        assert_eq!(outcome.await.unwrap_err().code(), Code::Internal);
        assert_eq!(locks.in_flight(), 0);
    }

    #[tokio::test]
    async fn the_guard_is_free_when_the_answer_is_there() {
        let locks = VolumeLocks::default();
        let guard = locks.try_acquire("hv/a").unwrap();

        let outcome = run_to_completion(guard, async { Ok::<_, Busy>(7) }).await;

        assert_eq!(outcome.unwrap(), 7);
        assert!(locks.try_acquire("hv/a").is_ok());
    }

    #[tokio::test]
    async fn an_idle_table_does_not_wait() {
        VolumeLocks::default().idle().await;
    }
}
