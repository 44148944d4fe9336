//! ControllerExpandVolume: grow only, and done only when no host lags.

use blockd_client::Error as BlockError;
use blockd_client::vocabulary::{Capacity, VolumeId};

use super::{OpError, Operations, bound};
use crate::blocks::Blocks;
use crate::hosting::{HostingVolumes, Ownership};
use crate::ledger::Size;
use crate::placement::usable;

/// A volume to grow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expand {
    /// The volume.
    pub id: VolumeId,
    /// At least so large: whole bytes, rounded up to the block size.
    pub size: Capacity,
    /// At most so large, if there is a limit.
    pub limit: Option<Capacity>,
}

impl<H: HostingVolumes, B: Blocks> Operations<H, B> {
    /// Grows the volume, or finds it grown. Answers its size.
    ///
    /// | known size | asked | what happens |
    /// |---|---|---|
    /// | exact, at least as large, nobody lags | | its size is the answer |
    /// | else | | the hosting volume must have room, then gluster-block is asked |
    /// | gluster-block says it is larger | | the asked size is the answer: it has at least that |
    ///
    /// # Errors
    /// `Full` without room; a host that is down or lags is not final.
    pub async fn expand(&self, wanted: &Expand) -> Result<Capacity, OpError> {
        let id = &wanted.id;
        let located = self.existing(id).await?;
        let known = self.inner.ledger.size(id);
        if let Some(Size::Exact(size)) = known
            && size >= wanted.size
            && located.info.lagging.is_empty()
        {
            return within(size, wanted);
        }
        self.reserve_growth(wanted, known.unwrap_or_else(|| bound(&located.info)))
            .await?;
        tracing::info!(volume.id = %id, bytes = wanted.size.bytes(), "growing a block");
        match self
            .inner
            .blocks
            .resize(located.host, id, wanted.size)
            .await
        {
            Ok(_) => {
                self.inner.ledger.record(id, Size::Exact(wanted.size));
                Ok(wanted.size)
            }
            Err(BlockError::Shrink { .. }) => {
                self.inner.ledger.release(id);
                within(wanted.size, wanted)
            }
            Err(error) => {
                if matches!(
                    error.cause(),
                    BlockError::NoSpace { .. } | BlockError::InvalidRequest { .. }
                ) {
                    self.inner.ledger.release(id);
                }
                Err(OpError::block("grow", error))
            }
        }
    }

    async fn reserve_growth(&self, wanted: &Expand, now: Size) -> Result<(), OpError> {
        let _one_at_a_time = self.inner.placing.lock().await;
        let id = &wanted.id;
        let found = self
            .inner
            .hosting
            .find(&id.hosting_volume)
            .await
            .map_err(OpError::Backend)?;
        let Ownership::Ours(hosting) = found else {
            return Err(OpError::NotFound { id: id.clone() });
        };
        let free = usable(hosting.size).saturating_sub(self.inner.ledger.used(&hosting.name));
        let more = wanted.size.bytes().saturating_sub(now.bound().bytes());
        if more > free {
            return Err(OpError::Full {
                id: id.clone(),
                free,
                wanted: more,
            });
        }
        self.inner.ledger.reserve(id, wanted.size);
        Ok(())
    }
}

fn within(size: Capacity, wanted: &Expand) -> Result<Capacity, OpError> {
    match wanted.limit {
        Some(limit) if size > limit => Err(OpError::Limit {
            id: wanted.id.clone(),
            limit,
        }),
        _ => Ok(size),
    }
}
