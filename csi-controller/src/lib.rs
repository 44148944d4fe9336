//! The CSI controller for gluster-block: hosting volumes, placement, blocks and publication.
//!
//! One direction: `rpc` parses messages and answers, `ops` decides, the ports [`hosting`] and [`blocks`] act through heketi and through
//! gluster-blockd. Nothing points back. The controller keeps nothing that it could not find out again (design.md C1): what
//! it remembers is a cache of sizes and of publications.

pub mod app;
pub mod args;
pub mod blocks;
pub mod config;
pub mod hosting;
pub mod ledger;
pub mod ops;
pub mod params;
pub mod placement;
pub mod rpc;
