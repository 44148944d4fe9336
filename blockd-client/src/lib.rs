//! gluster-block: its vocabulary, a client that proves success, and the transports to gluster-blockd.

mod answers;
mod block;
mod client;
mod error;
pub mod transport;
pub mod vocabulary;
mod wire;

pub use block::{BlockInfo, CreateBlock, Mismatch, Prealloc};
pub use client::{Blockd, Persistence, Timeouts};
pub use error::Error;
pub use transport::{Reply, Request, Transport, TransportError};
