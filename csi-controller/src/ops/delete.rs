//! DeleteVolume: absent is success, in use is refused, gone is proved.

use blockd_client::Error as BlockError;
use blockd_client::vocabulary::VolumeId;

use super::{OpError, Operations};
use crate::blocks::Blocks;
use crate::hosting::HostingVolumes;

impl<H: HostingVolumes, B: Blocks> Operations<H, B> {
    /// Removes the volume.
    ///
    /// # Guarantees
    /// Success means that `info` says it is gone. Nothing is forced: with a storage host down the block stays and the
    /// error says which host is missing.
    ///
    /// # Errors
    /// `InUse` while it is published or a node is logged in.
    pub async fn delete(&self, id: &VolumeId) -> Result<(), OpError> {
        let Some(located) = self.locate(id).await? else {
            return Ok(());
        };
        if let Some(node) = self.inner.ledger.published(id).keys().next() {
            let how = format!("published to node {}", node.name());
            return Err(OpError::InUse {
                id: id.clone(),
                how,
            });
        }
        if let Some(initiator) = self.initiators(&located.info).await?.into_iter().next() {
            let how = format!("in use: initiator {initiator} is logged in");
            return Err(OpError::InUse {
                id: id.clone(),
                how,
            });
        }
        tracing::info!(volume.id = %id, "removing a block");
        match self.inner.blocks.delete(located.host, id).await {
            Ok(()) | Err(BlockError::BlockMissing { .. }) => {
                self.inner.ledger.forget(id);
                Ok(())
            }
            Err(error) => Err(OpError::block("remove", error)),
        }
    }
}
