//! Work on volumes: a lock by the volume's name, all its peers alive, steps with the commands behind them, and their undoing.
//!
//! Bricks are plain directories here; gd2 makes a thin logical volume with a file system for each.

use std::collections::BTreeSet;

use super::model::{Brick, Cluster, State, Volume};
use super::options;
use super::plan::plan;
use super::refusal::Refusal;
use super::request::{Create, Edit};
use super::simulator::Simulator;
use crate::sim::executor::Executor;

/// A step of a transaction, as the switch file names it, and its command line.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) line: String,
}

fn gluster(name: &'static str, rest: &str) -> Step {
    Step {
        name,
        line: format!("gluster --mode=script --timeout=600 {rest}"),
    }
}

impl<E: Executor> Simulator<E> {
    /// Peers that do not answer.
    pub(super) fn down(&self) -> BTreeSet<String> {
        let hosts = self.store.view(|cluster| {
            let hosts = cluster.peers.iter().map(|peer| peer.host.clone());
            hosts.collect::<Vec<_>>()
        });
        hosts
            .into_iter()
            .filter(|host| self.faults.is_down(host))
            .collect()
    }

    /// A volume, or that there is none.
    pub(super) fn volume(&self, name: &str) -> Result<Volume, Refusal> {
        let volume = self
            .store
            .view(|cluster| cluster.volumes.get(name).cloned());
        volume.ok_or_else(Refusal::no_volume)
    }

    /// Makes a volume and leaves it unstarted.
    pub(super) async fn create(&self, mut asked: Create) -> Result<Volume, Refusal> {
        asked.check()?;
        let down = self.down();
        let kind = (asked.replica, asked.provisioner.as_str());
        let planned = self.store.view(|cluster| {
            let root = &self.settings.bricks_root;
            plan(cluster, &down, &asked.name, asked.size, kind, root)
        });
        let bricks = planned.map_err(Refusal::internal)?;
        let options = options::expand(&asked.options, asked.allow_advanced_options)
            .map_err(Refusal::bad_request)?;
        let _lock = self.lock(&asked.name).await?;
        if self.volume(&asked.name).is_ok() {
            return Err(Refusal::bad_request("volume already exists"));
        }
        let volume = Volume {
            id: uuid::Uuid::new_v4().to_string(),
            name: asked.name,
            state: State::Created,
            capacity: asked.size,
            metadata: asked.metadata,
            options,
            bricks,
        };
        self.must_be_alive(&volume)?;
        if let Err(failed) = self.prepare(&volume).await {
            self.undo(&volume).await;
            return Err(failed);
        }
        Ok(volume)
    }

    async fn prepare(&self, volume: &Volume) -> Result<(), Refusal> {
        for brick in &volume.bricks {
            let line = format!("mkdir -p {}", brick.path);
            let step = Step {
                name: "prepare-bricks",
                line,
            };
            self.step(brick, &step).await?;
        }
        let name = &volume.name;
        let bricks = volume
            .bricks
            .iter()
            .map(|b| format!("{}:{}", b.host, b.path));
        let bricks: Vec<String> = bricks.collect();
        let (count, bricks) = (bricks.len(), bricks.join(" "));
        let set = options::for_gluster(&volume.options);
        self.step_once(
            volume,
            &gluster(
                "volume-create",
                &format!("volume create {name} replica {count} {bricks}"),
            ),
        )
        .await?;
        self.step_once(
            volume,
            &gluster("volume-set", &format!("volume set {name} {set}")),
        )
        .await?;
        self.point(volume, "store-volume").await?;
        self.store.update(|cluster: &mut Cluster| {
            cluster.book(&volume.bricks, u64::saturating_sub);
            cluster.volumes.insert(name.clone(), volume.clone());
            Ok(())
        })
    }

    /// Undoes what a failed create did; what cannot be undone is left, as gd2 leaves it.
    async fn undo(&self, volume: &Volume) {
        let delete = gluster("undo-create", &format!("volume delete {}", volume.name));
        if let Err(error) = self.step_once(volume, &delete).await {
            tracing::debug!(%error, "nothing to undo, or it cannot be undone");
        }
        self.remove_bricks(volume, "undo-bricks").await;
    }

    async fn remove_bricks(&self, volume: &Volume, name: &'static str) {
        for brick in &volume.bricks {
            let line = format!("rm -rf -- {}/{}", self.settings.bricks_root, volume.name);
            if let Err(error) = self.step(brick, &Step { name, line }).await {
                tracing::warn!(%error, "a brick is left");
            }
        }
    }

    /// Starts a volume.
    pub(super) async fn start(&self, name: &str) -> Result<Volume, Refusal> {
        let _lock = self.lock(name).await?;
        let volume = self.volume(name)?;
        if volume.state == State::Started {
            return Err(Refusal::bad_request("volume already started"));
        }
        self.must_be_alive(&volume)?;
        let start = gluster("volume-start", &format!("volume start {name}"));
        self.step_once(&volume, &start).await?;
        self.set_state(name, State::Started)
    }

    /// Stops a volume.
    pub(super) async fn stop(&self, name: &str) -> Result<Volume, Refusal> {
        let _lock = self.lock(name).await?;
        let volume = self.volume(name)?;
        match volume.state {
            State::Stopped => return Err(Refusal::bad_request("volume already stopped")),
            State::Created => return Err(Refusal::bad_request("volume not started")),
            State::Started => {}
        }
        self.must_be_alive(&volume)?;
        let stop = gluster("volume-stop", &format!("volume stop {name} force"));
        self.step_once(&volume, &stop).await?;
        self.set_state(name, State::Stopped)
    }

    /// Deletes a volume that is not started.
    pub(super) async fn delete(&self, name: &str) -> Result<(), Refusal> {
        let _lock = self.lock(name).await?;
        let volume = self.volume(name)?;
        if volume.state == State::Started {
            let text = "volume must be in stopped state before deleting";
            return Err(Refusal::bad_request(text));
        }
        self.must_be_alive(&volume)?;
        let delete = gluster("volume-delete", &format!("volume delete {name}"));
        self.step_once(&volume, &delete).await?;
        self.remove_bricks(&volume, "clean-bricks").await;
        self.store.update(|cluster: &mut Cluster| {
            cluster.book(&volume.bricks, u64::saturating_add);
            cluster.volumes.remove(name);
            Ok(())
        })
    }

    /// Changes the metadata of a volume.
    pub(super) async fn edit(&self, name: &str, edit: &Edit) -> Result<Volume, Refusal> {
        let _lock = self.lock(name).await?;
        let mut volume = self.volume(name)?;
        volume.metadata = edit.apply(volume.metadata)?;
        self.store.update(|cluster: &mut Cluster| {
            cluster.volumes.insert(name.to_owned(), volume.clone());
            Ok::<_, Refusal>(())
        })?;
        Ok(volume)
    }

    fn set_state(&self, name: &str, state: State) -> Result<Volume, Refusal> {
        self.store.update(|cluster: &mut Cluster| {
            let volume = cluster.volumes.get_mut(name);
            let volume = volume.ok_or_else(Refusal::no_volume)?;
            volume.state = state;
            Ok(volume.clone())
        })
    }

    /// A transaction begins only while all its peers are alive.
    fn must_be_alive(&self, volume: &Volume) -> Result<(), Refusal> {
        let down = self.down();
        if volume.bricks.iter().any(|brick| down.contains(&brick.host)) {
            return Err(Refusal::internal("probably some of the nodes are down"));
        }
        Ok(())
    }

    /// A step that one peer does for all.
    async fn step_once(&self, volume: &Volume, step: &Step) -> Result<(), Refusal> {
        match volume.bricks.first() {
            Some(brick) => self.step(brick, step).await,
            None => Err(Refusal::internal("brick list is empty")),
        }
    }

    async fn step(&self, at: &Brick, step: &Step) -> Result<(), Refusal> {
        self.run(&at.host, step)
            .await
            .map_err(|error| Refusal::step(&at.peer, step.name, &error))
    }

    async fn point(&self, volume: &Volume, name: &'static str) -> Result<(), Refusal> {
        let peer = volume.bricks.first().map(|brick| brick.peer.as_str());
        let passed = self.pass(name).await;
        passed.map_err(|error| Refusal::step(peer.unwrap_or_default(), name, &error))
    }
}
