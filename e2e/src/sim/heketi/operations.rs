//! The life of an operation: build, execute, then finalize or roll back; and the cleaner that finishes what was left.
//!
//! | after                                   | volume create          | volume delete            | volume expand           |
//! |-----------------------------------------|------------------------|--------------------------|-------------------------|
//! | success                                 | shown                  | forgotten                | size and free grow      |
//! | failure                                 | undone, tried again up to four times, forgotten | shown again, maybe half deleted | new bricks removed |
//! | failure of the undoing                  | `failed`, hidden, its space stays taken | –       | `failed`                |
//! | restart, then cleaner                   | undone, forgotten      | deleted                  | new bricks removed      |
//!
//! `reference/heketi-gd2.md` §2.8.

use std::sync::Arc;
use std::time::Duration;

use super::command::{self, BrickAt};
use super::model::{Database, Id, Kind, Operation, Status, Volume, now, usable};
use super::queue::Outcome;
use super::simulator::{Simulator, StepError};
use super::tracker::Class;
use crate::sim::executor::Executor;
use crate::sim::faults::Point;
use crate::sim::store::StoreError;

mod build;

pub(super) use build::{build_create, build_delete, build_expand};

/// An untracked operation that old is taken for stale by the periodic cleaner.
const UNTRACKED_IS_STALE: u64 = 60;

/// What an operation works on, read once before it runs.
struct Work {
    volume: Volume,
    /// The bricks it makes or removes.
    bricks: Vec<(BrickAt, String)>,
    /// Where commands for the cluster can be run.
    hosts: Vec<String>,
}

impl<E: Executor> Simulator<E> {
    /// Runs an operation that was built, to its end.
    pub(super) async fn run(&self, operation: Operation) -> Result<Outcome, StepError> {
        let done = match operation.kind {
            Kind::CreateVolume => self.run_create(operation).await,
            Kind::DeleteVolume => self.run_delete(operation).await,
            Kind::ExpandVolume => self.run_expand(operation).await,
        };
        done.inspect_err(|error| tracing::warn!(%error, "operation failed"))
    }

    async fn run_create(&self, mut operation: Operation) -> Result<Outcome, StepError> {
        let mut tries_left = self.settings.create_retries;
        loop {
            let wanted = self.work(&operation)?.volume;
            let Err(error) = self.create(&operation).await else {
                break;
            };
            if let Err(undo) = self.undo_create(&operation).await {
                tracing::error!(error = %undo, "cannot undo");
                self.mark_failed(&operation.id)?;
                return Err(error);
            }
            if tries_left == 0 {
                return Err(error);
            }
            tries_left = tries_left.saturating_sub(1);
            operation = self.rebuild(&wanted, &operation.id)?;
        }
        self.finalize(&operation, |database, operation| {
            show(database, operation);
        })
        .await?;
        Ok(Outcome::SeeOther(format!("/volumes/{}", operation.volume)))
    }

    fn rebuild(&self, wanted: &Volume, id: &Id) -> Result<Operation, StepError> {
        let build = |database: &mut Database| -> Result<Operation, super::simulator::BuildError> {
            let candidates = [wanted.cluster.clone()];
            let afresh = Volume {
                bricks: Vec::new(),
                ..wanted.clone()
            };
            let operation = build_create(database, &self.settings, afresh, &candidates, id)?;
            database.operations.insert(id.clone(), operation.clone());
            Ok(operation)
        };
        self.store
            .update(build)
            .map_err(|error| StepError(error.to_string()))
    }

    async fn create(&self, operation: &Operation) -> Result<(), StepError> {
        self.pass(Point::After("build")).await?;
        let work = self.work(operation)?;
        self.make_bricks(&work).await?;
        let (_, host) = work
            .bricks
            .first()
            .ok_or_else(|| StepError("Id not found".to_owned()))?;
        let bricks: Vec<BrickAt> = work.bricks.iter().map(|(brick, _)| brick.clone()).collect();
        for command in command::create(&work.volume, &bricks) {
            self.step(host, &command).await?;
        }
        Ok(())
    }

    async fn undo_create(&self, operation: &Operation) -> Result<(), StepError> {
        self.pass(Point::Before("rollback")).await?;
        self.remove(operation).await?;
        self.forget(operation)?;
        Ok(())
    }

    async fn run_delete(&self, operation: Operation) -> Result<Outcome, StepError> {
        let removed = match self.pass(Point::After("build")).await {
            Ok(()) => self.remove(&operation).await,
            Err(error) => Err(error),
        };
        if let Err(error) = removed {
            // Nothing is undone: the volume is shown again, however little of it is left.
            self.close(&operation, show)?;
            return Err(error);
        }
        self.pass(Point::Before("finalize")).await?;
        self.forget(&operation)?;
        Ok(Outcome::NoContent)
    }

    async fn run_expand(&self, operation: Operation) -> Result<Outcome, StepError> {
        if let Err(error) = self.expand(&operation).await {
            if let Err(undo) = self.undo_expand(&operation).await {
                tracing::error!(error = %undo, "cannot undo");
                self.mark_failed(&operation.id)?;
            }
            return Err(error);
        }
        self.finalize(&operation, grow).await?;
        Ok(Outcome::SeeOther(format!("/volumes/{}", operation.volume)))
    }

    async fn expand(&self, operation: &Operation) -> Result<(), StepError> {
        self.pass(Point::After("build")).await?;
        let work = self.work(operation)?;
        self.make_bricks(&work).await?;
        let (_, host) = work
            .bricks
            .first()
            .ok_or_else(|| StepError("Id not found".to_owned()))?;
        let bricks: Vec<BrickAt> = work.bricks.iter().map(|(brick, _)| brick.clone()).collect();
        for command in command::add_bricks(&work.volume, &bricks) {
            self.step(host, &command).await?;
        }
        if let Err(error) = self.step(host, &command::rebalance(&work.volume)).await {
            tracing::warn!(%error, "rebalance failed; reported as success");
        }
        Ok(())
    }

    async fn undo_expand(&self, operation: &Operation) -> Result<(), StepError> {
        self.pass(Point::Before("rollback")).await?;
        let work = self.work(operation)?;
        for (brick, host) in &work.bricks {
            self.step(host, &command::remove_unused_brick(&brick.path))
                .await?;
        }
        self.close(operation, |database, operation| {
            database.remove_bricks(&operation.bricks);
        })?;
        Ok(())
    }

    async fn make_bricks(&self, work: &Work) -> Result<(), StepError> {
        for (brick, host) in &work.bricks {
            self.step(host, &command::make_brick(&brick.path, work.volume.gid))
                .await?;
        }
        Ok(())
    }

    /// Removes the volume from gluster, through the first host that can, and then its bricks. Absent is fine.
    async fn remove(&self, operation: &Operation) -> Result<(), StepError> {
        let work = self.work(operation)?;
        let mut failures = Vec::new();
        for host in &work.hosts {
            match self.destroy(host, &work.volume).await {
                Ok(()) => {
                    failures.clear();
                    break;
                }
                Err(error) => failures.push((host, error.to_string())),
            }
        }
        if let Some(text) = all_hosts_failed(&failures) {
            return Err(StepError(text));
        }
        for (brick, host) in &work.bricks {
            self.step(host, &command::remove_brick(&brick.path)).await?;
        }
        Ok(())
    }

    async fn destroy(&self, host: &str, volume: &Volume) -> Result<(), StepError> {
        if let Err(error) = self.step(host, &command::stop(volume)).await {
            tracing::warn!(%error, volume = volume.name, "cannot stop the volume");
        }
        match self.step(host, &command::delete(volume)).await {
            Err(StepError(text)) if !text.contains("does not exist") => Err(StepError(format!(
                "Unable to delete volume {}: {text}",
                volume.name
            ))),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn work(&self, operation: &Operation) -> Result<Work, StepError> {
        let work = self.store.view(|database| {
            let volume = database.volumes.get(&operation.volume)?.clone();
            let at = |id: &Id| {
                let brick = database.bricks.get(id)?;
                let node = database.nodes.get(&brick.node)?;
                let host = node.storage_host().to_owned();
                Some((
                    BrickAt {
                        host,
                        path: brick.path.clone(),
                    },
                    node.manage_host().to_owned(),
                ))
            };
            let bricks = operation.bricks.iter().filter_map(at).collect();
            let hosts = database
                .nodes_of(&volume.cluster)
                .map(|n| n.manage_host().to_owned())
                .collect();
            Some(Work {
                volume,
                bricks,
                hosts,
            })
        });
        work.ok_or_else(|| StepError("Id not found".to_owned()))
    }

    async fn finalize(
        &self,
        operation: &Operation,
        change: impl FnOnce(&mut Database, &Operation),
    ) -> Result<(), StepError> {
        self.pass(Point::Before("finalize")).await?;
        self.close(operation, change)?;
        self.pass(Point::After("finalize")).await
    }

    fn forget(&self, operation: &Operation) -> Result<(), StoreError> {
        self.close(operation, |database, operation| {
            database.remove_bricks(&operation.bricks);
            database.volumes.remove(&operation.volume);
        })
    }

    /// Changes the database for the last time in this operation, and drops its record.
    fn close(
        &self,
        operation: &Operation,
        change: impl FnOnce(&mut Database, &Operation),
    ) -> Result<(), StoreError> {
        self.store.update(|database| {
            change(database, operation);
            database.operations.remove(&operation.id);
            Ok(())
        })
    }

    /// Finishes or undoes operations that nobody works on: those of `chosen`, or all when it is empty.
    ///
    /// # Errors
    ///
    /// None of the single ones: they can be tried again.
    pub(super) async fn clean(&self, chosen: &[Id], class: Class) -> Result<Outcome, StepError> {
        let left: Vec<Operation> = self.store.view(|database| {
            let wanted = |op: &&Operation| {
                op.status != Status::New && (chosen.is_empty() || chosen.contains(&op.id))
            };
            database
                .operations
                .values()
                .filter(wanted)
                .cloned()
                .collect()
        });
        for operation in left {
            let Some(_place) = self.tracker.admit(&operation.id, class) else {
                continue;
            };
            let cleaned = match operation.kind {
                Kind::CreateVolume => self.undo_create(&operation).await,
                Kind::DeleteVolume => match self.remove(&operation).await {
                    Ok(()) => self.forget(&operation).map_err(StepError::from),
                    Err(error) => Err(error),
                },
                Kind::ExpandVolume => self.undo_expand(&operation).await,
            };
            if let Err(error) = cleaned {
                tracing::warn!(operation = %operation.id, %error, "cannot clean up");
            }
        }
        Ok(Outcome::NoContent)
    }

    /// Runs the background cleaner for ever: first after a while, then periodically.
    pub(super) async fn clean_periodically(self: Arc<Self>, first: Duration, every: Duration) {
        tokio::time::sleep(first).await;
        loop {
            if let Err(error) = self.clean(&[], Class::Background).await {
                tracing::error!(%error, "cleaner");
            }
            tokio::time::sleep(every).await;
            if let Err(error) = self.mark_untracked() {
                tracing::error!(%error, "cleaner");
            }
        }
    }

    fn mark_untracked(&self) -> Result<(), StoreError> {
        self.store.update(|database| {
            let old = now().saturating_sub(UNTRACKED_IS_STALE);
            let operations = database.operations.values_mut();
            for operation in operations.filter(|op| op.status == Status::New && op.begun <= old) {
                if !self.tracker.runs(&operation.id) {
                    operation.status = Status::Stale;
                }
            }
            Ok(())
        })
    }
}

fn show(database: &mut Database, operation: &Operation) {
    if let Some(volume) = database.volumes.get_mut(&operation.volume) {
        volume.pending = None;
    }
    for id in &operation.bricks {
        if let Some(brick) = database.bricks.get_mut(id) {
            brick.pending = None;
        }
    }
}

/// The free gain of a hosting volume is 98 % of the step, rounded down per step.
fn grow(database: &mut Database, operation: &Operation) {
    show(database, operation);
    let Some(volume) = database.volumes.get_mut(&operation.volume) else {
        return;
    };
    volume.bricks.extend(operation.bricks.iter().cloned());
    volume.size = volume.size.saturating_add(operation.delta);
    if volume.block {
        let gain = usable(operation.delta);
        volume.free = volume.free.saturating_add(gain);
        volume.reserved = volume
            .reserved
            .saturating_add(operation.delta.saturating_sub(gain));
    }
}

fn all_hosts_failed(failures: &[(&String, String)]) -> Option<String> {
    let (_, first) = failures.first()?;
    if failures.iter().all(|(_, text)| text == first) {
        return Some(first.clone());
    }
    let lines: Vec<String> = failures
        .iter()
        .map(|(host, text)| format!("Host {host}: {text}"))
        .collect();
    Some(lines.join("\n"))
}
