//! Where blocks go, and that no history of placements ever promises more than there is.

use proptest::prelude::*;

use super::*;

const GIB: u64 = 1 << 30;

fn gib(count: u64) -> Capacity {
    Capacity::from_bytes(count * GIB)
}

fn hosts(count: u8) -> Vec<HostAddress> {
    (1..=count)
        .map(|n| format!("10.0.0.{n}").parse().unwrap())
        .collect()
}

fn space(name: &str, size: u64, used: u64) -> Space {
    Space {
        volume: name.parse().unwrap(),
        cluster: "c1".parse().unwrap(),
        size: gib(size),
        used: gib(used),
        reserved: Capacity::ZERO,
        blocks: 0,
        hosts: hosts(3),
    }
}

fn room(cluster: &str, count: u8) -> Room {
    Room {
        cluster: cluster.parse().unwrap(),
        hosts: hosts(count).into_iter().collect(),
        largest: gib(100),
    }
}

fn snapshot(spaces: Vec<Space>) -> Snapshot {
    Snapshot {
        spaces,
        alive: hosts(3).into_iter().collect(),
        room: Some(vec![room("c1", 3)]),
        ..Snapshot::default()
    }
}

fn wanted(size: Capacity) -> Wanted {
    Wanted {
        block: "pvc-1".parse().unwrap(),
        size,
        ha: 3,
        clusters: Vec::new(),
    }
}

const RULES: Rules = Rules {
    sizes: Sizes {
        usual: Capacity::from_bytes(10 * GIB),
        largest: Capacity::from_bytes(100 * GIB),
    },
    prefer: Preference::BestFit,
    most_blocks: None,
};

fn placed_on(placement: &Placement) -> Option<&str> {
    if let Placement::Place { volume, .. } = placement {
        return Some(volume.as_str());
    }
    None
}

#[test]
fn the_fullest_volume_that_still_fits_is_taken() {
    let snapshot = snapshot(vec![
        space("a", 10, 0),
        space("b", 10, 7),
        space("c", 10, 9),
    ]);
    assert_eq!(
        placed_on(&place(&snapshot, &wanted(gib(2)), RULES)),
        Some("b")
    );
}

#[test]
fn spread_takes_the_emptiest_and_random_any_but_always_the_same() {
    let snapshot = snapshot(vec![
        space("a", 10, 3),
        space("b", 10, 0),
        space("c", 10, 7),
    ]);
    let place_by = |prefer, block: &str| {
        let wanted = Wanted {
            block: block.parse().unwrap(),
            ..wanted(gib(2))
        };
        place(&snapshot, &wanted, Rules { prefer, ..RULES })
    };
    let spread = place_by(Preference::Spread, "pvc-1");
    assert_eq!(placed_on(&spread), Some("b"));
    let random = |n| place_by(Preference::Random, &format!("pvc-{n}"));
    assert_eq!(random(1), random(1));
    let seen: BTreeSet<_> = (0..64)
        .filter_map(|n| placed_on(&random(n)).map(str::to_owned))
        .collect();
    assert_eq!(seen.len(), 3);
}

#[test]
fn a_volume_with_as_many_blocks_as_allowed_takes_no_more() {
    let mut full = space("a", 10, 1);
    full.blocks = 2;
    let limited = |most| Rules {
        most_blocks: Some(most),
        ..RULES
    };
    let snapshot = snapshot(vec![full]);
    let placement = place(&snapshot, &wanted(gib(1)), limited(3));
    assert_eq!(placed_on(&placement), Some("a"));
    let placement = place(&snapshot, &wanted(gib(1)), limited(2));
    assert!(
        matches!(placement, Placement::CreateHostingVolume { .. }),
        "{placement:?}"
    );
}

#[test]
fn two_percent_are_kept_back() {
    let snapshot = snapshot(vec![space("a", 100, 0)]);
    assert_eq!(
        placed_on(&place(&snapshot, &wanted(gib(98)), RULES)),
        Some("a")
    );
    let more = Capacity::from_bytes(98 * GIB + 512);
    assert_eq!(
        place(&snapshot, &wanted(more), RULES),
        Placement::TooBig { largest: gib(98) }
    );
}

#[test]
fn reservations_count_as_used() {
    let mut reserved = space("a", 10, 0);
    reserved.reserved = gib(9);
    let placement = place(&snapshot(vec![reserved]), &wanted(gib(1)), RULES);
    assert_eq!(
        placement,
        Placement::CreateHostingVolume {
            size: gib(10),
            clusters: vec!["c1".parse().unwrap()]
        }
    );
}

#[test]
fn a_block_larger_than_the_usual_volume_gets_one_that_fits() {
    let placement = place(&snapshot(Vec::new()), &wanted(gib(49)), RULES);
    let Placement::CreateHostingVolume { size, .. } = placement else {
        panic!("{placement:?}");
    };
    assert_eq!(size, gib(50));
}

#[test]
fn more_hosts_than_there_are_is_too_few_hosts() {
    let four = Wanted {
        ha: 4,
        ..wanted(gib(1))
    };
    assert_eq!(
        place(&snapshot(vec![space("a", 10, 0)]), &four, RULES),
        Placement::TooFewHosts { hosts: 3 }
    );
}

#[test]
fn a_dead_host_is_no_reason_for_a_new_volume() {
    let mut snapshot = snapshot(vec![space("a", 10, 0)]);
    snapshot.alive.pop_first();
    assert_eq!(
        place(&snapshot, &wanted(gib(1)), RULES),
        Placement::TooFewAlive { alive: 2 }
    );
    let two = Wanted {
        ha: 2,
        ..wanted(gib(1))
    };
    assert_eq!(placed_on(&place(&snapshot, &two, RULES)), Some("a"));
}

#[test]
fn only_the_wanted_clusters_are_used() {
    let elsewhere = Wanted {
        clusters: vec!["c2".parse().unwrap()],
        ..wanted(gib(1))
    };
    let mut snapshot = snapshot(vec![space("a", 10, 0)]);
    assert_eq!(
        place(&snapshot, &elsewhere, RULES),
        Placement::TooFewHosts { hosts: 0 }
    );
    snapshot.room = Some(vec![room("c1", 3), room("c2", 3)]);
    assert_eq!(
        place(&snapshot, &elsewhere, RULES),
        Placement::CreateHostingVolume {
            size: gib(10),
            clusters: elsewhere.clusters.clone()
        }
    );
}

#[test]
fn room_is_asked_for_only_when_needed() {
    let mut snapshot = snapshot(vec![space("a", 10, 0)]);
    snapshot.room = None;
    assert!(placed_on(&place(&snapshot, &wanted(gib(1)), RULES)).is_some());
    assert_eq!(
        place(&snapshot, &wanted(gib(20)), RULES),
        Placement::AskForRoom
    );
}

#[test]
fn a_volume_known_to_be_full_is_left_alone() {
    let mut snapshot = snapshot(vec![space("a", 10, 0), space("b", 20, 0)]);
    snapshot.full.insert("a".parse().unwrap());
    assert_eq!(
        placed_on(&place(&snapshot, &wanted(gib(1)), RULES)),
        Some("b")
    );
}

proptest! {
    #[test]
    fn a_history_of_placements_never_overcommits(
        volumes in prop::collection::vec(1_u64..50 * GIB, 0..5),
        blocks in prop::collection::vec(1_u64..20 * GIB, 0..40),
    ) {
        let mut snapshot = snapshot(Vec::new());
        for (n, size) in volumes.into_iter().enumerate() {
            let size = Capacity::from_bytes(size);
            snapshot.spaces.push(Space { size, ..space(&format!("v{n}"), 1, 0) });
        }
        for (n, size) in blocks.into_iter().enumerate() {
            let wanted = Wanted { block: format!("b{n}").parse().unwrap(), ..wanted(Capacity::from_bytes(size)) };
            match place(&snapshot, &wanted, RULES) {
                Placement::Place { volume, hosts } => {
                    prop_assert_eq!(hosts.len(), wanted.ha);
                    let space = snapshot.spaces.iter_mut().find(|s| s.volume == volume).unwrap();
                    // Half of them are still reservations.
                    let part = if n % 2 == 0 { &mut space.used } else { &mut space.reserved };
                    *part = part.checked_add(wanted.size).unwrap();
                }
                Placement::CreateHostingVolume { size, .. } => {
                    prop_assert!(usable(size) >= wanted.size && size <= RULES.sizes.largest);
                    let name = format!("n{n}");
                    snapshot.spaces.push(Space { size, used: wanted.size, ..space(&name, 1, 0) });
                }
                Placement::AskForRoom
                | Placement::TooBig { .. }
                | Placement::TooFewHosts { .. }
                | Placement::TooFewAlive { .. } => prop_assert!(false, "not placed"),
            }
            for space in &snapshot.spaces {
                let taken = u128::from(space.used.bytes()) + u128::from(space.reserved.bytes());
                prop_assert!(taken * 100 <= u128::from(space.size.bytes()) * 98);
            }
        }
    }

    #[test]
    fn a_new_volume_always_holds_the_block_it_is_made_for(size in 1_u64..u64::MAX) {
        let sizes = Sizes { usual: gib(1), largest: Capacity::from_bytes(u64::MAX) };
        if let Some(volume) = size_for(Capacity::from_bytes(size), sizes) {
            prop_assert!(usable(volume).bytes() >= size);
            prop_assert!(volume.bytes() % GIB == 0);
        }
    }

    #[test]
    fn the_chosen_hosts_are_alive_and_distinct(alive in 3_u8..8, name in "[a-z]{1,8}") {
        let wanted = Wanted { block: name.parse().unwrap(), ..wanted(gib(1)) };
        let chosen = choose_hosts(&hosts(alive), &wanted);
        let distinct: BTreeSet<_> = chosen.iter().collect();
        prop_assert_eq!(distinct.len(), 3);
        prop_assert!(chosen.iter().all(|host| hosts(alive).contains(host)));
    }
}
