//! Which hosting volume a new block goes to, and which hosts export it. Pure: all facts come in one snapshot.
//!
//! Capacity never lies upward (C4): of a hosting volume 98 % count, because the file system on its bricks and gluster-block's
//! own files need the rest; blocks count at their exact size where it is known and else at the largest size that
//! prints the same; what others are about to make counts as made.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use blockd_client::vocabulary::{BlockName, Capacity, HostAddress, HostingVolume};

use crate::hosting::{ClusterId, Room};

/// A hosting volume and what is on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Space {
    /// Its name.
    pub volume: HostingVolume,
    /// Its cluster.
    pub cluster: ClusterId,
    /// Its size as made.
    pub size: Capacity,
    /// What its blocks take, each counted from above.
    pub used: Capacity,
    /// What is reserved for blocks that are about to be made or to grow.
    pub reserved: Capacity,
    /// How many blocks are on it or about to be.
    pub blocks: usize,
    /// The hosts that can serve its blocks.
    pub hosts: Vec<HostAddress>,
}

/// What is to be placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The block.
    pub block: BlockName,
    /// Its size.
    pub size: Capacity,
    /// How many hosts shall export it.
    pub ha: usize,
    /// The clusters to use; none means all.
    pub clusters: Vec<ClusterId>,
}

/// The facts to decide on.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Every hosting volume of ours.
    pub spaces: Vec<Space>,
    /// The hosts whose gluster-blockd answers.
    pub alive: BTreeSet<HostAddress>,
    /// Hosting volumes that turned out to be full although they should not be.
    pub full: BTreeSet<HostingVolume>,
    /// What the clusters have room for; only looked at where a new hosting volume is needed. None: not asked yet.
    pub room: Option<Vec<Room>>,
}

/// Sizes of new hosting volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// The usual one.
    pub usual: Capacity,
    /// The largest one.
    pub largest: Capacity,
}

/// Which of the hosting volumes that fit is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preference {
    /// The one with the least free space: large blocks find room for longest.
    BestFit,
    /// The one with the most free space: hosting volumes fill evenly, and so does the work of their daemons.
    Spread,
    /// Any, always the same one for a block while the same ones fit.
    Random,
}

impl Preference {
    /// What the settings call them.
    pub const NAMES: [(&str, Self); 3] = [
        ("best-fit", Self::BestFit),
        ("spread", Self::Spread),
        ("random", Self::Random),
    ];

    /// The lower, the better.
    fn rank(self, space: &Space, block: &BlockName) -> u64 {
        match self {
            Self::BestFit => space.free().bytes(),
            Self::Spread => u64::MAX - space.free().bytes(),
            Self::Random => hash((block.as_str(), space.volume.as_str())),
        }
    }
}

/// What the operator wants of placements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Sizes of new hosting volumes.
    pub sizes: Sizes,
    /// Which of those that fit is taken.
    pub prefer: Preference,
    /// How many blocks a hosting volume may have; none means any number.
    pub most_blocks: Option<usize>,
}

impl Rules {
    /// Whether one more block may go to this hosting volume, its size aside.
    #[must_use]
    pub fn allow_another(&self, space: &Space) -> bool {
        self.most_blocks.is_none_or(|most| space.blocks < most)
    }
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// Make the block there.
    Place {
        /// The hosting volume.
        volume: HostingVolume,
        /// The hosts, as many as asked for.
        hosts: Vec<HostAddress>,
    },
    /// Ask the backend what room there is, and decide again.
    AskForRoom,
    /// Make a hosting volume of that size first.
    CreateHostingVolume {
        /// Whole GiB.
        size: Capacity,
        /// The clusters whose hosts suffice.
        clusters: Vec<ClusterId>,
    },
    /// No hosting volume could ever hold it.
    TooBig {
        /// The largest block there can be.
        largest: Capacity,
    },
    /// There are not that many hosts.
    TooFewHosts {
        /// How many there are at most.
        hosts: usize,
    },
    /// Not enough of the hosts answer.
    TooFewAlive {
        /// How many of them do, at most.
        alive: usize,
    },
}

/// The part of a hosting volume of this size that blocks may fill.
#[must_use]
pub fn usable(size: Capacity) -> Capacity {
    let bytes = size.bytes();
    // Divided first so that it cannot overflow; the rest is below one hundred.
    Capacity::from_bytes(bytes / 100 * 98 + bytes % 100 * 98 / 100)
}

impl Space {
    /// What a new block may take.
    #[must_use]
    pub fn free(&self) -> Capacity {
        usable(self.size)
            .checked_sub(self.used)
            .and_then(|rest| rest.checked_sub(self.reserved))
            .unwrap_or(Capacity::ZERO)
    }
}

/// Decides where a block goes.
///
/// A hosting volume *fits* if it is in the wanted clusters, has enough free space, fewer blocks than the rules allow and is not
/// known to be full. Of those that fit and have enough hosts that answer, the [`Preference`] takes one, then the first by name.
///
/// | a volume fits | … with enough hosts | … that answer | new one can hold it | clusters with enough hosts | decision |
/// |---|---|---|---|---|---|
/// | yes | yes | yes |     |         | `Place` |
/// | yes | yes | no  |     |         | `TooFewAlive`: a new volume would have the same hosts |
/// | no (or no hosts) | | | no |     | `TooBig` |
/// | no (or no hosts) | | | yes | not asked | `AskForRoom` |
/// | no (or no hosts) | | | yes | none | `TooFewHosts` |
/// | no (or no hosts) | | | yes | some | `CreateHostingVolume` |
///
/// Whether the backend has room for the new volume is the backend's to say; the room it reports is an estimate from below.
#[must_use]
pub fn place(snapshot: &Snapshot, wanted: &Wanted, rules: Rules) -> Placement {
    let in_cluster =
        |cluster: &ClusterId| wanted.clusters.is_empty() || wanted.clusters.contains(cluster);
    let fits = |space: &&Space| {
        in_cluster(&space.cluster)
            && space.free() >= wanted.size
            && rules.allow_another(space)
            && !snapshot.full.contains(&space.volume)
            && space.hosts.len() >= wanted.ha
    };
    let alive = |space: &Space| -> Vec<HostAddress> {
        let hosts = space.hosts.iter().copied();
        hosts.filter(|h| snapshot.alive.contains(h)).collect()
    };
    let fitting: Vec<&Space> = snapshot.spaces.iter().filter(fits).collect();
    let best = fitting
        .iter()
        .filter(|space| alive(space).len() >= wanted.ha)
        .min_by_key(|space| (rules.prefer.rank(space, &wanted.block), &space.volume));
    if let Some(space) = best {
        return Placement::Place {
            volume: space.volume.clone(),
            hosts: choose_hosts(&alive(space), wanted),
        };
    }
    if let Some(most) = fitting.iter().map(|space| alive(space).len()).max() {
        return Placement::TooFewAlive { alive: most };
    }
    new_volume(snapshot, wanted, rules.sizes, in_cluster)
}

fn new_volume(
    snapshot: &Snapshot,
    wanted: &Wanted,
    sizes: Sizes,
    in_cluster: impl Fn(&ClusterId) -> bool,
) -> Placement {
    let Some(size) = size_for(wanted.size, sizes) else {
        return Placement::TooBig {
            largest: usable(sizes.largest),
        };
    };
    let Some(room) = &snapshot.room else {
        return Placement::AskForRoom;
    };
    let candidates = || room.iter().filter(|room| in_cluster(&room.cluster));
    let clusters: Vec<ClusterId> = candidates()
        .filter(|room| room.hosts.len() >= wanted.ha)
        .map(|room| room.cluster.clone())
        .collect();
    if clusters.is_empty() {
        let hosts = candidates().map(|room| room.hosts.len()).max();
        return Placement::TooFewHosts {
            hosts: hosts.unwrap_or_default(),
        };
    }
    Placement::CreateHostingVolume { size, clusters }
}

/// The usual size, or more if the block needs it; whole GiB, as backends count.
fn size_for(block: Capacity, sizes: Sizes) -> Option<Capacity> {
    const GIB: Capacity = Capacity::from_bytes(1 << 30);
    let needed = u64::try_from((u128::from(block.bytes()) * 100).div_ceil(98)).ok()?;
    // Rounding down twice in `usable` can cost a byte, and whole GiB above make up for it.
    let mut size = Capacity::from_bytes(needed).round_up(GIB)?;
    if usable(size) < block {
        size = size.checked_add(GIB)?;
    }
    let size = size.max(sizes.usual.round_up(GIB)?);
    (size <= sizes.largest).then_some(size)
}

/// Spreads blocks over hosts where there are more than needed; always the same for one block and set of hosts.
fn choose_hosts(alive: &[HostAddress], wanted: &Wanted) -> Vec<HostAddress> {
    let rank = |host: &HostAddress| hash((wanted.block.as_str(), host.ip()));
    let mut hosts = alive.to_vec();
    hosts.sort_by_key(rank);
    hosts.truncate(wanted.ha);
    hosts
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
