//! Controller service: one short method per RPC.

use proto::csi;
use proto::in_flight::{VolumeLocks, run_to_completion};
use proto::status::into_status;
use tonic::{Request, Response, Status};

use super::{parse, respond};
use crate::blocks::Blocks;
use crate::hosting::HostingVolumes;
use crate::ops::Operations;

/// The Controller service.
#[derive(Debug)]
pub struct ControllerService<H, B> {
    operations: Operations<H, B>,
    locks: VolumeLocks,
}

impl<H: HostingVolumes, B: Blocks> ControllerService<H, B> {
    /// A service that runs these operations under these locks.
    #[must_use]
    pub fn new(operations: Operations<H, B>, locks: VolumeLocks) -> Self {
        Self { operations, locks }
    }
}

#[tonic::async_trait]
impl<H: HostingVolumes, B: Blocks> csi::controller_server::Controller for ControllerService<H, B> {
    async fn create_volume(
        &self,
        request: Request<csi::CreateVolumeRequest>,
    ) -> Result<Response<csi::CreateVolumeResponse>, Status> {
        let wanted = parse::create(request.into_inner()).map_err(|e| into_status(&e))?;
        // By block name: the id is not known yet, and every id of this name has it at its end.
        let guard = self
            .locks
            .try_acquire(wanted.block.as_str())
            .map_err(|e| into_status(&e))?;
        let operations = self.operations.clone();
        let made =
            run_to_completion(guard, async move { operations.create(&wanted).await }).await?;
        Ok(Response::new(respond::created(&made)))
    }

    async fn delete_volume(
        &self,
        request: Request<csi::DeleteVolumeRequest>,
    ) -> Result<Response<csi::DeleteVolumeResponse>, Status> {
        let Some(id) = parse::delete(request.into_inner()).map_err(|e| into_status(&e))? else {
            return Ok(Response::new(csi::DeleteVolumeResponse {}));
        };
        let guard = self
            .locks
            .try_acquire(id.block.as_str())
            .map_err(|e| into_status(&e))?;
        let operations = self.operations.clone();
        run_to_completion(guard, async move { operations.delete(&id).await }).await?;
        Ok(Response::new(csi::DeleteVolumeResponse {}))
    }

    async fn controller_publish_volume(
        &self,
        request: Request<csi::ControllerPublishVolumeRequest>,
    ) -> Result<Response<csi::ControllerPublishVolumeResponse>, Status> {
        let wanted = parse::publish(request.into_inner()).map_err(|e| into_status(&e))?;
        let guard = self
            .locks
            .try_acquire(wanted.id.block.as_str())
            .map_err(|e| into_status(&e))?;
        let operations = self.operations.clone();
        let context =
            run_to_completion(guard, async move { operations.publish(&wanted).await }).await?;
        Ok(Response::new(csi::ControllerPublishVolumeResponse {
            publish_context: context.into(),
        }))
    }

    async fn controller_unpublish_volume(
        &self,
        request: Request<csi::ControllerUnpublishVolumeRequest>,
    ) -> Result<Response<csi::ControllerUnpublishVolumeResponse>, Status> {
        let Some((id, node)) =
            parse::unpublish(request.into_inner()).map_err(|e| into_status(&e))?
        else {
            return Ok(Response::new(csi::ControllerUnpublishVolumeResponse {}));
        };
        let _guard = self
            .locks
            .try_acquire(id.block.as_str())
            .map_err(|e| into_status(&e))?;
        self.operations.unpublish(&id, node.as_ref());
        Ok(Response::new(csi::ControllerUnpublishVolumeResponse {}))
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<csi::ValidateVolumeCapabilitiesRequest>,
    ) -> Result<Response<csi::ValidateVolumeCapabilitiesResponse>, Status> {
        let asked = parse::validate(request.into_inner()).map_err(|e| into_status(&e))?;
        self.operations
            .validate(&asked.id)
            .await
            .map_err(|e| into_status(&e))?;
        Ok(Response::new(respond::validated(asked)))
    }

    async fn list_volumes(
        &self,
        request: Request<csi::ListVolumesRequest>,
    ) -> Result<Response<csi::ListVolumesResponse>, Status> {
        let (token, limit) = parse::list(request.into_inner()).map_err(|e| into_status(&e))?;
        let page = self
            .operations
            .list(&token, limit)
            .await
            .map_err(|e| into_status(&e))?;
        Ok(Response::new(respond::page(page)))
    }

    async fn get_capacity(
        &self,
        request: Request<csi::GetCapacityRequest>,
    ) -> Result<Response<csi::GetCapacityResponse>, Status> {
        if !parse::capacity(&request.into_inner()).map_err(|e| into_status(&e))? {
            return Ok(Response::new(csi::GetCapacityResponse::default()));
        }
        let available = self
            .operations
            .available()
            .await
            .map_err(|e| into_status(&e))?;
        Ok(Response::new(respond::capacity(available)))
    }

    async fn controller_expand_volume(
        &self,
        request: Request<csi::ControllerExpandVolumeRequest>,
    ) -> Result<Response<csi::ControllerExpandVolumeResponse>, Status> {
        let wanted = parse::expand(request.into_inner()).map_err(|e| into_status(&e))?;
        let guard = self
            .locks
            .try_acquire(wanted.id.block.as_str())
            .map_err(|e| into_status(&e))?;
        let operations = self.operations.clone();
        let size =
            run_to_completion(guard, async move { operations.expand(&wanted).await }).await?;
        Ok(Response::new(csi::ControllerExpandVolumeResponse {
            capacity_bytes: respond::signed(size.bytes()),
            node_expansion_required: true,
        }))
    }

    async fn controller_get_capabilities(
        &self,
        _: Request<csi::ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<csi::ControllerGetCapabilitiesResponse>, Status> {
        Ok(Response::new(respond::capabilities()))
    }
}
