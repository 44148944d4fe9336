//! The Identity service, the same for every plugin: who it is, what the driver can do, whether it is ready.

use std::collections::HashMap;

use tonic::{Request, Response, Status};

use super::admin::Readiness;
use crate::csi;
use crate::csi::plugin_capability::{self, service, volume_expansion};

/// The Identity service. Its capabilities are the whole driver's: a cluster asks whichever plugin it meets.
#[derive(Debug)]
pub struct IdentityService {
    name: String,
    readiness: Readiness,
}

impl IdentityService {
    /// A service that answers with this name, and with what `readiness` says at that moment.
    #[must_use]
    pub const fn new(name: String, readiness: Readiness) -> Self {
        Self { name, readiness }
    }
}

#[tonic::async_trait]
impl csi::identity_server::Identity for IdentityService {
    async fn get_plugin_info(
        &self,
        _: Request<csi::GetPluginInfoRequest>,
    ) -> Result<Response<csi::GetPluginInfoResponse>, Status> {
        Ok(Response::new(csi::GetPluginInfoResponse {
            name: self.name.clone(),
            // All crates of the workspace have one version.
            vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
            manifest: HashMap::new(),
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<csi::GetPluginCapabilitiesRequest>,
    ) -> Result<Response<csi::GetPluginCapabilitiesResponse>, Status> {
        Ok(Response::new(plugin_capabilities()))
    }

    async fn probe(
        &self,
        _: Request<csi::ProbeRequest>,
    ) -> Result<Response<csi::ProbeResponse>, Status> {
        Ok(Response::new(csi::ProbeResponse {
            ready: Some(self.readiness.is_ready()),
        }))
    }
}

fn plugin_capabilities() -> csi::GetPluginCapabilitiesResponse {
    let service = plugin_capability::Type::Service(plugin_capability::Service {
        r#type: service::Type::ControllerService.into(),
    });
    let expansion = plugin_capability::Type::VolumeExpansion(plugin_capability::VolumeExpansion {
        r#type: volume_expansion::Type::Online.into(),
    });
    let capabilities = [service, expansion]
        .map(|capability| csi::PluginCapability {
            r#type: Some(capability),
        })
        .to_vec();
    csi::GetPluginCapabilitiesResponse { capabilities }
}
