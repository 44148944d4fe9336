//! gluster-block: its vocabulary, a client that proves success, and the transports to gluster-blockd.
//!
//! # What it is for
//!
//! gluster-block keeps blocks (iSCSI LUNs) as files in `GlusterFS` volumes. Its command line is all the interface it
//! has, and that must not be taken at its word: exit code 0 does not mean success, one number means several things, a
//! command that gave up leaves its request running. [`Blockd`] asks once, reads the answer by exit code, words and
//! keys together, and then looks with `info` at what has become of it.
//!
//! - [`vocabulary`]: names, sizes, identities, secrets, and what controller and node hand to each other. Of use alone.
//! - [`Blockd`]: the operations. [`CreateBlock`] and [`BlockInfo`]: a block as wanted and as seen. [`Error`]: all else.
//! - [`transport`]: how a request reaches a storage host. Feature `ssh` brings [`transport::ssh`](transport),
//!   feature `local` the daemon's own socket.
//!
//! # Making a block
//!
//! ```
//! use blockd_client::vocabulary::{Capacity, HostAddress};
//! use blockd_client::{Blockd, BlockInfo, CreateBlock, Error, Prealloc, Timeouts, Transport};
//!
//! /// Makes the block, or adopts the one that an earlier attempt made. Repeat it until it succeeds or
//! /// fails for good.
//! async fn ensure<T: Transport>(
//!     client: &Blockd<T>,
//!     host: HostAddress,
//!     wanted: &CreateBlock,
//! ) -> Result<BlockInfo, Error> {
//!     match client.create(host, wanted).await {
//!         Err(Error::Exists { found, .. }) => Ok(*found),
//!         Err(Error::Incomplete { found, .. }) => {
//!             client.delete(host, &found.id).await?;
//!             client.create(host, wanted).await
//!         }
//!         // Where `outcome_unknown` is true the block may be there or come yet: say "try again", never "failed".
//!         outcome => outcome,
//!     }
//! }
//!
//! # use blockd_client::{Reply, Request, TransportError};
//! # struct Canned;
//! # impl Transport for Canned {
//! #     async fn call(&self, _: HostAddress, request: &Request, _: std::time::Duration) -> Result<Reply, TransportError> {
//! #         let stdout = match request {
//! #             Request::Create(_) => r#"{ "IQN": "iqn.2016-12.org.gluster-block:7f9aa1b2-aba7-4c77-9a5b-02a3ed562b15", "RESULT": "SUCCESS" }"#,
//! #             _ => r#"{ "NAME": "pvc-1", "VOLUME": "hv", "GBID": "7f9aa1b2-aba7-4c77-9a5b-02a3ed562b15", "SIZE": "1.0 GiB", "HA": 2, "PASSWORD": "", "EXPORTED ON": [ "10.0.0.2", "10.0.0.1" ] }"#,
//! #         };
//! #         Ok(Reply { exit: 0, stdout: stdout.to_owned(), stderr: String::new() })
//! #     }
//! # }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let transport = Canned;
//! let client = Blockd::new(transport, Timeouts::default());
//! let wanted = CreateBlock {
//!     id: "hv/pvc-1".parse()?,
//!     size: Capacity::from_bytes(1 << 30),
//!     hosts: vec!["10.0.0.1".parse()?, "10.0.0.2".parse()?],
//!     auth: false,
//!     prealloc: Prealloc::Full,
//!     block_size: None,
//!     io_timeout: None,
//!     ring_buffer: None,
//! };
//! let block = ensure(&client, "10.0.0.1".parse()?, &wanted).await?;
//! assert_eq!(block.gbid.wwid().as_str(), "360014057f9aa1b2aba74c779a5b02a3e");
//! assert_eq!(block.portals().len(), 2);
//! # Ok(())
//! # }
//! ```
//!
//! # The idempotency contract
//!
//! | operation | repeat it after any error and…                            | success means                              |
//! |-----------|------------------------------------------------------------|--------------------------------------------|
//! | `create`  | it makes the block, or says what is there under the name   | claimed, and `info` shows it complete       |
//! | `delete`  | it goes on where it stopped; absent is success             | `info` says: the volume is there, the block is not |
//! | `resize`  | it goes on with the hosts that lag; same size is success   | `info` shows the size, and nobody lags      |
//! | the rest  | nothing was changed                                        | the answer was complete and understood      |
//!
//! After an error, [`Error::outcome_unknown`] says whether a block of that name may exist or come to exist. It is
//! false only where that is ruled out. Nothing is ever removed, shrunk or forced unasked.
//!
//! Assumptions: block names and hosting-volume names are never used twice; nobody else works on the same block at the
//! same time; at most one request is in flight per hosting volume and per host, for gluster-blockd serves one at a
//! time and a second one only waits into its deadline.
//!
//! CHAP passwords are types that cannot be printed; what gluster-block prints is neither logged nor put into errors.

#[cfg(feature = "agent")]
pub mod agent;
mod answers;
mod block;
mod blocks;
mod client;
mod error;
#[cfg(feature = "agent")]
pub mod schema;
pub mod transport;
pub mod vocabulary;
mod wire;

pub use block::{BlockInfo, CreateBlock, Mismatch, Prealloc};
pub use blocks::Blocks;
pub use client::{Blockd, Persistence, Timeouts};
pub use error::Error;
pub use transport::{Reply, Request, Transport, TransportError};
