//! What gd2 records: its peers, their devices, and volumes with their bricks. Sizes are bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

/// LVM's usual extent.
const EXTENT: u64 = 4 << 20;

/// The whole cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// Its id.
    pub id: String,
    /// Its peers, in the order of the command line.
    pub peers: Vec<Peer>,
    /// Their devices.
    pub devices: Vec<Device>,
    /// Volumes by name.
    pub volumes: BTreeMap<String, Volume>,
}

/// A daemon and its host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Its id.
    pub id: String,
    /// Its host's address.
    pub host: String,
    /// Its zone; a zone of its own without one.
    pub zone: Option<String>,
}

/// A device for bricks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Whose it is.
    pub peer: String,
    /// Its name.
    pub name: String,
    /// Whether it is used for new bricks.
    pub enabled: bool,
    /// `lvm` or `loop`.
    pub provisioner: String,
    /// All of it.
    pub total: u64,
    /// What is left.
    pub free: u64,
}

/// The state of a volume, in gd2's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// Never started.
    Created,
    /// Serving.
    Started,
    /// Stopped.
    Stopped,
}

/// A volume of one set of bricks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: State,
    /// Its size.
    pub capacity: u64,
    /// What its users wrote on it.
    pub metadata: BTreeMap<String, String>,
    /// Its options, profiles taken apart.
    pub options: BTreeMap<String, String>,
    /// Its bricks.
    pub bricks: Vec<Brick>,
}

/// A brick.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Brick {
    /// Its id.
    pub id: String,
    /// Whose it is.
    pub peer: String,
    /// Where that is.
    pub host: String,
    /// Its directory.
    pub path: String,
    /// On which device.
    pub device: String,
    /// What it takes there.
    pub takes: u64,
}

impl Cluster {
    /// A cluster of those hosts with a device each. The ids are the same each time.
    #[must_use]
    pub fn of(hosts: &[String], zones: &[String], device_bytes: u64) -> Self {
        let id = |name: &str| Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()).to_string();
        let mut peers = Vec::new();
        for (index, host) in hosts.iter().enumerate() {
            peers.push(Peer {
                id: id(&format!("gd2 peer {host}")),
                host: host.clone(),
                zone: zones.get(index).cloned(),
            });
        }
        let device = |peer: &Peer| Device {
            peer: peer.id.clone(),
            name: "/dev/vdb".to_owned(),
            enabled: true,
            provisioner: "lvm".to_owned(),
            total: device_bytes,
            free: device_bytes,
        };
        Self {
            id: id("gd2 cluster"),
            devices: peers.iter().map(device).collect(),
            peers,
            volumes: BTreeMap::new(),
        }
    }

    /// Takes room on the devices of a volume's bricks, or gives it back.
    pub fn book(&mut self, bricks: &[Brick], change: impl Fn(u64, u64) -> u64) {
        for brick in bricks {
            let devices = self.devices.iter_mut();
            for device in devices.filter(|d| d.peer == brick.peer && d.name == brick.device) {
                device.free = change(device.free, brick.takes);
            }
        }
    }
}

impl Peer {
    /// No two bricks of a set go into the same.
    #[must_use]
    pub fn zone(&self) -> &str {
        self.zone.as_deref().unwrap_or(&self.id)
    }

    /// As gd2 shows it.
    #[must_use]
    pub fn shown(&self, down: &BTreeSet<String>) -> Value {
        let mut peer = json!({
            "id": self.id,
            "name": self.host,
            "peer-addresses": [format!("{}:24008", self.host)],
            "client-addresses": ["127.0.0.1:24007", format!("{}:24007", self.host)],
            "online": !down.contains(&self.host),
            "metadata": {"_zone": self.zone()},
        });
        if let (false, Some(fields)) = (down.contains(&self.host), peer.as_object_mut()) {
            fields.insert("pid".to_owned(), json!(1));
        }
        peer
    }
}

impl Device {
    /// As gd2 shows it.
    #[must_use]
    pub fn shown(&self) -> Value {
        json!({
            "device": self.name,
            "provisioner": self.provisioner,
            "state": if self.enabled { "enabled" } else { "disabled" },
            "free-size": self.free,
            "total-size": self.total,
            "used-size": self.total.saturating_sub(self.free),
            "extent-size": EXTENT,
            "device-used": self.free < self.total,
            "peer-id": self.peer,
        })
    }
}

impl Volume {
    /// As gd2 shows it.
    #[must_use]
    pub fn shown(&self) -> Value {
        let brick = |brick: &Brick| {
            json!({
                "id": brick.id,
                "path": brick.path,
                "volume-id": self.id,
                "volume-name": self.name,
                "peer-id": brick.peer,
                "host": brick.host,
                "type": "Brick",
            })
        };
        let bricks: Vec<Value> = self.bricks.iter().map(brick).collect();
        let replicas = bricks.len();
        json!({
            "id": self.id,
            "name": self.name,
            "type": "Replicate",
            "transport": "tcp",
            "distribute-count": 1,
            "replica-count": replicas,
            "options": self.options,
            "state": self.state,
            "subvols": [{
                "name": format!("{}-replicate-0", self.name),
                "type": "Replicate",
                "bricks": bricks,
                "replica-count": replicas,
                "arbiter-count": 0,
                "disperse-count": 0,
            }],
            "metadata": self.metadata,
            "snap-list": [],
            "capacity": self.capacity,
        })
    }
}

/// Unix seconds.
#[must_use]
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}
