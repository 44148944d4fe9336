//! Looking: which hosting volumes there are, what is on them, who uses a block.
//!
//! Questions about a hosting volume go to any of its hosts that is idle; a dead one costs one bounded probe, see
//! [`Daemons`](crate::blocks::daemons::Daemons).

use std::future::Future;
use std::sync::Arc;

use blockd_client::vocabulary::{BlockName, HostAddress, Initiator, VolumeId};
use blockd_client::{BlockInfo, Error as BlockError};
use tokio::task::JoinSet;

use super::Operations;
use crate::blocks::Blocks;
use crate::error::OperationError;
use crate::hosting::{Hosting, HostingVolumes};

/// A hosting volume and the names of the blocks on it.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) hosting: Hosting,
    pub(super) blocks: Vec<BlockName>,
}

impl<H: HostingVolumes, B: Blocks> Operations<H, B> {
    /// Every hosting volume of ours.
    pub(super) async fn volumes(&self) -> Result<Vec<Hosting>, OperationError> {
        self.hosting.list().await.map_err(OperationError::Volumes)
    }

    /// Every hosting volume with what is on it; asked all at once.
    pub(super) async fn listings(&self) -> Result<Vec<Listed>, OperationError> {
        let mut tasks = JoinSet::new();
        for hosting in self.volumes().await? {
            let this = self.clone();
            tasks.spawn(async move {
                let blocks = this.list_one(&hosting).await;
                blocks.map(|blocks| Listed { hosting, blocks })
            });
        }
        let mut listings = Vec::new();
        for listed in tasks.join_all().await {
            match listed {
                Ok(listed) => listings.push(listed),
                // heketi knows it and gluster does not (any more): it holds nothing.
                Err(OperationError::Contents { volume, source })
                    if matches!(*source, BlockError::VolumeMissing { .. }) =>
                {
                    tracing::warn!(%volume, "hosting volume is missing in gluster");
                }
                Err(error) => return Err(error),
            }
        }
        listings.sort_by(|a, b| a.hosting.name.cmp(&b.hosting.name));
        Ok(listings)
    }

    pub(super) async fn list_one(
        &self,
        hosting: &Hosting,
    ) -> Result<Vec<BlockName>, OperationError> {
        let name = &hosting.name;
        let question = |blocks: Arc<B>, host| async move { blocks.list(host, name).await };
        self.ask("list", hosting, question).await
    }

    /// The hosting volume of a volume id, and its block; none if there is no such volume of ours.
    pub(super) async fn find(
        &self,
        id: &VolumeId,
    ) -> Result<Option<(Hosting, BlockInfo)>, OperationError> {
        let volumes = self.volumes().await?;
        let hosting = volumes
            .into_iter()
            .find(|hosting| hosting.name == id.hosting_volume);
        let Some(hosting) = hosting else {
            return Ok(None);
        };
        let found = self.info(&hosting, id).await?;
        Ok(found.map(|found| (hosting, found)))
    }

    /// What is there of a block; noted in the ledger.
    pub(super) async fn info(
        &self,
        hosting: &Hosting,
        id: &VolumeId,
    ) -> Result<Option<BlockInfo>, OperationError> {
        let question = |blocks: Arc<B>, host| async move { blocks.info(host, id).await };
        match self.ask("info", hosting, question).await {
            Ok(found) => {
                self.shared.ledger.note_seen(&found);
                Ok(Some(found))
            }
            Err(OperationError::Contents { source, .. })
                if matches!(*source, BlockError::BlockMissing { .. }) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Asks the hosts of a volume until one can serve.
    pub(super) async fn ask<T, F>(
        &self,
        verb: &'static str,
        hosting: &Hosting,
        question: impl Fn(Arc<B>, HostAddress) -> F,
    ) -> Result<T, OperationError>
    where
        F: Future<Output = Result<T, BlockError>> + Send,
    {
        let volume = hosting.name.clone();
        if hosting.hosts.is_empty() {
            return Err(OperationError::NoHosts { volume });
        }
        let answer = self.daemons.ask(verb, &volume, &hosting.hosts, question);
        answer.await.map_err(|source| OperationError::Contents {
            volume: hosting.name.clone(),
            source: Box::new(source),
        })
    }

    /// Who is logged in to a block, as told by those of its hosts that answer.
    ///
    /// # Errors
    ///
    /// None of them answers.
    pub(super) async fn users(&self, found: &BlockInfo) -> Result<Vec<Initiator>, OperationError> {
        let mut tasks = JoinSet::new();
        for host in found.exported_on.clone() {
            let (daemons, iqn) = (self.daemons.clone(), found.gbid.iqn());
            tasks.spawn(async move { (host, daemons.sessions(host, &iqn).await) });
        }
        let (mut users, mut failed, mut answered) = (Vec::new(), None, false);
        for (host, outcome) in tasks.join_all().await {
            match outcome {
                Ok(initiators) => {
                    answered = true;
                    users.extend(initiators);
                }
                Err(source) => {
                    tracing::debug!(%host, error = %source, "sessions unknown");
                    failed = Some(source);
                }
            }
        }
        users.sort();
        users.dedup();
        match failed {
            Some(source) if !answered => Err(OperationError::SessionsUnknown {
                id: found.id.clone(),
                source: Box::new(source),
            }),
            _ => Ok(users),
        }
    }
}
