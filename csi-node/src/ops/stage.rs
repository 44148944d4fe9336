//! Stage: from a target to a mounted file system, or to a map that can be published as a block device.
//!
//! # Flow
//!
//! journal → node records → logins → scan → identity of every path → map → (proof → format →) check → mount → grow.
//!
//! # Guarantees
//!
//! - Nothing is mounted or formatted that is not the volume (C8), and nothing is formatted that carries anything (C9).
//! - A crash at any moment leaves a journal from which a further stage or an unstage ends well (C10).
//! - One usable path is enough; the others are tried once each and left to the healer (S13).
//!
//! # Assumptions
//!
//! The caller holds the volume's guard and lets the operation run to its end (C3).

use std::path::PathBuf;

use blockd_client::vocabulary::{FsType, SealedChap, VolumeId};

use super::attach::{self, Attach, AttachStep, Patience, Target};
use super::observe::Seen;
use crate::host::{BootId, Content, Map, MountEntry, Proof};
use crate::record::{Access, FormatMarker, Marker, Record};

pub use self::error::StageError;

mod error;
mod filesystem;
mod perform;
#[cfg(test)]
mod tests;

/// What a caller asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageVolume {
    /// The volume.
    pub id: VolumeId,
    /// Where it is and what it must prove to be.
    pub target: Target,
    /// The sealed credentials, when the target asks for some.
    pub chap: Option<SealedChap>,
    /// Where to mount the file system.
    pub staging_path: PathBuf,
    /// How it shall be used.
    pub access: Access,
}

/// What one run has done and learnt so far.
#[derive(Debug, Clone, Default)]
pub struct Tried {
    /// Towards the map.
    pub attach: attach::Tried,
    /// What the last probe found.
    pub content: Option<Content>,
    /// How many probes in a row found just that.
    pub probes: u32,
    /// How many formats failed.
    pub failed_formats: u32,
    /// Whether the file system was made in this run, so that there is nothing to check.
    pub fresh: bool,
    /// Whether the file system was checked.
    pub checked: bool,
    /// Whether the file system was grown.
    pub grown: bool,
}

/// The next action of a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Write the journal for this request.
    WriteJournal(Box<Record>),
    /// An action towards the map.
    Attach(AttachStep),
    /// Look what the map carries.
    Probe(Map),
    /// Write the journal that a format begins.
    MarkFormat,
    /// Make the file system.
    Format(Map, FsType, Proof),
    /// Check the file system.
    Check(Map, FsType),
    /// Mount it.
    Mount(Map, FsType),
    /// Grow it to the map's size.
    Grow(Map, FsType),
    /// Write the journal that the stage is complete.
    Finish,
    /// Nothing is left to do.
    Done,
}

/// Chooses the next action of a stage. The first row that applies wins.
///
/// | journal          | staging path           | map       | next                                                  |
/// |------------------|------------------------|-----------|-------------------------------------------------------|
/// | other target     |                        |           | refuse                                                |
/// | other request    | mounted, or block done |           | refuse                                                |
/// | none, or outdated|                        |           | `WriteJournal`                                        |
/// | this request     | another device (D26)   |           | refuse                                                |
/// | this request     | our map                |           | `Grow` once (X04), `Finish`, `Done`                   |
/// | this request     | nothing                | not ready | see [`attach::next_step`]                             |
/// | block            | nothing                | ready     | `Finish`, `Done`; what is on it is not our affair (F21)|
/// | file system      | nothing                | ready     | see `filesystem::next_step`                           |
///
/// # Errors
///
/// The rows that refuse.
pub fn next_step(
    wanted: &StageVolume,
    boot: &BootId,
    seen: &Seen,
    record: Option<&Record>,
    tried: &Tried,
    patience: Patience,
) -> Result<Step, StageError> {
    let layers: Vec<&MountEntry> = seen.mounts_at(&wanted.staging_path).collect();
    let due = due_record(wanted, boot, record);
    if let Some(record) = record {
        fits(wanted, seen, record, &layers)?;
    }
    let Some(record) = record.filter(|record| due.as_ref().is_none_or(|due| due == *record)) else {
        return Ok(due.map_or(Step::Done, |due| Step::WriteJournal(Box::new(due))));
    };
    let finish = || {
        if record.step == Marker::Staged {
            Step::Done
        } else {
            Step::Finish
        }
    };

    if let Some(top) = layers.last() {
        let map = seen
            .map
            .as_ref()
            .filter(|map| layers.iter().all(|layer| layer.dev == map.dev));
        let Some(map) = map else {
            return Err(StageError::ForeignMount {
                path: wanted.staging_path.clone(),
                source_name: top.source.clone(),
            });
        };
        let Access::Filesystem { fs, .. } = wanted.access else {
            return Err(StageError::StagedDifferently {
                volume: wanted.id.clone(),
                path: wanted.staging_path.clone(),
            });
        };
        if top.super_read_only && !wanted.target.read_only {
            return Err(StageError::TurnedReadOnly {
                path: wanted.staging_path.clone(),
            });
        }
        if !wanted.target.read_only && !tried.grown {
            return Ok(Step::Grow(map.clone(), fs));
        }
        return Ok(finish());
    }

    let attached = attach::next_step(&wanted.target, seen, &tried.attach, patience)
        .map_err(|source| StageError::Attach { source })?;
    let map = match attached {
        Attach::Step(step) => return Ok(Step::Attach(step)),
        Attach::Ready(map) => map,
    };
    match &wanted.access {
        Access::Block => Ok(finish()),
        Access::Filesystem { fs, .. } => filesystem::next_step(
            *fs,
            wanted.target.read_only,
            &map,
            seen,
            record.format,
            tried,
        ),
    }
}

/// Whether what the journal says is compatible with the request.
fn fits(
    wanted: &StageVolume,
    seen: &Seen,
    record: &Record,
    layers: &[&MountEntry],
) -> Result<(), StageError> {
    if record.iqn != wanted.target.iqn {
        return Err(StageError::OtherTarget {
            volume: wanted.id.clone(),
            journal: record.iqn,
            request: wanted.target.iqn,
        });
    }
    let is_staged = match record.access {
        Access::Block => record.step == Marker::Staged && seen.map.is_some(),
        Access::Filesystem { .. } => {
            !layers.is_empty() || seen.mounts_at(&record.staging_path).next().is_some()
        }
    };
    let differs = record.access != wanted.access
        || record.read_only != wanted.target.read_only
        || record.staging_path != wanted.staging_path;
    if is_staged && differs {
        return Err(StageError::StagedDifferently {
            volume: wanted.id.clone(),
            path: record.staging_path.clone(),
        });
    }
    Ok(())
}

/// The record this request needs, when it is not the one there is.
fn due_record(wanted: &StageVolume, boot: &BootId, record: Option<&Record>) -> Option<Record> {
    let same_boot = record.is_some_and(|record| record.boot_id == *boot);
    let due = Record {
        volume: wanted.id.clone(),
        iqn: wanted.target.iqn,
        wwid: wanted.target.wwid.clone(),
        portals: wanted.target.portals.clone(),
        expected_bytes: wanted.target.expected,
        access: wanted.access.clone(),
        read_only: wanted.target.read_only,
        staging_path: wanted.staging_path.clone(),
        step: record
            .filter(|_| same_boot)
            .map_or(Marker::Begun, |record| record.step),
        format: record.map_or(FormatMarker::None, |record| record.format),
        boot_id: boot.clone(),
    };
    (record != Some(&due)).then_some(due)
}
