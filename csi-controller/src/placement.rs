//! Which hosting volume takes a new block, and which hosts export it. Pure: a snapshot in, a decision out.

use blockd_client::vocabulary::{Capacity, HostAddress};

use crate::hosting::Hosting;

/// A hosting volume as placement sees it.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The volume.
    pub hosting: Hosting,
    /// Bytes that blocks and reservations take, never less than they really do.
    pub used: u64,
    /// Its hosts whose gluster-blockd listens.
    pub alive: Vec<HostAddress>,
}

/// What to do about a new block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// Make it there, on these hosts.
    Place {
        /// Index of the candidate.
        candidate: usize,
        /// The hosts, as many as wanted.
        hosts: Vec<HostAddress>,
    },
    /// Make a hosting volume of this many GiB first.
    Grow {
        /// Its size.
        gib: u64,
    },
    /// No hosting volume that may be made could take it; this is the largest block that fits one.
    TooBig {
        /// The limit.
        limit: Capacity,
    },
    /// More hosts are wanted than a hosting volume has.
    TooFewHosts {
        /// How many there are.
        hosts: usize,
    },
    /// Room is there, and too few hosts of it are alive now.
    HostsDown {
        /// The most that are alive on one volume with room.
        alive: usize,
    },
}

/// Bytes of a hosting volume that may hold blocks: 98 % (C4).
#[must_use]
pub fn usable(size: Capacity) -> u64 {
    size.bytes() / 100 * 98
}

/// Bytes still free on a candidate.
#[must_use]
pub fn free(candidate: &Candidate) -> u64 {
    usable(candidate.hosting.size).saturating_sub(candidate.used)
}

/// Decides where a block of `size` on `ha` hosts goes. Best fit: the volume with the least room that is enough, so
/// that large blocks find room later; on equal room the first by name.
///
/// | a volume with room | has `ha` hosts | they are alive | decision |
/// |---|---|---|---|
/// | yes | yes | yes | `Place` |
/// | yes | yes | no  | `HostsDown` |
/// | yes | no  |     | `TooFewHosts` |
/// | no  |     |     | `Grow`, or `TooBig` when a new one of the configured size could not take it either |
///
/// The hosts rotate with `seed`, so that blocks spread over first hosts.
#[must_use]
pub fn place(
    candidates: &[Candidate],
    size: Capacity,
    ha: usize,
    new_gib: u64,
    seed: u64,
) -> Placement {
    let with_room = candidates
        .iter()
        .enumerate()
        .filter(|(_, each)| free(each) >= size.bytes());
    let mut fitting: Vec<_> = with_room.collect();
    fitting.sort_by_key(|(_, each)| free(each));
    if fitting.is_empty() {
        let limit = Capacity::from_bytes(usable(Capacity::from_bytes(
            new_gib.saturating_mul(1 << 30),
        )));
        return if size > limit {
            Placement::TooBig { limit }
        } else {
            Placement::Grow { gib: new_gib }
        };
    }
    if let Some((candidate, each)) = fitting.iter().find(|(_, each)| each.alive.len() >= ha) {
        return Placement::Place {
            candidate: *candidate,
            hosts: rotate(&each.alive, ha, seed),
        };
    }
    let hosts = fitting
        .iter()
        .map(|(_, each)| each.hosting.hosts.len())
        .max()
        .unwrap_or(0);
    if hosts < ha {
        return Placement::TooFewHosts { hosts };
    }
    let alive = fitting
        .iter()
        .map(|(_, each)| each.alive.len())
        .max()
        .unwrap_or(0);
    Placement::HostsDown { alive }
}

fn rotate(hosts: &[HostAddress], count: usize, seed: u64) -> Vec<HostAddress> {
    let start = usize::try_from(seed)
        .unwrap_or(0)
        .checked_rem(hosts.len())
        .unwrap_or(0);
    hosts
        .iter()
        .cycle()
        .skip(start)
        .take(count.min(hosts.len()))
        .copied()
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GIB: u64 = 1 << 30;

    fn hosts(count: u8) -> Vec<HostAddress> {
        (1..=count)
            .map(|n| format!("10.0.0.{n}").parse().unwrap())
            .collect()
    }

    fn candidate(name: &str, gib: u64, used: u64, alive: u8) -> Candidate {
        let size = Capacity::from_bytes(gib * GIB);
        Candidate {
            hosting: Hosting {
                name: name.parse().unwrap(),
                size,
                hosts: hosts(3),
            },
            used,
            alive: hosts(alive),
        }
    }

    #[test]
    fn the_volume_with_the_least_room_that_is_enough_is_taken() {
        let candidates = [
            candidate("a", 100, 0, 3),
            candidate("b", 10, 0, 3),
            candidate("c", 1, 0, 3),
        ];
        let Placement::Place { candidate, .. } =
            place(&candidates, Capacity::from_bytes(5 * GIB), 3, 100, 0)
        else {
            panic!("no place");
        };
        assert_eq!(candidate, 1);
    }

    #[test]
    fn two_percent_of_a_hosting_volume_stay_free() {
        let candidates = [candidate("a", 100, 0, 3)];
        let fits = |gib| place(&candidates, Capacity::from_bytes(gib * GIB), 3, 100, 0);
        assert!(matches!(fits(98), Placement::Place { .. }));
        assert!(matches!(fits(99), Placement::TooBig { .. }));
    }

    #[test]
    fn dead_hosts_and_missing_hosts_are_told_apart() {
        let one = [candidate("a", 100, 0, 2)];
        let size = Capacity::from_bytes(GIB);
        assert_eq!(
            place(&one, size, 3, 100, 0),
            Placement::HostsDown { alive: 2 }
        );
        assert_eq!(
            place(&one, size, 4, 100, 0),
            Placement::TooFewHosts { hosts: 3 }
        );
        assert_eq!(place(&[], size, 3, 100, 0), Placement::Grow { gib: 100 });
    }

    proptest! {
        #[test]
        fn what_is_placed_fits_and_has_as_many_different_hosts_as_wanted(
            volumes in prop::collection::vec((1_u64..50, 0_u64..50, 0_u8..4), 0..6),
            gib in 1_u64..60, ha in 1_usize..4, seed in any::<u64>(),
        ) {
            let candidates: Vec<_> = volumes
                .iter().enumerate()
                .map(|(n, (size, used, alive))| candidate(&format!("v{n}"), *size, used * GIB, *alive))
                .collect();
            if let Placement::Place { candidate, hosts } =
                place(&candidates, Capacity::from_bytes(gib * GIB), ha, 40, seed)
            {
                let chosen = &candidates[candidate];
                prop_assert!(chosen.used + gib * GIB <= usable(chosen.hosting.size));
                let different: std::collections::BTreeSet<_> = hosts.iter().collect();
                prop_assert_eq!(different.len(), ha);
                prop_assert!(hosts.iter().all(|host| chosen.alive.contains(host)));
            }
        }
    }
}
