//! The CSI services: messages in, operations, messages out. Nothing here decides anything.
//!
//! Operations exclude each other by the *block's* name, which create derives from the volume's name and all others read from
//! the volume id: so a create and a delete of one volume meet, too.

use proto::csi::controller_server::ControllerServer;
use proto::csi::identity_server::IdentityServer;
use proto::in_flight::VolumeLocks;
use proto::service::admin::Readiness;
use proto::service::identity::IdentityService;
use tonic::service::Routes;

use crate::blocks::Blocks;
use crate::hosting::HostingVolumes;
use crate::ops::Operations;

pub use self::controller::ControllerService;

mod controller;
mod parse;
mod respond;

/// Both services of the controller, over one table of locks.
#[must_use]
pub fn routes<H: HostingVolumes, B: Blocks>(
    operations: Operations<H, B>,
    locks: VolumeLocks,
    driver_name: String,
    readiness: Readiness,
) -> Routes {
    let identity = IdentityService::new(driver_name, readiness);
    let controller = ControllerService::new(operations, locks);
    Routes::new(IdentityServer::new(identity)).add_service(ControllerServer::new(controller))
}
