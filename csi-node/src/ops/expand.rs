//! Expand: paths, then map, then file system, each verified before the next (E01).
//!
//! # Guarantees
//!
//! - Nothing is resized unless every path of the volume is there, answers and has the new size (E03): a map over paths of
//!   unlike size loses data.
//! - A path that came back after the storage side had grown is left out by multipathd, because its size is not the map's:
//!   it is added once the map has grown, and the file system grows only when every path is under the map.
//! - A block volume's map is resized as well; only its content is left alone (E08).
//!
//! # Assumptions
//!
//! The storage side has grown already; the caller holds the volume's guard and lets the operation run to its end (C3).

use std::collections::BTreeSet;
use std::path::PathBuf;

use blockd_client::vocabulary::{Capacity, FsType, Portal, VolumeId, Wwid};
use proto::error::{Classify, ErrorKind};

use super::attach::Patience;
use super::observe::{Seen, identify_all};
use super::{Operations, STEP_LIMIT};
use crate::host::{Host, HostError, Identity, Map, PathDevice};
use crate::record::{Access, JournalError, Record};

#[cfg(test)]
mod tests;

/// What a caller asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpandVolume {
    /// The volume.
    pub id: VolumeId,
    /// Where it is published or staged, as the caller says.
    pub volume_path: PathBuf,
    /// The size it must have at least; zero to take what there is.
    pub required: Capacity,
}

/// What one run has done so far.
#[derive(Debug, Clone, Default)]
pub struct Tried {
    /// Whether the paths were recognised.
    pub recognised: bool,
    /// How often the paths were read again.
    pub rescans: u32,
    /// How often we waited for paths to show the new size.
    pub waits: u32,
    /// Whether the map was resized.
    pub resized: bool,
    /// How often multipathd was told of paths outside the map.
    pub added: u32,
    /// How often we waited for the map to take them.
    pub map_waits: u32,
    /// Whether the file system was grown.
    pub grown: bool,
}

/// The next action of an expand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Ask every path who it is.
    Recognise(Vec<PathDevice>),
    /// Have the kernel read every path's size again.
    Rescan(Vec<PathDevice>),
    /// Wait for the storage side.
    Await,
    /// Tell multipathd of paths it left out: it takes none whose size is not the map's.
    AddPaths(Vec<PathDevice>),
    /// Wait for the map to take them.
    AwaitMap,
    /// Have the map take the size of its paths.
    ResizeMap(Map),
    /// Grow the file system mounted there.
    Grow(Map, FsType, PathBuf),
    /// Nothing is left to do; the volume has this size.
    Done(Capacity),
}

/// Chooses the next action of an expand. The first row that applies wins.
///
/// | seen                                                         | next                          |
/// |--------------------------------------------------------------|-------------------------------|
/// | no map                                                       | refuse: not found             |
/// | a portal or a path without usable session                    | refuse: unavailable (E03)     |
/// | paths not asked yet                                          | `Recognise`                   |
/// | paths not read again yet                                     | `Rescan`                      |
/// | paths unlike, or smaller than asked for                      | `Await` and `Rescan`, then refuse |
/// | map smaller than its paths                                   | `ResizeMap` once, then refuse |
/// | a path outside the map, come back when it had grown          | `AddPaths`, `AwaitMap`, then refuse (E03) |
/// | file system staged for readers                               | refuse                        |
/// | file system not grown yet                                    | `Grow` where it is mounted (E06) |
/// | otherwise                                                    | `Done`                        |
///
/// # Errors
///
/// The rows that refuse.
pub fn next_step(
    wanted: &ExpandVolume,
    record: &Record,
    seen: &Seen,
    tried: &Tried,
    patience: Patience,
) -> Result<Step, ExpandError> {
    let map = seen.map.as_ref().ok_or_else(|| ExpandError::NotHere {
        volume: wanted.id.clone(),
        path: wanted.volume_path.clone(),
    })?;
    refuse_missing(&missing(record, seen))?;
    if !tried.recognised {
        return Ok(Step::Recognise(seen.paths.clone()));
    }
    if tried.rescans == 0 {
        return Ok(Step::Rescan(seen.paths.clone()));
    }
    let sizes: BTreeSet<Capacity> = seen.paths.iter().map(|path| path.size).collect();
    let size = sizes.first().copied().unwrap_or(Capacity::ZERO);
    if sizes.len() > 1 || size < wanted.required {
        if tried.waits < patience.paths {
            let due = tried.waits < tried.rescans;
            return Ok(if due {
                Step::Await
            } else {
                Step::Rescan(seen.paths.clone())
            });
        }
        let sizes: Vec<String> = seen
            .paths
            .iter()
            .map(|path| format!("{} {} bytes", path.name, path.size.bytes()))
            .collect();
        return Err(ExpandError::NotGrown {
            required: wanted.required,
            sizes: sizes.join(", "),
        });
    }
    if map.size < size && !tried.resized {
        return Ok(Step::ResizeMap(map.clone()));
    }
    if map.size != size {
        return Err(ExpandError::MapSize {
            map: map.name.clone(),
            size: map.size,
            paths: size,
        });
    }
    let outside: Vec<_> = seen
        .paths
        .iter()
        .filter(|path| !map.slaves.contains(&path.name))
        .cloned()
        .collect();
    if !outside.is_empty() {
        if tried.added == 0 {
            return Ok(Step::AddPaths(outside));
        }
        if tried.map_waits < patience.map {
            return Ok(Step::AwaitMap);
        }
        let names: Vec<_> = outside.into_iter().map(|path| path.name).collect();
        refuse_missing(&names)?;
    }
    let Access::Filesystem { fs, .. } = record.access else {
        return Ok(Step::Done(size));
    };
    if record.read_only {
        return Err(ExpandError::ReadOnly {
            volume: wanted.id.clone(),
        });
    }
    if tried.grown {
        return Ok(Step::Done(size));
    }
    let mountpoint = [&record.staging_path, &wanted.volume_path]
        .into_iter()
        .find(|path| {
            seen.mounts_at(path)
                .next_back()
                .is_some_and(|top| top.dev == map.dev)
        })
        .ok_or_else(|| ExpandError::NotHere {
            volume: wanted.id.clone(),
            path: wanted.volume_path.clone(),
        })?;
    Ok(Step::Grow(map.clone(), fs, mountpoint.clone()))
}

/// The portals of the volume without a usable path, and the paths without a usable session.
fn missing(record: &Record, seen: &Seen) -> Vec<String> {
    let serves = |portal: &Portal| {
        seen.paths
            .iter()
            .any(|path| path.portal == Some(*portal) && seen.is_reachable(path))
    };
    let portals = record.portals.iter().filter(|portal| !serves(portal));
    let paths = seen.paths.iter().filter(|path| !seen.is_reachable(path));
    portals
        .map(ToString::to_string)
        .chain(paths.map(|path| path.name.clone()))
        .collect()
}

fn refuse_missing(missing: &[String]) -> Result<(), ExpandError> {
    if missing.is_empty() {
        return Ok(());
    }
    Err(ExpandError::MissingPaths {
        portals: missing.join(", "),
    })
}

impl<H: Host> Operations<H> {
    /// Has the node take the size the volume has grown to; answers with that size.
    ///
    /// # Errors
    ///
    /// See [`ExpandError`].
    pub async fn expand(&self, wanted: &ExpandVolume) -> Result<Capacity, ExpandError> {
        let failed = |step| move |source| ExpandError::Step { step, source };
        let wanted = &ExpandVolume {
            volume_path: self.host.resolve(&wanted.volume_path).await,
            ..wanted.clone()
        };
        let record = self.staged_record(wanted).await?;
        let mut tried = Tried::default();
        for _ in 0..STEP_LIMIT {
            let seen = Seen::observe(&self.host, Some(&record.iqn), &record.wwid)
                .await
                .map_err(|source| ExpandError::Observe { source })?;
            known_path(wanted, &record, &seen)?;
            match next_step(wanted, &record, &seen, &tried, self.waiting.patience())? {
                Step::Recognise(paths) => {
                    self.recognise_all(&paths, &record.wwid).await?;
                    tried.recognised = true;
                }
                Step::Rescan(paths) => {
                    for path in &paths {
                        self.host.rescan(path).await.map_err(failed("rescan"))?;
                    }
                    tried.rescans += 1;
                }
                Step::Await => {
                    tried.waits += 1;
                    self.pause().await;
                }
                Step::AddPaths(paths) => {
                    self.host
                        .add_map(&record.wwid, &paths)
                        .await
                        .map_err(failed("add paths"))?;
                    tried.added += 1;
                }
                Step::AwaitMap => {
                    tried.map_waits += 1;
                    self.pause().await;
                }
                Step::ResizeMap(map) => {
                    self.host
                        .resize_map(&map)
                        .await
                        .map_err(failed("resize map"))?;
                    tried.resized = true;
                }
                Step::Grow(map, fs, mountpoint) => {
                    self.host
                        .grow(&map, fs, &mountpoint)
                        .await
                        .map_err(failed("grow"))?;
                    tried.grown = true;
                }
                Step::Done(size) => {
                    self.remember(record, size).await?;
                    return Ok(size);
                }
            }
        }
        Err(ExpandError::Unsettled { limit: STEP_LIMIT })
    }

    async fn staged_record(&self, wanted: &ExpandVolume) -> Result<Record, ExpandError> {
        self.journal
            .load(&wanted.id)
            .await
            .map_err(|source| ExpandError::Journal { source })?
            .ok_or_else(|| ExpandError::NotHere {
                volume: wanted.id.clone(),
                path: wanted.volume_path.clone(),
            })
    }

    async fn remember(&self, record: Record, size: Capacity) -> Result<(), ExpandError> {
        if record.expected_bytes == size {
            return Ok(());
        }
        let record = Record {
            expected_bytes: size,
            ..record
        };
        self.journal
            .save(&record)
            .await
            .map_err(|source| ExpandError::Journal { source })
    }

    /// Here a path that does not answer counts as missing: all of them must be the volume.
    async fn recognise_all(&self, paths: &[PathDevice], wwid: &Wwid) -> Result<(), ExpandError> {
        for (path, answer) in identify_all(&self.host, paths, 1).await {
            match answer {
                Ok(Identity::Naa(found)) if found == *wwid => {}
                Ok(found) => {
                    return Err(ExpandError::WrongDevice {
                        path: path.name,
                        expected: wwid.clone(),
                        found,
                    });
                }
                Err(source) => {
                    return Err(ExpandError::Silent {
                        path: path.name,
                        source,
                    });
                }
            }
        }
        Ok(())
    }
}

/// Whether the caller's path is one of the volume's.
fn known_path(wanted: &ExpandVolume, record: &Record, seen: &Seen) -> Result<(), ExpandError> {
    let is_mounted = seen.map.as_ref().is_some_and(|map| {
        seen.mounts_of(map)
            .any(|entry| entry.mountpoint == wanted.volume_path)
    });
    if is_mounted || record.staging_path == wanted.volume_path {
        return Ok(());
    }
    Err(ExpandError::NotHere {
        volume: wanted.id.clone(),
        path: wanted.volume_path.clone(),
    })
}

/// An expand that was refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum ExpandError {
    /// The journal cannot be read or written.
    #[error("the journal of the expand failed")]
    Journal {
        /// Why.
        #[source]
        source: JournalError,
    },
    /// The volume is not on this node, or not at that path.
    #[error("{volume} is not at {} on this node", path.display())]
    NotHere {
        /// The volume.
        volume: VolumeId,
        /// The path asked for.
        path: PathBuf,
    },
    /// Not every path is there (E03).
    #[error("the volume cannot grow while paths are missing: {portals}")]
    MissingPaths {
        /// The portals without a path, and the paths outside the map.
        portals: String,
    },
    /// A path does not answer (E03).
    #[error("the volume cannot grow while device {path} does not answer")]
    Silent {
        /// The path.
        path: String,
        /// Why.
        #[source]
        source: HostError,
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
    /// The storage side has not grown on every path.
    #[error("the volume should have {} bytes and its paths do not: {sizes}", required.bytes())]
    NotGrown {
        /// What was asked for.
        required: Capacity,
        /// Each path and its size.
        sizes: String,
    },
    /// The map does not take the size of its paths.
    #[error("map {map} has {} bytes and its paths {}", size.bytes(), paths.bytes())]
    MapSize {
        /// The map.
        map: String,
        /// Its size.
        size: Capacity,
        /// The paths'.
        paths: Capacity,
    },
    /// A file system for readers is not grown.
    #[error("{volume} is staged for readers only and its file system cannot grow")]
    ReadOnly {
        /// The volume.
        volume: VolumeId,
    },
    /// An observation failed.
    #[error("cannot see the state of this host")]
    Observe {
        /// Why.
        #[source]
        source: HostError,
    },
    /// An action failed.
    #[error("step {step} of the expand failed")]
    Step {
        /// The action.
        step: &'static str,
        /// Why.
        #[source]
        source: HostError,
    },
    /// The expand never came to an end.
    #[error("the volume did not settle within {limit} steps")]
    Unsettled {
        /// How many were taken.
        limit: u32,
    },
}

impl Classify for ExpandError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Journal { source } => source.kind(),
            Self::Observe { source } | Self::Step { source, .. } => source.kind(),
            Self::NotHere { .. } => ErrorKind::NotFound,
            Self::MissingPaths { .. }
            | Self::Silent { .. }
            | Self::NotGrown { .. }
            | Self::Unsettled { .. } => ErrorKind::Unavailable,
            Self::WrongDevice { .. } | Self::MapSize { .. } => ErrorKind::Internal,
            Self::ReadOnly { .. } => ErrorKind::FailedPrecondition,
        }
    }
}
