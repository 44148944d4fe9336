//! What goes over the wire to heketi and comes back. Tolerant: keys that are not needed are not named.

use serde::{Deserialize, Serialize};

#[derive(Debug, Deserialize)]
pub(super) struct VolumeList {
    pub(super) volumes: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ClusterList {
    pub(super) clusters: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Cluster {
    #[serde(default)]
    pub(super) nodes: Vec<String>,
    /// Without it no hosting volume can be made in the cluster.
    #[serde(default)]
    pub(super) block: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Node {
    #[serde(default)]
    pub(super) state: String,
    pub(super) hostnames: Hostnames,
    #[serde(default)]
    pub(super) devices: Vec<Device>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Hostnames {
    #[serde(default)]
    pub(super) storage: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Device {
    #[serde(default)]
    pub(super) state: String,
    pub(super) storage: DeviceStorage,
}

/// In KiB.
#[derive(Debug, Deserialize)]
pub(super) struct DeviceStorage {
    #[serde(default)]
    pub(super) free: u64,
}

/// A volume; the size is in GiB.
#[derive(Debug, Deserialize)]
pub(super) struct Volume {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) cluster: String,
    #[serde(default)]
    pub(super) block: bool,
    #[serde(default)]
    pub(super) blockinfo: BlockInfo,
    pub(super) mount: Mount,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct BlockInfo {
    #[serde(default)]
    pub(super) restriction: String,
    /// Ids of blocks that heketi itself made. The key is singular.
    #[serde(default)]
    pub(super) blockvolume: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Mount {
    pub(super) glusterfs: GlusterFs,
}

#[derive(Debug, Deserialize)]
pub(super) struct GlusterFs {
    /// The first storage name of every node of the cluster.
    #[serde(default)]
    pub(super) hosts: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct VolumeCreate<'a> {
    pub(super) size: u64,
    pub(super) name: &'a str,
    pub(super) clusters: Vec<&'a str>,
    pub(super) durability: Durability,
    pub(super) block: bool,
    pub(super) glustervolumeoptions: &'a [String],
    pub(super) snapshot: Snapshot,
}

#[derive(Debug, Serialize)]
pub(super) struct Durability {
    #[serde(rename = "type")]
    kind: &'static str,
    replicate: Replicate,
}

#[derive(Debug, Serialize)]
struct Replicate {
    replica: u32,
}

#[derive(Debug, Serialize)]
pub(super) struct Snapshot {
    pub(super) enable: bool,
    pub(super) factor: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct Restriction {
    pub(super) restriction: &'static str,
}

impl Durability {
    /// Three-way; gluster-block supports nothing else, and heketi's own default is none.
    pub(super) const REPLICA_3: Self = Self {
        kind: "replicate",
        replicate: Replicate { replica: 3 },
    };
}

/// The restriction that keeps heketi's own blocks off a volume, and marks it as ours.
pub(super) const LOCKED: &str = "locked";
