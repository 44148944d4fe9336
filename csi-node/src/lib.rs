//! The CSI node plugin for gluster-block: iSCSI sessions, multipath maps, file systems and mounts.
//!
//! ```text
//! CSI gRPC ─► rpc ─► ops ─► host (port) ─► iscsiadm, multipathd, mkfs, mount, sysfs
//!             parse  decide (pure)
//!             ◄ respond
//! ```
//!
//! - [`args`], [`config`], [`app`], [`process`]: what was typed, what is true, and the process around it.
//! - [`rpc`]: messages in and out. It sees no device and decides nothing.
//! - [`ops`]: what to do, in pure functions, and the loops that do it.
//! - [`record`]: what the node remembers of a volume, on disk.
//! - [`host`]: the port to this host, its real implementation and its model.

pub mod app;
pub mod args;
pub mod config;
pub mod host;
pub mod ops;
pub mod process;
pub mod record;
pub mod rpc;
