//! The CSI services: messages in, operations, messages out.
//!
//! Nothing here decides anything. A method parses, takes its turn at the volume, runs one operation and answers.

use proto::csi::identity_server::IdentityServer;
use proto::csi::node_server::NodeServer;
use proto::in_flight::VolumeLocks;
use proto::service::admin::Readiness;
use proto::service::identity::IdentityService;
use tonic::service::Routes;

use crate::host::Host;
use crate::ops::Operations;

pub use self::node::NodeService;

mod node;
mod parse;
mod respond;
#[cfg(test)]
mod tests;
mod turn;

/// What the services say of this plugin and this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Presentation {
    /// The plugin's name, which is the driver's in every object of the cluster.
    pub driver_name: String,
    /// The node's name in the cluster.
    pub node_name: String,
    /// How many volumes may be published here; zero leaves it to the cluster.
    pub max_volumes: u32,
}

/// Both services of the plugin, over one table of locks.
#[must_use]
pub fn routes<H: Host>(
    operations: Operations<H>,
    locks: VolumeLocks,
    presentation: Presentation,
    readiness: Readiness,
) -> Routes {
    let identity = IdentityService::new(presentation.driver_name.clone(), readiness);
    let node = NodeService::new(operations, locks, presentation);
    Routes::new(IdentityServer::new(identity)).add_service(NodeServer::new(node))
}
