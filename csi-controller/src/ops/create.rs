//! `CreateVolume`: one block for one name, whatever happened before.
//!
//! # Guarantees
//!
//! - The block's name follows from the request's, so a repeat finds what was begun: on every hosting volume, not only where it
//!   would be placed now. Never two blocks for one name.
//! - Room is reserved before the block is made, and given back only when the block is proved absent.
//! - Success is proved by gluster-block's own `info` (C5).
//! - After a final error nothing of the block is left (C2); half a block is removed, unless somebody is logged in to it.
//!
//! After an attempt whose outcome is unknown the next one goes to the same hosting volume and the same daemon, which
//! serves one request at a time and itself excludes a second block; that memory is lost with the process, and a new process is held up by the lock that a
//! create still at work has on its hosting volume.

use std::sync::Arc;

use blockd_client::vocabulary::{
    BlockName, Capacity, FsDefaults, HostAddress, VolumeContext, VolumeId,
};
use blockd_client::{BlockInfo, CreateBlock, Error as BlockError, Mismatch};

use super::Operations;
use super::room::{Avoid, Inventory, Spot};
use crate::blocks::Blocks;
use crate::blocks::daemons::Coordinator;
use crate::error::OperationError;
use crate::hosting::{Hosting, HostingVolumes};
use crate::params::Parameters;
use crate::placement::Wanted;

/// A volume to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateVolume {
    /// The block's name, derived from the volume's.
    pub block: BlockName,
    /// Its size: a multiple of the class's granularity.
    pub size: Capacity,
    /// What the class asks for.
    pub parameters: Parameters,
    /// What the node does where later requests leave it open.
    pub fs: FsDefaults,
}

/// A volume that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// Its size.
    pub size: Capacity,
    /// What identifies it for ever.
    pub context: VolumeContext,
}

/// What to do about the blocks of that name that are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Make it.
    Create,
    /// It is there.
    Reuse(BlockInfo),
    /// Remove this half-made one and look again.
    Remove(BlockInfo),
    /// Another volume has the name.
    Conflict(BlockInfo, Mismatch),
    /// Two volumes have it.
    Ambiguous(Vec<BlockInfo>),
}

/// What of a request a block can be compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Its size.
    pub size: Capacity,
    /// Its hosts' number.
    pub ha: usize,
    /// Whether initiators log in with CHAP.
    pub auth: bool,
}

/// Decides what to do about the blocks of that name on all hosting volumes.
///
/// | half-made ones | complete ones | it matches | decision    |
/// |----------------|---------------|------------|-------------|
/// | some           | any           |            | `Remove` the first |
/// | none           | none          |            | `Create`    |
/// | none           | one           | yes        | `Reuse`     |
/// | none           | one           | no         | `Conflict`  |
/// | none           | more          |            | `Ambiguous` |
///
/// Sizes are compared as gluster-block prints them; `known` is the exact size where this process knows it, and then decides.
#[must_use]
pub fn decide(
    found: Vec<BlockInfo>,
    wanted: Shape,
    known: impl Fn(&BlockInfo) -> Option<Capacity>,
) -> Decision {
    if let Some(half) = found.iter().find(|block| !block.is_complete()) {
        return Decision::Remove(half.clone());
    }
    match <[BlockInfo; 1]>::try_from(found) {
        Ok([found]) => match compare(&found, wanted, known(&found)) {
            Ok(()) => Decision::Reuse(found),
            Err(mismatch) => Decision::Conflict(found, mismatch),
        },
        Err(none) if none.is_empty() => Decision::Create,
        Err(several) => Decision::Ambiguous(several),
    }
}

fn compare(found: &BlockInfo, wanted: Shape, known: Option<Capacity>) -> Result<(), Mismatch> {
    let same_size = match known {
        Some(known) => known == wanted.size,
        None => wanted.size.may_print_as(&found.printed_size),
    };
    if !same_size {
        return Err(Mismatch::Size {
            found: found.printed_size.clone(),
            wanted: wanted.size,
        });
    }
    if usize::try_from(found.ha) != Ok(wanted.ha) {
        return Err(Mismatch::Ha {
            found: found.ha,
            wanted: wanted.ha,
        });
    }
    if found.password.is_some() != wanted.auth {
        return Err(Mismatch::Auth {
            found: found.password.is_some(),
        });
    }
    Ok(())
}

/// What became of an earlier attempt.
enum Earlier {
    None,
    Unknown(Spot),
    Made,
}

/// What one attempt came to.
enum Attempt {
    Made(Box<BlockInfo>),
    /// Look again: nothing was made, and the next attempt knows what to avoid; or an earlier attempt made it.
    Again,
}

/// Attempts of one call: each one rules out a hosting volume, a host or half a block.
const ATTEMPTS: usize = 6;

impl<H: HostingVolumes, B: Blocks> Operations<H, B> {
    /// Makes a volume, or finds it made.
    ///
    /// # Errors
    ///
    /// [`OperationError`]; its kind is final exactly if nothing of the block is there or can come.
    pub async fn create(self, request: CreateVolume) -> Result<Created, OperationError> {
        if request.parameters.auth && self.shared.keys.is_none() {
            return Err(OperationError::NoSealingKey);
        }
        let wanted = Shape {
            size: request.size,
            ha: request.parameters.ha,
            auth: request.parameters.auth,
        };
        let mut avoid = Avoid::default();
        for _ in 0..ATTEMPTS {
            let inventory = self.inventory().await?;
            let found = self.found(&inventory, &request.block).await?;
            let known = |block: &BlockInfo| self.shared.ledger.exact(block);
            match decide(found, wanted, known) {
                Decision::Reuse(found) => return Ok(self.created(&request, &found)),
                Decision::Create => {
                    if let Attempt::Made(found) =
                        self.attempt(&request, inventory, &mut avoid).await?
                    {
                        return Ok(self.created(&request, &found));
                    }
                }
                Decision::Remove(half) => self.remove_half(&inventory, &half).await?,
                Decision::Conflict(found, source) => {
                    let id = found.id;
                    return Err(OperationError::Differs { id, source });
                }
                Decision::Ambiguous(found) => return Err(ambiguous(&found)),
            }
        }
        Err(OperationError::Exhausted { size: request.size })
    }

    /// What there is of that name, on every hosting volume.
    async fn found(
        &self,
        inventory: &Inventory,
        block: &BlockName,
    ) -> Result<Vec<BlockInfo>, OperationError> {
        let mut found = Vec::new();
        for listed in &inventory.listings {
            if listed.blocks.contains(block) {
                let id = VolumeId::new(listed.hosting.name.clone(), block.clone());
                found.extend(self.info(&listed.hosting, &id).await?);
            }
        }
        Ok(found)
    }

    async fn attempt(
        &self,
        request: &CreateVolume,
        inventory: Inventory,
        avoid: &mut Avoid,
    ) -> Result<Attempt, OperationError> {
        let hostings: Vec<Hosting> = inventory
            .listings
            .iter()
            .map(|listed| listed.hosting.clone())
            .collect();
        let spot = match self.earlier(request, &hostings).await? {
            Earlier::None => {
                let wanted = Wanted {
                    block: request.block.clone(),
                    size: request.size,
                    ha: request.parameters.ha,
                    clusters: self.clusters(&request.parameters)?,
                };
                self.reserve_room(inventory, &wanted, avoid).await?
            }
            Earlier::Unknown(spot) => spot,
            Earlier::Made => return Ok(Attempt::Again),
        };
        let coordinator = match self.coordinator(&spot).await {
            Ok(coordinator) => coordinator,
            // Nothing was sent now; but an earlier attempt may still be at work.
            Err(error) if spot.coordinator.is_some() => return Err(unproved(spot.id, error)),
            Err(error) => return self.not_made(spot, error, avoid),
        };
        let (create, host) = (create_block(request, &spot), coordinator.host());
        self.shared.ledger.begin(&spot.id, host);
        tracing::info!(id = %spot.id, %host, size = %create.size, "making a block");
        let error = match coordinator.create(&create).await {
            Ok(found) => return Ok(self.made(found, create.size)),
            Err(BlockError::Exists { found, .. }) => return Ok(self.made(*found, create.size)),
            Err(error) => error,
        };
        self.settle_create(spot, host, error, &hostings, avoid)
            .await
    }

    /// The host that makes the block: any of its hosts, but the same one again after an unknown outcome. gluster-blockd serves
    /// one request at a time, so its next answer says that the earlier request has ended.
    async fn coordinator(&self, spot: &Spot) -> Result<Coordinator<B>, BlockError> {
        let volume = &spot.id.hosting_volume;
        match spot.coordinator {
            Some(host) => self.daemons.begin(volume, &[host]).await,
            None => self.daemons.begin(volume, &spot.hosts).await,
        }
    }

    /// What a create that did not plainly succeed comes to.
    async fn settle_create(
        &self,
        spot: Spot,
        host: HostAddress,
        error: BlockError,
        hostings: &[Hosting],
        avoid: &mut Avoid,
    ) -> Result<Attempt, OperationError> {
        if let BlockError::Conflict { found, mismatch } = error {
            self.shared.ledger.release(&spot.id);
            return Err(OperationError::Differs {
                id: found.id,
                source: mismatch,
            });
        }
        if let BlockError::Incomplete { found, .. } = &error {
            let hosting = self.hosting_of(hostings, &found.id).await?;
            self.remove_half_on(&hosting, found).await?;
            return Err(OperationError::NotMade {
                id: spot.id,
                source: Box::new(error),
            });
        }
        if !error.outcome_unknown() {
            return self.not_made(spot, error, avoid);
        }
        // It was not even sent, and was not there before: another host may do better.
        if not_sent(&error) && spot.coordinator.is_none() {
            self.shared.ledger.note_absent(&spot.id);
            avoid.hosts.insert(host);
            return Ok(Attempt::Again);
        }
        Err(unproved(spot.id, error))
    }

    /// What became of an earlier attempt at this block.
    ///
    /// | reserved for one | its size | its daemon knows a block | |
    /// |---|---|---|---|
    /// | no | | | `None` |
    /// | yes | as wanted | not asked | `Unknown`: the repeat excludes a second one, and tells |
    /// | yes | another | no | `None`: it has ended |
    /// | yes | another | yes | `Made` |
    /// | yes | another | no answer | [`OperationError::Unproved`] |
    async fn earlier(
        &self,
        request: &CreateVolume,
        hostings: &[Hosting],
    ) -> Result<Earlier, OperationError> {
        let Some((id, reservation)) = self.shared.ledger.attempt_at(&request.block) else {
            return Ok(Earlier::None);
        };
        let exists = hostings.iter().any(|h| h.name == id.hosting_volume);
        let Some(coordinator) = reservation.coordinator.filter(|_| exists) else {
            return Ok(Earlier::None);
        };
        if reservation.size == request.size {
            return Ok(Earlier::Unknown(Spot {
                id,
                hosts: reservation.hosts,
                coordinator: Some(coordinator),
            }));
        }
        let of = &id;
        let question = |blocks: Arc<B>, host| async move { blocks.info(host, of).await };
        let daemon = [coordinator];
        let answer = self
            .daemons
            .ask("info", &id.hosting_volume, &daemon, question);
        match answer.await {
            Ok(_) => Ok(Earlier::Made),
            Err(BlockError::BlockMissing { .. } | BlockError::VolumeMissing { .. }) => {
                self.shared.ledger.note_absent(&id);
                Ok(Earlier::None)
            }
            Err(error) => Err(unproved(id, error)),
        }
    }

    /// The hosting volume of a block that was just placed; it may be newer than the listing.
    async fn hosting_of(
        &self,
        hostings: &[Hosting],
        id: &VolumeId,
    ) -> Result<Hosting, OperationError> {
        let same = |hosting: &&Hosting| hosting.name == id.hosting_volume;
        if let Some(hosting) = hostings.iter().find(same) {
            return Ok(hosting.clone());
        }
        let volumes = self.volumes().await?;
        let found = volumes.iter().find(same).cloned();
        found.ok_or_else(|| OperationError::NoHosts {
            volume: id.hosting_volume.clone(),
        })
    }

    fn made(&self, found: BlockInfo, size: Capacity) -> Attempt {
        self.shared.ledger.note_exact(&found, size);
        self.shared.ledger.release(&found.id);
        Attempt::Made(Box::new(found))
    }

    /// Nothing is there: gives the room back, and decides whether another place may do better.
    fn not_made(
        &self,
        spot: Spot,
        error: BlockError,
        avoid: &mut Avoid,
    ) -> Result<Attempt, OperationError> {
        self.shared.ledger.note_absent(&spot.id);
        let again = match error.cause() {
            BlockError::NoSpace { hosting_volume }
            | BlockError::VolumeMissing { hosting_volume } => {
                avoid.volumes.insert(hosting_volume.clone())
            }
            BlockError::HostDown { host } | BlockError::Unavailable { host, .. } => {
                avoid.hosts.insert(*host)
            }
            BlockError::BlockMissing { .. }
            | BlockError::Exists { .. }
            | BlockError::Conflict { .. }
            | BlockError::Incomplete { .. }
            | BlockError::NotMade { .. }
            | BlockError::Unproved { .. }
            | BlockError::NameTaken { .. }
            | BlockError::Partial { .. }
            | BlockError::Lagging { .. }
            | BlockError::Shrink { .. }
            | BlockError::Unsupported { .. }
            | BlockError::Busy { .. }
            | BlockError::InvalidRequest { .. }
            | BlockError::Protocol { .. }
            | BlockError::Transport(_) => false,
        };
        if again {
            tracing::warn!(id = %spot.id, error = %proto::error::Chain(&error), "placing anew");
            return Ok(Attempt::Again);
        }
        Err(OperationError::NotMade {
            id: spot.id,
            source: Box::new(error),
        })
    }

    async fn remove_half(
        &self,
        inventory: &Inventory,
        half: &BlockInfo,
    ) -> Result<(), OperationError> {
        let hostings: Vec<Hosting> = inventory
            .listings
            .iter()
            .map(|listed| listed.hosting.clone())
            .collect();
        let hosting = self.hosting_of(&hostings, &half.id).await?;
        self.remove_half_on(&hosting, half).await
    }

    /// Removes half a block, unless somebody is logged in: then it may once have been a whole one, with data on it.
    async fn remove_half_on(
        &self,
        hosting: &Hosting,
        half: &BlockInfo,
    ) -> Result<(), OperationError> {
        let users = if half.exported_on.is_empty() {
            Vec::new()
        } else {
            self.users(half).await?
        };
        if let Some(user) = users.first() {
            return Err(OperationError::HalfMadeInUse {
                id: half.id.clone(),
                user: user.as_str().to_owned(),
            });
        }
        tracing::warn!(id = %half.id, "removing half a block");
        self.remove(hosting, &half.id).await
    }

    fn created(&self, request: &CreateVolume, found: &BlockInfo) -> Created {
        let exact = self.shared.ledger.exact(found);
        Created {
            size: exact.unwrap_or(request.size),
            context: VolumeContext {
                gbid: found.gbid,
                hosting_volume: found.id.hosting_volume.clone(),
                block: found.id.block.clone(),
                fs: request.fs,
            },
        }
    }
}

fn create_block(request: &CreateVolume, spot: &Spot) -> CreateBlock {
    CreateBlock {
        id: spot.id.clone(),
        size: request.size,
        hosts: spot.hosts.clone(),
        auth: request.parameters.auth,
        prealloc: request.parameters.prealloc,
        block_size: request.parameters.block_size,
        io_timeout: request.parameters.io_timeout,
        ring_buffer: request.parameters.ring_buffer,
    }
}

/// The reservation stays: the block may be there.
fn unproved(id: VolumeId, error: BlockError) -> OperationError {
    let source = Box::new(error);
    OperationError::Unproved { id, source }
}

fn not_sent(error: &BlockError) -> bool {
    matches!(error.cause(), BlockError::Transport(error) if !error.may_have_started())
}

fn ambiguous(found: &[BlockInfo]) -> OperationError {
    let places: Vec<String> = found.iter().map(|block| block.id.to_string()).collect();
    let block = found.first().map(|block| block.id.block.to_string());
    OperationError::Ambiguous {
        block: block.unwrap_or_default(),
        places: places.join(", "),
    }
}
