//! The server's state, and the way every piece of work runs: admitted, recorded, answered with 202, ended in the queue.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::answer::Answer;
use super::auth::Check;
use super::command::Command;
use super::model::{Database, Id, Operation, Status};
use super::queue::{Outcome, Queue};
use super::refusal::Refusal;
use super::tracker::{Class, Tracker};
use crate::sim::executor::{ExecError, Executor, Output};
use crate::sim::faults::{Faults, Point, Verdict};
use crate::sim::store::{Store, StoreError};

/// How this server is configured; the defaults are heketi's.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The token check; `None` is `--disable-auth`.
    pub auth: Option<Check>,
    /// Operations of clients at a time.
    pub max_in_flight: usize,
    /// Volumes in a cluster, pending ones included.
    pub max_volumes_per_cluster: usize,
    /// How often a failed volume create is tried again after it was undone.
    pub create_retries: u32,
    /// Options of every hosting volume, set before those of the request.
    pub block_options: Vec<String>,
    /// Whether each brick of a set must be in another zone.
    pub strict_zones: bool,
    /// Folder on the nodes below which bricks are made.
    pub bricks_root: String,
    /// The switch file.
    pub faults: Option<PathBuf>,
    /// When the background cleaner first runs, and how often from then on; `None` switches it off.
    pub cleaner: Option<(Duration, Duration)>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            auth: None,
            max_in_flight: 8,
            max_volumes_per_cluster: 1000,
            create_retries: 4,
            block_options: vec!["group gluster-block".to_owned()],
            strict_zones: false,
            bricks_root: "/bricks".to_owned(),
            faults: None,
            cleaner: Some((Duration::from_mins(1), Duration::from_hours(1))),
        }
    }
}

/// Who may change something, besides what tokens say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminState {
    /// Everybody.
    Normal,
    /// Nobody.
    ReadOnly,
    /// Clients on the same host.
    LocalClient,
}

impl AdminState {
    /// The state of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "normal" => Some(Self::Normal),
            "read-only" => Some(Self::ReadOnly),
            "local-client" => Some(Self::LocalClient),
            _ => None,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::ReadOnly => "read-only",
            Self::LocalClient => "local-client",
        }
    }
}

/// Why a step of an operation failed, in the words a client gets to read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StepError(pub String);

impl From<StoreError> for StepError {
    fn from(error: StoreError) -> Self {
        Self(error.to_string())
    }
}

impl From<ExecError> for StepError {
    fn from(error: ExecError) -> Self {
        Self(error.to_string())
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::internal(error.to_string())
    }
}

/// The longest that one command may take: heketi's command line timeout and a minute.
const COMMAND_LIMIT: Duration = Duration::from_mins(11);

/// One heketi.
#[derive(Debug)]
pub struct Simulator<E> {
    /// How it is configured.
    pub(super) settings: Settings,
    /// What it records.
    pub(super) store: Store<Database>,
    /// Its asynchronous answers.
    pub(super) queue: Queue,
    /// What runs.
    pub(super) tracker: Tracker,
    /// What goes wrong.
    pub(super) faults: Faults,
    executor: E,
    admin: Mutex<AdminState>,
}

impl<E: Executor> Simulator<E> {
    /// A server on that state.
    #[must_use]
    pub fn new(settings: Settings, store: Store<Database>, executor: E) -> Self {
        Self {
            tracker: Tracker::new(settings.max_in_flight),
            faults: Faults::new(settings.faults.clone()),
            queue: Queue::default(),
            admin: Mutex::new(AdminState::Normal),
            settings,
            store,
            executor,
        }
    }

    /// Who may change something now.
    pub(super) fn admin(&self) -> AdminState {
        *self.admin.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides who may change something.
    pub(super) fn set_admin(&self, state: AdminState) {
        *self.admin.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// Runs `work` beside the request, which is answered with 202.
    pub(super) fn in_background(
        self: &Arc<Self>,
        work: impl Future<Output = Result<Outcome, StepError>> + Send + 'static,
    ) -> Answer {
        let entry = self.queue.open();
        let (this, id) = (Arc::clone(self), entry.clone());
        tokio::spawn(async move {
            let outcome = work
                .await
                .unwrap_or_else(|error| Outcome::Failed(error.to_string()));
            this.queue.close(&id, outcome);
        });
        Answer::Accepted(entry)
    }

    /// Begins an operation: takes a place among those in flight, builds it in the database, and runs it.
    pub(super) fn begin(
        self: &Arc<Self>,
        prefix: &str,
        build: impl FnOnce(&mut Database, &Id) -> Result<Operation, BuildError>,
    ) -> Result<Answer, Refusal> {
        let id = Id::random();
        let place = self
            .tracker
            .admit(&id, Class::Normal)
            .ok_or_else(Refusal::busy)?;
        let operation = self.store.update(|database| {
            let operation = build(database, &id)?;
            database.operations.insert(id.clone(), operation.clone());
            Ok(operation)
        });
        let operation = operation
            .map_err(|error: BuildError| Refusal::internal(format!("{prefix}: {error}")))?;
        tracing::info!(operation = %operation.id, kind = ?operation.kind, "begun");
        let this = Arc::clone(self);
        Ok(self.in_background(async move {
            let outcome = this.run(operation).await;
            drop(place);
            outcome
        }))
    }

    /// Runs one command of an operation, with whatever fault is set for it.
    pub(super) async fn step(&self, host: &str, command: &Command) -> Result<Output, StepError> {
        self.pass(Point::Before(command.step)).await?;
        if self.faults.is_down(host) {
            let reason = format!("dial tcp {host}:22: connect: no route to host");
            return Err(ExecError::Unreachable {
                host: host.to_owned(),
                reason,
            }
            .into());
        }
        let output = self
            .executor
            .run(host, &command.line, COMMAND_LIMIT)
            .await?;
        self.pass(Point::After(command.step)).await?;
        Ok(output)
    }

    /// Passes a point of an operation, unless a fault says that it fails.
    pub(super) async fn pass(&self, point: Point<'_>) -> Result<(), StepError> {
        match self.faults.meet(point).await {
            Verdict::Proceed | Verdict::Lose => Ok(()),
            Verdict::Fail { text, .. } => Err(StepError(text)),
        }
    }

    /// Marks an operation whose undoing failed: it is kept, and so is the space it took.
    pub(super) fn mark_failed(&self, operation: &Id) -> Result<(), StoreError> {
        self.store.update(|database| {
            if let Some(operation) = database.operations.get_mut(operation) {
                operation.status = Status::Failed;
            }
            Ok(())
        })
    }
}

/// Why an operation cannot even begin. The texts are those that follow the prefix of a 500.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The object belongs to another unfinished operation. A 500, not a 409.
    #[error("The target exists, contains other items, or is in use.")]
    Conflict,
    /// A record is missing.
    #[error("Id not found")]
    NotFound,
    /// No room.
    #[error("No space")]
    NoSpace,
    /// Anything else that the placement says.
    #[error("{0}")]
    Text(String),
    /// The state file.
    #[error("Unable to access db")]
    Store(#[from] StoreError),
}
