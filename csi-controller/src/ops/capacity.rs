//! GetCapacity: what is free, never more than there is (C4).

use blockd_client::vocabulary::Capacity;

use super::{OpError, Operations};
use crate::blocks::Blocks;
use crate::hosting::HostingVolumes;
use crate::placement::{free, usable};

/// What can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Available {
    /// All free bytes of our hosting volumes, and of one more if the backend has room for it.
    pub total: u64,
    /// The largest single volume.
    pub largest: u64,
}

impl<H: HostingVolumes, B: Blocks> Operations<H, B> {
    /// What can be had now.
    ///
    /// # Errors
    /// When backend or storage hosts do not answer.
    pub async fn available(&self) -> Result<Available, OpError> {
        for hosting in self.inner.hosting.list().await.map_err(OpError::Backend)? {
            let host = self.reach(&hosting).await?;
            let _turn = self.turn(&hosting).await?;
            self.refresh(&hosting, host).await?;
        }
        let mut frees: Vec<_> = self.candidates().await?.iter().map(free).collect();
        let gib = self.inner.policy.hosting_gib;
        if self
            .inner
            .hosting
            .has_room(gib)
            .await
            .map_err(OpError::Backend)?
        {
            frees.push(usable(Capacity::from_bytes(gib << 30)));
        }
        Ok(Available {
            total: frees.iter().fold(0, |sum, free| sum.saturating_add(*free)),
            largest: frees.iter().copied().max().unwrap_or(0),
        })
    }
}
