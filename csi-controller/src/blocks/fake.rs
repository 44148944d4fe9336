//! gluster-block in memory: blocks, half-made blocks, hosts that are down, sessions, rounding, and ways to misbehave.
//!
//! It answers as [`blockd_client::Blockd`] would, proof included. Names are unique per host over all hosting volumes, as
//! the real one's are. Clones share the model; [`FakeBlocks::restarted`] gives a new process its own kill switch.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use blockd_client::vocabulary::{
    Capacity, ChapPassword, Gbid, HostAddress, HostingVolume, Initiator, VolumeId,
};
use blockd_client::{BlockInfo, CreateBlock, Error};
use uuid::Uuid;

use crate::hosting::fake::FakeHosting;

mod kill;
mod requests;

pub use self::kill::Kill;
use self::requests::not_made;

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
    /// Daemons with a request whose caller went away, and the volume whose lock they hold.
    at_work: Vec<(HostAddress, HostingVolume)>,
    cut_off: BTreeSet<HostAddress>,
    asked: Vec<(&'static str, HostAddress)>,
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

    /// Nothing goes wrong from now on.
    pub fn clear_faults(&self) {
        self.world().faults.clear();
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

    /// Cuts a host off the network, or joins it again. Asking it takes a while and ends without an answer.
    pub fn set_cut_off(&self, host: HostAddress, cut_off: bool) {
        let mut world = self.world();
        if cut_off {
            world.cut_off.insert(host);
        } else {
            world.cut_off.remove(&host);
        }
    }

    /// Every request so far, with the host it was for.
    #[must_use]
    pub fn asked(&self) -> Vec<(&'static str, HostAddress)> {
        self.world().asked.clone()
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

    /// An initiator logs out of a block.
    pub fn log_out_of(&self, id: &VolumeId, initiator: &Initiator) {
        let mut world = self.world();
        let Some(iqn) = world
            .blocks
            .get(id)
            .map(|block| block.gbid.iqn().to_string())
        else {
            return;
        };
        for ((_, target), initiators) in &mut world.sessions {
            if *target == iqn {
                initiators.retain(|other| other != initiator);
            }
        }
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

    fn is_at_work(&self, host: HostAddress, volume: &HostingVolume) -> bool {
        let mut at_work = self.at_work.iter();
        at_work.any(|(h, v)| *h == host || v == volume)
    }

    fn is_gone(&self, host: HostAddress) -> bool {
        self.down.contains(&host) || self.cut_off.contains(&host)
    }

    /// What stands in the way of a new block.
    fn obstacle(&self, wanted: &CreateBlock) -> Option<Error> {
        if let Some(host) = wanted.hosts.iter().find(|host| self.is_gone(**host)) {
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
