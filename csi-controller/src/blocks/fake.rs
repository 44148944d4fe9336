//! gluster-block in memory: keeps blocks and sessions, and can be told to misbehave.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use blockd_client::vocabulary::{
    BlockName, Capacity, Gbid, HostAddress, HostingVolume, Initiator, Iqn, VolumeId,
};
use blockd_client::{BlockInfo, CreateBlock, Error};
use uuid::Uuid;

use super::Blocks;

/// What goes wrong with the next call of a verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is done and the answer is lost.
    LostBefore,
    /// All is done and the answer is lost.
    LostAfter,
    /// Only some hosts do it; what was begun stays half made.
    Partial,
    /// It fails, and leaves nothing.
    Refused,
}

/// The blocks; clones share them.
#[derive(Debug, Clone, Default)]
pub struct FakeBlocks {
    // Held for single reads and writes only.
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    blocks: BTreeMap<VolumeId, Block>,
    sessions: BTreeMap<Gbid, BTreeSet<Initiator>>,
    down: BTreeSet<HostAddress>,
    faults: Vec<(&'static str, Fault)>,
    created: u32,
}

#[derive(Debug, Clone)]
struct Block {
    info: BlockInfo,
    size: Capacity,
}

impl FakeBlocks {
    /// The next call of `verb` goes wrong so.
    pub fn fail_next(&self, verb: &'static str, fault: Fault) {
        self.with(|state| state.faults.push((verb, fault)));
    }

    /// The host's daemon is down, or up again.
    pub fn set_down(&self, host: HostAddress, down: bool) {
        self.with(|state| {
            if down {
                state.down.insert(host)
            } else {
                state.down.remove(&host)
            }
        });
    }

    /// The initiator logs in to the block.
    pub fn log_in(&self, id: &VolumeId, initiator: Initiator) {
        self.with(|state| {
            if let Some(block) = state.blocks.get(id) {
                let gbid = block.info.gbid;
                state.sessions.entry(gbid).or_default().insert(initiator);
            }
        });
    }

    /// All blocks that are there, half-made ones too.
    #[must_use]
    pub fn names(&self) -> Vec<VolumeId> {
        self.with(|state| state.blocks.keys().cloned().collect())
    }

    /// How many blocks were ever made or begun.
    #[must_use]
    pub fn created(&self) -> u32 {
        self.with(|state| state.created)
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn fault(&self, verb: &'static str) -> Option<Fault> {
        self.with(|state| {
            let found = state.faults.iter().position(|(name, _)| *name == verb)?;
            Some(state.faults.remove(found).1)
        })
    }

    fn reachable(&self, host: HostAddress) -> Result<(), Error> {
        if self.with(|state| state.down.contains(&host)) {
            let reason = "no connection".to_owned();
            return Err(Error::Unavailable { host, reason });
        }
        Ok(())
    }

    fn found(&self, id: &VolumeId) -> Result<Block, Error> {
        let found = self.with(|state| state.blocks.get(id).cloned());
        found.ok_or_else(|| Error::BlockMissing { id: id.clone() })
    }

    fn insert(&self, wanted: &CreateBlock, hosts: usize) -> BlockInfo {
        let info = BlockInfo {
            id: wanted.id.clone(),
            gbid: Gbid::from_uuid(Uuid::new_v4()),
            printed_size: wanted.size.printed(),
            ha: u32::try_from(wanted.hosts.len()).unwrap_or(u32::MAX),
            exported_on: wanted.hosts.iter().take(hosts).copied().collect(),
            failing: Vec::new(),
            lagging: BTreeMap::new(),
            password: wanted
                .auth
                .then(|| Uuid::new_v4().to_string().parse().ok())
                .flatten(),
        };
        let block = Block {
            info: info.clone(),
            size: wanted.size,
        };
        self.with(|state| {
            state.created += 1;
            state.blocks.insert(wanted.id.clone(), block);
        });
        info
    }
}

impl Blocks for FakeBlocks {
    async fn ping(&self, host: HostAddress) -> Result<(), Error> {
        self.reachable(host)
    }

    async fn create(&self, host: HostAddress, wanted: &CreateBlock) -> Result<BlockInfo, Error> {
        self.reachable(host)?;
        let id = wanted.id.clone();
        let lost = |id| Error::Unproved {
            id,
            cause: Box::new(Error::Busy { host }),
            check: None,
        };
        if let Ok(found) = self.found(&id) {
            let found = Box::new(found.info);
            return Err(match (found.is_complete(), found.matches(wanted)) {
                (false, _) => Error::Incomplete { found, cause: None },
                (true, Ok(())) => Error::Exists { found, cause: None },
                (true, Err(mismatch)) => Error::Conflict { found, mismatch },
            });
        }
        match self.fault("create") {
            None => Ok(self.insert(wanted, wanted.hosts.len())),
            Some(Fault::LostBefore) => Err(lost(id)),
            Some(Fault::LostAfter) => {
                self.insert(wanted, wanted.hosts.len());
                Err(lost(id))
            }
            Some(Fault::Partial) => {
                let found = Box::new(self.insert(wanted, 1));
                Err(Error::Incomplete { found, cause: None })
            }
            Some(Fault::Refused) => {
                let said = "failed to configure on 10.0.0.2 configure failed".to_owned();
                let cause = Error::Partial {
                    id: id.clone(),
                    failed: vec![host],
                    done: vec![],
                    said,
                };
                Err(Error::NotMade {
                    id,
                    cause: Box::new(cause),
                })
            }
        }
    }

    async fn delete(&self, host: HostAddress, id: &VolumeId) -> Result<(), Error> {
        self.reachable(host)?;
        self.found(id)?;
        match self.fault("delete") {
            Some(Fault::LostBefore) => Err(Error::Busy { host }),
            Some(Fault::Refused | Fault::Partial) => Err(Error::HostDown { host }),
            fault => {
                self.with(|state| state.blocks.remove(id));
                if fault.is_some() {
                    Err(Error::Busy { host })
                } else {
                    Ok(())
                }
            }
        }
    }

    async fn info(&self, host: HostAddress, id: &VolumeId) -> Result<BlockInfo, Error> {
        self.reachable(host)?;
        self.found(id).map(|block| block.info)
    }

    async fn list(
        &self,
        host: HostAddress,
        volume: &HostingVolume,
    ) -> Result<Vec<BlockName>, Error> {
        self.reachable(host)?;
        Ok(self.with(|state| {
            let on = state
                .blocks
                .keys()
                .filter(|id| id.hosting_volume == *volume);
            on.map(|id| id.block.clone()).collect()
        }))
    }

    async fn resize(
        &self,
        host: HostAddress,
        id: &VolumeId,
        size: Capacity,
    ) -> Result<BlockInfo, Error> {
        self.reachable(host)?;
        let mut block = self.found(id)?;
        if size < block.size {
            return Err(Error::Shrink {
                id: id.clone(),
                current: block.info.printed_size,
            });
        }
        let fault = self.fault("resize");
        if fault == Some(Fault::LostBefore) {
            return Err(Error::Busy { host });
        }
        block.size = size;
        block.info.lagging.clear();
        if fault == Some(Fault::Partial) {
            block
                .info
                .lagging
                .insert(host, block.info.printed_size.clone());
        }
        block.info.printed_size = size.printed();
        let info = block.info.clone();
        self.with(|state| state.blocks.insert(id.clone(), block));
        match fault {
            None => Ok(info),
            Some(Fault::Partial) => Err(Error::Lagging {
                found: Box::new(info),
            }),
            Some(_) => Err(Error::Busy { host }),
        }
    }

    async fn sessions(&self, host: HostAddress, iqn: &Iqn) -> Result<Vec<Initiator>, Error> {
        self.reachable(host)?;
        let sessions = self.with(|state| state.sessions.get(&iqn.gbid()).cloned());
        Ok(sessions.unwrap_or_default().into_iter().collect())
    }
}
