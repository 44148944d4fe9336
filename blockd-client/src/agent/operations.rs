//! Long work that goes on whoever listens.
//!
//! At most one operation per block is under way. What a request comes to is decided by [`Decision::of`] alone. Operations that
//! are over are kept for a while, so that a caller who lost its connection can still learn the end. They do not outlive
//! the process: then gluster-blockd may go on by itself, and repeating the request finds what it made.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::block::CreateBlock;
use crate::schema::{Operation, Problem, Progress, Verb, What};
use crate::vocabulary::{Capacity, HostAddress, VolumeId};

/// How long the end of an operation can be asked for.
const KEPT_FOR: Duration = Duration::from_mins(15);

/// A change to a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    Create(CreateBlock),
    Delete(VolumeId),
    Resize(VolumeId, Capacity),
}

/// All operations, running and over.
#[derive(Debug, Default)]
pub(super) struct Operations {
    /// Taken for an instant, never across a wait.
    table: Arc<Mutex<HashMap<Uuid, Entry>>>,
    tasks: TaskTracker,
}

#[derive(Debug)]
struct Entry {
    change: Change,
    operation: watch::Receiver<Operation>,
    over_since: Option<Instant>,
}

/// What a request comes to.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    Start,
    Join(Uuid),
    Refuse(Uuid),
}

impl Decision {
    /// Decides by what is under way for the same block.
    ///
    /// | under way        | decision |
    /// |------------------|----------|
    /// | nothing          | start    |
    /// | the same request | join it  |
    /// | another request  | refuse   |
    fn of(wanted: &Change, under_way: Option<(Uuid, &Change)>) -> Self {
        match under_way {
            None => Self::Start,
            Some((id, change)) if change == wanted => Self::Join(id),
            Some((id, _)) => Self::Refuse(id),
        }
    }
}

impl Change {
    pub(super) const fn verb(&self) -> Verb {
        match self {
            Self::Create(_) => Verb::Create,
            Self::Delete(_) => Verb::Delete,
            Self::Resize(..) => Verb::Resize,
        }
    }

    pub(super) const fn block(&self) -> &VolumeId {
        match self {
            Self::Create(CreateBlock { id, .. }) | Self::Delete(id) | Self::Resize(id, _) => id,
        }
    }
}

impl Operations {
    /// Starts `work` for `change`, or joins the same change that is under way.
    pub(super) fn accept<F>(
        &self,
        host: HostAddress,
        change: Change,
        work: impl FnOnce(Change) -> F,
    ) -> Result<Operation, Problem>
    where
        F: Future<Output = Progress> + Send + 'static,
    {
        let mut table = self.table();
        table.retain(|_, entry| {
            entry
                .over_since
                .is_none_or(|since| since.elapsed() < KEPT_FOR)
        });
        let under_way = table.iter().find(|(_, entry)| {
            entry.over_since.is_none() && entry.change.block() == change.block()
        });
        match Decision::of(&change, under_way.map(|(id, entry)| (*id, &entry.change))) {
            Decision::Start => {}
            Decision::Join(id) => {
                tracing::info!(operation = %id, "joined");
                return table.get(&id).map(Entry::now).ok_or_else(|| unknown(id));
            }
            Decision::Refuse(id) => return Err(refused(id)),
        }
        let id = Uuid::new_v4();
        let operation = Operation {
            id,
            verb: change.verb(),
            block: change.block().clone(),
            progress: Progress::Running,
        };
        let (sender, receiver) = watch::channel(operation.clone());
        let entry = Entry {
            change: change.clone(),
            operation: receiver,
            over_since: None,
        };
        table.insert(id, entry);
        tracing::info!(operation = %id, verb = operation.verb.as_str(), block = %operation.block, "started");
        let (work, ending) = (
            work(change),
            Ending {
                host,
                id,
                table: Arc::clone(&self.table),
                sender,
            },
        );
        self.tasks.spawn(ending.after(work));
        Ok(operation)
    }

    /// The operation as it is; if it is under way, as it is after at most `patience`.
    pub(super) async fn look(&self, id: Uuid, patience: Duration) -> Result<Operation, Problem> {
        let receiver = self.table().get(&id).map(|entry| entry.operation.clone());
        let mut receiver = receiver.ok_or_else(|| unknown(id))?;
        // Time may be up before the end: then the caller gets what there is.
        let _ = timeout(patience, receiver.wait_for(Operation::is_over)).await;
        let operation = receiver.borrow().clone();
        Ok(operation)
    }

    /// Waits until nothing is under way. For the end of the process: what starts later is not waited for.
    pub(super) async fn idle(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Nothing that holds this lock can panic halfway, so a poisoned table is still whole.
    fn table(&self) -> MutexGuard<'_, HashMap<Uuid, Entry>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn now(&self) -> Operation {
        self.operation.borrow().clone()
    }
}

/// What is done when an operation is over.
struct Ending {
    host: HostAddress,
    id: Uuid,
    table: Arc<Mutex<HashMap<Uuid, Entry>>>,
    sender: watch::Sender<Operation>,
}

impl Ending {
    async fn after(self, work: impl Future<Output = Progress> + Send + 'static) {
        let start = Instant::now();
        // A task of its own, so that a panic in it ends the operation too.
        let progress = match tokio::spawn(work).await {
            Ok(progress) => progress,
            Err(_panic) => Progress::Failed {
                problem: Box::new(broke_down(self.host)),
            },
        };
        let (state, problem) = match &progress {
            Progress::Failed { problem } => ("failed", problem.detail.as_str()),
            Progress::Succeeded { .. } | Progress::Running => ("succeeded", ""),
        };
        tracing::info!(operation = %self.id, state, problem, elapsed = ?start.elapsed(), "over");
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = table.get_mut(&self.id) {
            entry.over_since = Some(Instant::now());
        }
        drop(table);
        self.sender
            .send_modify(|operation| operation.progress = progress);
    }
}

fn refused(operation: Uuid) -> Problem {
    let detail = "another operation on this block is under way; ask for it, and repeat the request when it is over";
    Problem::new(What::OperationRunning { operation }, detail)
}

fn unknown(operation: Uuid) -> Problem {
    let detail = "the operation is long over, or the agent was restarted since; repeat the request to learn what is there";
    Problem::new(What::NoSuchOperation { operation }, detail)
}

fn broke_down(host: HostAddress) -> Problem {
    let said = "the agent itself broke down; see its log".to_owned();
    let what = What::NoAnswer {
        host,
        may_have_started: true,
        said: said.clone(),
    };
    Problem::new(what, said)
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    fn delete(name: &str) -> Change {
        Change::Delete(format!("hv/{name}").parse().unwrap())
    }

    fn resize(name: &str, bytes: u64) -> Change {
        Change::Resize(
            format!("hv/{name}").parse().unwrap(),
            Capacity::from_bytes(bytes),
        )
    }

    fn host() -> HostAddress {
        "10.0.0.1".parse().unwrap()
    }

    const DONE: Progress = Progress::Succeeded {
        made: None,
        result: None,
    };

    /// Starts work that ends when the sender says so, or is dropped.
    fn start(
        operations: &Operations,
        change: Change,
    ) -> (Result<Operation, Problem>, oneshot::Sender<()>) {
        let (end, ended) = oneshot::channel();
        let work = |_| async {
            let _ = ended.await;
            DONE
        };
        (operations.accept(host(), change, work), end)
    }

    #[test]
    fn a_request_starts_joins_or_is_refused() {
        let id = Uuid::new_v4();
        let decide = |change: &Change| Decision::of(&resize("b", 1), Some((id, change)));
        assert_eq!(Decision::of(&resize("b", 1), None), Decision::Start);
        assert_eq!(decide(&resize("b", 1)), Decision::Join(id));
        assert_eq!(decide(&resize("b", 2)), Decision::Refuse(id));
        assert_eq!(decide(&delete("b")), Decision::Refuse(id));
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_request_joins_and_another_one_waits_its_turn() {
        let operations = Operations::default();
        let (first, end) = start(&operations, delete("b"));
        let first = first.unwrap();
        let (joined, _) = start(&operations, delete("b"));
        assert_eq!(joined.unwrap().id, first.id);
        let refusal = start(&operations, resize("b", 1)).0.unwrap_err();
        assert_eq!(
            (refusal.status, *refusal.what),
            (
                409,
                What::OperationRunning {
                    operation: first.id
                }
            )
        );
        assert!(start(&operations, delete("c")).0.is_ok(), "another block");
        end.send(()).unwrap();
        let over = operations
            .look(first.id, Duration::from_secs(5))
            .await
            .unwrap();
        assert_eq!(over.progress, DONE);
        let (again, _) = start(&operations, resize("b", 1));
        assert_ne!(again.unwrap().id, first.id);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_looks_waits_no_longer_than_asked() {
        let operations = Operations::default();
        let (running, _end) = start(&operations, delete("b"));
        let start = Instant::now();
        let seen = operations
            .look(running.unwrap().id, Duration::from_secs(3))
            .await
            .unwrap();
        assert_eq!(
            (seen.progress, start.elapsed()),
            (Progress::Running, Duration::from_secs(3))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_is_kept_for_a_while() {
        let operations = Operations::default();
        let (first, end) = start(&operations, delete("b"));
        let id = first.unwrap().id;
        end.send(()).unwrap();
        operations.look(id, Duration::from_secs(1)).await.unwrap();
        tokio::time::advance(Duration::from_mins(14)).await;
        let _ = start(&operations, delete("c"));
        assert!(operations.look(id, Duration::ZERO).await.is_ok());
        tokio::time::advance(Duration::from_mins(2)).await;
        let _ = start(&operations, delete("d"));
        let gone = operations.look(id, Duration::ZERO).await.unwrap_err();
        assert_eq!(
            (gone.status, *gone.what),
            (404, What::NoSuchOperation { operation: id })
        );
    }

    #[tokio::test]
    async fn work_that_panics_is_over() {
        let operations = Operations::default();
        let work = |_| async { panic!("a bug") };
        let started = operations.accept(host(), delete("b"), work).unwrap();
        let seen = operations
            .look(started.id, Duration::from_secs(5))
            .await
            .unwrap();
        assert!(matches!(seen.progress, Progress::Failed { .. }), "{seen:?}");
        operations.idle().await;
    }
}
