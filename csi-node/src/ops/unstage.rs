//! Unstage: from a staged, or half staged, volume to nothing at all, from the journal alone.
//!
//! # Flow (C11)
//!
//! unmount → flush and remove the map → multipathd forgets the paths → path devices → sessions → node records → journal.
//!
//! # Guarantees
//!
//! - No path is deleted under a live map, and no session is ended that has one (D05, D22).
//! - A step that fails stops the rest and is reported; the journal stays, and a retry goes on from there (D06, D14).
//! - The map is found by its identity, the paths by the target's sessions as they are now (W09, W12, W13).
//! - A volume without a journal is not unstaged only when its staging path proves it (T01).
//!
//! # Assumptions
//!
//! The caller holds the volume's guard and lets the operation run to its end (C3).

use std::collections::BTreeSet;
use std::path::PathBuf;

use blockd_client::vocabulary::{Iqn, Portal, VolumeId, Wwid};

use super::attach::Patience;
use super::observe::Seen;
use crate::host::{DevNumber, Map, MountEntry, PathDevice, Session};

pub use self::error::UnstageError;

mod error;
mod perform;
#[cfg(test)]
mod tests;

/// What a caller asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnstageVolume {
    /// The volume.
    pub id: VolumeId,
    /// Where it is staged, as the caller says.
    pub staging_path: PathBuf,
}

/// What is known of the volume: from its journal, or, when that is lost, from what is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The target, when it is known.
    pub iqn: Option<Iqn>,
    /// The identity of its map.
    pub wwid: Wwid,
    /// Where its file system is mounted for the node; every layer there goes (D26).
    pub staging_path: PathBuf,
    /// Where the caller says it is, when that differs; only the volume's own mounts go there.
    pub also_at: Option<PathBuf>,
}

/// What one run has done so far.
#[derive(Debug, Clone, Default)]
pub struct Tried {
    /// The paths that stood under the map, in case their sessions are gone.
    pub slaves: Vec<PathDevice>,
    /// Whether queueing was stopped.
    pub unqueued: bool,
    /// How often the map was flushed.
    pub flushes: u32,
    /// The paths multipathd forgot.
    pub forgotten: BTreeSet<String>,
    /// How often path devices were deleted.
    pub deletions: u32,
    /// How often sessions were logged out.
    pub logouts: u32,
    /// How often records were deleted.
    pub record_deletions: u32,
    /// How often we waited.
    pub waits: u32,
}

/// The next action of an unstage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Take the topmost mount off this path.
    Unmount(PathBuf),
    /// Let I/O fail that waits for paths which do not come.
    StopQueueing(Map),
    /// Flush and remove the map.
    Flush(Map, Vec<PathDevice>),
    /// Wait until multipathd forgot these paths.
    Forget(Vec<PathDevice>),
    /// Delete these path devices.
    DeletePaths(Vec<PathDevice>),
    /// End these sessions.
    Logout(Vec<Session>),
    /// Delete these node records of the target.
    DeleteRecords(Iqn, Vec<Portal>),
    /// Wait for the kernel to finish what was begun.
    Await,
    /// Remove the journal.
    DropJournal,
}

/// Chooses the next action of an unstage. The first row that applies wins.
///
/// | seen                                               | next                                         |
/// |----------------------------------------------------|----------------------------------------------|
/// | a session whose target is not the volume's (S05)   | refuse                                       |
/// | the map is mounted at a path that is not for staging (T07, T12) | refuse, naming the paths        |
/// | a mount at a staging path, ours or on top (D26)    | `Unmount`                                    |
/// | the map, no usable session, I/O may wait (D16)     | `StopQueueing`, once                         |
/// | the map                                            | `Flush`, a few times: udev may bring it back |
/// | a path that something else holds                   | refuse                                       |
/// | a path multipathd may still know (D09)             | `Forget`                                     |
/// | a path                                             | `DeletePaths`, `Await`, then refuse          |
/// | a session, whatever its state (S09)                | `Logout`, `Await`, then refuse               |
/// | a node record (S02)                                | `DeleteRecords`                              |
/// | nothing                                            | `DropJournal`                                |
///
/// # Errors
///
/// The rows that refuse.
pub fn next_step(
    known: &Known,
    seen: &Seen,
    tried: &Tried,
    patience: Patience,
) -> Result<Step, UnstageError> {
    let foreign = seen
        .sessions
        .iter()
        .find(|session| session.iqn.gbid().wwid() != known.wwid);
    if let Some(session) = foreign {
        return Err(UnstageError::ForeignSession {
            iqn: session.iqn,
            wwid: known.wwid.clone(),
        });
    }

    if let Some(path) = mounted(known, seen)? {
        return Ok(Step::Unmount(path));
    }
    if let Some(map) = &seen.map {
        let reachable = seen
            .sessions
            .iter()
            .any(|session| session.state.is_usable());
        if !reachable && !tried.unqueued {
            return Ok(Step::StopQueueing(map.clone()));
        }
        if tried.flushes >= REPEATS {
            return Err(UnstageError::MapReturns {
                map: map.name.clone(),
                flushes: tried.flushes,
            });
        }
        return Ok(Step::Flush(map.clone(), seen.slaves.clone()));
    }

    let paths = paths_to_delete(known, seen, tried);
    if let Some(path) = seen.paths.iter().find(|path| !path.holders.is_empty()) {
        return Err(UnstageError::PathHeld {
            path: path.name.clone(),
            holders: path.holders.join(", "),
        });
    }
    let remembered: Vec<PathDevice> = paths
        .iter()
        .filter(|path| !tried.forgotten.contains(&path.name))
        .cloned()
        .collect();
    if !remembered.is_empty() {
        return Ok(Step::Forget(remembered));
    }
    if !paths.is_empty() {
        return again(
            tried.deletions,
            tried.waits,
            patience,
            Step::DeletePaths(paths.clone()),
        )
        .ok_or_else(|| UnstageError::PathStays {
            paths: names(&paths),
        });
    }
    if !seen.sessions.is_empty() {
        let step = Step::Logout(seen.sessions.clone());
        return again(tried.logouts, tried.waits, patience, step).ok_or_else(|| {
            UnstageError::SessionStays {
                count: seen.sessions.len(),
            }
        });
    }
    if let Some(iqn) = known.iqn.filter(|_| !seen.records.is_empty()) {
        if tried.record_deletions >= REPEATS {
            return Err(UnstageError::RecordStays {
                count: seen.records.len(),
            });
        }
        return Ok(Step::DeleteRecords(iqn, seen.records.clone()));
    }
    Ok(Step::DropJournal)
}

/// The staging path to unmount next, if any.
///
/// Whoever else mounts the device is asked first, because after the unmount nobody could tell any more.
fn mounted(known: &Known, seen: &Seen) -> Result<Option<PathBuf>, UnstageError> {
    let is_own = |entry: &MountEntry| seen.map.as_ref().is_some_and(|map| map.dev == entry.dev);
    let is_staging = |entry: &&MountEntry| {
        entry.mountpoint == known.staging_path
            || (known.also_at.as_ref() == Some(&entry.mountpoint) && is_own(entry))
    };
    let staged: Vec<&MountEntry> = seen.mounts.iter().filter(is_staging).collect();
    // Without a map the volume's device number is only known from its mount.
    let devices: Vec<DevNumber> = match &seen.map {
        Some(map) => vec![map.dev],
        None => staged.iter().map(|entry| entry.dev).collect(),
    };
    let elsewhere: Vec<String> = seen
        .mounts
        .iter()
        .filter(|entry| {
            devices.contains(&entry.dev) || entry.node.is_some_and(|node| devices.contains(&node))
        })
        .filter(|entry| !is_staging(entry))
        .map(|entry| entry.mountpoint.display().to_string())
        .collect();
    if !elsewhere.is_empty() {
        return Err(UnstageError::StillMounted {
            paths: elsewhere.join(", "),
        });
    }
    Ok(staged.last().map(|entry| entry.mountpoint.clone()))
}

/// The disks of the target's sessions as they are now, and those that stood under the map and are nobody else's.
fn paths_to_delete(known: &Known, seen: &Seen, tried: &Tried) -> Vec<PathDevice> {
    let own = known.iqn.map(|iqn| iqn.to_string());
    let is_listed = |path: &PathDevice| seen.paths.iter().any(|seen| seen.name == path.name);
    // They cannot be seen any more once the map is gone, so they are deleted once and not looked for.
    let orphans = tried.slaves.iter().filter(|path| {
        let orphaned = path.target.is_none() || path.target == own;
        let ours = path.wwid.as_ref() == Some(&known.wwid);
        tried.deletions == 0 && orphaned && ours && !is_listed(path)
    });
    seen.paths.iter().chain(orphans).cloned().collect()
}

/// An effect that the kernel completes on its own: done once, waited for, and done again half-way.
fn again(done: u32, waits: u32, patience: Patience, step: Step) -> Option<Step> {
    match done {
        0 => Some(step),
        1 if waits >= patience.paths / 2 => Some(step),
        _ if waits < patience.paths => Some(Step::Await),
        _ => None,
    }
}

fn names(paths: &[PathDevice]) -> String {
    let names: Vec<&str> = paths.iter().map(|path| path.name.as_str()).collect();
    names.join(", ")
}

/// How often an effect that does not last is repeated.
const REPEATS: u32 = 5;
