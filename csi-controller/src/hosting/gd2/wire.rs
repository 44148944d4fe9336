//! What goes over the wire to gd2 and comes back. Tolerant: keys that are not needed are not named. Sizes are bytes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The key by which everybody finds hosting volumes, gd2's own block plugin too.
pub(super) const HOSTING: &str = "block-hosting";
/// Our key; its value is the prefix of our names. No underscore first: gd2 keeps those keys to itself.
pub(super) const OWNER: &str = "gluster-block-csi-owner";

#[derive(Debug, Deserialize)]
pub(super) struct Volume {
    pub(super) name: String,
    pub(super) state: State,
    /// Absent where somebody chose the bricks by hand.
    #[serde(default)]
    pub(super) capacity: u64,
    #[serde(default)]
    pub(super) metadata: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub(super) subvols: Option<Vec<Subvol>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum State {
    /// Never started yet.
    Created,
    Started,
    Stopped,
}

#[derive(Debug, Deserialize)]
pub(super) struct Subvol {
    #[serde(default)]
    pub(super) bricks: Option<Vec<Brick>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Brick {
    #[serde(default)]
    pub(super) peer_id: String,
    #[serde(default)]
    pub(super) host: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Peer {
    pub(super) id: String,
    #[serde(default)]
    pub(super) name: String,
    #[serde(default, rename = "peer-addresses")]
    pub(super) for_peers: Option<Vec<String>>,
    #[serde(default, rename = "client-addresses")]
    pub(super) for_clients: Option<Vec<String>>,
    #[serde(default)]
    pub(super) online: bool,
    #[serde(default)]
    pub(super) metadata: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Device {
    #[serde(default)]
    pub(super) state: String,
    #[serde(default)]
    pub(super) provisioner: String,
    #[serde(default)]
    pub(super) free_size: u64,
    #[serde(default)]
    pub(super) peer_id: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct VolumeCreate<'a> {
    pub(super) name: &'a str,
    pub(super) size: u64,
    pub(super) replica: u32,
    pub(super) provisioner: &'static str,
    pub(super) metadata: BTreeMap<&'static str, &'a str>,
    pub(super) options: &'a BTreeMap<String, String>,
    /// Those of the profile are advanced ones.
    pub(super) allow_advanced_options: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Errors {
    pub(super) errors: Vec<Fault>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Fault {
    #[serde(default)]
    pub(super) code: u32,
    #[serde(default)]
    pub(super) message: String,
    /// Of a failed step: on which peer, and why.
    #[serde(default)]
    pub(super) fields: Option<BTreeMap<String, String>>,
}

/// The code of a step of a transaction that failed.
pub(super) const STEP_FAILED: u32 = 2;

impl Volume {
    /// Whether it is a hosting volume that `owner` made.
    pub(super) fn is_marked(&self, owner: &str) -> bool {
        let value = |key| self.metadata.as_ref()?.get(key).map(String::as_str);
        value(HOSTING) == Some("yes") && value(OWNER) == Some(owner)
    }

    pub(super) fn bricks(&self) -> impl Iterator<Item = &Brick> {
        let subvols = self.subvols.iter().flatten();
        subvols.flat_map(|subvol| subvol.bricks.iter().flatten())
    }
}

impl Peer {
    /// gd2 puts no two bricks of a set into one zone; a peer without one is a zone of its own.
    pub(super) fn zone(&self) -> &str {
        let zone = self.metadata.as_ref().and_then(|all| all.get("_zone"));
        zone.map(|zone| zone.trim())
            .filter(|zone| !zone.is_empty())
            .unwrap_or(&self.id)
    }

    /// Where it may be found by others, without ports; the address of peers first.
    pub(super) fn hosts(&self) -> impl Iterator<Item = &str> {
        let peers = self.for_peers.iter().flatten();
        let clients = self.for_clients.iter().flatten();
        let hosts = peers.chain(clients).map(|address| host_of(address));
        hosts.filter(|host| {
            !matches!(*host, "" | "localhost" | "0.0.0.0") && !host.starts_with("127.")
        })
    }
}

fn host_of(address: &str) -> &str {
    let host = match address.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => address,
    };
    host.trim_start_matches('[').trim_end_matches(']')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(addresses: &[&str]) -> Peer {
        serde_json::from_value(serde_json::json!({
            "id": "p",
            "peer-addresses": addresses,
            "client-addresses": ["127.0.0.1:24007", "10.0.0.9:24007"],
        }))
        .unwrap()
    }

    #[test]
    fn a_peer_is_found_by_others_at_its_addresses_only() {
        let hosts = |addresses| {
            peer(addresses)
                .hosts()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(hosts(&["10.0.0.1:24008"]), ["10.0.0.1", "10.0.0.9"]);
        assert_eq!(hosts(&["s1.example:24008"]), ["s1.example", "10.0.0.9"]);
        assert_eq!(
            hosts(&[":24008", "127.0.0.1:1", "localhost:1"]),
            ["10.0.0.9"]
        );
        assert_eq!(hosts(&["10.0.0.1"]), ["10.0.0.1", "10.0.0.9"]);
    }

    #[test]
    fn absent_and_null_are_the_same_to_us() {
        let volume = r#"{"name":"v","state":"Created","subvols":null,"metadata":null}"#;
        let volume: Volume = serde_json::from_str(volume).unwrap();
        assert!(!volume.is_marked("gbcsi") && volume.bricks().next().is_none());
    }

    // reference §4.2: no key of ours may begin with an underscore, and all of them take no more than 4 KB.
    #[test]
    fn our_metadata_fits_with_the_longest_prefix() {
        let size = HOSTING.len() + "yes".len() + OWNER.len() + 30;
        assert!(size < 4096 / 8, "{size}");
        assert!(![HOSTING, OWNER].iter().any(|key| key.starts_with('_')));
    }
}
