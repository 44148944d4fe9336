//! Publish: the staged volume at a pod's path, as a bind mount of the file system or of the device node.
//!
//! # Guarantees
//!
//! - Only what is mounted from the volume's own map is ever published; a staging directory without its mount is refused,
//!   because a pod would write to the node's own disk (T21, T26).
//! - The paths are asked again who they are (C8).
//! - Publishing again leaves one mount (T13).
//!
//! # Assumptions
//!
//! The caller holds the volume's guard and lets the operation run to its end (C3).

use std::path::{Path, PathBuf};

use blockd_client::vocabulary::{VolumeId, Wwid};
use proto::error::{Chain, Classify, ErrorKind};

use super::Operations;
use super::observe::{Seen, identify_all};
use crate::host::{Host, HostError, Identity, Map, MountEntry, PathDevice, TargetKind};
use crate::record::{Access, JournalError, Marker, Record};

#[cfg(test)]
mod tests;

/// What a caller asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishVolume {
    /// The volume.
    pub id: VolumeId,
    /// The identity it must have, when the caller says it.
    pub wwid: Option<Wwid>,
    /// Where it is staged.
    pub staging_path: PathBuf,
    /// Where it shall appear.
    pub target_path: PathBuf,
    /// How it shall be used.
    pub access: Access,
    /// Whether the pod may only read.
    pub read_only: bool,
    /// Whether several pods of this node may have it.
    pub shared: bool,
}

/// The next action of a publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Bind the staged file system onto the target.
    Bind,
    /// Bind the device node onto the target.
    BindDevice,
    /// Nothing is left to do.
    Done,
}

/// Chooses what to do at the target path. The first row that applies wins.
///
/// | mounted at the target     | mounted at other targets | shared | next                        |
/// |---------------------------|--------------------------|--------|-----------------------------|
/// | the volume, as asked for  |                          |        | `Done`                      |
/// | the volume, otherwise     |                          |        | refuse: exists already      |
/// | something else            |                          |        | refuse: exists already      |
/// | nothing                   | the volume               | no     | refuse: precondition        |
/// | nothing                   | the volume               | yes    | `Bind` or `BindDevice`      |
/// | nothing                   | nothing                  |        | `Bind` or `BindDevice`      |
///
/// # Errors
///
/// The rows that refuse.
pub fn next_step(wanted: &PublishVolume, map: &Map, seen: &Seen) -> Result<Step, PublishError> {
    let is_ours = |entry: &MountEntry| match wanted.access {
        Access::Block => entry.node == Some(map.dev),
        Access::Filesystem { .. } => entry.dev == map.dev,
    };
    if let Some(top) = seen.mounts_at(&wanted.target_path).next_back() {
        if is_ours(top) && top.read_only == wanted.read_only {
            return Ok(Step::Done);
        }
        return Err(PublishError::TargetInUse {
            path: wanted.target_path.clone(),
            source_name: top.source.clone(),
            read_only: top.read_only,
        });
    }
    // kubelet's own binds of parts of the volume (subPath) are no publications: their root is not the volume's.
    let other = seen.mounts.iter().find(|entry| {
        let whole = matches!(wanted.access, Access::Block) || entry.root == Path::new("/");
        is_ours(entry) && whole && entry.mountpoint != wanted.staging_path
    });
    match other {
        Some(entry) if !wanted.shared => Err(PublishError::PublishedElsewhere {
            volume: wanted.id.clone(),
            path: entry.mountpoint.clone(),
        }),
        Some(_) | None => Ok(match wanted.access {
            Access::Block => Step::BindDevice,
            Access::Filesystem { .. } => Step::Bind,
        }),
    }
}

/// The map to publish: staged by us, in the way that is asked for, and mounted where it should be.
fn staged_map<'a>(
    wanted: &PublishVolume,
    record: Option<&Record>,
    seen: &'a Seen,
) -> Result<&'a Map, PublishError> {
    let not_staged = |detail| PublishError::NotStaged {
        volume: wanted.id.clone(),
        path: wanted.staging_path.clone(),
        detail,
    };
    let record = record.ok_or_else(|| not_staged("it has no journal on this node"))?;
    let same_kind = match (&record.access, &wanted.access) {
        (Access::Block, Access::Block) => true,
        (Access::Filesystem { fs, .. }, Access::Filesystem { fs: asked, .. }) => fs == asked,
        (Access::Block, Access::Filesystem { .. }) | (Access::Filesystem { .. }, Access::Block) => {
            false
        }
    };
    if !same_kind || (record.read_only && !wanted.read_only) {
        return Err(PublishError::StagedOtherwise {
            volume: wanted.id.clone(),
            staged: describe(&record.access, record.read_only),
            asked: describe(&wanted.access, wanted.read_only),
        });
    }
    if record.staging_path != wanted.staging_path {
        return Err(not_staged("it is staged at another path"));
    }
    if wanted
        .wwid
        .as_ref()
        .is_some_and(|wwid| *wwid != record.wwid)
    {
        return Err(not_staged("another volume of the same name is staged"));
    }
    let map = seen
        .map
        .as_ref()
        .ok_or_else(|| not_staged("its map is not there"))?;
    let mounted = match wanted.access {
        Access::Block => record.step == Marker::Staged,
        Access::Filesystem { .. } => seen
            .mounts_at(&wanted.staging_path)
            .next_back()
            .is_some_and(|top| top.dev == map.dev),
    };
    if mounted {
        Ok(map)
    } else {
        Err(not_staged("its map is not mounted there"))
    }
}

impl<H: Host> Operations<H> {
    /// Publishes a staged volume; published already is success.
    ///
    /// # Errors
    ///
    /// See [`PublishError`]. A target that this call made is removed again.
    pub async fn publish(&self, wanted: &PublishVolume) -> Result<(), PublishError> {
        let wanted = &PublishVolume {
            staging_path: self.host.resolve(&wanted.staging_path).await,
            target_path: self.host.resolve(&wanted.target_path).await,
            ..wanted.clone()
        };
        let record = self
            .journal
            .load(&wanted.id)
            .await
            .map_err(|source| PublishError::Journal { source })?;
        let observe = |source| PublishError::Observe { source };
        let seen = match &record {
            Some(record) => Seen::observe(&self.host, Some(&record.iqn), &record.wwid)
                .await
                .map_err(observe)?,
            None => Seen::default(),
        };
        let map = staged_map(wanted, record.as_ref(), &seen)?;
        self.recognise(map, &seen).await?;
        match next_step(wanted, map, &seen)? {
            Step::Done => return Ok(()),
            Step::Bind => self.bind(wanted, None).await?,
            Step::BindDevice => self.bind(wanted, Some(map)).await?,
        }
        let mounts = self.host.mounts().await.map_err(observe)?;
        let after = Seen {
            mounts,
            ..seen.clone()
        };
        match next_step(wanted, map, &after)? {
            Step::Done => Ok(()),
            Step::Bind | Step::BindDevice => Err(PublishError::Unmounted {
                path: wanted.target_path.clone(),
            }),
        }
    }

    /// Asks every reachable path who it is: one that is another volume's ends the publish, one that does not answer is
    /// the healer's, one at least must be ours.
    async fn recognise(&self, map: &Map, seen: &Seen) -> Result<(), PublishError> {
        let reachable: Vec<PathDevice> = seen
            .paths
            .iter()
            .filter(|path| seen.is_reachable(path))
            .cloned()
            .collect();
        let mut silence = None;
        let mut ours = 0;
        for (path, answer) in identify_all(&self.host, &reachable, 1).await {
            match answer {
                Ok(Identity::Naa(wwid)) if wwid == map.wwid => ours += 1,
                Ok(found) => {
                    return Err(PublishError::WrongDevice {
                        path: path.name,
                        expected: map.wwid.clone(),
                        found,
                    });
                }
                Err(error) => silence = Some(Chain(&error).to_string()),
            }
        }
        if ours > 0 {
            return Ok(());
        }
        let detail = silence.unwrap_or_else(|| "no session can be used".to_owned());
        Err(PublishError::NoPath {
            map: map.name.clone(),
            detail,
        })
    }

    async fn bind(&self, wanted: &PublishVolume, device: Option<&Map>) -> Result<(), PublishError> {
        let target = &wanted.target_path;
        let kind = if device.is_some() {
            TargetKind::File
        } else {
            TargetKind::Directory
        };
        let failed = |step| move |source| PublishError::Step { step, source };
        self.host
            .make_target(target, kind)
            .await
            .map_err(failed("make target"))?;
        let outcome = match device {
            Some(map) => self.host.bind_device(map, target, wanted.read_only).await,
            None => {
                self.host
                    .bind(&wanted.staging_path, target, wanted.read_only)
                    .await
            }
        };
        if outcome.is_err() {
            // Half a bind is worse than none: without this a retry would find a writable mount (F24, R02).
            self.take_back(target).await;
        }
        outcome.map_err(failed("bind"))
    }

    async fn take_back(&self, target: &Path) {
        let undone = match self.host.unmount(target).await {
            Ok(()) => self.host.remove_target(target).await,
            Err(error) => Err(error),
        };
        if let Err(error) = undone {
            tracing::warn!(path = %target.display(), error = %Chain(&error), "target is left");
        }
    }
}

fn describe(access: &Access, read_only: bool) -> String {
    let mode = if read_only { "read-only" } else { "read-write" };
    match access {
        Access::Block => format!("a {mode} block device"),
        Access::Filesystem { fs, .. } => format!("a {mode} {fs} file system"),
    }
}

/// A publish that was refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The journal cannot be read.
    #[error("the journal of the publish failed")]
    Journal {
        /// Why.
        #[source]
        source: JournalError,
    },
    /// The volume is not staged as it should be (T21, T26).
    #[error("{volume} is not staged at {}: {detail}", path.display())]
    NotStaged {
        /// The volume.
        volume: VolumeId,
        /// The staging path.
        path: PathBuf,
        /// What is missing.
        detail: &'static str,
    },
    /// The volume is staged for another use (R09).
    #[error("{volume} is staged as {staged} and shall be published as {asked}")]
    StagedOtherwise {
        /// The volume.
        volume: VolumeId,
        /// How it is staged.
        staged: String,
        /// What is asked for.
        asked: String,
    },
    /// The target path is taken.
    #[error("{} is a mount of {source_name} already (read-only: {read_only})", path.display())]
    TargetInUse {
        /// The target path.
        path: PathBuf,
        /// What is mounted there.
        source_name: String,
        /// How.
        read_only: bool,
    },
    /// A volume for one pod has one.
    #[error("{volume} is published at {} and its access mode allows one publication", path.display())]
    PublishedElsewhere {
        /// The volume.
        volume: VolumeId,
        /// Where.
        path: PathBuf,
    },
    /// A path is not the volume (C8).
    #[error("device {path} is not the volume: it should be {expected} and says {found}")]
    WrongDevice {
        /// The path.
        path: String,
        /// The volume's identity.
        expected: Wwid,
        /// The device's.
        found: Identity,
    },
    /// No path of the map answers.
    #[error("map {map} has no path that answers: {detail}")]
    NoPath {
        /// The map.
        map: String,
        /// Why.
        detail: String,
    },
    /// The bind succeeded, and there is no mount.
    #[error("{} was bound and is not mounted", path.display())]
    Unmounted {
        /// The target path.
        path: PathBuf,
    },
    /// An observation failed.
    #[error("cannot see the state of this host")]
    Observe {
        /// Why.
        #[source]
        source: HostError,
    },
    /// An action failed.
    #[error("step {step} of the publish failed")]
    Step {
        /// The action.
        step: &'static str,
        /// Why.
        #[source]
        source: HostError,
    },
}

impl Classify for PublishError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Journal { source } => source.kind(),
            Self::Observe { source } | Self::Step { source, .. } => source.kind(),
            Self::TargetInUse { .. } => ErrorKind::AlreadyExists,
            Self::NotStaged { .. }
            | Self::StagedOtherwise { .. }
            | Self::PublishedElsewhere { .. } => ErrorKind::FailedPrecondition,
            Self::WrongDevice { .. } | Self::Unmounted { .. } => ErrorKind::Internal,
            Self::NoPath { .. } => ErrorKind::Unavailable,
        }
    }
}
