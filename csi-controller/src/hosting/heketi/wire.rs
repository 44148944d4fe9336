//! heketi's JSON, as much of it as we read.

use serde::{Deserialize, Serialize};

#[derive(Debug, Deserialize)]
pub(super) struct VolumeList {
    pub(super) volumes: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Volume {
    pub(super) id: String,
    pub(super) name: String,
    /// GiB.
    pub(super) size: u64,
    #[serde(default)]
    pub(super) block: bool,
    pub(super) mount: Mount,
    #[serde(default)]
    pub(super) blockinfo: BlockInfo,
}

#[derive(Debug, Deserialize)]
pub(super) struct Mount {
    pub(super) glusterfs: MountGlusterfs,
}

#[derive(Debug, Deserialize)]
pub(super) struct MountGlusterfs {
    #[serde(default)]
    pub(super) hosts: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct BlockInfo {
    #[serde(default)]
    pub(super) restriction: String,
}

#[derive(Debug, Serialize)]
pub(super) struct CreateVolume<'a> {
    pub(super) size: u64,
    pub(super) name: &'a str,
    pub(super) clusters: &'a [String],
    pub(super) durability: Durability,
    pub(super) glustervolumeoptions: &'a [String],
    pub(super) block: bool,
}

/// Three-way replication; heketi would default a hand-made hosting volume to none.
#[derive(Debug, Serialize)]
pub(super) struct Durability {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) replicate: Replicate,
}

#[derive(Debug, Serialize)]
pub(super) struct Replicate {
    pub(super) replica: u8,
}

#[derive(Debug, Serialize)]
pub(super) struct Restriction {
    pub(super) restriction: &'static str,
}

#[derive(Debug, Deserialize)]
pub(super) struct ClusterList {
    pub(super) clusters: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Cluster {
    #[serde(default)]
    pub(super) nodes: Vec<String>,
    #[serde(default)]
    pub(super) block: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Node {
    #[serde(default)]
    pub(super) state: String,
    #[serde(default)]
    pub(super) devices: Vec<Device>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Device {
    #[serde(default)]
    pub(super) state: String,
    pub(super) storage: Storage,
}

#[derive(Debug, Deserialize)]
pub(super) struct Storage {
    /// KiB.
    pub(super) free: u64,
}
