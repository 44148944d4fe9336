//! Hosting volumes through heketi's REST API. heketi stays unchanged and knows nothing of our blocks.
//!
//! A hosting volume is ours when its name begins with our prefix, it is a block hosting volume, and it carries the
//! restriction `locked`, so that heketi places nothing on it. One with our name and without the lock is what a crash
//! between making and marking leaves: it is marked when it is next seen, before any block lands on it.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use blockd_client::vocabulary::{Capacity, HostAddress, HostingVolume};
use secrecy::SecretString;
use url::Url;
use uuid::Uuid;

use super::{Hosting, HostingError, HostingVolumes, Ownership};
use client::Client;

mod auth;
mod client;
mod wire;

/// Where heketi is, and how our hosting volumes are made.
#[derive(Debug, Clone)]
pub struct HeketiConfig {
    /// Base address.
    pub url: Url,
    /// `admin`; heketi lets `user` do next to nothing.
    pub user: String,
    /// The user's key; none when heketi runs without authentication.
    pub key: Option<SecretString>,
    /// Clusters to use; all when empty.
    pub clusters: Vec<String>,
    /// What the names of our hosting volumes begin with.
    pub prefix: String,
    /// `gluster volume set` options of a new one, in order.
    pub options: Vec<String>,
}

/// heketi.
#[derive(Debug)]
pub struct Heketi {
    client: Client,
    config: HeketiConfig,
    /// Ids of volumes whose name is not ours: names never change, so these need not be read again. Held for single
    /// reads and writes only.
    foreign: Mutex<HashSet<String>>,
}

impl Heketi {
    /// A client; nothing is sent yet.
    ///
    /// # Errors
    /// When the HTTP library cannot start.
    pub fn new(config: HeketiConfig) -> Result<Self, HostingError> {
        Ok(Self {
            client: Client::new(&config)?,
            config,
            foreign: Mutex::default(),
        })
    }

    /// Looks whether heketi answers and takes our key.
    ///
    /// # Errors
    /// What to mend.
    pub async fn check(&self) -> Result<(), HostingError> {
        self.client
            .get::<wire::ClusterList>("/clusters")
            .await
            .map(drop)
    }

    async fn volumes(&self) -> Result<Vec<wire::Volume>, HostingError> {
        let list: Option<wire::VolumeList> = self.client.get("/volumes").await?;
        let mut found = Vec::new();
        for id in list.map(|list| list.volumes).unwrap_or_default() {
            if self.is_foreign(&id) {
                continue;
            }
            // One that is gone by now is no error.
            let Some(volume) = self
                .client
                .get::<wire::Volume>(&format!("/volumes/{id}"))
                .await?
            else {
                continue;
            };
            if volume.block && volume.name.starts_with(&self.config.prefix) {
                found.push(volume);
            } else {
                self.foreign
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .insert(id);
            }
        }
        Ok(found)
    }

    fn is_foreign(&self, id: &str) -> bool {
        self.foreign
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(id)
    }

    /// Marks the volume ours if a crash kept an earlier attempt from it.
    async fn own(&self, volume: wire::Volume) -> Result<Hosting, HostingError> {
        if volume.blockinfo.restriction.is_empty() {
            tracing::info!(
                hosting_volume = volume.name,
                "marking a hosting volume ours"
            );
            let path = format!("/volumes/{}/block-restriction", volume.id);
            let lock = wire::Restriction {
                restriction: "locked",
            };
            self.client
                .change("mark the hosting volume ours", &path, &lock)
                .await?;
        }
        let name = volume.name.parse().map_err(|_| HostingError::Failed {
            what: "name a hosting volume".to_owned(),
            reason: format!("{:?} is not a legal name", volume.name),
        })?;
        let hosts = volume.mount.glusterfs.hosts.iter().map(|host| {
            host.parse::<HostAddress>()
                .map_err(|_| HostingError::HostName {
                    name: volume.name.clone(),
                    host: host.clone(),
                })
        });
        let mut hosts = hosts.collect::<Result<Vec<_>, _>>()?;
        hosts.sort_unstable();
        Ok(Hosting {
            name,
            size: Capacity::from_bytes(volume.size << 30),
            hosts,
        })
    }
}

impl HostingVolumes for Heketi {
    async fn list(&self) -> Result<Vec<Hosting>, HostingError> {
        let mut ours = Vec::new();
        for volume in self.volumes().await? {
            ours.push(self.own(volume).await?);
        }
        ours.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(ours)
    }

    async fn find(&self, name: &HostingVolume) -> Result<Ownership, HostingError> {
        let volumes = self.volumes().await?;
        if let Some(volume) = volumes
            .into_iter()
            .find(|volume| volume.name == name.as_str())
        {
            return self.own(volume).await.map(Ownership::Ours);
        }
        // Not one of ours: is it there at all? Read the rest, which is rare.
        let list: Option<wire::VolumeList> = self.client.get("/volumes").await?;
        for id in list.map(|list| list.volumes).unwrap_or_default() {
            let volume: Option<wire::Volume> = self.client.get(&format!("/volumes/{id}")).await?;
            if volume.is_some_and(|volume| volume.name == name.as_str()) {
                return Ok(Ownership::Foreign);
            }
        }
        Ok(Ownership::Absent)
    }

    async fn create(&self, gib: u64) -> Result<Hosting, HostingError> {
        let name = format!("{}{}", self.config.prefix, Uuid::new_v4().simple());
        let wanted = wire::CreateVolume {
            size: gib,
            name: &name,
            clusters: &self.config.clusters,
            durability: wire::Durability {
                kind: "replicate",
                replicate: wire::Replicate { replica: 3 },
            },
            glustervolumeoptions: &self.config.options,
            block: true,
        };
        tracing::info!(hosting_volume = name, gib, "making a hosting volume");
        let what = format!("make hosting volume {name}");
        let made = self.client.change(&what, "/volumes", &wanted).await?;
        let unknown = || HostingError::Unknown { what: what.clone() };
        let volume = self
            .client
            .get::<wire::Volume>(&made.ok_or_else(unknown)?)
            .await?;
        self.own(volume.ok_or_else(unknown)?).await
    }

    async fn has_room(&self, gib: u64) -> Result<bool, HostingError> {
        let clusters = if self.config.clusters.is_empty() {
            let list: Option<wire::ClusterList> = self.client.get("/clusters").await?;
            list.map(|list| list.clusters).unwrap_or_default()
        } else {
            self.config.clusters.clone()
        };
        for cluster in clusters {
            let cluster: Option<wire::Cluster> =
                self.client.get(&format!("/clusters/{cluster}")).await?;
            let Some(cluster) = cluster.filter(|cluster| cluster.block) else {
                continue;
            };
            let mut nodes = 0;
            for node in cluster.nodes {
                let node: Option<wire::Node> = self.client.get(&format!("/nodes/{node}")).await?;
                nodes += usize::from(node.is_some_and(|node| fits(&node, gib)));
            }
            if nodes >= 3 {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// True when one online device of an online node has room for a brick of that size.
fn fits(node: &wire::Node, gib: u64) -> bool {
    let online = |state: &str| state.is_empty() || state == "online";
    online(&node.state)
        && node
            .devices
            .iter()
            .any(|device| online(&device.state) && device.storage.free >= gib << 20)
}
