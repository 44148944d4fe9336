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

/// What is spoken for on a hosting volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserved {
    /// Space, beyond what the blocks that are there count for.
    pub bytes: Capacity,
    /// Blocks that are not there yet.
    pub blocks: usize,
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

    /// What a block surely has, if it has been seen: its exact size, or the smallest that prints the same.
    #[must_use]
    pub fn promised(&self, id: &VolumeId) -> Option<Capacity> {
        self.books().sizes.get(id)?.promised()
    }

    /// The blocks on a hosting volume that were noted since then, and so may lack in a listing of that moment.
    #[must_use]
    pub fn noted_since(&self, volume: &HostingVolume, moment: Instant) -> Vec<VolumeId> {
        let books = self.books();
        let noted = books
            .sizes
            .iter()
            .filter(|(id, size)| id.hosting_volume == *volume && size.noted >= moment);
        noted.map(|(id, _)| id.clone()).collect()
    }

    /// Speaks for room. A reservation that the block already has is replaced.
    pub fn reserve(&self, id: &VolumeId, size: Capacity, hosts: Vec<HostAddress>) {
        let reservation = Reservation {
            size,
            hosts,
            coordinator: None,
            since: Instant::now(),
        };
        self.books().reservations.insert(id.clone(), reservation);
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

    /// What is reserved on a hosting volume. `listed` says which blocks are there: those that are count by their size
    /// already, so only what their reservation is beyond it counts.
    ///
    /// Reservations that were abandoned, and whose blocks are not there, are given up.
    pub fn reserved_on(
        &self,
        volume: &HostingVolume,
        listed: impl Fn(&VolumeId) -> bool,
    ) -> Reserved {
        let mut books = self.books();
        books.reservations.retain(|id, reservation| {
            id.hosting_volume != *volume || listed(id) || !reservation.is_abandoned()
        });
        let on_it = || {
            let all = books.reservations.iter();
            all.filter(|(id, _)| id.hosting_volume == *volume)
        };
        let total = on_it().fold(0_u64, |sum, (id, reservation)| {
            let counted = listed(id)
                .then(|| books.sizes.get(id)?.counted())
                .flatten()
                .unwrap_or(Capacity::ZERO);
            let beyond = reservation.size.checked_sub(counted);
            sum.saturating_add(beyond.unwrap_or(Capacity::ZERO).bytes())
        });
        Reserved {
            bytes: Capacity::from_bytes(total),
            blocks: on_it().filter(|(id, _)| !listed(id)).count(),
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

    #[tokio::test(start_paused = true)]
    async fn an_abandoned_reservation_lives_for_half_an_hour_unless_its_block_is_there() {
        let ledger = Ledger::default();
        let id = found("1.0 GiB").id;
        ledger.reserve(&id, Capacity::from_bytes(GIB), Vec::new());
        let reserved = |listed: bool| {
            ledger
                .reserved_on(&id.hosting_volume, |_| listed)
                .bytes
                .bytes()
        };
        assert_eq!(reserved(false), GIB);
        tokio::time::advance(ABANDONED).await;
        assert_eq!(reserved(true), GIB);
        assert_eq!(reserved(false), 0);
        assert_eq!(reserved(true), 0);
    }

    #[test]
    fn a_listed_block_is_not_counted_twice() {
        let ledger = Ledger::default();
        let id = found("1.0 GiB").id;
        ledger.note_exact(&found("1.0 GiB"), Capacity::from_bytes(GIB));
        ledger.reserve(&id, Capacity::from_bytes(3 * GIB), Vec::new());
        let reserved = ledger.reserved_on(&id.hosting_volume, |_| true);
        assert_eq!((reserved.bytes.bytes(), reserved.blocks), (2 * GIB, 0));
        let reserved = ledger.reserved_on(&id.hosting_volume, |_| false);
        assert_eq!((reserved.bytes.bytes(), reserved.blocks), (3 * GIB, 1));
    }
}
