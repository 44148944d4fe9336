//! `DeleteVolume`: what is gone is a success, what is in use is left alone.
//!
//! # Guarantees
//!
//! - Success means that gluster-block says: the hosting volume is there, and this block is not (C5).
//! - Only blocks on hosting volumes of ours are touched (C6): an id of another one is an unknown id.
//! - A volume that is published, or that somebody is logged in to, is refused. Hosts that do not answer are not asked twice:
//!   gluster-block itself refuses to delete while one of a block's hosts is down.

use std::sync::Arc;

use blockd_client::vocabulary::VolumeId;

use super::Operations;
use crate::blocks::Blocks;
use crate::error::OperationError;
use crate::hosting::{Hosting, HostingVolumes};

impl<H: HostingVolumes, B: Blocks> Operations<H, B> {
    /// Deletes a volume.
    ///
    /// # Errors
    ///
    /// [`OperationError::InUse`]; [`OperationError::NotRemoved`] to try again.
    pub async fn delete(self, id: VolumeId) -> Result<(), OperationError> {
        let Some((hosting, found)) = self.find(&id).await? else {
            self.forget(&id);
            return Ok(());
        };
        let published = self.shared.publications.of(&id);
        if let Some(node) = published.keys().next() {
            let user = format!("node {}", node.name());
            return Err(OperationError::InUse { id, user });
        }
        if !found.exported_on.is_empty() {
            let users = match self.users(&found).await {
                Ok(users) => users,
                // Nobody to ask: then nobody deletes either, and says why better than this.
                Err(OperationError::SessionsUnknown { .. }) if !found.is_complete() => Vec::new(),
                Err(error) => return Err(error),
            };
            if let Some(user) = users.first() {
                let user = format!("initiator {}", user.as_str());
                return Err(OperationError::InUse { id, user });
            }
        }
        tracing::info!(%id, "deleting a block");
        self.remove(&hosting, &id).await
    }

    /// Removes a block, whole or not, through the first host that serves.
    pub(super) async fn remove(
        &self,
        hosting: &Hosting,
        id: &VolumeId,
    ) -> Result<(), OperationError> {
        let question = |blocks: Arc<B>, host| async move { blocks.delete(host, id).await };
        match self.ask("delete", hosting, question).await {
            Ok(()) => {
                self.forget(id);
                Ok(())
            }
            Err(OperationError::Contents { source, .. }) => Err(OperationError::NotRemoved {
                id: id.clone(),
                source,
            }),
            Err(error) => Err(error),
        }
    }

    fn forget(&self, id: &VolumeId) {
        self.shared.ledger.note_absent(id);
        self.shared.publications.forget(id);
    }
}
