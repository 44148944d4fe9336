//! gluster-block in memory: blocks, half-made blocks, hosts that are down, sessions, rounding, and ways to misbehave.
//!
//! It answers as [`blockd_client::Blockd`] would, proof included. Names are unique per host over all hosting volumes, as
//! the real one's are. Clones share the model; [`FakeBlocks::restarted`] gives a new process its own kill switch.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use blockd_client::vocabulary::{
    BlockName, Capacity, ChapPassword, Gbid, HostAddress, HostingVolume, Initiator, Iqn, VolumeId,
};
use blockd_client::{BlockInfo, CreateBlock, Error};
use uuid::Uuid;

use super::Blocks;
use crate::hosting::fake::FakeHosting;

mod kill;

pub use self::kill::Kill;

/// What can go wrong once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is done: a host is down.
    HostDown,
    /// Nothing is done: no room after all.
    NoSpace,
    /// A host fails, and everything is rolled back.
    RolledBack,
    /// A host fails, and so does the roll-back: half a block stays.
    Half,
    /// It is done, and the answer and the proof are lost.
    LostAnswer,
    /// It is not done, and no answer comes.
    Silence,
    /// It is done after the caller gave up waiting.
    Late,
    /// It takes this long.
    Slow(Duration),
}

/// A modelled gluster-block.
#[derive(Debug, Clone)]
pub struct FakeBlocks {
    world: Arc<Mutex<World>>,
    hosting: FakeHosting,
    kill: Kill,
}

#[derive(Debug, Default)]
struct World {
    blocks: BTreeMap<VolumeId, Block>,
    down: BTreeSet<HostAddress>,
    sessions: BTreeMap<(HostAddress, String), Vec<Initiator>>,
    faults: VecDeque<(&'static str, Fault)>,
    most_in_daemon: usize,
    in_daemon: BTreeMap<HostAddress, usize>,
}

#[derive(Debug, Clone)]
struct Block {
    gbid: Gbid,
    size: Capacity,
    hosts: Vec<HostAddress>,
    failing: BTreeSet<HostAddress>,
    lagging: BTreeSet<HostAddress>,
    password: Option<ChapPassword>,
}

impl FakeBlocks {
    /// gluster-block on the hosting volumes of `hosting`.
    #[must_use]
    pub fn new(hosting: FakeHosting, kill: Kill) -> Self {
        Self {
            world: Arc::default(),
            hosting,
            kill,
        }
    }

    /// The same gluster-block, as a new process sees it.
    #[must_use]
    pub fn restarted(&self, hosting: FakeHosting, kill: Kill) -> Self {
        let world = Arc::clone(&self.world);
        Self {
            world,
            hosting,
            kill,
        }
    }

    /// The next request of that verb goes wrong so.
    pub fn fail(&self, verb: &'static str, fault: Fault) {
        self.world().faults.push_back((verb, fault));
    }

    /// Switches a host off, or on again.
    pub fn set_down(&self, host: HostAddress, down: bool) {
        let mut world = self.world();
        if down {
            world.down.insert(host);
        } else {
            world.down.remove(&host);
        }
    }

    /// Somebody logs in to a block on all its hosts.
    pub fn log_in(&self, id: &VolumeId, initiator: &Initiator) {
        let mut world = self.world();
        let Some(block) = world.blocks.get(id).cloned() else {
            return;
        };
        for host in block.hosts {
            let key = (host, block.gbid.iqn().to_string());
            world
                .sessions
                .entry(key)
                .or_default()
                .push(initiator.clone());
        }
    }

    /// Everybody logs out.
    pub fn log_out(&self) {
        self.world().sessions.clear();
    }

    /// Every block there is, half-made ones too.
    #[must_use]
    pub fn blocks(&self) -> Vec<VolumeId> {
        self.world().blocks.keys().cloned().collect()
    }

    /// The exact size of a block.
    #[must_use]
    pub fn size(&self, id: &VolumeId) -> Option<Capacity> {
        self.world().blocks.get(id).map(|block| block.size)
    }

    /// The bytes of all blocks on a hosting volume.
    #[must_use]
    pub fn used(&self, volume: &HostingVolume) -> u64 {
        let world = self.world();
        let on_it = world
            .blocks
            .iter()
            .filter(|(id, _)| id.hosting_volume == *volume);
        on_it.map(|(_, block)| block.size.bytes()).sum()
    }

    /// Puts a copy of a block somewhere else, as a person might.
    pub fn copy(&self, id: &VolumeId, to: &VolumeId) {
        let mut world = self.world();
        if let Some(block) = world.blocks.get(id).cloned() {
            world.blocks.insert(to.clone(), block);
        }
    }

    /// A host of a block fails from now on, as after an incomplete delete.
    pub fn damage(&self, id: &VolumeId) {
        if let Some(block) = self.world().blocks.get_mut(id) {
            block.failing.extend(block.hosts.first().copied());
        }
    }

    /// A host of a block no longer follows its size.
    pub fn lag(&self, id: &VolumeId) {
        if let Some(block) = self.world().blocks.get_mut(id) {
            block.lagging.extend(block.hosts.first().copied());
        }
    }

    /// The CHAP password of a block.
    #[must_use]
    pub fn password(&self, id: &VolumeId) -> Option<String> {
        let world = self.world();
        let block = world.blocks.get(id)?;
        block
            .password
            .as_ref()
            .map(|password| password.expose().to_owned())
    }

    /// The most requests that were with gluster-blockd of one host at the same time.
    #[must_use]
    pub fn most_in_daemon(&self) -> usize {
        self.world().most_in_daemon
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn begin(&self, verb: &'static str, host: HostAddress) -> Result<Option<Fault>, Error> {
        let fault = {
            let mut world = self.world();
            if world.down.contains(&host) {
                return Err(Error::Unavailable {
                    host,
                    reason: "gluster-blockd does not run".to_owned(),
                });
            }
            let position = world.faults.iter().position(|(v, _)| *v == verb);
            position.and_then(|at| world.faults.remove(at).map(|(_, fault)| fault))
        };
        // These two look at the kernel.
        let asks_daemon = !matches!(verb, "sessions" | "ping");
        if asks_daemon {
            let mut world = self.world();
            let here = world.in_daemon.entry(host).or_default();
            *here += 1;
            let here = *here;
            world.most_in_daemon = world.most_in_daemon.max(here);
        }
        tokio::task::yield_now().await;
        if let Some(Fault::Slow(time)) = fault {
            tokio::time::sleep(time).await;
        }
        if asks_daemon && let Some(here) = self.world().in_daemon.get_mut(&host) {
            *here -= 1;
        }
        Ok(fault)
    }

    fn check_volume(&self, volume: &HostingVolume) -> Result<(), Error> {
        let known = self.hosting.volumes().iter().any(|v| v.name == *volume);
        if known {
            return Ok(());
        }
        Err(Error::VolumeMissing {
            hosting_volume: volume.clone(),
        })
    }
}

fn unproved(id: &VolumeId, host: HostAddress) -> Error {
    Error::Unproved {
        id: id.clone(),
        cause: Box::new(Error::Busy { host }),
        check: None,
    }
}

fn not_made(id: &VolumeId, cause: Error) -> Error {
    Error::NotMade {
        id: id.clone(),
        cause: Box::new(cause),
    }
}

fn configure_failed(wanted: &CreateBlock) -> Error {
    let mut hosts = wanted.hosts.clone();
    Error::Partial {
        id: wanted.id.clone(),
        failed: hosts.pop().into_iter().collect(),
        done: hosts,
        said: "failed to configure on 10.0.0.3 configure failed".to_owned(),
    }
}

impl World {
    fn info(&self, id: &VolumeId) -> Result<BlockInfo, Error> {
        let block = self
            .blocks
            .get(id)
            .ok_or_else(|| Error::BlockMissing { id: id.clone() })?;
        let exported = block.hosts.iter().filter(|h| !block.failing.contains(h));
        Ok(BlockInfo {
            id: id.clone(),
            gbid: block.gbid,
            printed_size: block.size.printed(),
            ha: u32::try_from(block.hosts.len()).unwrap_or(u32::MAX),
            exported_on: exported.copied().collect(),
            failing: block.failing.iter().copied().collect(),
            lagging: block
                .lagging
                .iter()
                .map(|h| (*h, "1.0 MiB".to_owned()))
                .collect(),
            password: block.password.clone(),
        })
    }

    /// What stands in the way of a new block.
    fn obstacle(&self, wanted: &CreateBlock) -> Option<Error> {
        if let Some(host) = wanted.hosts.iter().find(|h| self.down.contains(h)) {
            return Some(not_made(&wanted.id, Error::HostDown { host: *host }));
        }
        let same_name = |(id, _): &(&VolumeId, &Block)| id.block == wanted.id.block;
        let (id, _) = self.blocks.iter().find(same_name)?;
        if *id != wanted.id {
            return Some(not_made(
                id,
                Error::NameTaken {
                    id: wanted.id.clone(),
                    hosts: wanted.hosts.clone(),
                },
            ));
        }
        let found = Box::new(self.info(id).ok()?);
        Some(if !found.is_complete() {
            Error::Incomplete { found, cause: None }
        } else if let Err(mismatch) = found.matches(wanted) {
            Error::Conflict { found, mismatch }
        } else {
            Error::Exists { found, cause: None }
        })
    }

    fn make(&mut self, wanted: &CreateBlock, failing: Option<HostAddress>) {
        let password = wanted.auth.then(|| Uuid::new_v4().to_string());
        let block = Block {
            gbid: Gbid::from_uuid(Uuid::new_v4()),
            size: wanted.size,
            hosts: wanted.hosts.clone(),
            failing: failing.into_iter().collect(),
            lagging: BTreeSet::new(),
            password: password.and_then(|text| text.parse().ok()),
        };
        self.blocks.insert(wanted.id.clone(), block);
    }
}

impl Blocks for FakeBlocks {
    async fn create(&self, host: HostAddress, wanted: &CreateBlock) -> Result<BlockInfo, Error> {
        self.kill.step().await;
        let id = &wanted.id;
        let fault = self
            .begin("create", host)
            .await
            .map_err(|e| not_made(id, e))?;
        self.check_volume(&id.hosting_volume)
            .map_err(|e| not_made(id, e))?;
        {
            let mut world = self.world();
            if let Some(obstacle) = world.obstacle(wanted) {
                return Err(obstacle);
            }
            match fault {
                Some(Fault::HostDown) => return Err(not_made(id, Error::HostDown { host })),
                Some(Fault::NoSpace) => {
                    let hosting_volume = id.hosting_volume.clone();
                    return Err(not_made(id, Error::NoSpace { hosting_volume }));
                }
                Some(Fault::RolledBack) => return Err(not_made(id, configure_failed(wanted))),
                Some(Fault::Silence) => return Err(unproved(id, host)),
                Some(Fault::Late) => {
                    let (this, wanted) = (self.clone(), wanted.clone());
                    tokio::spawn(async move {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        let mut world = this.world();
                        if world.obstacle(&wanted).is_none() {
                            world.make(&wanted, None);
                        }
                    });
                    return Err(unproved(id, host));
                }
                Some(Fault::Half) => world.make(wanted, wanted.hosts.last().copied()),
                Some(Fault::LostAnswer | Fault::Slow(_)) | None => world.make(wanted, None),
            }
        }
        self.kill.step().await;
        match fault {
            Some(Fault::LostAnswer) => Err(unproved(id, host)),
            Some(Fault::Half) => Err(Error::Incomplete {
                found: Box::new(self.world().info(id)?),
                cause: Some(Box::new(configure_failed(wanted))),
            }),
            _ => self.world().info(id),
        }
    }

    async fn delete(&self, host: HostAddress, id: &VolumeId) -> Result<(), Error> {
        self.kill.step().await;
        let fault = self.begin("delete", host).await?;
        self.check_volume(&id.hosting_volume)?;
        {
            let mut world = self.world();
            let Some(block) = world.blocks.get(id).cloned() else {
                return Ok(());
            };
            if let Some(host) = block.hosts.iter().find(|h| world.down.contains(h)) {
                return Err(Error::HostDown { host: *host });
            }
            match fault {
                Some(Fault::Half) => {
                    let failed = block.hosts.first().copied();
                    if let Some(block) = world.blocks.get_mut(id) {
                        block.failing.extend(failed);
                    }
                    return Err(Error::Partial {
                        id: id.clone(),
                        failed: failed.into_iter().collect(),
                        done: Vec::new(),
                        said: String::new(),
                    });
                }
                Some(Fault::Silence | Fault::Late) => return Err(unproved(id, host)),
                Some(Fault::HostDown) => return Err(Error::HostDown { host }),
                Some(Fault::LostAnswer | Fault::Slow(_) | Fault::NoSpace | Fault::RolledBack)
                | None => {}
            }
            world.blocks.remove(id);
        }
        self.kill.step().await;
        match fault {
            Some(Fault::LostAnswer) => Err(unproved(id, host)),
            _ => Ok(()),
        }
    }

    async fn info(&self, host: HostAddress, id: &VolumeId) -> Result<BlockInfo, Error> {
        if self.begin("info", host).await? == Some(Fault::Silence) {
            return Err(Error::Busy { host });
        }
        self.check_volume(&id.hosting_volume)?;
        self.world().info(id)
    }

    async fn list(
        &self,
        host: HostAddress,
        volume: &HostingVolume,
    ) -> Result<Vec<BlockName>, Error> {
        if self.begin("list", host).await? == Some(Fault::Silence) {
            return Err(Error::Busy { host });
        }
        self.check_volume(volume)?;
        let world = self.world();
        let on_it = world
            .blocks
            .keys()
            .filter(|id| id.hosting_volume == *volume);
        Ok(on_it.map(|id| id.block.clone()).collect())
    }

    async fn resize(
        &self,
        host: HostAddress,
        id: &VolumeId,
        size: Capacity,
    ) -> Result<BlockInfo, Error> {
        self.kill.step().await;
        let fault = self.begin("resize", host).await?;
        self.check_volume(&id.hosting_volume)?;
        let found = {
            let mut world = self.world();
            let current = world.info(id)?;
            let Some(block) = world.blocks.get_mut(id) else {
                return Err(Error::BlockMissing { id: id.clone() });
            };
            if block.size > size {
                return Err(Error::Shrink {
                    id: id.clone(),
                    current: current.printed_size,
                });
            }
            match fault {
                Some(Fault::NoSpace) => {
                    return Err(Error::NoSpace {
                        hosting_volume: id.hosting_volume.clone(),
                    });
                }
                Some(Fault::HostDown) => return Err(Error::HostDown { host }),
                Some(Fault::Silence) => return Err(Error::Busy { host }),
                Some(Fault::Half) => block.lagging.extend(block.hosts.first().copied()),
                _ => block.lagging.clear(),
            }
            block.size = size;
            world.info(id)?
        };
        self.kill.step().await;
        match fault {
            Some(Fault::LostAnswer) => Err(Error::Busy { host }),
            Some(Fault::Half) => Err(Error::Lagging {
                found: Box::new(found),
            }),
            _ => Ok(found),
        }
    }

    async fn sessions(&self, host: HostAddress, iqn: &Iqn) -> Result<Vec<Initiator>, Error> {
        self.begin("sessions", host).await?;
        let world = self.world();
        let sessions = world.sessions.get(&(host, iqn.to_string()));
        Ok(sessions.cloned().unwrap_or_default())
    }

    async fn ping(&self, host: HostAddress) -> Result<(), Error> {
        self.begin("ping", host).await.map(drop)
    }
}
