//! Hosting volumes through `GlusterD2`'s REST interface.
//!
//! gd2 makes, starts and describes the volumes; the blocks on them are ours alone, and its block plugin is never asked. A
//! volume of ours is *named* by us and *marked* in its metadata by the very request that makes it, so there is no moment
//! at which it is there and not ours:
//!
//! | `block-hosting` | owner key | name of our form | state | it is |
//! |---|---|---|---|---|
//! | `yes` | our prefix | yes | `Started` | ours |
//! | `yes` | our prefix | yes | `Created` | ours and unfinished: no block can be on it yet. Started now |
//! | `yes` | our prefix | yes | `Stopped` | ours, stopped by a person: listed, and left as it is |
//! | else | | | | somebody else's, and left alone |
//!
//! gd2 answers when all is done, or not at all: its answers end after thirty seconds, its work does not. A request that
//! makes a volume is therefore never sent twice; the volume is looked for by its name, as long as it may still come.

mod answer;
mod client;
mod room;
mod wire;

use std::collections::BTreeMap;

use blockd_client::vocabulary::{Capacity, HostingVolume, Invalid};
use reqwest::Method;
use tokio::time::{Instant, sleep};

use self::answer::Meaning;
use self::client::Client;
pub use self::client::{Connection, Patience, USER};
use self::room::Addresses;
use self::wire::State;
use super::naming::Naming;
use super::{ClientError, ClusterId, Hosting, HostingError, HostingVolumes, Making, Room};

/// What is set on every hosting volume.
///
/// The profile says nothing of two things that gd2 gives every replicated volume unless told otherwise: no self-heal daemon,
/// and a cache of names that are absent, which other hosts would not know of.
pub const OPTIONS: [&str; 3] = [
    "profile.gluster-block on",
    "cluster/replicate.self-heal-daemon on",
    "performance/nl-cache off",
];

/// Hosting volumes in gd2.
#[derive(Debug)]
pub struct Gd2 {
    client: Client,
    naming: Naming,
    owner: String,
    options: BTreeMap<String, String>,
}

impl Gd2 {
    /// Talks to the gd2 of `connection`. Connects to nobody yet.
    ///
    /// # Errors
    ///
    /// The certificate authority cannot be used.
    pub fn new(connection: Connection, making: Making) -> Result<Self, ClientError> {
        Ok(Self {
            client: Client::new(connection)?,
            naming: Naming::new(making.prefix.clone()),
            owner: making.prefix,
            options: pairs(&making.options),
        })
    }

    /// The volumes that are ours, whatever their state.
    async fn ours(&self) -> Result<(Vec<wire::Volume>, ClusterId), HostingError> {
        let path = format!("/v1/volumes?key={}&value={}", wire::OWNER, self.owner);
        let (mut volumes, cluster): (Vec<wire::Volume>, _) = self.client.get(&path).await?;
        volumes.retain(|volume| self.is_ours(volume));
        volumes.sort_by(|a, b| a.name.cmp(&b.name));
        Ok((volumes, cluster))
    }

    fn is_ours(&self, volume: &wire::Volume) -> bool {
        volume.is_marked(&self.owner) && self.naming.is_ours(&volume.name)
    }

    async fn peers(&self) -> Result<(Vec<wire::Peer>, ClusterId), HostingError> {
        self.client.get("/v1/peers").await
    }

    /// Starts a volume that was made and not started.
    async fn start(&self, name: &str) -> Result<wire::Volume, HostingError> {
        let give_up = Instant::now() + self.client.patience.operation;
        let path = format!("/v1/volumes/{name}/start");
        let why = match self.client.send(Method::POST, &path, None::<&()>).await {
            Ok(started) => match started.meaning {
                Meaning::Done | Meaning::Already => "gd2 says that it is started".to_owned(),
                Meaning::Unsettled => started.said(),
                Meaning::Absent
                | Meaning::Locked
                | Meaning::PeerDown
                | Meaning::NoSpace
                | Meaning::Unauthorized
                | Meaning::Failed
                | Meaning::Foreign => return Err(started.refusal()),
            },
            Err(HostingError::Unknown { why, .. }) => why,
            Err(error) => return Err(error),
        };
        let started = |volume: &wire::Volume| volume.state == State::Started;
        match self.seen(name, give_up, started).await {
            Some(volume) => {
                tracing::info!(volume = name, "hosting volume started");
                Ok(volume)
            }
            None => Err(HostingError::Unknown {
                what: format!("starting hosting volume {name}"),
                why,
            }),
        }
    }

    /// Looks for a volume until it is as wanted. A look that fails says nothing.
    async fn seen(
        &self,
        name: &str,
        give_up: Instant,
        wanted: impl Fn(&wire::Volume) -> bool,
    ) -> Option<wire::Volume> {
        loop {
            match self.look(name).await {
                Ok(Some(volume)) if wanted(&volume) => return Some(volume),
                Ok(_) => {}
                Err(error) => {
                    let error = proto::error::Chain(&error).to_string();
                    tracing::debug!(volume = name, error, "cannot look for a volume");
                }
            }
            if Instant::now() >= give_up {
                return None;
            }
            sleep(self.client.patience.poll).await;
        }
    }

    async fn look(&self, name: &str) -> Result<Option<wire::Volume>, HostingError> {
        self.client.find(&format!("/v1/volumes/{name}")).await
    }

    /// Makes a volume, not started, and marks it in the same request.
    async fn make(&self, name: &str, size: Capacity) -> Result<wire::Volume, HostingError> {
        let body = wire::VolumeCreate {
            name,
            size: size.bytes(),
            replica: 3,
            provisioner: room::PROVISIONER,
            metadata: BTreeMap::from([(wire::HOSTING, "yes"), (wire::OWNER, &self.owner)]),
            options: &self.options,
            allow_advanced_options: true,
        };
        let give_up = Instant::now() + self.client.patience.operation;
        let sent = self
            .client
            .send(Method::POST, "/v1/volumes", Some(&body))
            .await;
        let (why, failed) = match sent {
            Ok(made) => match made.meaning {
                Meaning::Done => return made.answer.json(),
                Meaning::NoSpace => {
                    let said = made.said();
                    return Err(HostingError::NoSpace { size, said });
                }
                // `Already`: by this very request, sent on by something in between. Nobody else has this name.
                Meaning::Already | Meaning::Unsettled => (made.said(), None),
                // gd2 has undone it, if all went well; a volume that stayed is as good as any.
                Meaning::Failed => (made.said(), Some(made.refusal())),
                Meaning::Absent
                | Meaning::Locked
                | Meaning::PeerDown
                | Meaning::Unauthorized
                | Meaning::Foreign => return Err(made.refusal()),
            },
            Err(HostingError::Unknown { why, .. }) => (why, None),
            Err(error) => return Err(error),
        };
        let patience = if failed.is_some() {
            Instant::now()
        } else {
            give_up
        };
        let found = self.seen(name, patience, |_| true).await;
        found.ok_or_else(|| {
            failed.unwrap_or_else(|| HostingError::Unknown {
                what: format!("hosting volume {name}"),
                why,
            })
        })
    }

    /// That a volume of that size can be thought of at all. gd2 itself may only run into a time-out.
    async fn must_fit(&self, size: Capacity, peers: &[wire::Peer]) -> Result<(), HostingError> {
        let (devices, _): (Vec<wire::Device>, _) = self.client.get("/v1/devices").await?;
        let bound = room::bound(peers, &devices);
        if size.bytes() <= bound {
            return Ok(());
        }
        let bound = Capacity::from_bytes(bound);
        Err(HostingError::NoSpace {
            size,
            said: format!(
                "three zones with an enabled {} device of that size are needed; the third-best has {bound}",
                room::PROVISIONER
            ),
        })
    }
}

impl HostingVolumes for Gd2 {
    async fn list(&self) -> Result<Vec<Hosting>, HostingError> {
        let (volumes, cluster) = self.ours().await?;
        if volumes.is_empty() {
            return Ok(Vec::new());
        }
        let (peers, _) = self.peers().await?;
        let addresses = Addresses::of(&peers).await;
        let mut ours = Vec::new();
        for mut volume in volumes {
            if volume.state == State::Created {
                match self.start(&volume.name).await {
                    Ok(started) => volume = started,
                    Err(error) => {
                        // It holds no block, so nothing is missing without it. The next create says what is wrong.
                        let error = proto::error::Chain(&error).to_string();
                        tracing::warn!(
                            volume = volume.name,
                            error,
                            "a hosting volume cannot be started"
                        );
                        continue;
                    }
                }
            }
            if volume.state == State::Stopped {
                tracing::warn!(
                    volume = volume.name,
                    "a hosting volume is stopped; start it"
                );
            }
            ours.push(hosting(&volume, &addresses, &cluster).await?);
        }
        Ok(ours)
    }

    async fn create(
        &self,
        size: Capacity,
        clusters: &[ClusterId],
    ) -> Result<Hosting, HostingError> {
        let (peers, cluster) = self.peers().await?;
        if !clusters.is_empty() && !clusters.contains(&cluster) {
            return Err(HostingError::Refused {
                said: format!("the cluster of --gd2-url is {cluster}, and none of those asked for"),
            });
        }
        let addresses = Addresses::of(&peers).await;
        // One that was left unfinished is finished before another one is made; else a fault would fill the devices.
        let (ours, _) = self.ours().await?;
        for volume in ours.iter().filter(|volume| volume.state == State::Created) {
            let started = self.start(&volume.name).await?;
            if started.capacity >= size.bytes() {
                return hosting(&started, &addresses, &cluster).await;
            }
        }
        self.must_fit(size, &peers).await?;
        let name = self.naming.fresh();
        let made = self.make(&name, size).await?;
        tracing::info!(volume = name, size = %size, "hosting volume made");
        let started = match made.state {
            State::Started => made,
            State::Created | State::Stopped => self.start(&name).await?,
        };
        hosting(&started, &addresses, &cluster).await
    }

    async fn room(&self, clusters: &[ClusterId]) -> Result<Vec<Room>, HostingError> {
        let (peers, cluster) = self.peers().await?;
        if !clusters.is_empty() && !clusters.contains(&cluster) {
            return Ok(Vec::new());
        }
        let (devices, _): (Vec<wire::Device>, _) = self.client.get("/v1/devices").await?;
        Ok(vec![Room {
            cluster,
            hosts: Addresses::of(&peers).await.all(),
            largest: room::largest(room::bound(&peers, &devices)),
        }])
    }
}

async fn hosting(
    volume: &wire::Volume,
    addresses: &Addresses,
    cluster: &ClusterId,
) -> Result<Hosting, HostingError> {
    let odd = |why: String| HostingError::Protocol {
        what: format!("GET /v1/volumes/{}", volume.name),
        why,
    };
    let name: HostingVolume = volume
        .name
        .parse()
        .map_err(|error: Invalid| odd(error.to_string()))?;
    if volume.capacity == 0 {
        return Err(odd("it has no capacity".to_owned()));
    }
    Ok(Hosting {
        name,
        size: Capacity::from_bytes(volume.capacity),
        hosts: addresses.serving(volume).await?,
        cluster: cluster.clone(),
    })
}

/// `KEY VALUE KEY VALUE` entries as gd2 takes them; a later one wins.
fn pairs(options: &[String]) -> BTreeMap<String, String> {
    let mut pairs = BTreeMap::new();
    for option in options {
        let mut words = option.split_whitespace();
        while let (Some(key), Some(value)) = (words.next(), words.next()) {
            pairs.insert(key.to_owned(), value.to_owned());
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_become_pairs_and_the_operators_win() {
        let mut options: Vec<String> = OPTIONS.iter().map(|&option| option.to_owned()).collect();
        options.push("performance/nl-cache on a/b.c 1".to_owned());
        let pairs = pairs(&options);
        assert_eq!(pairs["profile.gluster-block"], "on");
        assert_eq!(pairs["cluster/replicate.self-heal-daemon"], "on");
        assert_eq!(pairs["performance/nl-cache"], "on");
        assert_eq!(pairs["a/b.c"], "1");
    }
}
