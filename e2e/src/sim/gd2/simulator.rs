//! The daemon's state, its locks, and the way a step of a transaction runs.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;

use super::auth::Check;
use super::model::Cluster;
use super::refusal::Refusal;
use super::transaction::Step;
use crate::sim::executor::Executor;
use crate::sim::faults::{Faults, Point, Verdict};
use crate::sim::store::Store;

/// How this daemon is configured; the defaults are gd2's.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The token check; `None` is `restauth` off.
    pub auth: Option<Check>,
    /// How long a lock is waited for.
    pub lock_timeout: Duration,
    /// After how long an answer is lost, while the work behind it goes on.
    pub write_timeout: Duration,
    /// Folder on the hosts below which bricks are made.
    pub bricks_root: String,
    /// The switch file.
    pub faults: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            auth: None,
            lock_timeout: Duration::from_secs(5),
            write_timeout: Duration::from_secs(30),
            bricks_root: "/bricks/gd2".to_owned(),
            faults: None,
        }
    }
}

/// The longest that one command may take.
const COMMAND_LIMIT: Duration = Duration::from_mins(11);

/// One gd2.
#[derive(Debug)]
pub struct Simulator<E> {
    pub(super) settings: Settings,
    pub(super) store: Store<Cluster>,
    pub(super) faults: Faults,
    executor: E,
    /// Locks by volume. The map is held for a look, never across an await; a lock is held for a transaction.
    locks: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl<E: Executor> Simulator<E> {
    /// A daemon on that state.
    #[must_use]
    pub fn new(settings: Settings, store: Store<Cluster>, executor: E) -> Self {
        Self {
            faults: Faults::new(settings.faults.clone()),
            settings,
            store,
            executor,
            locks: Mutex::default(),
        }
    }

    /// The lock of a volume, or that it is not to be had in time.
    pub(super) async fn lock(&self, volume: &str) -> Result<OwnedMutexGuard<()>, Refusal> {
        let lock = {
            let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(locks.entry(volume.to_owned()).or_default())
        };
        let wait = tokio::time::timeout(self.settings.lock_timeout, lock.lock_owned());
        wait.await.map_err(|_| Refusal::locked())
    }

    /// Runs a step on a host, with whatever fault is set for it.
    pub(super) async fn run(&self, host: &str, step: &Step) -> Result<(), String> {
        self.pass(step.name).await?;
        if self.faults.is_down(host) {
            return Err(format!("connection to {host} lost"));
        }
        let done = self.executor.run(host, &step.line, COMMAND_LIMIT).await;
        done.map_err(|error| error.to_string())?;
        self.meet(Point::After(step.name)).await
    }

    /// Passes the point before a step, unless a fault says that it fails.
    pub(super) async fn pass(&self, step: &'static str) -> Result<(), String> {
        self.meet(Point::Before(step)).await
    }

    async fn meet(&self, point: Point<'_>) -> Result<(), String> {
        match self.faults.meet(point).await {
            Verdict::Proceed | Verdict::Lose => Ok(()),
            Verdict::Fail { text, .. } => Err(text),
        }
    }
}
