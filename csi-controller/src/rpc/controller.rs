//! Controller service: one short method per call: parse, take the volume, run the operation, answer.

use std::fmt;

use proto::csi;
use proto::in_flight::{VolumeGuard, VolumeLocks, run_to_completion};
use proto::status::into_status;
use tonic::{Request, Response, Status};

use super::{parse, respond};
use crate::blocks::Blocks;
use crate::hosting::HostingVolumes;
use crate::ops::Operations;

/// The Controller service.
pub struct ControllerService<H, B> {
    operations: Operations<H, B>,
    locks: VolumeLocks,
}

impl<H: HostingVolumes, B: Blocks> ControllerService<H, B> {
    /// A service over these operations; `locks` holds a block's name while an operation works on it.
    #[must_use]
    pub fn new(operations: Operations<H, B>, locks: VolumeLocks) -> Self {
        Self { operations, locks }
    }

    fn take(&self, block: &str) -> Result<VolumeGuard, Status> {
        self.locks
            .try_acquire(block)
            .map_err(|error| into_status(&error))
    }

    fn operations(&self) -> Operations<H, B> {
        self.operations.clone()
    }
}

impl<H, B> fmt::Debug for ControllerService<H, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerService").finish_non_exhaustive()
    }
}

#[tonic::async_trait]
impl<H: HostingVolumes, B: Blocks> csi::controller_server::Controller for ControllerService<H, B> {
    async fn create_volume(
        &self,
        request: Request<csi::CreateVolumeRequest>,
    ) -> Result<Response<csi::CreateVolumeResponse>, Status> {
        let volume = parse::create(request.into_inner()).map_err(|e| into_status(&e))?;
        let guard = self.take(volume.block.as_str())?;
        let created = run_to_completion(guard, self.operations().create(volume)).await?;
        Ok(Response::new(respond::created(created)))
    }

    async fn delete_volume(
        &self,
        request: Request<csi::DeleteVolumeRequest>,
    ) -> Result<Response<csi::DeleteVolumeResponse>, Status> {
        let id = parse::delete(request.into_inner()).map_err(|e| into_status(&e))?;
        if let Some(id) = id {
            let guard = self.take(id.block.as_str())?;
            run_to_completion(guard, self.operations().delete(id)).await?;
        }
        Ok(Response::new(csi::DeleteVolumeResponse {}))
    }

    async fn controller_publish_volume(
        &self,
        request: Request<csi::ControllerPublishVolumeRequest>,
    ) -> Result<Response<csi::ControllerPublishVolumeResponse>, Status> {
        let publication = parse::publish(request.into_inner()).map_err(|e| into_status(&e))?;
        let guard = self.take(publication.id.block.as_str())?;
        let context = run_to_completion(guard, self.operations().publish(publication)).await?;
        Ok(Response::new(respond::published(context)))
    }

    async fn controller_unpublish_volume(
        &self,
        request: Request<csi::ControllerUnpublishVolumeRequest>,
    ) -> Result<Response<csi::ControllerUnpublishVolumeResponse>, Status> {
        if let Some((id, node)) =
            parse::unpublish(request.into_inner()).map_err(|e| into_status(&e))?
        {
            let _guard = self.take(id.block.as_str())?;
            self.operations.unpublish(&id, node.as_ref());
        }
        Ok(Response::new(csi::ControllerUnpublishVolumeResponse {}))
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<csi::ValidateVolumeCapabilitiesRequest>,
    ) -> Result<Response<csi::ValidateVolumeCapabilitiesResponse>, Status> {
        let asked = request.into_inner();
        let volume = parse::validate(&asked).map_err(|e| into_status(&e))?;
        let misfit = run_to_completion((), self.operations().validate(volume)).await?;
        Ok(Response::new(respond::validated(asked, misfit)))
    }

    async fn list_volumes(
        &self,
        request: Request<csi::ListVolumesRequest>,
    ) -> Result<Response<csi::ListVolumesResponse>, Status> {
        let page = parse::list(request.into_inner()).map_err(|e| into_status(&e))?;
        let page = run_to_completion((), self.operations().list(page)).await?;
        Ok(Response::new(respond::listed(page)))
    }

    async fn controller_get_volume(
        &self,
        request: Request<csi::ControllerGetVolumeRequest>,
    ) -> Result<Response<csi::ControllerGetVolumeResponse>, Status> {
        let id = parse::get(request.into_inner()).map_err(|e| into_status(&e))?;
        let volume = run_to_completion((), self.operations().get(id)).await?;
        Ok(Response::new(respond::got(&volume)))
    }

    async fn get_capacity(
        &self,
        request: Request<csi::GetCapacityRequest>,
    ) -> Result<Response<csi::GetCapacityResponse>, Status> {
        let class = parse::capacity(request.get_ref()).map_err(|e| into_status(&e))?;
        let Some(class) = class else {
            return Ok(Response::new(csi::GetCapacityResponse::default()));
        };
        let available = run_to_completion((), self.operations().capacity(class)).await?;
        Ok(Response::new(respond::capacity(available)))
    }

    async fn controller_expand_volume(
        &self,
        request: Request<csi::ControllerExpandVolumeRequest>,
    ) -> Result<Response<csi::ControllerExpandVolumeResponse>, Status> {
        let growth = parse::expand(request.into_inner()).map_err(|e| into_status(&e))?;
        let guard = self.take(growth.id.block.as_str())?;
        let size = run_to_completion(guard, self.operations().expand(growth)).await?;
        Ok(Response::new(respond::expanded(size)))
    }

    async fn controller_get_capabilities(
        &self,
        _: Request<csi::ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<csi::ControllerGetCapabilitiesResponse>, Status> {
        Ok(Response::new(respond::controller_capabilities()))
    }
}
