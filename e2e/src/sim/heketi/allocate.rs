//! Where the bricks of a volume go.
//!
//! Starts with one set of bricks and doubles the number of sets until a brick is at most 4 TiB; when there is no room it
//! tries more, smaller sets, until bricks fall below 1 GiB or there would be more than 32 (`reference/heketi-gd2.md` §2.2).
//! One set never has two bricks on one node. Which of the fitting devices heketi takes is a matter of its hash ring; here it is
//! the one with most room.

use std::collections::BTreeSet;

use super::model::{Brick, Database, Device, Durability, EntryState, Id, Volume};

const KIB_PER_GIB: u64 = 1024 * 1024;
/// A brick is not made smaller than this.
const BRICK_MIN: u64 = KIB_PER_GIB;
/// A brick is not made larger than this.
const BRICK_MAX: u64 = 4096 * KIB_PER_GIB;
/// A volume has no more bricks than this.
const BRICKS_MAX: usize = 32;
/// Space is taken in pieces of this many KiB.
const EXTENT: u64 = 4096;
/// The largest metadata area of a thin pool.
const POOL_METADATA_MAX: u64 = 16 * KIB_PER_GIB;

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AllocateError {
    /// More than 32 bricks would be needed.
    #[error("Maximum number of bricks reached.")]
    MaxBricks,
    /// Bricks would fall below 1 GiB.
    #[error("Minimum brick size limit reached.  Out of space.")]
    MinimumBrickSize,
    /// The cluster is empty.
    #[error("No nodes in cluster")]
    EmptyCluster,
    /// No device of the cluster takes bricks.
    #[error("No online storage devices in cluster")]
    NoStorage,
}

/// What is to be placed.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The volume; its bricks of today count against the limit.
    pub volume: &'a Volume,
    /// GiB to place.
    pub size: i64,
    /// Whether each brick of a set must be in another zone.
    pub strict_zones: bool,
    /// Folder on the nodes below which bricks are made.
    pub bricks_root: &'a str,
    /// The operation that makes the bricks.
    pub operation: &'a Id,
}

/// Finds a place for every brick. Nothing is taken from the devices yet.
///
/// # Errors
///
/// What kept the volume out; the caller of a create turns most of it into `No space`.
pub fn allocate(
    database: &Database,
    cluster: &Id,
    wanted: &Wanted<'_>,
) -> Result<Vec<Brick>, AllocateError> {
    let devices = usable_devices(database, cluster)?;
    let total = u64::try_from(wanted.size)
        .unwrap_or(0)
        .saturating_mul(KIB_PER_GIB);
    let (in_set, divisor) = shape(wanted.volume.durability);
    let mut sets = 1usize;
    loop {
        let size = total / u64::try_from(sets).unwrap_or(u64::MAX) / divisor;
        if size < BRICK_MIN {
            return Err(AllocateError::MinimumBrickSize);
        }
        if size <= BRICK_MAX {
            let count = sets.saturating_mul(in_set);
            if count.saturating_add(wanted.volume.bricks.len()) > BRICKS_MAX {
                return Err(AllocateError::MaxBricks);
            }
            if let Some(bricks) = place_sets(&mut devices.clone(), wanted, (sets, in_set, size)) {
                return Ok(bricks);
            }
        }
        sets = sets.saturating_mul(2);
    }
}

/// Bricks in a set, and by how much data is divided within it.
#[must_use]
pub fn shape(durability: Durability) -> (usize, u64) {
    let count = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
    match durability {
        Durability::None => (1, 1),
        Durability::Replicate { replica } => (count(replica), 1),
        Durability::Disperse { data, redundancy } => (
            count(data).saturating_add(count(redundancy)),
            u64::from(data.max(1)),
        ),
    }
}

#[derive(Clone)]
struct Candidate {
    device: Device,
    zone: i64,
}

fn usable_devices(database: &Database, cluster: &Id) -> Result<Vec<Candidate>, AllocateError> {
    if database.nodes_of(cluster).next().is_none() {
        return Err(AllocateError::EmptyCluster);
    }
    let online = database
        .nodes_of(cluster)
        .filter(|node| node.state == EntryState::Online);
    let devices: Vec<Candidate> = online
        .flat_map(|node| {
            node.devices
                .iter()
                .map(|id| (database.devices.get(id), node.zone))
        })
        .filter_map(|(device, zone)| {
            device.map(|device| Candidate {
                device: device.clone(),
                zone,
            })
        })
        .filter(|candidate| candidate.device.state == EntryState::Online)
        .collect();
    if devices.is_empty() {
        Err(AllocateError::NoStorage)
    } else {
        Ok(devices)
    }
}

fn place_sets(
    devices: &mut [Candidate],
    wanted: &Wanted<'_>,
    (sets, in_set, size): (usize, usize, u64),
) -> Option<Vec<Brick>> {
    let taken_kib = space_needed(size, wanted.volume.snapshot_factor);
    let mut bricks = Vec::new();
    for _ in 0..sets {
        let (mut nodes, mut zones) = (BTreeSet::new(), BTreeSet::new());
        for _ in 0..in_set {
            let candidate = devices
                .iter_mut()
                .filter(|c| c.device.storage.free >= taken_kib && !nodes.contains(&c.device.node))
                .filter(|c| !wanted.strict_zones || !zones.contains(&c.zone))
                .max_by_key(|c| c.device.storage.free)?;
            candidate.device.storage.free = candidate.device.storage.free.saturating_sub(taken_kib);
            nodes.insert(candidate.device.node.clone());
            zones.insert(candidate.zone);
            bricks.push(brick(&candidate.device, wanted, size, taken_kib));
        }
    }
    Some(bricks)
}

fn brick(device: &Device, wanted: &Wanted<'_>, size: u64, taken_kib: u64) -> Brick {
    let id = Id::random();
    Brick {
        path: format!("{}/brick_{id}/brick", wanted.bricks_root),
        id,
        device: device.id.clone(),
        node: device.node.clone(),
        volume: wanted.volume.id.clone(),
        size,
        taken_kib,
        pending: Some(wanted.operation.clone()),
    }
}

/// KiB that a brick takes: the thin pool (size times snapshot factor) and 0.5 % of metadata, in whole extents.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::as_conversions,
    reason = "the factor is 1 to 100 and sizes are far below 2^52 KiB"
)]
fn space_needed(size: u64, factor: f32) -> u64 {
    let pool = ((size as f64) * f64::from(factor)) as u64;
    let pool = pool.next_multiple_of(EXTENT);
    let metadata = (pool / 200).min(POOL_METADATA_MAX);
    pool.saturating_add(metadata.next_multiple_of(EXTENT))
}

#[cfg(test)]
mod tests {
    use super::super::model::Restriction;
    use super::super::topology::Topology;
    use super::*;

    fn lab(device_gib: u64) -> (Database, Id) {
        let hosts = ["a", "b", "c"].map(str::to_owned);
        let database = Topology::simple(&hosts, device_gib).into_database();
        let cluster = database.clusters.keys().next().expect("cluster").clone();
        (database, cluster)
    }

    fn volume(durability: Durability) -> Volume {
        Volume {
            id: Id::random(),
            name: "v".to_owned(),
            cluster: Id::random(),
            size: 0,
            durability,
            requested_replica: 0,
            gid: 0,
            options: Vec::new(),
            block: true,
            snapshot: false,
            snapshot_factor: 1.0,
            free: 0,
            reserved: 0,
            restriction: Restriction::None,
            bricks: Vec::new(),
            pending: None,
        }
    }

    fn try_place(device_gib: u64, size: i64, replica: u32) -> Result<Vec<Brick>, AllocateError> {
        let (database, cluster) = lab(device_gib);
        let volume = volume(Durability::Replicate { replica });
        let operation = Id::random();
        let wanted = Wanted {
            volume: &volume,
            size,
            strict_zones: false,
            bricks_root: "/bricks",
            operation: &operation,
        };
        allocate(&database, &cluster, &wanted)
    }

    #[test]
    fn three_copies_lie_on_three_nodes() {
        let bricks = try_place(10, 5, 3).expect("placed");
        let nodes: BTreeSet<_> = bricks.iter().map(|b| &b.node).collect();
        assert_eq!((bricks.len(), nodes.len()), (3, 3));
    }

    #[test]
    fn pool_metadata_makes_a_full_device_too_small() {
        assert!(try_place(10, 9, 3).is_ok());
        // Two bricks of 5 GiB do not fit either: each brings its own metadata.
        assert_eq!(try_place(10, 10, 3), Err(AllocateError::MinimumBrickSize));
    }

    #[test]
    fn a_brick_is_at_most_four_tib() {
        assert_eq!(try_place(20_000, 8192, 3).expect("placed").len(), 6);
    }

    #[test]
    fn more_copies_than_nodes_find_no_place() {
        assert!(try_place(10, 1, 4).is_err());
    }
}
