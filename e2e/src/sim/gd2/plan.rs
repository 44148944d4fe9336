//! Where bricks go: gd2's planner, for one set of replicated bricks (`reference/heketi-gd2.md` §4.2).
//!
//! A device takes a brick if it is enabled, of the right kind, its peer is online and has no brick of the set in its zone, and
//! if it has room for the brick and for its pool's metadata. Devices that nothing is on come first.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::model::{Brick, Cluster};

/// Places the bricks of a volume.
///
/// # Errors
///
/// gd2's words for that there is no room.
pub fn plan(
    cluster: &Cluster,
    down: &BTreeSet<String>,
    name: &str,
    bytes: u64,
    (replicas, provisioner): (usize, &str),
    root: &str,
) -> Result<Vec<Brick>, &'static str> {
    let peer = |id: &str| {
        let mut peers = cluster.peers.iter();
        peers.find(|peer| peer.id == id && !down.contains(&peer.host))
    };
    let usable = |kind: &str, enabled| enabled && kind == provisioner;
    let mut devices: Vec<_> = cluster
        .devices
        .iter()
        .filter(|device| usable(&device.provisioner, device.enabled))
        .filter_map(|device| peer(&device.peer).map(|peer| (device, peer)))
        .collect();
    if devices.is_empty() {
        return Err("no devices registered or available for allocating bricks");
    }
    devices.sort_by_key(|(device, _)| device.free < device.total);
    let takes = takes(bytes);
    let mut zones = BTreeSet::new();
    let mut bricks = Vec::new();
    for (device, peer) in devices {
        if bricks.len() < replicas && device.free >= takes && zones.insert(peer.zone()) {
            let number = bricks.len() + 1;
            bricks.push(Brick {
                id: Uuid::new_v4().to_string(),
                peer: peer.id.clone(),
                host: peer.host.clone(),
                path: format!("{root}/{name}/subvol1/brick{number}/brick"),
                device: device.name.clone(),
                takes,
            });
        }
    }
    if bricks.len() < replicas {
        return Err("no space available or all the devices are not registered");
    }
    Ok(bricks)
}

/// A thin pool of the brick's size, and half a percent for its metadata, both in sectors.
fn takes(bytes: u64) -> u64 {
    let sectors = |bytes: u64| bytes / 512 * 512;
    sectors(bytes).saturating_add(sectors(bytes / 200))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn cluster(zones: &[&str]) -> Cluster {
        let hosts: Vec<String> = (1..=4).map(|n| format!("10.0.0.{n}")).collect();
        let zones: Vec<String> = zones.iter().map(|&zone| zone.to_owned()).collect();
        Cluster::of(&hosts, &zones, 10 * GIB)
    }

    fn hosts(cluster: &Cluster, down: &[&str], bytes: u64) -> Result<Vec<String>, &'static str> {
        let down = down.iter().map(|&host| host.to_owned()).collect();
        let bricks = plan(cluster, &down, "v", bytes, (3, "lvm"), "/bricks")?;
        Ok(bricks.into_iter().map(|brick| brick.host).collect())
    }

    #[test]
    fn empty_devices_come_first_and_each_zone_once() {
        let mut cluster = cluster(&[]);
        let placed = hosts(&cluster, &[], GIB).expect("room");
        assert_eq!(placed, ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
        cluster.devices[0].free -= GIB;
        let placed = hosts(&cluster, &[], GIB).expect("room");
        assert_eq!(placed, ["10.0.0.2", "10.0.0.3", "10.0.0.4"]);
    }

    #[test]
    fn zones_peers_that_are_down_and_metadata_count() {
        let no_space = Err("no space available or all the devices are not registered");
        assert_eq!(hosts(&cluster(&["a", "a", "b", "b"]), &[], GIB), no_space);
        assert_eq!(
            hosts(&cluster(&[]), &["10.0.0.1", "10.0.0.2"], GIB),
            no_space
        );
        assert_eq!(hosts(&cluster(&[]), &[], 10 * GIB), no_space);
        assert!(hosts(&cluster(&[]), &[], 9 * GIB).is_ok());
        let all = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"];
        let none = Err("no devices registered or available for allocating bricks");
        assert_eq!(hosts(&cluster(&[]), &all, GIB), none);
    }
}
