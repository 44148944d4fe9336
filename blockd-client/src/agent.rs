//! The agent: REST beside one gluster-blockd.
//!
//! One direction: `server` takes connections, authenticates the caller and names its `roles`; `api` has the routes and handlers;
//! `operations` runs long work; `machine` reads what the kernel knows beyond the daemon's answers. The work itself is done
//! by whatever implements [`Blocks`], in the program the client over the daemon's own socket.
//!
//! Contracts:
//!
//! - Every change is an operation. It is accepted with `202`, runs to its end whoever listens, and is asked for
//!   until it is over; the same request again joins it. Another request for the same block is refused with `409` until then.
//! - `PUT`, `PATCH` and `DELETE` may be repeated at any time: a block that is there, has the size, or is gone is a success.
//! - Nothing is forced, nothing shrinks, and nothing is removed unasked.
//! - Over TLS a caller is what its certificate says: the controller does everything; a node sees the blocks
//!   to which it is logged in on this host, without their passwords. Files of TLS are read anew for each connection,
//!   and a connection serves one request, so an exchanged certificate counts from the next request on.
//! - Without TLS only a loopback address is served, and whoever reaches it is the controller.
//! - Errors are problems (RFC 9457) from which a client gets the same error.
//! - Passwords are in answers to the controller, and nowhere else.

mod api;
mod args;
#[cfg(test)]
pub(crate) mod certificates;
mod machine;
mod operations;
mod problem;
mod roles;
mod server;
mod settings;
mod tls;
mod work;

use std::sync::Arc;

use crate::blocks::Blocks;
use crate::vocabulary::HostAddress;

use self::machine::Machine;
use self::operations::Operations;

pub use args::Args;
pub use roles::{CONTROLLER_URI, NODE_URI_PREFIX};
pub use server::{Server, ServerError};
pub use settings::{LogFormat, Mistakes, Settings};
pub use tls::TlsFiles;

/// What the handlers share.
#[derive(Debug)]
pub struct Agent<B> {
    host: HostAddress,
    blocks: B,
    operations: Operations,
    machine: Machine,
}

impl<B: Blocks> Agent<B> {
    /// The agent of `host`, whose `sys` and `proc` are below `root`.
    #[must_use]
    pub fn new(host: HostAddress, root: &std::path::Path, blocks: B) -> Arc<Self> {
        Arc::new(Self {
            host,
            blocks,
            operations: Operations::default(),
            machine: Machine::new(root),
        })
    }

    /// Waits until no operation is under way.
    pub async fn idle(&self) {
        self.operations.idle().await;
    }
}
