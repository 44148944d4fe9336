//! The CSI controller for gluster-block: hosting volumes, placement, blocks and publication.
//!
//! ```text
//! gRPC ─► rpc ─► ops ─► ports: HostingVolumes ─► heketi | gd2
//!         parse  decide        Blocks ─► blockd-client ─► ssh
//!         respond
//! ```
//!
//! One direction. [`rpc`] alone sees CSI messages, adapters alone see HTTP and ssh, [`ops`] sees neither. What is decided is
//! decided by pure functions: [`placement::place`], `ops::create::decide`, `ops::publish::decide`, `ops::expand::decide`.
//!
//! The process keeps nothing that it cannot lose: which blocks exist is asked of gluster-block at every call, names are
//! derived from the requests. The [`ledger`] only makes what it knows more exact (sizes) or safer (reservations).

pub mod app;
pub mod args;
pub mod blocks;
pub mod config;
pub mod error;
pub mod hosting;
pub mod ledger;
pub mod metrics;
pub mod ops;
pub mod params;
pub mod placement;
pub mod rpc;
