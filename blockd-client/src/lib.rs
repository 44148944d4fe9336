//! gluster-block: its vocabulary, a client that proves success, and the transports to gluster-blockd.

mod block;
mod error;
pub mod transport;
pub mod vocabulary;

pub use block::{BlockInfo, CreateBlock, Mismatch, Prealloc};
pub use error::Error;
pub use transport::{Reply, Request, Transport, TransportError};
