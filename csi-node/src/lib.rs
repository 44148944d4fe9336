//! The CSI node plugin for gluster-block: iSCSI sessions, multipath maps, file systems and mounts.

pub mod host;
pub mod ops;
pub mod record;
pub mod rpc;
