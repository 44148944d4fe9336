//! CreateVolume: find what an earlier attempt left, or make the block.
//!
//! # Guarantees
//! One block for one name. Space is reserved before it is taken. Success is proved by `info`. After a final error
//! nothing of that name is left.

use blockd_client::vocabulary::{BlockName, Capacity, FsType, Gbid, HostAddress, VolumeId};
use blockd_client::{BlockInfo, CreateBlock, Error as BlockError};

use super::{OpError, Operations};
use crate::blocks::Blocks;
use crate::hosting::{Hosting, HostingVolumes};
use crate::ledger::Size;
use crate::params::Parameters;
use crate::placement::{Candidate, Placement, place};

/// A volume to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateVolume {
    /// Derived from the request's name.
    pub block: BlockName,
    /// Whole bytes, rounded up to the block size.
    pub size: Capacity,
    /// From the StorageClass.
    pub parameters: Parameters,
    /// What a file system on it will be, unless a pod's claim says otherwise.
    pub fs_type: FsType,
}

/// A volume that was made, now or before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// Its id.
    pub id: VolumeId,
    /// Its identity.
    pub gbid: Gbid,
    /// Its size.
    pub size: Capacity,
    /// Its default file system.
    pub fs_type: FsType,
}

/// What to do about a block of the wanted name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Decision {
    /// It is what is wanted.
    Adopt,
    /// It is half made by an attempt that died: remove it, then make it again.
    Remove,
    /// It is another volume's.
    Refuse(String),
}

/// Decides about a block that has the wanted name.
///
/// | complete | exact size known | matches HA count, CHAP and printed size | decision |
/// |---|---|---|---|
/// | no  |               |     | `Remove` |
/// | yes | and different |     | `Refuse` |
/// | yes |               | no  | `Refuse` |
/// | yes | equal or not known | yes | `Adopt` |
fn decide(found: &BlockInfo, known: Option<Size>, wanted: &CreateBlock) -> Decision {
    if !found.is_complete() && found.lagging.is_empty() {
        return Decision::Remove;
    }
    if let Some(Size::Exact(size)) = known
        && size != wanted.size
    {
        return Decision::Refuse(format!(
            "it has {} bytes, not {}",
            size.bytes(),
            wanted.size.bytes()
        ));
    }
    match found.matches(wanted) {
        Ok(()) => Decision::Adopt,
        Err(mismatch) => Decision::Refuse(mismatch.to_string()),
    }
}

impl<H: HostingVolumes, B: Blocks> Operations<H, B> {
    /// Makes the volume, or finds it made. See the module.
    ///
    /// # Errors
    /// Final only where no block of that name is left or can come.
    pub async fn create(&self, wanted: &CreateVolume) -> Result<Created, OpError> {
        if let Some(found) = self.find_made(wanted).await? {
            return Ok(found);
        }
        let (hosting, hosts) = self.choose(wanted).await?;
        let block = block(wanted, &hosting, hosts);
        let outcome = self.make(&hosting, &block).await;
        match &outcome {
            Ok(_) => self.inner.ledger.record(&block.id, Size::Exact(block.size)),
            Err(OpError::Block { source, .. }) if !source.outcome_unknown() => {
                self.inner.ledger.release(&block.id);
            }
            // The reservation stays: the block may be there or come yet (C4).
            Err(_) => {}
        }
        outcome.map(|info| created(wanted, &info))
    }

    /// Looks for the block on every hosting volume of ours. One that cannot be asked might have it, so its silence is
    /// an error.
    async fn find_made(&self, wanted: &CreateVolume) -> Result<Option<Created>, OpError> {
        for hosting in self.inner.hosting.list().await.map_err(OpError::Backend)? {
            let host = self.reach(&hosting).await?;
            let _turn = self.turn(&hosting).await?;
            let blocks = self.refresh(&hosting, host).await?;
            let id = VolumeId::new(hosting.name.clone(), wanted.block.clone());
            if !blocks.contains(&id) {
                self.inner.ledger.forget(&id);
                continue;
            }
            let failed = |error| OpError::block("look up", error);
            let info = match self.inner.blocks.info(host, &id).await {
                Ok(info) => info,
                Err(BlockError::BlockMissing { .. }) => continue,
                Err(error) => return Err(failed(error)),
            };
            let as_wanted = block(wanted, &hosting, info.exported_on.clone());
            match decide(&info, self.inner.ledger.size(&id), &as_wanted) {
                Decision::Adopt => {
                    tracing::info!(volume.id = %id, "found made by an earlier attempt");
                    self.inner.ledger.record(&id, Size::Exact(wanted.size));
                    return Ok(Some(created(wanted, &info)));
                }
                Decision::Refuse(difference) => return Err(OpError::Differs { id, difference }),
                Decision::Remove => {
                    tracing::info!(volume.id = %id, "removing what an earlier attempt left half made");
                    let removed = self.inner.blocks.delete(host, &id).await;
                    removed.map_err(|error| OpError::block("remove the half-made", error))?;
                    self.inner.ledger.forget(&id);
                }
            }
        }
        Ok(None)
    }

    /// Chooses hosting volume and hosts and reserves the space; makes a hosting volume first when none has room.
    async fn choose(&self, wanted: &CreateVolume) -> Result<(Hosting, Vec<HostAddress>), OpError> {
        let _one_at_a_time = self.inner.placing.lock().await;
        for made in [false, true] {
            let candidates = self.candidates().await?;
            let (ha, gib) = (wanted.parameters.ha, self.inner.policy.hosting_gib);
            let seed = candidates.iter().map(|each| each.used >> 20).sum::<u64>();
            match place(&candidates, wanted.size, ha, gib, seed) {
                Placement::Place { candidate, hosts } => {
                    let Some(chosen) = candidates.into_iter().nth(candidate) else {
                        break;
                    };
                    let id = VolumeId::new(chosen.hosting.name.clone(), wanted.block.clone());
                    self.inner.ledger.reserve(&id, wanted.size);
                    return Ok((chosen.hosting, hosts));
                }
                Placement::Grow { gib } if !made => {
                    self.inner
                        .hosting
                        .create(gib)
                        .await
                        .map_err(OpError::Backend)?;
                }
                Placement::Grow { .. } => break,
                Placement::TooBig { limit } => {
                    let (wanted, limit) = (wanted.size.bytes(), limit.bytes());
                    return Err(OpError::TooBig { wanted, limit });
                }
                Placement::TooFewHosts { hosts } => {
                    return Err(OpError::TooFewHosts { wanted: ha, hosts });
                }
                Placement::HostsDown { alive } => {
                    return Err(OpError::HostsDown { wanted: ha, alive });
                }
            }
        }
        let what = "make room for the block".to_owned();
        Err(OpError::Backend(crate::hosting::HostingError::Unknown {
            what,
        }))
    }

    pub(super) async fn candidates(&self) -> Result<Vec<Candidate>, OpError> {
        let mut candidates = Vec::new();
        for hosting in self.inner.hosting.list().await.map_err(OpError::Backend)? {
            // A volume none of whose hosts answers is no place, and no reason to fail.
            let alive = self.alive(&hosting.hosts).await.unwrap_or_default();
            let used = self.inner.ledger.used(&hosting.name);
            candidates.push(Candidate {
                hosting,
                used,
                alive,
            });
        }
        Ok(candidates)
    }

    /// Makes the block; what is found half made is removed, so that a final error leaves nothing.
    async fn make(&self, hosting: &Hosting, block: &CreateBlock) -> Result<BlockInfo, OpError> {
        let _turn = self.turn(hosting).await?;
        let Some(host) = block.hosts.first().copied() else {
            return Err(OpError::NotExported {
                id: block.id.clone(),
            });
        };
        tracing::info!(volume.id = %block.id, bytes = block.size.bytes(), "making a block");
        match self.inner.blocks.create(host, block).await {
            Ok(info) => Ok(info),
            Err(BlockError::Exists { found, .. }) => Ok(*found),
            Err(BlockError::Incomplete { found, cause }) => {
                let removed = self.inner.blocks.delete(host, &found.id).await;
                removed.map_err(|error| OpError::block("remove the half-made", error))?;
                let half = BlockError::Incomplete { found, cause };
                let id = block.id.clone();
                Err(OpError::block(
                    "make",
                    BlockError::NotMade {
                        id,
                        cause: Box::new(half),
                    },
                ))
            }
            Err(error) => Err(OpError::block("make", error)),
        }
    }
}

fn block(wanted: &CreateVolume, hosting: &Hosting, hosts: Vec<HostAddress>) -> CreateBlock {
    CreateBlock {
        id: VolumeId::new(hosting.name.clone(), wanted.block.clone()),
        size: wanted.size,
        hosts: if hosts.len() == wanted.parameters.ha {
            hosts
        } else {
            hosting
                .hosts
                .iter()
                .copied()
                .take(wanted.parameters.ha)
                .collect()
        },
        auth: wanted.parameters.auth,
        prealloc: wanted.parameters.prealloc,
        block_size: wanted.parameters.block_size,
        io_timeout: wanted.parameters.io_timeout,
        ring_buffer: wanted.parameters.ring_buffer,
    }
}

fn created(wanted: &CreateVolume, info: &BlockInfo) -> Created {
    Created {
        id: info.id.clone(),
        gbid: info.gbid,
        size: wanted.size,
        fs_type: wanted.fs_type,
    }
}
