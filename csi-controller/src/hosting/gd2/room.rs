//! What gd2's peers and devices have room for, and where its peers are.

use std::collections::{BTreeMap, BTreeSet};

use blockd_client::vocabulary::{Capacity, HostAddress};

use super::wire;
use crate::hosting::HostingError;
use crate::hosting::address::address;

const MIB: u64 = 1 << 20;
/// The thin pool's own data take half a percent, twice, and LVM rounds up to its extents.
const DEVICE_PERCENT: u64 = 98;
/// Bricks of a set; gluster-block supports no other number.
pub(super) const REPLICA: usize = 3;
/// How bricks are made. Of the other kind, loop files, gd2 makes none above 100 GiB.
pub(super) const PROVISIONER: &str = "lvm";

/// The free bytes of the device that bounds a new volume: one brick goes to each of three zones.
///
/// gd2 takes only devices that are enabled, of peers that are online, and no two bricks of a set into one zone. So it is the
/// largest device of the third-best zone; nothing where there are fewer zones.
pub(super) fn bound(peers: &[wire::Peer], devices: &[wire::Device]) -> u64 {
    let zones: BTreeMap<&str, &str> = peers
        .iter()
        .filter(|peer| peer.online)
        .map(|peer| (peer.id.as_str(), peer.zone()))
        .collect();
    let mut best: BTreeMap<&str, u64> = BTreeMap::new();
    for device in devices {
        let usable = device.state == "enabled" && device.provisioner == PROVISIONER;
        if let Some(zone) = zones.get(device.peer_id.as_str()).filter(|_| usable) {
            let free = best.entry(*zone).or_default();
            *free = device.free_size.max(*free);
        }
    }
    let mut free: Vec<u64> = best.into_values().collect();
    free.sort_unstable_by(|a, b| b.cmp(a));
    free.get(REPLICA - 1).copied().unwrap_or_default()
}

/// A size that a new volume certainly could have, given its [`bound`].
pub(super) fn largest(bound: u64) -> Capacity {
    let bytes = bound / 100 * DEVICE_PERCENT;
    Capacity::from_bytes(bytes / MIB * MIB)
}

/// The addresses of peers, by their ids.
#[derive(Debug, Default)]
pub(super) struct Addresses(BTreeMap<String, Result<HostAddress, String>>);

impl Addresses {
    /// Asks the resolver where an address is a name.
    pub(super) async fn of(peers: &[wire::Peer]) -> Self {
        let mut addresses = BTreeMap::new();
        for peer in peers {
            addresses.insert(peer.id.clone(), of_peer(peer).await);
        }
        Self(addresses)
    }

    /// All that are known.
    pub(super) fn all(&self) -> BTreeSet<HostAddress> {
        self.0.values().flatten().copied().collect()
    }

    /// The hosts that can serve blocks of a volume: those of its bricks first, then all others.
    ///
    /// # Errors
    ///
    /// One of its bricks is nowhere.
    pub(super) async fn serving(
        &self,
        volume: &wire::Volume,
    ) -> Result<Vec<HostAddress>, HostingError> {
        let mut near = BTreeSet::new();
        for brick in volume.bricks() {
            near.insert(match self.0.get(&brick.peer_id) {
                Some(Ok(host)) => *host,
                Some(Err(name)) => {
                    let name = name.clone();
                    return Err(HostingError::NoAddress { name });
                }
                // A peer that was given up; its brick still names it.
                None => address(&brick.host).await?,
            });
        }
        let far = self.all().into_iter().filter(|host| !near.contains(host));
        Ok(near.iter().copied().chain(far).collect())
    }
}

/// The first address that is one; else what the peer is called.
async fn of_peer(peer: &wire::Peer) -> Result<HostAddress, String> {
    for host in peer.hosts() {
        if let Ok(address) = address(host).await {
            return Ok(address);
        }
    }
    let name = peer.hosts().next().unwrap_or(&peer.name).to_owned();
    tracing::warn!(peer = peer.id, name, "a peer of gd2's has no IPv4 address");
    Err(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn peer(id: &str, zone: &str, online: bool) -> wire::Peer {
        let peer = json!({"id": id, "online": online, "metadata": {"_zone": zone},
            "peer-addresses": [format!("10.0.0.{id}:24008")]});
        serde_json::from_value(peer).unwrap()
    }

    fn device(peer: &str, free: u64, state: &str, provisioner: &str) -> wire::Device {
        let device =
            json!({"peer-id": peer, "free-size": free, "state": state, "provisioner": provisioner});
        serde_json::from_value(device).unwrap()
    }

    // reference §6.2 CSI #132: what devices have is known before anything is asked for
    #[test]
    fn a_volume_is_bounded_by_the_best_device_of_the_third_best_zone() {
        let peers = |zones: [&str; 4], online| {
            let ids = ["1", "2", "3", "4"];
            ids.iter()
                .zip(zones)
                .map(|(id, zone)| peer(id, zone, *id != "4" || online))
                .collect::<Vec<_>>()
        };
        let lvm = |id, free| device(id, free, "enabled", "lvm");
        let devices = vec![
            lvm("1", 50),
            lvm("1", 90),
            lvm("2", 80),
            lvm("3", 20),
            lvm("4", 70),
        ];
        assert_eq!(bound(&peers([""; 4], true), &devices), 70);
        assert_eq!(bound(&peers([""; 4], false), &devices), 20);
        assert_eq!(bound(&peers(["a", "b", "a", "b"], true), &devices), 0);
        assert_eq!(bound(&peers(["a", "b", "c", "c"], true), &devices), 70);
        let mut unusable = vec![lvm("1", 90), lvm("2", 80)];
        unusable.push(device("3", 60, "disabled", "lvm"));
        unusable.push(device("4", 60, "enabled", "loop"));
        assert_eq!(bound(&peers([""; 4], true), &unusable), 0);
    }

    #[test]
    fn what_is_certain_is_less_than_what_is_free() {
        assert_eq!(largest(100 << 30), Capacity::from_bytes(98 << 30));
        assert_eq!(largest(0), Capacity::ZERO);
    }

    #[tokio::test]
    async fn hosts_with_bricks_come_first_and_each_once() {
        let peers: Vec<_> = ["1", "2", "3", "4"]
            .iter()
            .map(|id| peer(id, "", true))
            .collect();
        let volume = json!({"name": "v", "state": "Started", "subvols": [{"bricks": [
            {"peer-id": "4", "host": "x"}, {"peer-id": "2", "host": "x"}, {"peer-id": "gone", "host": "10.0.0.7"}]}]});
        let volume: wire::Volume = serde_json::from_value(volume).unwrap();
        let hosts = Addresses::of(&peers).await.serving(&volume).await.unwrap();
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        assert_eq!(
            hosts,
            ["10.0.0.2", "10.0.0.4", "10.0.0.7", "10.0.0.1", "10.0.0.3"]
        );
    }

    #[tokio::test]
    async fn a_peer_without_an_address_fails_only_volumes_with_a_brick_there() {
        let nowhere =
            json!({"id": "9", "name": "s9", "online": true, "peer-addresses": [":24008"]});
        let peers = [
            peer("1", "", true),
            serde_json::from_value(nowhere).unwrap(),
        ];
        let addresses = Addresses::of(&peers).await;
        let on = |id: &str| {
            let volume = json!({"name": "v", "state": "Started", "subvols": [{"bricks": [{"peer-id": id}]}]});
            serde_json::from_value::<wire::Volume>(volume).unwrap()
        };
        assert_eq!(addresses.serving(&on("1")).await.unwrap().len(), 1);
        let error = addresses.serving(&on("9")).await.unwrap_err();
        assert!(error.to_string().contains("s9"), "{error}");
    }
}
