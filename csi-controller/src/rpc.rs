//! The CSI services: messages in, operations, messages out.
//!
//! Nothing here decides anything. A method parses, takes the volume's guard, runs one operation and answers.

use std::sync::Arc;

use proto::csi::controller_server::ControllerServer;
use proto::csi::identity_server::IdentityServer;
use proto::in_flight::VolumeLocks;
use proto::service::Services;

use crate::blocks::Blocks;
use crate::hosting::HostingVolumes;
use crate::ops::Operations;

pub use controller::ControllerService;
pub use identity::IdentityService;

mod controller;
mod identity;
mod parse;
mod respond;

/// Both services, over one table of locks.
pub fn services<H: HostingVolumes, B: Blocks>(
    operations: Operations<H, B>,
    locks: VolumeLocks,
    driver_name: &str,
    is_ready: Arc<dyn Fn() -> bool + Send + Sync>,
) -> Services {
    let identity = IdentityService::new(driver_name.to_owned(), is_ready);
    let controller = ControllerService::new(operations, locks);
    Services::new(IdentityServer::new(identity)).add_service(ControllerServer::new(controller))
}
