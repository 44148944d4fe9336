//! Hosting volumes through heketi's REST interface.
//!
//! heketi makes and describes the volumes; it never hears of our blocks. So a volume of ours is *locked* (heketi puts none
//! of its own blocks there) and *named* by us: `<prefix>_<32 random hex digits>`, never used twice. Both together mark it:
//!
//! | name is of our form | block | restriction | blocks by heketi | it is |
//! |---|---|---|---|---|
//! | yes | yes | `locked` | any | ours |
//! | yes | yes | none | none | ours, made by an attempt that died before it could lock: locked now |
//! | else | | | | somebody else's, and left alone |
//!
//! heketi has no look-up by name, so listing means reading every id once; ids of other people's volumes are remembered.

mod client;
mod queue;
mod wire;

use std::collections::{BTreeSet, HashSet};
use std::sync::{Mutex, PoisonError};

use blockd_client::vocabulary::{Capacity, HostingVolume, Invalid};

use self::client::Client;
pub use self::client::{Connection, Patience};
use self::queue::End;
use super::address::address;
use super::naming::Naming;
use super::{ClientError, ClusterId, Hosting, HostingError, HostingVolumes, Making, Room};

const GIB: u64 = 1 << 30;
/// heketi keeps some of a device for the thin pool's own data.
const DEVICE_PERCENT: u64 = 98;
const REPLICA: usize = 3;

/// Hosting volumes in heketi.
#[derive(Debug)]
pub struct Heketi {
    client: Client,
    naming: Naming,
    options: Vec<String>,
    /// Ids whose names are not ours; names do not change. Taken for single look-ups only.
    foreign: Mutex<HashSet<String>>,
}

impl Heketi {
    /// Talks to the heketi of `connection`. Connects to nobody yet.
    ///
    /// # Errors
    ///
    /// The certificate authority cannot be used.
    pub fn new(connection: Connection, making: Making) -> Result<Self, ClientError> {
        Ok(Self {
            client: Client::new(connection)?,
            naming: Naming::new(making.prefix),
            options: making.options,
            foreign: Mutex::default(),
        })
    }

    async fn volume(&self, id: &str) -> Result<Option<wire::Volume>, HostingError> {
        self.client.get(&format!("/volumes/{id}")).await
    }

    /// What of one volume is ours; locks it if nobody could so far.
    async fn claim(&self, volume: wire::Volume) -> Result<Option<Hosting>, HostingError> {
        if !self.naming.is_ours(&volume.name) {
            self.foreign
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(volume.id);
            return Ok(None);
        }
        match volume.blockinfo.restriction.as_str() {
            _ if !volume.block => Ok(None),
            wire::LOCKED => hosting(volume).await.map(Some),
            "" if volume.blockinfo.blockvolume.is_empty() => {
                tracing::info!(volume = volume.name, "marking a hosting volume as ours");
                self.lock(&volume.id).await?;
                hosting(volume).await.map(Some)
            }
            restriction => {
                tracing::warn!(
                    volume = volume.name,
                    restriction,
                    "a volume with a name of ours holds blocks of heketi's; it is left alone"
                );
                Ok(None)
            }
        }
    }

    async fn lock(&self, id: &str) -> Result<(), HostingError> {
        let body = wire::Restriction {
            restriction: wire::LOCKED,
        };
        let what = || format!("marking volume {id}");
        match self
            .client
            .run(&format!("/volumes/{id}/block-restriction"), &body)
            .await?
        {
            End::At(_) | End::Nothing => Ok(()),
            End::Failed(said) => Err(HostingError::Refused { said }),
            End::Lost(why) => Err(HostingError::Unknown {
                what: what(),
                why: why.to_owned(),
            }),
        }
    }

    /// The volume of that name, if heketi shows one.
    async fn find(&self, name: &str) -> Result<Option<wire::Volume>, HostingError> {
        for id in self.unknown_ids().await? {
            match self.volume(&id).await? {
                Some(volume) if volume.name == name => return Ok(Some(volume)),
                Some(_) | None => {}
            }
        }
        Ok(None)
    }

    async fn unknown_ids(&self) -> Result<Vec<String>, HostingError> {
        let list: wire::VolumeList = self.required("/volumes").await?;
        let foreign = self.foreign.lock().unwrap_or_else(PoisonError::into_inner);
        let ours = |id: &String| !foreign.contains(id);
        Ok(list.volumes.into_iter().filter(ours).collect())
    }

    async fn required<T: serde::de::DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<T, HostingError> {
        let found = self.client.get(path).await?;
        found.ok_or_else(|| HostingError::Protocol {
            what: format!("GET {path}"),
            why: "not found; is this heketi? see setting --heketi-url".to_owned(),
        })
    }
}

impl HostingVolumes for Heketi {
    async fn list(&self) -> Result<Vec<Hosting>, HostingError> {
        let mut ours = Vec::new();
        for id in self.unknown_ids().await? {
            // Gone between the list and the look: that is no error.
            if let Some(volume) = self.volume(&id).await? {
                ours.extend(self.claim(volume).await?);
            }
        }
        ours.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(ours)
    }

    async fn create(
        &self,
        size: Capacity,
        clusters: &[ClusterId],
    ) -> Result<Hosting, HostingError> {
        let name = self.naming.fresh();
        let body = wire::VolumeCreate {
            size: size.bytes().div_ceil(GIB),
            name: &name,
            clusters: clusters.iter().map(ClusterId::as_str).collect(),
            durability: wire::Durability::REPLICA_3,
            block: true,
            glustervolumeoptions: &self.options,
            snapshot: wire::Snapshot {
                enable: false,
                factor: 1.0,
            },
        };
        let what = || format!("hosting volume {name}");
        let unknown = |why: &str| HostingError::Unknown {
            what: what(),
            why: why.to_owned(),
        };
        let volume = match self.client.run("/volumes", &body).await? {
            End::At(path) => self.client.get(&path).await?,
            End::Nothing => self.find(&name).await?,
            End::Failed(said) => return Err(failed(size, said)),
            // Finished all the same? It can only be told apart by its name.
            End::Lost(why) => match self.find(&name).await? {
                Some(volume) => Some(volume),
                None => return Err(unknown(why)),
            },
        };
        let volume: wire::Volume =
            volume.ok_or_else(|| unknown("heketi says that it is made and does not show it"))?;
        tracing::info!(volume = name, size = %size, "hosting volume made");
        self.lock(&volume.id).await?;
        hosting(volume).await
    }

    async fn room(&self, clusters: &[ClusterId]) -> Result<Vec<Room>, HostingError> {
        let list: wire::ClusterList = self.required("/clusters").await?;
        let mut rooms = Vec::new();
        for id in list.clusters {
            let cluster = cluster_id(&id)?;
            if !clusters.is_empty() && !clusters.contains(&cluster) {
                continue;
            }
            let Some(described) = self
                .client
                .get::<wire::Cluster>(&format!("/clusters/{id}"))
                .await?
            else {
                continue;
            };
            if described.block {
                rooms.push(self.cluster_room(cluster, &described.nodes).await?);
            }
        }
        Ok(rooms)
    }
}

impl Heketi {
    async fn cluster_room(
        &self,
        cluster: ClusterId,
        nodes: &[String],
    ) -> Result<Room, HostingError> {
        let mut hosts = BTreeSet::new();
        let mut free = Vec::new();
        for id in nodes {
            let Some(node) = self
                .client
                .get::<wire::Node>(&format!("/nodes/{id}"))
                .await?
            else {
                continue;
            };
            if let Some(name) = node.hostnames.storage.first() {
                hosts.insert(address(name).await?);
            }
            if node.state == "online" {
                let devices = node
                    .devices
                    .iter()
                    .filter(|device| device.state == "online");
                free.push(devices.map(|device| device.storage.free).max().unwrap_or(0));
            }
        }
        Ok(Room {
            cluster,
            hosts,
            largest: largest_volume(free),
        })
    }
}

/// What a volume of one brick per node could have: the largest device of the third-best node, in whole GiB.
///
/// heketi may do better with several sets of bricks; this is what is certain.
fn largest_volume(mut free_kib: Vec<u64>) -> Capacity {
    free_kib.sort_unstable_by(|a, b| b.cmp(a));
    let third = free_kib.get(REPLICA - 1).copied().unwrap_or_default();
    let gib = third.saturating_mul(1024) / 100 * DEVICE_PERCENT / GIB;
    Capacity::from_bytes(gib * GIB)
}

/// What heketi's words about a failed create mean.
fn failed(size: Capacity, said: String) -> HostingError {
    const FULL: [&str; 5] = [
        "No space",
        "No online storage devices in cluster",
        "No nodes in cluster",
        "Maximum number of bricks reached",
        "Minimum brick size limit reached",
    ];
    if FULL.iter().any(|text| said.contains(text)) || said.contains("and limit is") {
        return HostingError::NoSpace { size, said };
    }
    HostingError::Refused { said }
}

async fn hosting(volume: wire::Volume) -> Result<Hosting, HostingError> {
    let odd = |why: String| HostingError::Protocol {
        what: format!("GET /volumes/{}", volume.id),
        why,
    };
    let name: HostingVolume = volume
        .name
        .parse()
        .map_err(|error: Invalid| odd(error.to_string()))?;
    let size = volume
        .size
        .checked_mul(GIB)
        .ok_or_else(|| odd("its size is beyond reason".to_owned()))?;
    let cluster = cluster_id(&volume.cluster)?;
    let mut hosts = Vec::new();
    for host in &volume.mount.glusterfs.hosts {
        let host = address(host).await?;
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    // heketi gives them in no order; ours makes all questions about a volume go to the same host.
    hosts.sort();
    Ok(Hosting {
        name,
        size: Capacity::from_bytes(size),
        hosts,
        cluster,
    })
}

fn cluster_id(id: &str) -> Result<ClusterId, HostingError> {
    id.parse()
        .map_err(|error: super::InvalidClusterId| HostingError::Protocol {
            what: "a cluster's id".to_owned(),
            why: error.to_string(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_volume_is_bounded_by_the_third_node() {
        let kib = |gib: u64| gib * 1024 * 1024;
        assert_eq!(
            largest_volume(vec![kib(100), kib(20), kib(50), kib(10)]),
            Capacity::from_bytes(19 * GIB)
        );
        assert_eq!(largest_volume(vec![kib(100), kib(50)]), Capacity::ZERO);
    }

    #[test]
    fn full_is_told_apart_from_refused() {
        let size = Capacity::from_bytes(GIB);
        for said in [
            "Failed to allocate new volume: No space",
            "Cluster has 1000 volumes and limit is 1000",
        ] {
            assert!(matches!(
                failed(size, said.to_owned()),
                HostingError::NoSpace { .. }
            ));
        }
        assert!(matches!(
            failed(size, "volume create failed".to_owned()),
            HostingError::Refused { .. }
        ));
    }
}
