//! Node service: one short method per RPC.

use proto::csi;
use proto::in_flight::{VolumeLocks, run_to_completion};
use proto::status::into_status;
use tonic::{Request, Response, Status};

use super::turn::wait_for;
use super::{Presentation, parse, respond};
use crate::host::Host;
use crate::ops::Operations;

/// The Node service.
#[derive(Debug)]
pub struct NodeService<H> {
    operations: Operations<H>,
    /// Shared with every other user of the volumes in this process (C13).
    locks: VolumeLocks,
    presentation: Presentation,
}

impl<H: Host> NodeService<H> {
    /// A service that runs these operations under these locks.
    #[must_use]
    pub fn new(operations: Operations<H>, locks: VolumeLocks, presentation: Presentation) -> Self {
        Self {
            operations,
            locks,
            presentation,
        }
    }
}

#[tonic::async_trait]
impl<H: Host> csi::node_server::Node for NodeService<H> {
    async fn node_stage_volume(
        &self,
        request: Request<csi::NodeStageVolumeRequest>,
    ) -> Result<Response<csi::NodeStageVolumeResponse>, Status> {
        let wanted = parse::stage(request.into_inner()).map_err(|e| into_status(&e))?;
        let guard = self
            .locks
            .try_acquire(&wanted.id.to_string())
            .map_err(|e| into_status(&e))?;
        let operations = self.operations.clone();
        run_to_completion(guard, async move { operations.stage(&wanted).await }).await?;
        Ok(Response::new(csi::NodeStageVolumeResponse {}))
    }

    async fn node_unstage_volume(
        &self,
        request: Request<csi::NodeUnstageVolumeRequest>,
    ) -> Result<Response<csi::NodeUnstageVolumeResponse>, Status> {
        let wanted = parse::unstage(request.into_inner()).map_err(|e| into_status(&e))?;
        let guard = self
            .locks
            .try_acquire(&wanted.id.to_string())
            .map_err(|e| into_status(&e))?;
        let operations = self.operations.clone();
        run_to_completion(guard, async move { operations.unstage(&wanted).await }).await?;
        Ok(Response::new(csi::NodeUnstageVolumeResponse {}))
    }

    async fn node_publish_volume(
        &self,
        request: Request<csi::NodePublishVolumeRequest>,
    ) -> Result<Response<csi::NodePublishVolumeResponse>, Status> {
        let wanted = parse::publish(request.into_inner()).map_err(|e| into_status(&e))?;
        let turn = wait_for(&self.locks, &wanted.id.to_string()).await;
        let guard = turn.map_err(|e| into_status(&e))?;
        let operations = self.operations.clone();
        run_to_completion(guard, async move { operations.publish(&wanted).await }).await?;
        Ok(Response::new(csi::NodePublishVolumeResponse {}))
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<csi::NodeUnpublishVolumeRequest>,
    ) -> Result<Response<csi::NodeUnpublishVolumeResponse>, Status> {
        let (id, target) = parse::unpublish(request.into_inner()).map_err(|e| into_status(&e))?;
        let guard = wait_for(&self.locks, &id)
            .await
            .map_err(|e| into_status(&e))?;
        let operations = self.operations.clone();
        run_to_completion(guard, async move { operations.unpublish(&target).await }).await?;
        Ok(Response::new(csi::NodeUnpublishVolumeResponse {}))
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<csi::NodeGetVolumeStatsRequest>,
    ) -> Result<Response<csi::NodeGetVolumeStatsResponse>, Status> {
        let asked = parse::stats(request.into_inner()).map_err(|e| into_status(&e))?;
        let usage = self
            .operations
            .stats(&asked)
            .await
            .map_err(|e| into_status(&e))?;
        Ok(Response::new(respond::stats(usage)))
    }

    async fn node_expand_volume(
        &self,
        request: Request<csi::NodeExpandVolumeRequest>,
    ) -> Result<Response<csi::NodeExpandVolumeResponse>, Status> {
        let wanted = parse::expand(request.into_inner()).map_err(|e| into_status(&e))?;
        let guard = self
            .locks
            .try_acquire(&wanted.id.to_string())
            .map_err(|e| into_status(&e))?;
        let operations = self.operations.clone();
        let size =
            run_to_completion(guard, async move { operations.expand(&wanted).await }).await?;
        let capacity_bytes = respond::signed(size.bytes());
        Ok(Response::new(csi::NodeExpandVolumeResponse {
            capacity_bytes,
        }))
    }

    async fn node_get_capabilities(
        &self,
        _: Request<csi::NodeGetCapabilitiesRequest>,
    ) -> Result<Response<csi::NodeGetCapabilitiesResponse>, Status> {
        Ok(Response::new(respond::node_capabilities()))
    }

    async fn node_get_info(
        &self,
        _: Request<csi::NodeGetInfoRequest>,
    ) -> Result<Response<csi::NodeGetInfoResponse>, Status> {
        let id = self.operations.node_id(&self.presentation.node_name).await;
        Ok(Response::new(csi::NodeGetInfoResponse {
            node_id: id.map_err(|e| into_status(&e))?.to_string(),
            max_volumes_per_node: i64::from(self.presentation.max_volumes),
            accessible_topology: None,
        }))
    }
}
