//! One operation a volume at a time, and each runs to its end.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use tonic::Status;
use tracing::Instrument;

use crate::error::{Classify, ErrorKind};
use crate::status::into_status;

/// The volumes that an operation is working on. Clones share the table.
#[derive(Debug, Clone, Default)]
pub struct VolumeLocks {
    // Taken for the length of one set operation, never across an await.
    busy: Arc<Mutex<HashSet<String>>>,
}

/// Another operation on the volume is pending.
#[derive(Debug, thiserror::Error)]
#[error("an operation on {id} is pending; try again when it has ended")]
pub struct Busy {
    id: String,
}

impl Classify for Busy {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Aborted
    }
}

/// The right to work on a volume; given back when dropped.
#[derive(Debug)]
pub struct VolumeGuard {
    id: String,
    locks: VolumeLocks,
}

impl VolumeLocks {
    /// Takes the volume, or refuses: CSI wants a refusal, not a queue.
    ///
    /// # Errors
    /// [`Busy`] while another guard of the same id lives.
    pub fn try_acquire(&self, id: &str) -> Result<VolumeGuard, Busy> {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        if busy.insert(id.to_owned()) {
            Ok(VolumeGuard {
                id: id.to_owned(),
                locks: self.clone(),
            })
        } else {
            Err(Busy { id: id.to_owned() })
        }
    }
}

impl Drop for VolumeGuard {
    fn drop(&mut self) {
        self.locks
            .busy
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.id);
    }
}

/// Runs `operation` in its own task, which owns `guard` until the end.
///
/// # Guarantees
/// The operation is not cancelled when the caller gives up, and no other operation on the same volume starts before
/// it has ended. A panic frees the guard and answers INTERNAL.
///
/// # Errors
/// The operation's error as a status.
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
    tokio::spawn(task.in_current_span())
        .await
        .unwrap_or_else(|_| Err(Status::internal("the operation panicked; see the log")))
}
