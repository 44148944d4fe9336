//! Identity service: who the plugin is, what it can do, whether it is ready.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use proto::csi;
use tonic::{Request, Response, Status};

use super::respond;

/// The Identity service of the controller. Its capabilities are the node plugin's: a cluster asks whichever it meets.
pub struct IdentityService {
    name: String,
    is_ready: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl IdentityService {
    /// A service that answers with this name, and with what `is_ready` says at that moment.
    #[must_use]
    pub fn new(name: String, is_ready: Arc<dyn Fn() -> bool + Send + Sync>) -> Self {
        Self { name, is_ready }
    }
}

impl fmt::Debug for IdentityService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdentityService")
            .field("name", &self.name)
            .finish_non_exhaustive()
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
            vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
            manifest: HashMap::new(),
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<csi::GetPluginCapabilitiesRequest>,
    ) -> Result<Response<csi::GetPluginCapabilitiesResponse>, Status> {
        Ok(Response::new(respond::plugin_capabilities()))
    }

    async fn probe(
        &self,
        _: Request<csi::ProbeRequest>,
    ) -> Result<Response<csi::ProbeResponse>, Status> {
        Ok(Response::new(csi::ProbeResponse {
            ready: Some((self.is_ready)()),
        }))
    }
}
