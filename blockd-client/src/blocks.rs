//! The operations on the blocks of storage hosts, by whichever way they are reached.
//!
//! The contract is that of [`Blockd`]: what each call proves and what each error means does not depend on the way.

use std::future::Future;

use crate::block::{BlockInfo, CreateBlock};
use crate::client::Blockd;
use crate::error::Error;
use crate::transport::Transport;
use crate::vocabulary::{
    BlockName, Capacity, HostAddress, HostingVolume, Initiator, Iqn, VolumeId,
};

/// gluster-block on the storage hosts.
pub trait Blocks: Send + Sync + 'static {
    /// Makes a block and proves it.
    ///
    /// # Errors
    ///
    /// As [`Blockd::create`].
    fn create(
        &self,
        host: HostAddress,
        wanted: &CreateBlock,
    ) -> impl Future<Output = Result<BlockInfo, Error>> + Send;

    /// Deletes a block and proves it.
    ///
    /// # Errors
    ///
    /// As [`Blockd::delete`].
    fn delete(
        &self,
        host: HostAddress,
        id: &VolumeId,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Looks a block up.
    ///
    /// # Errors
    ///
    /// As [`Blockd::info`].
    fn info(
        &self,
        host: HostAddress,
        id: &VolumeId,
    ) -> impl Future<Output = Result<BlockInfo, Error>> + Send;

    /// Lists the blocks of a hosting volume, half-made ones too.
    ///
    /// # Errors
    ///
    /// As [`Blockd::list`].
    fn list(
        &self,
        host: HostAddress,
        volume: &HostingVolume,
    ) -> impl Future<Output = Result<Vec<BlockName>, Error>> + Send;

    /// Grows a block on all its hosts and proves it.
    ///
    /// # Errors
    ///
    /// As [`Blockd::resize`].
    fn resize(
        &self,
        host: HostAddress,
        id: &VolumeId,
        size: Capacity,
    ) -> impl Future<Output = Result<BlockInfo, Error>> + Send;

    /// Says who is logged in to a target on one host.
    ///
    /// # Errors
    ///
    /// As [`Blockd::sessions`].
    fn sessions(
        &self,
        host: HostAddress,
        iqn: &Iqn,
    ) -> impl Future<Output = Result<Vec<Initiator>, Error>> + Send;

    /// Says whether gluster-blockd on a host takes requests.
    ///
    /// # Errors
    ///
    /// As [`Blockd::ping`].
    fn ping(&self, host: HostAddress) -> impl Future<Output = Result<(), Error>> + Send;
}

impl<T: Transport> Blocks for Blockd<T> {
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
        volume: &HostingVolume,
    ) -> Result<Vec<BlockName>, Error> {
        Self::list(self, host, volume).await
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

    async fn ping(&self, host: HostAddress) -> Result<(), Error> {
        Self::ping(self, host).await
    }
}
