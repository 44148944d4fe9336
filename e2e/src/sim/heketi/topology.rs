//! The first state of a simulator: which clusters, nodes and devices there are.
//!
//! The file has the form of heketi's own topology file, with three additions: a device may be
//! `{"name": "/dev/ubdb", "size_gib": 20}`, and a cluster may have `file` and `block` (both true when missing, as heketi's command
//! line client sends them). Identifiers are derived from the host names, so the same file gives the same ones.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::model::{Cluster, Database, Device, EntryState, Id, Node, Storage};

/// GiB of a device whose size is not given.
const DEFAULT_DEVICE_GIB: u64 = 100;
const KIB_PER_GIB: u64 = 1024 * 1024;

/// What the file says.
#[derive(Debug, Clone, Deserialize)]
pub struct Topology {
    clusters: Vec<ClusterSpec>,
}

#[derive(Debug, Clone, Deserialize)]
struct ClusterSpec {
    #[serde(default = "yes")]
    file: bool,
    #[serde(default = "yes")]
    block: bool,
    #[serde(default)]
    nodes: Vec<NodeSpec>,
}

#[derive(Debug, Clone, Deserialize)]
struct NodeSpec {
    node: HostSpec,
    #[serde(default)]
    devices: Vec<DeviceSpec>,
}

#[derive(Debug, Clone, Deserialize)]
struct HostSpec {
    hostnames: Hostnames,
    #[serde(default = "first_zone")]
    zone: i64,
    #[serde(default)]
    tags: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Deserialize)]
struct Hostnames {
    manage: Vec<String>,
    storage: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum DeviceSpec {
    Name(String),
    Sized { name: String, size_gib: u64 },
}

fn yes() -> bool {
    true
}

fn first_zone() -> i64 {
    1
}

impl Topology {
    /// One cluster of those hosts, each in its own zone with one device.
    #[must_use]
    pub fn simple(hosts: &[String], device_gib: u64) -> Self {
        let nodes = hosts.iter().zip(1i64..).map(|(host, zone)| NodeSpec {
            node: HostSpec {
                hostnames: Hostnames {
                    manage: vec![host.clone()],
                    storage: vec![host.clone()],
                },
                zone,
                tags: BTreeMap::new(),
            },
            devices: vec![DeviceSpec::Sized {
                name: "/dev/ubdb".to_owned(),
                size_gib: device_gib,
            }],
        });
        Self {
            clusters: vec![ClusterSpec {
                file: true,
                block: true,
                nodes: nodes.collect(),
            }],
        }
    }

    /// The database of a server that has just been given this topology.
    #[must_use]
    pub fn into_database(self) -> Database {
        let mut database = Database::default();
        for (number, cluster) in self.clusters.into_iter().enumerate() {
            let id = Id::derived(&format!("cluster {number}"));
            let nodes = cluster
                .nodes
                .into_iter()
                .map(|node| add_node(&mut database, &id, node))
                .collect();
            let ClusterSpec { file, block, .. } = cluster;
            database.clusters.insert(
                id.clone(),
                Cluster {
                    id,
                    file,
                    block,
                    nodes,
                },
            );
        }
        database
    }
}

fn add_node(database: &mut Database, cluster: &Id, spec: NodeSpec) -> Id {
    let HostSpec {
        hostnames: Hostnames { manage, storage },
        zone,
        tags,
    } = spec.node;
    let host = manage.first().cloned().unwrap_or_default();
    let id = Id::derived(&format!("node {host}"));
    let devices: Vec<Id> = spec
        .devices
        .into_iter()
        .map(|device| {
            let (name, size_gib) = match device {
                DeviceSpec::Name(name) => (name, DEFAULT_DEVICE_GIB),
                DeviceSpec::Sized { name, size_gib } => (name, size_gib),
            };
            let device = new_device(
                &Id::derived(&format!("device {host} {name}")),
                &id,
                &name,
                size_gib,
            );
            database.devices.insert(device.id.clone(), device.clone());
            device.id
        })
        .collect();
    let node = Node {
        id: id.clone(),
        cluster: cluster.clone(),
        zone,
        manage,
        storage,
        tags,
        state: EntryState::Online,
        devices,
    };
    database.nodes.insert(id.clone(), node);
    id
}

fn new_device(id: &Id, node: &Id, name: &str, size_gib: u64) -> Device {
    Device {
        id: id.clone(),
        node: node.clone(),
        name: name.to_owned(),
        tags: BTreeMap::new(),
        state: EntryState::Online,
        storage: Storage::empty(size_gib.saturating_mul(KIB_PER_GIB)),
        bricks: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heketis_own_file_is_understood() {
        let text = r#"{"clusters": [{"nodes": [{"node": {"hostnames": {"manage": ["a"], "storage": ["10.0.0.1"]},
            "zone": 1}, "devices": ["/dev/sdb", {"name": "/dev/sdc", "size_gib": 3}]}]}]}"#;
        let topology: Topology = serde_json::from_str(text).expect("understood");

        let database = topology.into_database();

        let node = database.nodes.values().next().expect("node");
        assert_eq!((node.manage_host(), node.storage_host()), ("a", "10.0.0.1"));
        let mut sizes: Vec<_> = database
            .devices
            .values()
            .map(|d| d.storage.free / KIB_PER_GIB)
            .collect();
        sizes.sort_unstable();
        assert_eq!(sizes, [3, 100]);
    }
}
