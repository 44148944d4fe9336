//! Finding room: counts what is there, decides where a block goes, and reserves before anything is made (C4).

use std::collections::{BTreeMap, BTreeSet};

use blockd_client::vocabulary::{Capacity, HostAddress, HostingVolume, VolumeId};
use proto::error::Chain;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::Operations;
use super::look::Listed;
use crate::blocks::Blocks;
use crate::error::OperationError;
use crate::hosting::{ClusterId, Hosting, HostingVolumes, Room};
use crate::ledger::Shown;
use crate::placement::{Placement, Snapshot, Space, Wanted, place};

/// What earlier attempts of the same operation found to be of no use.
#[derive(Debug, Default, Clone)]
pub(super) struct Avoid {
    pub(super) volumes: BTreeSet<HostingVolume>,
    pub(super) hosts: BTreeSet<HostAddress>,
}

/// Room that is reserved for a block.
#[derive(Debug)]
pub(super) struct Spot {
    pub(super) id: VolumeId,
    pub(super) hosts: Vec<HostAddress>,
    /// Who was asked to make it and may still be at it.
    pub(super) coordinator: Option<HostAddress>,
}

/// A listing of all hosting volumes at one moment.
#[derive(Debug)]
pub(super) struct Inventory {
    pub(super) taken: Instant,
    pub(super) listings: Vec<Listed>,
}

enum Decision {
    Reserved(Spot),
    AskForRoom,
    Grow(Capacity, Vec<ClusterId>),
}

impl<H: HostingVolumes, B: Blocks> Operations<H, B> {
    pub(super) async fn inventory(&self) -> Result<Inventory, OperationError> {
        let taken = Instant::now();
        let listings = self.listings().await?;
        Ok(Inventory { taken, listings })
    }

    /// Reserves room for a block, on a new hosting volume if need be.
    ///
    /// # Errors
    ///
    /// There is none; nothing is reserved then.
    pub(super) async fn reserve_room(
        &self,
        mut inventory: Inventory,
        wanted: &Wanted,
        avoid: &Avoid,
    ) -> Result<Spot, OperationError> {
        let mut growing = None;
        let mut room = None;
        loop {
            match self
                .reserve_if_room(&inventory, wanted, avoid, room.as_deref())
                .await?
            {
                Decision::Reserved(spot) => return Ok(spot),
                Decision::AskForRoom => {
                    let asked = self.hosting.room(&wanted.clusters).await;
                    room = Some(asked.map_err(|source| no_room(wanted, source))?);
                }
                Decision::Grow(size, clusters) => match &mut growing {
                    // Whoever had the turn before may just have made what is needed: look again first.
                    None => {
                        let turn = timeout(self.shared.policy.turn, self.shared.growing.lock());
                        growing = Some((turn.await.map_err(|_| OperationError::NoTurn)?, false));
                        inventory = self.inventory().await?;
                    }
                    Some((_, grown @ false)) => {
                        let made = self.hosting.create(size, &clusters).await;
                        made.map_err(|source| no_room(wanted, source))?;
                        *grown = true;
                        inventory = self.inventory().await?;
                    }
                    Some((_, true)) => {
                        return Err(OperationError::Exhausted { size: wanted.size });
                    }
                },
            }
        }
    }

    async fn reserve_if_room(
        &self,
        inventory: &Inventory,
        wanted: &Wanted,
        avoid: &Avoid,
        room: Option<&[Room]>,
    ) -> Result<Decision, OperationError> {
        let (mut alive, why) = self.alive(&inventory.listings).await;
        alive.retain(|host| !avoid.hosts.contains(host));
        let turn = timeout(self.shared.policy.turn, self.shared.placing.lock());
        let _placing = turn.await.map_err(|_| OperationError::NoTurn)?;
        let snapshot = Snapshot {
            spaces: self.spaces(inventory).await?,
            alive,
            full: avoid.volumes.clone(),
            room: room.map(<[Room]>::to_vec),
        };
        let size = wanted.size;
        match place(&snapshot, wanted, self.shared.policy.rules) {
            Placement::Place { volume, hosts } => {
                let id = VolumeId::new(volume, wanted.block.clone());
                self.shared.ledger.reserve(&id, size, hosts.clone());
                Ok(Decision::Reserved(Spot {
                    id,
                    hosts,
                    coordinator: None,
                }))
            }
            Placement::AskForRoom => Ok(Decision::AskForRoom),
            Placement::CreateHostingVolume { size, clusters } => Ok(Decision::Grow(size, clusters)),
            Placement::TooBig { largest } => Err(OperationError::TooBig { size, largest }),
            Placement::TooFewHosts { hosts } => Err(OperationError::TooFewHosts {
                wanted: wanted.ha,
                hosts,
            }),
            Placement::TooFewAlive { alive } => Err(OperationError::TooFewAlive {
                wanted: wanted.ha,
                alive,
                why,
            }),
        }
    }

    /// The hosts whose gluster-blockd answers, and what the others said.
    async fn alive(&self, listings: &[Listed]) -> (BTreeSet<HostAddress>, String) {
        let hosts = listings.iter().flat_map(|listed| &listed.hosting.hosts);
        self.ping_all(hosts.copied().collect()).await
    }

    /// Asks all these hosts at once whether they take requests.
    pub(crate) async fn ping_all(
        &self,
        hosts: BTreeSet<HostAddress>,
    ) -> (BTreeSet<HostAddress>, String) {
        let mut tasks = JoinSet::new();
        for host in hosts {
            let daemons = self.daemons.clone();
            tasks.spawn(async move { (host, daemons.ping(host).await) });
        }
        let (mut alive, mut dead) = (BTreeSet::new(), Vec::new());
        for (host, outcome) in tasks.join_all().await {
            match outcome {
                Ok(()) => {
                    alive.insert(host);
                }
                Err(error) => dead.push(format!("; {host}: {}", Chain(&error))),
            }
        }
        dead.sort();
        (alive, dead.concat())
    }

    /// Counts what is on every hosting volume. Hold `placing` where a decision follows.
    pub(super) async fn spaces(&self, inventory: &Inventory) -> Result<Vec<Space>, OperationError> {
        let mut shown = Vec::new();
        for listed in &inventory.listings {
            shown.push((&listed.hosting, self.shown(listed, inventory.taken).await?));
        }
        // From here on nobody is waited for: all are counted at one moment.
        let space = |(hosting, shown): (&Hosting, Shown)| {
            let taken = self.shared.ledger.taken(&hosting.name, &shown);
            Space {
                volume: hosting.name.clone(),
                cluster: hosting.cluster.clone(),
                size: hosting.size,
                used: taken.used,
                reserved: taken.reserved,
                blocks: taken.blocks,
                hosts: hosting.hosts.clone(),
            }
        };
        let spaces: Vec<Space> = shown.into_iter().map(space).collect();
        self.shared.spaces.set(&spaces);
        Ok(spaces)
    }

    /// What a listing showed, every block in it known or looked at.
    async fn shown(&self, listed: &Listed, taken: Instant) -> Result<Shown, OperationError> {
        let mut blocks = BTreeMap::new();
        for block in &listed.blocks {
            let id = VolumeId::new(listed.hosting.name.clone(), block.clone());
            let counted = self.counted(&listed.hosting, &id).await?;
            blocks.insert(id, counted);
        }
        Ok(Shown { taken, blocks })
    }

    /// What a block counts for; asked only once per block.
    async fn counted(&self, hosting: &Hosting, id: &VolumeId) -> Result<Capacity, OperationError> {
        if let Some(counted) = self.shared.ledger.counted(id) {
            return Ok(counted);
        }
        let Some(found) = self.info(hosting, id).await? else {
            return Ok(Capacity::ZERO);
        };
        let largest = Capacity::largest_printed_as(&found.printed_size);
        if largest.is_none() {
            // Counting it as nothing would lie upward.
            tracing::warn!(%id, size = found.printed_size, "a block's size is not understood");
        }
        Ok(largest.unwrap_or(hosting.size))
    }
}

fn no_room(wanted: &Wanted, source: crate::hosting::HostingError) -> OperationError {
    OperationError::NoRoom {
        size: wanted.size,
        source,
    }
}
