//! The requests of the modelled gluster-block, with what can go wrong in each.

use std::time::Duration;

use blockd_client::vocabulary::{
    BlockName, Capacity, HostAddress, HostingVolume, Initiator, Iqn, VolumeId,
};
use blockd_client::{BlockInfo, CreateBlock, Error, TransportError};

use super::super::Blocks;
use super::{FakeBlocks, Fault};

/// How long a daemon is at a block whose caller went away.
const LATE: Duration = Duration::from_millis(100);
/// What nobody hears from a host that is cut off takes this long.
const CONNECT: Duration = Duration::from_millis(200);

impl FakeBlocks {
    /// A question to the kernel of a host.
    async fn look(&self, verb: &'static str, host: HostAddress) -> Result<(), Error> {
        self.world().asked.push((verb, host));
        self.reach(host).await
    }

    /// A request to gluster-blockd: waits for what the daemon is at, and for the volume's lock.
    async fn begin(
        &self,
        verb: &'static str,
        host: HostAddress,
        volume: &HostingVolume,
    ) -> Result<Option<Fault>, Error> {
        self.world().asked.push((verb, host));
        self.reach(host).await?;
        while self.world().is_at_work(host, volume) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let fault = {
            let mut world = self.world();
            let position = world.faults.iter().position(|(v, _)| *v == verb);
            position.and_then(|at| world.faults.remove(at).map(|(_, fault)| fault))
        };
        {
            let mut world = self.world();
            let here = world.in_daemon.entry(host).or_default();
            *here += 1;
            let here = *here;
            world.most_in_daemon = world.most_in_daemon.max(here);
        }
        tokio::task::yield_now().await;
        if let Some(Fault::Slow(time)) = fault {
            tokio::time::sleep(time).await;
        }
        if let Some(here) = self.world().in_daemon.get_mut(&host) {
            *here -= 1;
        }
        Ok(fault)
    }

    /// The daemon goes on after its caller went away, and keeps the volume's lock until it is done.
    fn make_later(&self, host: HostAddress, wanted: CreateBlock) {
        let this = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(LATE).await;
            let mut world = this.world();
            world.make(&wanted, None);
            let volume = &wanted.id.hosting_volume;
            world.at_work.retain(|(h, v)| *h != host || v != volume);
        });
    }

    async fn reach(&self, host: HostAddress) -> Result<(), Error> {
        if self.world().down.contains(&host) {
            let reason = "gluster-blockd does not run".to_owned();
            return Err(Error::Unavailable { host, reason });
        }
        if !self.world().cut_off.contains(&host) {
            return Ok(());
        }
        tokio::time::sleep(CONNECT).await;
        Err(Error::Transport(TransportError::Deadline {
            host,
            deadline: CONNECT,
            started: false,
        }))
    }

    fn check_volume(&self, volume: &HostingVolume) -> Result<(), Error> {
        let known = self.hosting.volumes().iter().any(|v| v.name == *volume);
        if known {
            return Ok(());
        }
        Err(Error::VolumeMissing {
            hosting_volume: volume.clone(),
        })
    }
}

fn unproved(id: &VolumeId, host: HostAddress) -> Error {
    Error::Unproved {
        id: id.clone(),
        cause: Box::new(Error::Busy { host }),
        check: None,
    }
}

/// A host that cannot be reached proves nothing.
fn not_begun(id: &VolumeId, error: Error) -> Error {
    if matches!(error, Error::Transport(_)) {
        return Error::Unproved {
            id: id.clone(),
            cause: Box::new(error),
            check: None,
        };
    }
    not_made(id, error)
}

pub(super) fn not_made(id: &VolumeId, cause: Error) -> Error {
    Error::NotMade {
        id: id.clone(),
        cause: Box::new(cause),
    }
}

fn configure_failed(wanted: &CreateBlock) -> Error {
    let mut hosts = wanted.hosts.clone();
    Error::Partial {
        id: wanted.id.clone(),
        failed: hosts.pop().into_iter().collect(),
        done: hosts,
        said: "failed to configure on 10.0.0.3 configure failed".to_owned(),
    }
}

impl Blocks for FakeBlocks {
    async fn create(&self, host: HostAddress, wanted: &CreateBlock) -> Result<BlockInfo, Error> {
        self.kill.step().await;
        let id = &wanted.id;
        let begun = self.begin("create", host, &id.hosting_volume).await;
        let fault = begun.map_err(|error| not_begun(id, error))?;
        self.check_volume(&id.hosting_volume)
            .map_err(|e| not_made(id, e))?;
        {
            let mut world = self.world();
            if let Some(obstacle) = world.obstacle(wanted) {
                return Err(obstacle);
            }
            match fault {
                Some(Fault::HostDown) => return Err(not_made(id, Error::HostDown { host })),
                Some(Fault::NoSpace) => {
                    let hosting_volume = id.hosting_volume.clone();
                    return Err(not_made(id, Error::NoSpace { hosting_volume }));
                }
                Some(Fault::RolledBack) => return Err(not_made(id, configure_failed(wanted))),
                Some(Fault::Silence) => return Err(unproved(id, host)),
                Some(Fault::Late) => {
                    world.at_work.push((host, id.hosting_volume.clone()));
                    self.make_later(host, wanted.clone());
                    return Err(unproved(id, host));
                }
                Some(Fault::Half) => world.make(wanted, wanted.hosts.last().copied()),
                Some(Fault::LostAnswer | Fault::Slow(_)) | None => world.make(wanted, None),
            }
        }
        self.kill.step().await;
        match fault {
            Some(Fault::LostAnswer) => Err(unproved(id, host)),
            Some(Fault::Half) => Err(Error::Incomplete {
                found: Box::new(self.world().info(id)?),
                cause: Some(Box::new(configure_failed(wanted))),
            }),
            _ => self.world().info(id),
        }
    }

    async fn delete(&self, host: HostAddress, id: &VolumeId) -> Result<(), Error> {
        self.kill.step().await;
        let fault = self.begin("delete", host, &id.hosting_volume).await?;
        self.check_volume(&id.hosting_volume)?;
        {
            let mut world = self.world();
            let Some(block) = world.blocks.get(id).cloned() else {
                return Ok(());
            };
            if let Some(host) = block.hosts.iter().find(|host| world.is_gone(**host)) {
                return Err(Error::HostDown { host: *host });
            }
            match fault {
                Some(Fault::Half) => {
                    let failed = block.hosts.first().copied();
                    if let Some(block) = world.blocks.get_mut(id) {
                        block.failing.extend(failed);
                    }
                    return Err(Error::Partial {
                        id: id.clone(),
                        failed: failed.into_iter().collect(),
                        done: Vec::new(),
                        said: String::new(),
                    });
                }
                Some(Fault::Silence | Fault::Late) => return Err(unproved(id, host)),
                Some(Fault::HostDown) => return Err(Error::HostDown { host }),
                Some(Fault::LostAnswer | Fault::Slow(_) | Fault::NoSpace | Fault::RolledBack)
                | None => {}
            }
            world.blocks.remove(id);
        }
        self.kill.step().await;
        match fault {
            Some(Fault::LostAnswer) => Err(unproved(id, host)),
            _ => Ok(()),
        }
    }

    async fn info(&self, host: HostAddress, id: &VolumeId) -> Result<BlockInfo, Error> {
        if self.begin("info", host, &id.hosting_volume).await? == Some(Fault::Silence) {
            return Err(Error::Busy { host });
        }
        self.check_volume(&id.hosting_volume)?;
        self.world().info(id)
    }

    async fn list(
        &self,
        host: HostAddress,
        volume: &HostingVolume,
    ) -> Result<Vec<BlockName>, Error> {
        if self.begin("list", host, volume).await? == Some(Fault::Silence) {
            return Err(Error::Busy { host });
        }
        self.check_volume(volume)?;
        let world = self.world();
        let on_it = world
            .blocks
            .keys()
            .filter(|id| id.hosting_volume == *volume);
        Ok(on_it.map(|id| id.block.clone()).collect())
    }

    async fn resize(
        &self,
        host: HostAddress,
        id: &VolumeId,
        size: Capacity,
    ) -> Result<BlockInfo, Error> {
        self.kill.step().await;
        let fault = self.begin("resize", host, &id.hosting_volume).await?;
        self.check_volume(&id.hosting_volume)?;
        let found = {
            let mut world = self.world();
            let current = world.info(id)?;
            let Some(block) = world.blocks.get_mut(id) else {
                return Err(Error::BlockMissing { id: id.clone() });
            };
            if block.size > size {
                return Err(Error::Shrink {
                    id: id.clone(),
                    current: current.printed_size,
                });
            }
            match fault {
                Some(Fault::NoSpace) => {
                    return Err(Error::NoSpace {
                        hosting_volume: id.hosting_volume.clone(),
                    });
                }
                Some(Fault::HostDown) => return Err(Error::HostDown { host }),
                Some(Fault::Silence) => return Err(Error::Busy { host }),
                Some(Fault::Half) => block.lagging.extend(block.hosts.first().copied()),
                _ => block.lagging.clear(),
            }
            block.size = size;
            world.info(id)?
        };
        self.kill.step().await;
        match fault {
            Some(Fault::LostAnswer) => Err(Error::Busy { host }),
            Some(Fault::Half) => Err(Error::Lagging {
                found: Box::new(found),
            }),
            _ => Ok(found),
        }
    }

    async fn sessions(&self, host: HostAddress, iqn: &Iqn) -> Result<Vec<Initiator>, Error> {
        self.look("sessions", host).await?;
        let world = self.world();
        let sessions = world.sessions.get(&(host, iqn.to_string()));
        Ok(sessions.cloned().unwrap_or_default())
    }

    async fn ping(&self, host: HostAddress) -> Result<(), Error> {
        self.look("ping", host).await
    }
}
