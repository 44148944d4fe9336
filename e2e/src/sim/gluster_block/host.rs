//! The host's side: the program behind TCP 24010, which does to this host's LIO what a coordinator asks.

use std::io;
use std::time::{Duration, Instant};

use super::capabilities::Capabilities;
use super::faults::{Faults, Struck};
use super::metadata::iqn;
use super::protocol::{HostCall, HostCreate, Reply};
use super::rpc::{Answer, HOST_PROGRAM};
use super::saved::{SavedFile, StorageObject, Target, exports};
use super::serve::Program;
use super::target::Configfs;
use super::volumes::Volumes;

/// "node-to-node only (skipped / block not loaded / block not found)" (reference §2.10).
const NOT_LOADED: i32 = 225;

/// One host's exports.
#[derive(Debug)]
pub(crate) struct HostProgram {
    pub(crate) faults: Faults,
    pub(crate) volumes: Volumes,
    pub(crate) saved: SavedFile,
    pub(crate) configfs: Configfs,
    pub(crate) capabilities: Capabilities,
}

impl Program for HostProgram {
    const NUMBER: u32 = HOST_PROGRAM;

    fn run(&mut self, procedure: u32, arguments: &[u8]) -> Option<Answer> {
        let call = match HostCall::decode(procedure, arguments) {
            None => return Some(Answer::ProcedureUnavailable),
            Some(Err(_)) => return Some(Answer::GarbageArguments),
            Some(Ok(call)) => call,
        };
        let (verb, block) = (call.verb(), call.block().to_owned());
        let reply = match self.faults.pass(verb, "host", &block) {
            Ok(()) => self.act(&call),
            Err(Struck::Fail) => Reply::new(255, call.failed()),
            Err(Struck::Abandon) => return None,
        };
        match self.faults.pass(verb, "host-end", &block) {
            Ok(()) => Some(Answer::Success(reply.encode())),
            Err(Struck::Fail) => Some(Answer::Success(Reply::new(255, call.failed()).encode())),
            Err(Struck::Abandon) => None,
        }
    }
}

impl HostCall {
    fn verb(&self) -> &'static str {
        match self {
            Self::Delete { .. } => "delete",
            Self::Auth { .. } => "auth",
            Self::Version => "version",
            Self::Replace { .. } => "replace",
            Self::Resize { .. } => "resize",
            Self::Create(_) => "create",
            Self::Reload { .. } => "reload",
        }
    }

    /// What a host says when it cannot do it (reference §2.3: `failed to configure on IP configure failed`).
    fn failed(&self) -> &'static str {
        match self {
            Self::Delete { .. } => "delete failed",
            Self::Auth { .. } | Self::Resize { .. } => "modify failed",
            Self::Version => "version failed",
            Self::Replace { .. } => "replace portal failed",
            Self::Create(_) => "configure failed",
            Self::Reload { .. } => "reload failed",
        }
    }

    fn block(&self) -> &str {
        match self {
            Self::Delete { block, .. }
            | Self::Auth { block, .. }
            | Self::Replace { block, .. }
            | Self::Resize { block, .. }
            | Self::Reload { block, .. } => block,
            Self::Create(create) => &create.block,
            Self::Version => "",
        }
    }
}

impl HostProgram {
    fn act(&mut self, call: &HostCall) -> Reply {
        let done = match call {
            HostCall::Version => {
                let mut reply = Reply::new(0, "");
                reply.xdata = self.capabilities.encode();
                return reply;
            }
            HostCall::Create(create) => return self.create(create),
            HostCall::Delete { block, gbid } => return self.delete(block, gbid),
            HostCall::Auth {
                block,
                gbid,
                password,
                enable,
                ..
            } => self.if_loaded(block, gbid, |host| {
                host.auth(gbid, enable.then_some(password.as_str()))
            }),
            HostCall::Resize {
                block, gbid, size, ..
            } => self.if_loaded(block, gbid, |host| host.resize(block, gbid, *size)),
            HostCall::Replace {
                block,
                gbid,
                old,
                new,
                ..
            } => self.if_loaded(block, gbid, |host| host.replace(gbid, old, new)),
            HostCall::Reload { block, gbid } => return self.reload(block, gbid),
        };
        done.unwrap_or_else(|| Reply::new(NOT_LOADED, "block is not loaded"))
    }

    /// On modify and resize a host that is not loaded "fails cleanly" (reference §3.6).
    fn if_loaded(
        &self,
        block: &str,
        gbid: &str,
        act: impl FnOnce(&Self) -> io::Result<()>,
    ) -> Option<Reply> {
        self.configfs
            .is_loaded(block, gbid)
            .then(|| reply_to(act(self), "modify failed"))
    }

    fn create(&self, create: &HostCreate) -> Reply {
        match self.saved.load() {
            Ok(config) if config.has_name(&create.block) => {
                // reference §2.3; names are unique per node across volumes (reference §1.2)
                return Reply::new(
                    255,
                    format!(
                        "block with name '{}' already exist (Hint: may be hosted on a different \
                         block-hosting volume)",
                        create.block
                    ),
                );
            }
            Ok(_) => {}
            Err(error) => return reply_to(Err(error), "configure failed"),
        }
        let (object, target) = exports(create);
        reply_to(
            self.load(&object, &target)
                .and_then(|()| self.save(object, target)),
            "configure failed",
        )
    }

    fn save(&self, object: StorageObject, target: Target) -> io::Result<()> {
        self.saved.update(|config| config.insert(object, target))
    }

    fn load(&self, object: &StorageObject, target: &Target) -> io::Result<()> {
        let volume = object.volume().ok_or(io::ErrorKind::InvalidData)?;
        let file = self.volumes.reach(volume)?.store(&object.wwn);
        std::fs::metadata(&file)?;
        self.configfs.load(object, target, &file)
    }

    /// "a node whose target failed to load after a reboot answers "already deleted", delete reports SUCCESS, and the
    /// stale entry remains in `saveconfig.json`" (reference §3.6, §0.12).
    fn delete(&self, block: &str, gbid: &str) -> Reply {
        if !self.configfs.is_loaded(block, gbid) {
            return if self.saved.seems_to_hold(gbid) {
                Reply::new(NOT_LOADED, "block is not loaded")
            } else {
                Reply::new(0, "already deleted")
            };
        }
        let removed = self
            .configfs
            .remove(block, gbid)
            .and_then(|()| self.saved.update(|config| config.remove(gbid)));
        reply_to(removed, "delete failed")
    }

    fn auth(&self, gbid: &str, password: Option<&str>) -> io::Result<()> {
        let mut config = self.saved.load()?;
        let Some(target) = config
            .targets
            .iter_mut()
            .find(|target| target.wwn == iqn(gbid))
        else {
            return Err(io::ErrorKind::NotFound.into());
        };
        target.set_auth(password.map(|password| (gbid, password)));
        self.configfs.set_auth(target)?;
        self.saved.store(&config)
    }

    fn resize(&self, block: &str, gbid: &str, bytes: u64) -> io::Result<()> {
        self.configfs.resize(block, bytes)?;
        self.saved.update(|config| {
            for object in config
                .storage_objects
                .iter_mut()
                .filter(|object| object.wwn == gbid)
            {
                object.size = bytes;
            }
        })
    }

    fn replace(&self, gbid: &str, old: &str, new: &str) -> io::Result<()> {
        let mut config = self.saved.load()?;
        let Some(target) = config
            .targets
            .iter_mut()
            .find(|target| target.wwn == iqn(gbid))
        else {
            return Err(io::ErrorKind::NotFound.into());
        };
        for tpg in &mut target.tpgs {
            for portal in tpg
                .portals
                .iter_mut()
                .filter(|portal| portal.ip_address == old)
            {
                self.configfs.move_portal(&iqn(gbid), tpg.tag, old, new)?;
                new.clone_into(&mut portal.ip_address);
            }
        }
        self.saved.store(&config)
    }

    fn reload(&self, block: &str, gbid: &str) -> Reply {
        let reloaded = self.saved.load().and_then(|config| {
            let (object, target) = config.find(gbid).ok_or(io::ErrorKind::NotFound)?;
            self.configfs.remove(block, gbid)?;
            self.load(object, target)
        });
        reply_to(reloaded, "reload failed")
    }

    /// Exports again what the saved configuration lists, as `target.service` does before the daemon starts.
    ///
    /// Waits for volumes until `patience` is over; an object that cannot be loaded is logged and left out, which is
    /// how targets get lost over a reboot (reference §3.6, §6 #95).
    pub(crate) fn restore(&self, patience: Duration) {
        let config = match self.saved.load() {
            Ok(config) => config,
            Err(error) => {
                tracing::error!(%error, "cannot read the saved configuration");
                return;
            }
        };
        let started = Instant::now();
        for object in &config.storage_objects {
            let Some((_, target)) = config.find(&object.wwn) else {
                continue;
            };
            if self.configfs.is_complete(target) {
                continue;
            }
            if self.faults.pass("restore", "host", &object.name).is_err() {
                continue;
            }
            if let Err(error) = self.restore_one(object, target, started, patience) {
                tracing::error!(block = object.name, gbid = object.wwn, %error, "cannot restore");
            }
        }
    }

    fn restore_one(
        &self,
        object: &StorageObject,
        target: &Target,
        started: Instant,
        patience: Duration,
    ) -> io::Result<()> {
        // Bricks may connect well after the mount: until then there is no file to be had, which is not "no file".
        while let Err(error) = self.load(object, target) {
            if error.kind() == io::ErrorKind::NotFound || started.elapsed() > patience {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        Ok(())
    }
}

fn reply_to(done: io::Result<()>, failed: &str) -> Reply {
    match done {
        Ok(()) => Reply::new(0, ""),
        Err(error) => {
            tracing::warn!(%error, "{failed}");
            Reply::new(255, failed)
        }
    }
}
