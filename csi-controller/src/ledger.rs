//! What the controller remembers: sizes of blocks, open reservations, publications. All of it can be found out again,
//! or is only what was promised in this run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use blockd_client::vocabulary::{Capacity, HostingVolume, NodeId, VolumeId};

/// A size as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// To the byte: this run made or grew the block.
    Exact(Capacity),
    /// The largest that gluster-block would print so (C4).
    AtMost(Capacity),
}

impl Size {
    /// The size to count with.
    #[must_use]
    pub fn bound(self) -> Capacity {
        match self {
            Self::Exact(size) | Self::AtMost(size) => size,
        }
    }
}

/// The memory; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    // Held for single reads and writes, never across an await.
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    sizes: BTreeMap<VolumeId, Size>,
    reserved: BTreeMap<VolumeId, Capacity>,
    published: BTreeMap<VolumeId, BTreeMap<NodeId, bool>>,
}

impl Ledger {
    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The size of a block, if it is known.
    #[must_use]
    pub fn size(&self, id: &VolumeId) -> Option<Size> {
        self.with(|state| state.sizes.get(id).copied())
    }

    /// The block is there with this size; a reservation for it is over. An exact size is not forgotten for a bound.
    pub fn record(&self, id: &VolumeId, size: Size) {
        self.with(|state| {
            state.reserved.remove(id);
            let known = state.sizes.get(id);
            if !matches!((known, size), (Some(Size::Exact(_)), Size::AtMost(_))) {
                state.sizes.insert(id.clone(), size);
            }
        });
    }

    /// The block is proved absent.
    pub fn forget(&self, id: &VolumeId) {
        self.with(|state| {
            state.sizes.remove(id);
            state.reserved.remove(id);
        });
    }

    /// Only these blocks of a hosting volume are there; sizes of others are forgotten, reservations stay.
    pub fn retain(&self, volume: &HostingVolume, present: &BTreeSet<VolumeId>) {
        self.with(|state| {
            state
                .sizes
                .retain(|id, _| id.hosting_volume != *volume || present.contains(id));
        });
    }

    /// Sets space aside for a block that is about to be made or grown.
    pub fn reserve(&self, id: &VolumeId, size: Capacity) {
        self.with(|state| state.reserved.insert(id.clone(), size));
    }

    /// Gives up a reservation.
    pub fn release(&self, id: &VolumeId) {
        self.with(|state| state.reserved.remove(id));
    }

    /// What blocks and reservations take on a hosting volume; a block that is being grown counts once, at the larger size.
    #[must_use]
    pub fn used(&self, volume: &HostingVolume) -> u64 {
        self.with(|state| {
            let on = |id: &VolumeId| id.hosting_volume == *volume;
            let mut sizes: BTreeMap<&VolumeId, u64> = BTreeMap::new();
            let known = state.sizes.iter().map(|(id, size)| (id, size.bound()));
            let reserved = state.reserved.iter().map(|(id, size)| (id, *size));
            for (id, size) in known.chain(reserved).filter(|(id, _)| on(id)) {
                let entry = sizes.entry(id).or_default();
                *entry = (*entry).max(size.bytes());
            }
            sizes
                .values()
                .fold(0_u64, |sum, size| sum.saturating_add(*size))
        })
    }

    /// The nodes the volume was published to, with whether for reading only.
    #[must_use]
    pub fn published(&self, id: &VolumeId) -> BTreeMap<NodeId, bool> {
        self.with(|state| state.published.get(id).cloned().unwrap_or_default())
    }

    /// The volume is published to the node.
    pub fn publish(&self, id: &VolumeId, node: NodeId, read_only: bool) {
        self.with(|state| {
            state
                .published
                .entry(id.clone())
                .or_default()
                .insert(node, read_only);
        });
    }

    /// The volume is no longer published to the node, or to any when none is named.
    pub fn unpublish(&self, id: &VolumeId, node: Option<&NodeId>) {
        self.with(|state| {
            let Some(nodes) = state.published.get_mut(id) else {
                return;
            };
            match node {
                Some(node) => drop(nodes.remove(node)),
                None => nodes.clear(),
            }
            if nodes.is_empty() {
                state.published.remove(id);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> VolumeId {
        text.parse().unwrap()
    }

    #[test]
    fn a_block_that_is_being_grown_counts_once_at_its_larger_size() {
        let ledger = Ledger::default();
        ledger.record(&id("hv/a"), Size::Exact(Capacity::from_bytes(10)));
        ledger.reserve(&id("hv/a"), Capacity::from_bytes(30));
        ledger.reserve(&id("hv/b"), Capacity::from_bytes(5));
        ledger.reserve(&id("other/c"), Capacity::from_bytes(100));
        assert_eq!(ledger.used(&id("hv/a").hosting_volume), 35);
    }

    #[test]
    fn an_exact_size_is_not_forgotten_for_a_bound() {
        let ledger = Ledger::default();
        ledger.record(&id("hv/a"), Size::Exact(Capacity::from_bytes(10)));
        ledger.record(&id("hv/a"), Size::AtMost(Capacity::from_bytes(11)));
        assert_eq!(
            ledger.size(&id("hv/a")),
            Some(Size::Exact(Capacity::from_bytes(10)))
        );
    }
}
