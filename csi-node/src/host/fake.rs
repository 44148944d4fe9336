//! A model of a host, for tests: targets, sessions, disks, maps, mounts, and a list of what goes wrong.
//!
//! Tests assert on the state reached and on the order of effects, not on calls made. The model also keeps a list of
//! *violations*: things a real kernel would let happen and a driver must never do, such as deleting a path under a live map
//! or formatting over content.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use blockd_client::vocabulary::{ChapCredentials, FsType, Initiator, Iqn, Portal, Wwid};

use self::world::World;
use super::{
    BootId, Content, Host, HostError, Identity, Map, MountEntry, MountOptions, PathDevice, Proof,
    Session, TargetKind, Usage,
};

pub use self::world::{DiskContent, DiskId};

mod maps;
mod mounts;
mod scene;
mod sessions;
mod world;

/// A handle to one modelled host; clones share it, as processes share a kernel.
#[derive(Debug, Clone, Default)]
pub struct FakeHost {
    /// Taken for one method at a time and never across an `.await`.
    world: Arc<Mutex<World>>,
    /// What shall go wrong; apart from the world so that setting a fault needs no world.
    script: Arc<Mutex<Script>>,
}

/// What a test asked to go wrong, and what happened so far.
#[derive(Debug, Default)]
struct Script {
    faults: VecDeque<Fault>,
    delays: Vec<(&'static str, Duration)>,
    crash: Option<Crash>,
    dead: bool,
    effects: Vec<Effect>,
}

#[derive(Debug)]
struct Fault {
    method: &'static str,
    times: u32,
    error: fn() -> HostError,
}

/// Where the process dies: around the n-th effect from now, counted from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// The effect does not happen any more.
    Before(usize),
    /// The effect happens, and nobody learns of it.
    After(usize),
}

/// One effect that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// The method of [`Host`].
    pub method: &'static str,
    /// On what.
    pub subject: String,
}

/// The payload of the panic that stands for the death of the process.
#[derive(Debug)]
pub struct Died;

impl FakeHost {
    /// An empty host.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The next `times` calls of `method` fail with this error and do nothing.
    pub fn fail(&self, method: &'static str, times: u32, error: fn() -> HostError) {
        self.script().faults.push_back(Fault {
            method,
            times,
            error,
        });
    }

    /// Every call of `method` takes this long from now on.
    pub fn delay(&self, method: &'static str, by: Duration) {
        self.script().delays.push((method, by));
    }

    /// Forgets all faults and delays that are left, and lets a new process begin.
    pub fn heal(&self) {
        let mut script = self.script();
        script.faults.clear();
        script.delays.clear();
        script.crash = None;
        script.dead = false;
    }

    /// Has the process die around an effect.
    pub fn crash(&self, when: Crash) {
        self.script().crash = Some(when);
    }

    /// Whether the process died; then nothing works until [`heal`](Self::heal).
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.script().dead
    }

    /// What was done to the host since the last call of this function, in order.
    #[must_use]
    pub fn take_effects(&self) -> Vec<Effect> {
        std::mem::take(&mut self.script().effects)
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn observe<T>(
        &self,
        method: &'static str,
        look: impl FnOnce(&mut World) -> Result<T, HostError>,
    ) -> Result<T, HostError> {
        self.wait(method).await;
        self.fault(method)?;
        look(&mut self.world())
    }

    async fn effect(
        &self,
        method: &'static str,
        subject: String,
        act: impl FnOnce(&mut World) -> Result<(), HostError>,
    ) -> Result<(), HostError> {
        self.wait(method).await;
        self.fault(method)?;
        self.die_if(|script| script.crash == Some(Crash::Before(0)));
        let outcome = act(&mut self.world());
        if outcome.is_ok() {
            self.script().effects.push(Effect { method, subject });
        }
        self.die_if(|script| script.crash == Some(Crash::After(0)));
        self.count_down();
        outcome
    }

    async fn wait(&self, method: &'static str) {
        let delay = self
            .script()
            .delays
            .iter()
            .find(|(name, _)| *name == method)
            .map(|(_, by)| *by);
        if let Some(by) = delay {
            tokio::time::sleep(by).await;
        }
    }

    fn fault(&self, method: &'static str) -> Result<(), HostError> {
        self.die_if(|script| script.dead);
        let mut script = self.script();
        let Some(fault) = script
            .faults
            .iter_mut()
            .find(|fault| fault.method == method && fault.times > 0)
        else {
            return Ok(());
        };
        fault.times -= 1;
        Err((fault.error)())
    }

    fn die_if(&self, now: impl FnOnce(&Script) -> bool) {
        let mut script = self.script();
        if now(&script) {
            script.dead = true;
            script.crash = None;
            drop(script);
            // Not `panic!`: the hook would print a trace for a death that was asked for.
            std::panic::resume_unwind(Box::new(Died));
        }
    }

    fn count_down(&self) {
        let mut script = self.script();
        script.crash = match script.crash {
            Some(Crash::Before(left)) => Some(Crash::Before(left.saturating_sub(1))),
            Some(Crash::After(left)) => Some(Crash::After(left.saturating_sub(1))),
            None => None,
        };
    }
}

impl Host for FakeHost {
    async fn sessions(&self, iqn: &Iqn) -> Result<Vec<Session>, HostError> {
        self.observe("sessions", |world| Ok(world.sessions_of(iqn)))
            .await
    }

    async fn all_sessions(&self) -> Result<Vec<Session>, HostError> {
        self.observe("all_sessions", |world| Ok(world.all_sessions()))
            .await
    }

    async fn records(&self, iqn: &Iqn) -> Result<Vec<Portal>, HostError> {
        self.observe("records", |world| Ok(world.records_of(iqn)))
            .await
    }

    async fn paths(&self, sessions: &[Session]) -> Result<Vec<PathDevice>, HostError> {
        self.observe("paths", |world| Ok(world.paths_of(sessions)))
            .await
    }

    async fn slaves(&self, map: &Map) -> Result<Vec<PathDevice>, HostError> {
        self.observe("slaves", |world| Ok(world.slaves_of(map)))
            .await
    }

    async fn map(&self, wwid: &Wwid) -> Result<Option<Map>, HostError> {
        self.observe("map", |world| Ok(world.map_of(wwid))).await
    }

    async fn all_maps(&self) -> Result<Vec<Map>, HostError> {
        self.observe("all_maps", |world| Ok(world.all_maps())).await
    }

    async fn mounts(&self) -> Result<Vec<MountEntry>, HostError> {
        self.observe("mounts", |world| Ok(world.mounts.clone()))
            .await
    }

    async fn resolve(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }

    async fn boot_id(&self) -> Result<BootId, HostError> {
        self.observe("boot_id", |world| world.boot_id()).await
    }

    async fn initiator(&self) -> Result<Initiator, HostError> {
        self.observe("initiator", |world| world.initiator()).await
    }

    async fn ready(&self) -> Result<(), HostError> {
        self.observe("ready", |_| Ok(())).await
    }

    async fn identify(&self, path: &PathDevice) -> Result<Identity, HostError> {
        self.observe("identify", |world| world.identify(path)).await
    }

    async fn probe(&self, map: &Map) -> Result<Content, HostError> {
        self.observe("probe", |world| world.probe(map)).await
    }

    async fn usage(&self, mountpoint: &Path) -> Result<Usage, HostError> {
        self.observe("usage", |world| world.usage(mountpoint)).await
    }

    async fn write_record(
        &self,
        iqn: &Iqn,
        portal: &Portal,
        chap: Option<&ChapCredentials>,
    ) -> Result<(), HostError> {
        self.effect("write_record", portal.to_string(), |world| {
            world.write_record(iqn, *portal, chap);
            Ok(())
        })
        .await
    }

    async fn delete_record(&self, iqn: &Iqn, portal: &Portal) -> Result<(), HostError> {
        self.effect("delete_record", portal.to_string(), |world| {
            world.delete_record(iqn, *portal);
            Ok(())
        })
        .await
    }

    async fn login(&self, iqn: &Iqn, portal: &Portal) -> Result<(), HostError> {
        self.effect("login", portal.to_string(), |world| {
            world.login(iqn, *portal)
        })
        .await
    }

    async fn logout(&self, session: &Session) -> Result<(), HostError> {
        self.effect("logout", session.portal.to_string(), |world| {
            world.logout(session.sid);
            Ok(())
        })
        .await
    }

    async fn scan(&self, session: &Session) -> Result<(), HostError> {
        self.effect("scan", session.portal.to_string(), |world| {
            world.scan(session.sid);
            Ok(())
        })
        .await
    }

    async fn rescan(&self, path: &PathDevice) -> Result<(), HostError> {
        self.effect("rescan", path.name.clone(), |world| {
            world.rescan(&path.name);
            Ok(())
        })
        .await
    }

    async fn delete_path(&self, path: &PathDevice) -> Result<(), HostError> {
        self.effect("delete_path", path.name.clone(), |world| {
            world.delete_path(&path.name);
            Ok(())
        })
        .await
    }

    async fn add_map(&self, wwid: &Wwid, paths: &[PathDevice]) -> Result<(), HostError> {
        self.effect("add_map", wwid.to_string(), |world| {
            world.add_map(wwid, paths);
            Ok(())
        })
        .await
    }

    async fn resize_map(&self, map: &Map) -> Result<(), HostError> {
        self.effect("resize_map", map.name.clone(), |world| {
            world.resize_map(&map.wwid)
        })
        .await
    }

    async fn flush_map(&self, map: &Map) -> Result<(), HostError> {
        self.effect("flush_map", map.wwid.to_string(), |world| {
            world.flush_map(&map.wwid)
        })
        .await
    }

    async fn forget_paths(&self, paths: &[PathDevice]) -> Result<(), HostError> {
        let names: Vec<String> = paths.iter().map(|path| path.name.clone()).collect();
        self.effect("forget_paths", names.join(" "), |world| {
            world.forget_paths(&names);
            Ok(())
        })
        .await
    }

    async fn stop_queueing(&self, map: &Map) -> Result<(), HostError> {
        self.effect("stop_queueing", map.wwid.to_string(), |world| {
            world.stop_queueing(&map.wwid);
            Ok(())
        })
        .await
    }

    async fn format(&self, map: &Map, fs: FsType, proof: Proof) -> Result<(), HostError> {
        // A death in the midst of a format leaves half a file system, which the model must be able to show.
        self.world().begin_format(map, proof)?;
        self.effect("format", fs.to_string(), |world| {
            world.finish_format(map, fs)
        })
        .await
    }

    async fn check(&self, map: &Map, fs: FsType) -> Result<(), HostError> {
        self.effect("check", fs.to_string(), |world| world.check(map, fs))
            .await
    }

    async fn grow(&self, map: &Map, fs: FsType, mountpoint: &Path) -> Result<(), HostError> {
        if !self.world().can_grow(map) {
            return self.observe("grow", |_| Ok(())).await;
        }
        self.effect("grow", fs.to_string(), |world| world.grow(map, mountpoint))
            .await
    }

    async fn mount(
        &self,
        map: &Map,
        fs: FsType,
        target: &Path,
        options: &MountOptions,
    ) -> Result<(), HostError> {
        self.effect("mount", target.display().to_string(), |world| {
            world.mount(map, fs, target, options)
        })
        .await
    }

    async fn bind(&self, source: &Path, target: &Path, read_only: bool) -> Result<(), HostError> {
        self.effect("bind", target.display().to_string(), |world| {
            world.bind(source, target, read_only)
        })
        .await
    }

    async fn bind_device(
        &self,
        map: &Map,
        target: &Path,
        read_only: bool,
    ) -> Result<(), HostError> {
        self.effect("bind_device", target.display().to_string(), |world| {
            world.bind_device(map, target, read_only)
        })
        .await
    }

    async fn unmount(&self, target: &Path) -> Result<(), HostError> {
        self.effect("unmount", target.display().to_string(), |world| {
            world.unmount(target);
            Ok(())
        })
        .await
    }

    async fn make_target(&self, target: &Path, kind: TargetKind) -> Result<(), HostError> {
        self.effect("make_target", target.display().to_string(), |world| {
            world.targets_on_disk.insert(PathBuf::from(target), kind);
            Ok(())
        })
        .await
    }

    async fn remove_target(&self, target: &Path) -> Result<(), HostError> {
        self.effect("remove_target", target.display().to_string(), |world| {
            world.remove_target(target)
        })
        .await
    }
}
