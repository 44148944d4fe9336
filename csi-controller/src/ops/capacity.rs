//! `GetCapacity`: what can still be made, told from below (C4).
//!
//! Counted are the free space of the hosting volumes, and of *one* new hosting volume what its blocks could fill: the next
//! one's room is only known when it is made.

use blockd_client::vocabulary::Capacity;

use super::Operations;
use crate::blocks::Blocks;
use crate::error::OperationError;
use crate::hosting::HostingVolumes;
use crate::params::Parameters;
use crate::placement::{Space, usable};

/// What can still be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Available {
    /// In all.
    pub total: Capacity,
    /// In one volume.
    pub largest: Capacity,
    /// The smallest volume.
    pub smallest: Capacity,
}

impl<H: HostingVolumes, B: Blocks> Operations<H, B> {
    /// Says what volumes of a class could still be made.
    ///
    /// # Errors
    ///
    /// It cannot be learnt.
    pub async fn capacity(self, class: Parameters) -> Result<Available, OperationError> {
        let clusters = self.clusters(&class)?;
        let rules = self.shared.policy.rules;
        let inventory = self.inventory().await?;
        let usable_by_class = |space: &&Space| {
            let in_cluster = clusters.is_empty() || clusters.contains(&space.cluster);
            in_cluster && space.hosts.len() >= class.ha && rules.allow_another(space)
        };
        let spaces = self.spaces(&inventory).await?;
        let free: Vec<u64> = spaces
            .iter()
            .filter(usable_by_class)
            .map(|space| space.free().bytes())
            .collect();
        let rooms = self
            .hosting
            .room(&clusters)
            .await
            .map_err(OperationError::Volumes)?;
        let most = rules.sizes.largest;
        let new = rooms
            .iter()
            .filter(|room| room.hosts.len() >= class.ha)
            .map(|room| usable(room.largest.min(most)).bytes())
            .max()
            .unwrap_or_default();
        let total = free
            .iter()
            .fold(new, |sum, bytes| sum.saturating_add(*bytes));
        let largest = free.into_iter().max().unwrap_or_default().max(new);
        Ok(Available {
            total: floor(total, class.granularity()),
            largest: floor(largest, class.granularity()),
            smallest: class.granularity(),
        })
    }
}

/// Only whole blocks can be had.
fn floor(bytes: u64, granularity: Capacity) -> Capacity {
    let over = bytes.checked_rem(granularity.bytes()).unwrap_or_default();
    Capacity::from_bytes(bytes - over)
}
