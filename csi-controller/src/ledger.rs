//! What this process knows beyond what the backends tell: exact sizes, and room that is spoken for.
//!
//! Nothing here is needed for a right answer after a restart. Without it a block counts at the largest size that prints like
//! its own, which only wastes a little; and a create that is still running in some gluster-blockd holds that hosting
//! volume's lock, so that the listing a placement begins with waits for it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use blockd_client::BlockInfo;
use blockd_client::vocabulary::{BlockName, Capacity, Gbid, HostAddress, HostingVolume, VolumeId};
use tokio::time::Instant;

/// A reservation that nobody works on any more is given up after this long, if its block is not there then. Longer than any
/// request that gluster-blockd could still be busy with.
const ABANDONED: Duration = Duration::from_mins(30);

/// What is taken of a hosting volume at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// By the blocks that are there.
    pub used: Capacity,
    /// By reservations, beyond what their blocks count for already.
    pub reserved: Capacity,
    /// Blocks, with those that are reserved for only.
    pub blocks: usize,
}

/// What a listing of a hosting volume showed.
#[derive(Debug)]
pub struct Shown {
    /// When it was asked for.
    pub taken: Instant,
    /// The blocks on it, with what one counts for that is not known here.
    pub blocks: BTreeMap<VolumeId, Capacity>,
}

/// The one ledger of a process.
#[derive(Debug, Default)]
pub struct Ledger {
    // A std mutex: taken for single map operations, never across an await.
    books: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    sizes: HashMap<VolumeId, Size>,
    reservations: BTreeMap<VolumeId, Reservation>,
}

#[derive(Debug)]
struct Size {
    gbid: Gbid,
    printed: String,
    exact: Option<Capacity>,
    noted: Instant,
}

impl Size {
    /// From above, for accounts.
    fn counted(&self) -> Option<Capacity> {
        let largest = || Capacity::largest_printed_as(&self.printed);
        self.exact.or_else(largest)
    }

    /// From below, for promises.
    fn promised(&self) -> Option<Capacity> {
        let smallest = || Capacity::smallest_printed_as(&self.printed);
        self.exact.or_else(smallest)
    }
}

/// Room that is spoken for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// How much.
    pub size: Capacity,
    /// The hosts that were chosen; none if a block only grows.
    pub hosts: Vec<HostAddress>,
    /// Who was asked to make the block; none if nobody was yet.
    pub coordinator: Option<HostAddress>,
    since: Instant,
}

impl Reservation {
    fn is_attempt(&self) -> bool {
        self.coordinator.is_some() && !self.is_abandoned()
    }

    fn is_abandoned(&self) -> bool {
        self.since.elapsed() >= ABANDONED
    }
}

impl Ledger {
    /// Notes that a block of ours has exactly that size.
    pub fn note_exact(&self, found: &BlockInfo, size: Capacity) {
        let size = Size {
            gbid: found.gbid,
            printed: found.printed_size.clone(),
            exact: Some(size),
            noted: Instant::now(),
        };
        self.books().sizes.insert(found.id.clone(), size);
    }

    /// Notes how a complete block's size was printed, and keeps its exact size if it still may be that. A half-made block may
    /// print any size, and is not noted.
    pub fn note_seen(&self, found: &BlockInfo) {
        if !found.is_complete() {
            return;
        }
        let mut books = self.books();
        let exact = books
            .sizes
            .get(&found.id)
            .filter(|known| known.gbid == found.gbid)
            .and_then(|known| known.exact)
            .filter(|exact| exact.may_print_as(&found.printed_size));
        let size = Size {
            gbid: found.gbid,
            printed: found.printed_size.clone(),
            exact,
            noted: Instant::now(),
        };
        books.sizes.insert(found.id.clone(), size);
    }

    /// Forgets a block that is gone, and what was reserved for it.
    pub fn note_absent(&self, id: &VolumeId) {
        let mut books = self.books();
        books.sizes.remove(id);
        books.reservations.remove(id);
    }

    /// The exact size of a block, if this process knows it and what `info` shows agrees.
    #[must_use]
    pub fn exact(&self, found: &BlockInfo) -> Option<Capacity> {
        self.books()
            .sizes
            .get(&found.id)
            .filter(|known| known.gbid == found.gbid)
            .and_then(|known| known.exact)
            .filter(|exact| exact.may_print_as(&found.printed_size))
    }

    /// What a block counts for, if it has been seen: its exact size, or the largest that prints the same.
    #[must_use]
    pub fn counted(&self, id: &VolumeId) -> Option<Capacity> {
        self.books().sizes.get(id)?.counted()
    }

    /// What of its hosting volume a block has or may get without asking again.
    #[must_use]
    pub fn claimed(&self, id: &VolumeId) -> Capacity {
        let books = self.books();
        let counted = books.sizes.get(id).and_then(Size::counted);
        let reserved = books.reservations.get(id).map(|reserved| reserved.size);
        counted.max(reserved).unwrap_or(Capacity::ZERO)
    }

    /// What a block surely has, if it has been seen: its exact size, or the smallest that prints the same.
    #[must_use]
    pub fn promised(&self, id: &VolumeId) -> Option<Capacity> {
        self.books().sizes.get(id)?.promised()
    }

    /// Speaks for room. A reservation that the block already has is replaced, never by a smaller one: what it was made for may
    /// still come to pass.
    pub fn reserve(&self, id: &VolumeId, size: Capacity, hosts: Vec<HostAddress>) {
        let mut books = self.books();
        let earlier = books.reservations.get(id).map(|earlier| earlier.size);
        let reservation = Reservation {
            size: size.max(earlier.unwrap_or(Capacity::ZERO)),
            hosts,
            coordinator: None,
            since: Instant::now(),
        };
        books.reservations.insert(id.clone(), reservation);
    }

    /// Gives room back. Only when the block is surely absent, or counted by its size.
    pub fn release(&self, id: &VolumeId) {
        self.books().reservations.remove(id);
    }

    /// Notes who is asked to make the block; from now on it may be there.
    pub fn begin(&self, id: &VolumeId, coordinator: HostAddress) {
        if let Some(reservation) = self.books().reservations.get_mut(id) {
            reservation.coordinator = Some(coordinator);
        }
    }

    /// Where an earlier attempt at this block may still be at work.
    #[must_use]
    pub fn attempt_at(&self, block: &BlockName) -> Option<(VolumeId, Reservation)> {
        let books = self.books();
        books
            .reservations
            .iter()
            .find(|(id, reservation)| id.block == *block && reservation.is_attempt())
            .map(|(id, reservation)| (id.clone(), reservation.clone()))
    }

    /// What is taken of a hosting volume: by the blocks that were shown, by those noted since, and by reservations. One look at
    /// one moment, for a block that is just made turns from reserved to used.
    ///
    /// Reservations that were abandoned, and whose blocks are not there, are given up.
    pub fn taken(&self, volume: &HostingVolume, shown: &Shown) -> Taken {
        let mut books = self.books();
        let Books {
            sizes,
            reservations,
        } = &mut *books;
        let here = |id: &VolumeId| id.hosting_volume == *volume;
        let counted = |id: &VolumeId| sizes.get(id).and_then(Size::counted);
        let noted = sizes.iter().filter(|(_, size)| size.noted >= shown.taken);
        let mut there: BTreeMap<&VolumeId, Capacity> = shown
            .blocks
            .iter()
            .map(|(id, size)| (id, counted(id).unwrap_or(*size)))
            .collect();
        for (id, size) in noted.filter(|(id, _)| here(id)) {
            there.insert(id, size.counted().unwrap_or(Capacity::ZERO));
        }
        reservations.retain(|id, reservation| {
            !here(id) || there.contains_key(id) || !reservation.is_abandoned()
        });
        let (mut reserved, mut blocks) = (0_u64, there.len());
        for (id, reservation) in reservations.iter().filter(|(id, _)| here(id)) {
            let has = there.get(id).copied();
            let beyond = reservation.size.checked_sub(has.unwrap_or(Capacity::ZERO));
            reserved = reserved.saturating_add(beyond.unwrap_or(Capacity::ZERO).bytes());
            blocks += usize::from(has.is_none());
        }
        let used = there.values().map(|size| size.bytes());
        Taken {
            used: Capacity::from_bytes(used.fold(0, u64::saturating_add)),
            reserved: Capacity::from_bytes(reserved),
            blocks,
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn found(printed: &str) -> BlockInfo {
        BlockInfo {
            id: "hv/b".parse().unwrap(),
            gbid: "7f9aa1b2-aba7-4c77-9a5b-02a3ed562b15".parse().unwrap(),
            printed_size: printed.to_owned(),
            ha: 1,
            exported_on: vec!["10.0.0.1".parse().unwrap()],
            failing: Vec::new(),
            lagging: BTreeMap::new(),
            password: None,
        }
    }

    #[test]
    fn a_block_counts_at_its_exact_size_or_at_the_largest_that_prints_so() {
        let ledger = Ledger::default();
        let id = found("1.0 GiB").id;
        assert_eq!(ledger.counted(&id), None);
        ledger.note_seen(&found("1.0 GiB"));
        assert!(ledger.counted(&id).unwrap().bytes() > GIB);
        ledger.note_exact(&found("1.0 GiB"), Capacity::from_bytes(GIB));
        ledger.note_seen(&found("1.0 GiB"));
        assert_eq!(ledger.counted(&id), Some(Capacity::from_bytes(GIB)));
        ledger.note_seen(&found("2.0 GiB"));
        assert!(ledger.counted(&id).unwrap().bytes() > 2 * GIB);
        assert_eq!(ledger.exact(&found("2.0 GiB")), None);
    }

    fn taken(ledger: &Ledger, listed: bool) -> (u64, u64, usize) {
        let id = found("1.0 GiB").id;
        let blocks = listed.then(|| (id.clone(), Capacity::ZERO));
        let shown = Shown {
            taken: Instant::now() + Duration::from_secs(1),
            blocks: blocks.into_iter().collect(),
        };
        let taken = ledger.taken(&id.hosting_volume, &shown);
        (taken.used.bytes(), taken.reserved.bytes(), taken.blocks)
    }

    #[tokio::test(start_paused = true)]
    async fn an_abandoned_reservation_lives_for_half_an_hour_unless_its_block_is_there() {
        let ledger = Ledger::default();
        let id = found("1.0 GiB").id;
        ledger.reserve(&id, Capacity::from_bytes(GIB), Vec::new());
        assert_eq!(taken(&ledger, false), (0, GIB, 1));
        tokio::time::advance(ABANDONED).await;
        assert_eq!(taken(&ledger, true), (0, GIB, 1));
        assert_eq!(taken(&ledger, false), (0, 0, 0));
        assert_eq!(taken(&ledger, true), (0, 0, 1));
    }

    #[tokio::test]
    async fn a_block_is_not_counted_twice() {
        let ledger = Ledger::default();
        let id = found("1.0 GiB").id;
        ledger.note_exact(&found("1.0 GiB"), Capacity::from_bytes(GIB));
        ledger.reserve(&id, Capacity::from_bytes(3 * GIB), Vec::new());
        assert_eq!(taken(&ledger, true), (GIB, 2 * GIB, 1));
        assert_eq!(taken(&ledger, false), (0, 3 * GIB, 1));
        assert_eq!(ledger.claimed(&id).bytes(), 3 * GIB);
    }

    #[tokio::test]
    async fn a_block_that_was_made_since_the_listing_counts() {
        let ledger = Ledger::default();
        let block = found("1.0 GiB");
        let shown = Shown {
            taken: Instant::now(),
            blocks: BTreeMap::new(),
        };
        ledger.reserve(&block.id, Capacity::from_bytes(GIB), Vec::new());
        ledger.note_exact(&block, Capacity::from_bytes(GIB));
        ledger.release(&block.id);
        let taken = ledger.taken(&block.id.hosting_volume, &shown);
        assert_eq!((taken.used.bytes(), taken.blocks), (GIB, 1));
    }

    #[tokio::test]
    async fn what_may_still_come_to_pass_stays_reserved() {
        let ledger = Ledger::default();
        let id = found("1.0 GiB").id;
        ledger.reserve(&id, Capacity::from_bytes(3 * GIB), Vec::new());
        ledger.reserve(&id, Capacity::from_bytes(2 * GIB), Vec::new());
        assert_eq!(ledger.claimed(&id).bytes(), 3 * GIB);
    }
}
