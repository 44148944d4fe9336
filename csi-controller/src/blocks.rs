//! Port to gluster-block on the storage hosts, and its implementation over the client.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use blockd_client::vocabulary::{
    BlockName, Capacity, HostAddress, HostingVolume, Initiator, Iqn, VolumeId,
};
use blockd_client::{BlockInfo, Blockd, CreateBlock, Error, Transport};
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

pub mod fake;

/// gluster-block, spoken to through the daemon of one host.
pub trait Blocks: Send + Sync + 'static {
    /// Whether the daemon of that host listens.
    fn ping(&self, host: HostAddress) -> impl Future<Output = Result<(), Error>> + Send;
    /// Makes a block and proves it.
    fn create(
        &self,
        host: HostAddress,
        wanted: &CreateBlock,
    ) -> impl Future<Output = Result<BlockInfo, Error>> + Send;
    /// Removes a block and proves it.
    fn delete(
        &self,
        host: HostAddress,
        id: &VolumeId,
    ) -> impl Future<Output = Result<(), Error>> + Send;
    /// A block as its metadata shows it.
    fn info(
        &self,
        host: HostAddress,
        id: &VolumeId,
    ) -> impl Future<Output = Result<BlockInfo, Error>> + Send;
    /// The names of a hosting volume's blocks, half-made ones too.
    fn list(
        &self,
        host: HostAddress,
        hosting_volume: &HostingVolume,
    ) -> impl Future<Output = Result<Vec<BlockName>, Error>> + Send;
    /// Grows a block on all its hosts.
    fn resize(
        &self,
        host: HostAddress,
        id: &VolumeId,
        size: Capacity,
    ) -> impl Future<Output = Result<BlockInfo, Error>> + Send;
    /// Who is logged in to a block's target on that host.
    fn sessions(
        &self,
        host: HostAddress,
        iqn: &Iqn,
    ) -> impl Future<Output = Result<Vec<Initiator>, Error>> + Send;
}

impl<T: Transport> Blocks for Blockd<T> {
    async fn ping(&self, host: HostAddress) -> Result<(), Error> {
        Self::ping(self, host).await
    }
    async fn create(&self, host: HostAddress, wanted: &CreateBlock) -> Result<BlockInfo, Error> {
        Self::create(self, host, wanted).await
    }
    async fn delete(&self, host: HostAddress, id: &VolumeId) -> Result<(), Error> {
        Self::delete(self, host, id).await
    }
    async fn info(&self, host: HostAddress, id: &VolumeId) -> Result<BlockInfo, Error> {
        Self::info(self, host, id).await
    }
    async fn list(
        &self,
        host: HostAddress,
        hosting: &HostingVolume,
    ) -> Result<Vec<BlockName>, Error> {
        Self::list(self, host, hosting).await
    }
    async fn resize(
        &self,
        host: HostAddress,
        id: &VolumeId,
        size: Capacity,
    ) -> Result<BlockInfo, Error> {
        Self::resize(self, host, id, size).await
    }
    async fn sessions(&self, host: HostAddress, iqn: &Iqn) -> Result<Vec<Initiator>, Error> {
        Self::sessions(self, host, iqn).await
    }
}

/// Turns at hosting volumes: gluster-blockd serves one request a hosting volume at a time, and a second one would
/// only wait into its own deadline.
#[derive(Debug, Clone, Default)]
pub struct Turns {
    // Held for single look-ups only.
    turns: Arc<Mutex<BTreeMap<HostingVolume, Arc<Turn<()>>>>>,
}

impl Turns {
    /// Waits for the turn, for `patience` at most; `None` when it did not come.
    pub async fn take(
        &self,
        volume: &HostingVolume,
        patience: Duration,
    ) -> Option<OwnedMutexGuard<()>> {
        let turn = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(turns.entry(volume.clone()).or_default())
        };
        tokio::time::timeout(patience, turn.lock_owned()).await.ok()
    }
}
