//! What heketi records: clusters, nodes, devices, bricks, volumes and unfinished operations.
//!
//! An object with `pending` set belongs to an unfinished operation and is hidden from lists and reads
//! (`reference/heketi-gd2.md` §1.5). Sizes of devices and bricks are KiB, of volumes GiB, as heketi has them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// 32 lowercase hex digits without dashes, heketi's form of an identifier.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Id(String);

impl Id {
    /// A new random identifier.
    #[must_use]
    pub fn random() -> Self {
        Self(Uuid::new_v4().simple().to_string())
    }

    /// The identifier that belongs to `name`: the same one each time, so that a topology file gives the same cluster.
    #[must_use]
    pub fn derived(name: &str) -> Self {
        Self(
            Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes())
                .simple()
                .to_string(),
        )
    }

    /// An identifier that came in a request; it need not belong to anything.
    #[must_use]
    pub fn requested(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Everything that survives a restart.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Database {
    /// Clusters by id.
    pub clusters: BTreeMap<Id, Cluster>,
    /// Nodes by id.
    pub nodes: BTreeMap<Id, Node>,
    /// Devices by id.
    pub devices: BTreeMap<Id, Device>,
    /// Bricks by id, pending ones included.
    pub bricks: BTreeMap<Id, Brick>,
    /// Volumes by id, pending ones included.
    pub volumes: BTreeMap<Id, Volume>,
    /// Unfinished operations by id.
    pub operations: BTreeMap<Id, Operation>,
}

impl Database {
    /// What was being worked on is stale from now on.
    pub fn after_a_restart(&mut self) {
        let operations = self.operations.values_mut();
        for operation in operations.filter(|operation| operation.status == Status::New) {
            operation.status = Status::Stale;
        }
    }

    /// The volume, unless it is hidden behind an unfinished create or delete.
    #[must_use]
    pub fn visible_volume(&self, id: &Id) -> Option<&Volume> {
        self.volumes
            .get(id)
            .filter(|volume| volume.pending.is_none())
    }

    /// The nodes of a cluster in the order of their ids, which is heketi's order of hosts.
    pub fn nodes_of(&self, cluster: &Id) -> impl Iterator<Item = &Node> {
        let ids = self
            .clusters
            .get(cluster)
            .map(|c| c.nodes.as_slice())
            .unwrap_or_default();
        let ids: BTreeSet<&Id> = ids.iter().collect();
        ids.into_iter().filter_map(|id| self.nodes.get(id))
    }

    /// Whether a volume of that name is recorded in the cluster, pending ones included.
    #[must_use]
    pub fn name_taken(&self, cluster: &Id, name: &str) -> bool {
        self.volumes
            .values()
            .any(|v| &v.cluster == cluster && v.name == name)
    }

    /// How many volumes the cluster has, pending ones included.
    #[must_use]
    pub fn volume_count(&self, cluster: &Id) -> usize {
        self.volumes
            .values()
            .filter(|v| &v.cluster == cluster)
            .count()
    }

    /// Puts bricks on their devices and takes the space from them.
    pub fn place(&mut self, bricks: Vec<Brick>) {
        for brick in bricks {
            if let Some(device) = self.devices.get_mut(&brick.device) {
                device.storage.take(brick.taken_kib);
                device.bricks.push(brick.id.clone());
            }
            self.bricks.insert(brick.id.clone(), brick);
        }
    }

    /// Takes bricks off their devices and gives the space back.
    pub fn remove_bricks(&mut self, ids: &[Id]) {
        for id in ids {
            let Some(brick) = self.bricks.remove(id) else {
                continue;
            };
            if let Some(device) = self.devices.get_mut(&brick.device) {
                device.storage.give_back(brick.taken_kib);
                device.bricks.retain(|known| known != id);
            }
        }
    }
}

/// A trusted pool and what it may hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// Identifier.
    pub id: Id,
    /// Whether volumes without `block` may be made here.
    pub file: bool,
    /// Whether hosting volumes may be made here.
    pub block: bool,
    /// Nodes in the order in which they joined.
    pub nodes: Vec<Id>,
}

/// Whether an object may be used for new bricks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryState {
    /// In use.
    Online,
    /// Takes no new bricks.
    Offline,
    /// Given up; only an offline one can come here.
    Failed,
}

/// One storage host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Identifier.
    pub id: Id,
    /// The cluster it belongs to.
    pub cluster: Id,
    /// Failure domain, from 1.
    pub zone: i64,
    /// Names to run commands on; only the first is used.
    pub manage: Vec<String>,
    /// Names that gluster uses; only the first is used.
    pub storage: Vec<String>,
    /// Free-form marks.
    pub tags: BTreeMap<String, String>,
    /// Whether it takes new bricks.
    pub state: EntryState,
    /// Its devices.
    pub devices: Vec<Id>,
}

impl Node {
    /// Where commands for this node are run.
    #[must_use]
    pub fn manage_host(&self) -> &str {
        self.manage.first().map_or("", String::as_str)
    }

    /// The name of the node in volumes and bricks.
    #[must_use]
    pub fn storage_host(&self) -> &str {
        self.storage.first().map_or("", String::as_str)
    }
}

/// Space in KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Storage {
    /// All of it.
    pub total: u64,
    /// What new bricks can take.
    pub free: u64,
    /// What bricks have taken.
    pub used: u64,
}

impl Storage {
    /// An empty device of that size.
    #[must_use]
    pub fn empty(total: u64) -> Self {
        Self {
            total,
            free: total,
            used: 0,
        }
    }

    fn take(&mut self, kib: u64) {
        self.free = self.free.saturating_sub(kib);
        self.used = self.used.saturating_add(kib);
    }

    fn give_back(&mut self, kib: u64) {
        self.free = self.free.saturating_add(kib);
        self.used = self.used.saturating_sub(kib);
    }
}

/// One disk of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Identifier.
    pub id: Id,
    /// The node it is in.
    pub node: Id,
    /// Path of the device file.
    pub name: String,
    /// Free-form marks.
    pub tags: BTreeMap<String, String>,
    /// Whether it takes new bricks.
    pub state: EntryState,
    /// Its space.
    pub storage: Storage,
    /// Bricks on it.
    pub bricks: Vec<Id>,
}

/// One brick of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Brick {
    /// Identifier.
    pub id: Id,
    /// Directory that gluster is given.
    pub path: String,
    /// Device it lies on.
    pub device: Id,
    /// Node of that device.
    pub node: Id,
    /// Volume it belongs to.
    pub volume: Id,
    /// Size promised to the volume, KiB.
    pub size: u64,
    /// Space taken from the device, KiB: size times snapshot factor, and pool metadata.
    pub taken_kib: u64,
    /// The unfinished operation that makes or removes it.
    pub pending: Option<Id>,
}

/// How copies of the data are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "type")]
pub enum Durability {
    /// One copy.
    None,
    /// Whole copies.
    Replicate {
        /// Number of copies.
        replica: u32,
    },
    /// Erasure code.
    Disperse {
        /// Bricks' worth of data in a set.
        data: u32,
        /// Bricks of a set that may be lost.
        redundancy: u32,
    },
}

/// Whether new blocks may be placed on a hosting volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Restriction {
    /// They may.
    #[default]
    #[serde(rename = "")]
    None,
    /// The operator said no.
    #[serde(rename = "locked")]
    Locked,
    /// An upgrade of the database found no room for the reserve.
    #[serde(rename = "locked-by-update")]
    LockedByUpdate,
}

impl Restriction {
    /// Whether blocks may be placed.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// One gluster volume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Volume {
    /// Identifier.
    pub id: Id,
    /// Name in gluster.
    pub name: String,
    /// The cluster it lies in.
    pub cluster: Id,
    /// GiB.
    pub size: i64,
    /// How copies are spread.
    pub durability: Durability,
    /// Replica count as the request had it; zero when it was left out. Reads show this one.
    pub requested_replica: u32,
    /// Group that owns the bricks; 0 leaves it alone.
    pub gid: i64,
    /// Options in the order in which they are set, empty entries included as heketi keeps them.
    pub options: Vec<String>,
    /// Whether it hosts blocks.
    pub block: bool,
    /// Whether space for snapshots was asked for.
    pub snapshot: bool,
    /// Space to take for each GiB; 1 without snapshots.
    pub snapshot_factor: f32,
    /// GiB that blocks may still take.
    pub free: i64,
    /// GiB kept back from blocks.
    pub reserved: i64,
    /// Whether new blocks may be placed.
    pub restriction: Restriction,
    /// Bricks in gluster's order.
    pub bricks: Vec<Id>,
    /// The unfinished operation that makes or removes it.
    pub pending: Option<Id>,
}

impl Volume {
    /// Whether the options ask for an arbiter; the last one that speaks of it wins.
    #[must_use]
    pub fn wants_arbiter(&self) -> bool {
        let mut values = self
            .options
            .iter()
            .filter_map(|o| o.strip_prefix("user.heketi.arbiter "));
        matches!(
            values.next_back(),
            Some("true" | "True" | "TRUE" | "t" | "T" | "1")
        )
    }
}

/// What an unfinished operation is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// `POST /volumes`.
    CreateVolume,
    /// `DELETE /volumes/{id}`.
    DeleteVolume,
    /// `POST /volumes/{id}/expand`.
    ExpandVolume,
}

/// Where an unfinished operation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// Being worked on, or never picked up.
    #[serde(rename = "")]
    New,
    /// Begun by a server that is gone.
    #[serde(rename = "stale")]
    Stale,
    /// It failed and so did its undoing.
    #[serde(rename = "failed")]
    Failed,
}

/// One unfinished operation (`reference/heketi-gd2.md` §2.8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// Identifier.
    pub id: Id,
    /// What it is about.
    pub kind: Kind,
    /// Where it stands.
    pub status: Status,
    /// When it was begun, Unix seconds.
    pub begun: u64,
    /// The volume.
    pub volume: Id,
    /// Bricks it makes or removes.
    pub bricks: Vec<Id>,
    /// GiB an expand adds.
    pub delta: i64,
}

/// The 98 % rule: what blocks may take of `size` GiB; the rest is reserved.
#[must_use]
pub fn usable(size: i64) -> i64 {
    size.saturating_mul(98) / 100
}

/// Unix seconds.
#[must_use]
pub fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_percent_of_a_hosting_volume_are_reserved_in_whole_gib() {
        assert_eq!(
            [usable(1), usable(100), usable(500), usable(1024)],
            [0, 98, 490, 1003]
        );
    }

    #[test]
    fn several_small_expands_reserve_more_than_a_large_one() {
        assert!(usable(10) > (0..10).map(|_| usable(1)).sum());
    }

    #[test]
    fn operations_are_stale_after_a_restart() {
        let begun = Operation {
            id: Id::random(),
            kind: Kind::CreateVolume,
            status: Status::New,
            begun: now(),
            volume: Id::random(),
            bricks: Vec::new(),
            delta: 0,
        };
        let mut database = Database::default();
        database.operations.insert(begun.id.clone(), begun.clone());

        database.after_a_restart();

        assert_eq!(database.operations[&begun.id].status, Status::Stale);
    }
}
