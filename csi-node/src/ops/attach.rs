//! From a target to a map whose every path is known to be the volume.

use std::collections::{BTreeMap, BTreeSet};

use blockd_client::vocabulary::{Capacity, Iqn, Portal, Wwid};
use proto::error::ErrorKind;

use super::observe::Seen;
use crate::host::{Identity, Map, PathDevice, Session};

pub use self::error::{AttachError, Failures};

mod error;

/// What shall be attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The target.
    pub iqn: Iqn,
    /// What every path and the map must show.
    pub wwid: Wwid,
    /// Where to log in, all of them.
    pub portals: Vec<Portal>,
    /// The size below which a device is not the volume. Larger is fine: the volume may have grown while detached.
    pub expected: Capacity,
    /// Whether a device that refuses writes will do.
    pub read_only: bool,
}

/// What one run has done and learnt so far, and what cannot be seen in sysfs.
#[derive(Debug, Clone, Default)]
pub struct Tried {
    /// Whether the node records were written.
    pub recorded: bool,
    /// The outcome of each login.
    pub logins: BTreeMap<Portal, Result<(), Failure>>,
    /// How often each session was scanned.
    pub scans: BTreeMap<u32, u32>,
    /// Who each path says it is; by name and SCSI host, for names are reused.
    pub identities: BTreeMap<(String, u32), Result<Identity, String>>,
    /// The SCSI hosts whose path was deleted for being another volume's.
    pub purged: BTreeSet<u32>,
    /// The paths whose size and identity the kernel read again.
    pub rescanned: BTreeSet<String>,
    /// How often multipathd was told of the paths.
    pub added: u32,
    /// Whether the map was resized.
    pub resized: bool,
    /// How often we waited for paths.
    pub path_waits: u32,
    /// How often we waited for the map.
    pub map_waits: u32,
}

/// How often to wait before giving up.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For paths to show after a scan.
    pub paths: u32,
    /// For the map to be complete.
    pub map: u32,
}

/// A login that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What the caller should do about it.
    pub kind: ErrorKind,
    /// The whole chain.
    pub text: String,
}

/// The next action towards a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttachStep {
    /// Write the node records of these portals.
    WriteRecords(Vec<Portal>),
    /// Log in at these portals, all at once.
    Login(Vec<Portal>),
    /// Look for LUN 0 on these sessions.
    Scan(Vec<Session>),
    /// Wait for paths to show.
    AwaitPaths,
    /// Ask these paths who they are.
    Identify(Vec<PathDevice>),
    /// Have the kernel read size and identity again.
    Rescan(Vec<PathDevice>),
    /// Delete a path that is another volume's, and scan again.
    Purge(PathDevice, Session),
    /// Tell multipathd of these paths.
    AddMap(Vec<PathDevice>),
    /// Wait for the map to be complete.
    AwaitMap,
    /// Have the map take the size of its paths.
    ResizeMap(Map),
}

/// Where the attachment stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attach {
    /// Something is to be done.
    Step(AttachStep),
    /// The map is complete and is the volume.
    Ready(Map),
}

/// Chooses the next action towards a map. The first row that applies wins.
///
/// | seen                                                      | next                                            |
/// |-----------------------------------------------------------|-------------------------------------------------|
/// | a portal without session, or one without record           | `WriteRecords`, once                            |
/// | a portal without session, login not tried                 | `Login`; a failure is remembered, not fatal     |
/// | no usable session                                         | wait if a login succeeded, else refuse          |
/// | a usable session without path                             | `Scan`, `AwaitPaths`, `Scan` again, then go on  |
/// | a reachable path not asked yet                            | `Identify`                                      |
/// | a path that is another volume's, or nobody's (W01)        | refuse if held; `Purge` once; then refuse       |
/// | no path that is ours                                      | refuse                                          |
/// | a path remembered as another's, too small, or unlike (W16)| `Rescan` once; then `Purge` or refuse           |
/// | the map stands on another target's path (W15)             | refuse                                          |
/// | no map, or one without some path of ours (W04, W05)       | `AddMap`, `AwaitMap`, `AddMap` again            |
/// | map suspended (W19) or read-only (R04), path held (M01)   | `AwaitMap`, then refuse                         |
/// | map smaller than its paths                                | `ResizeMap` once, then refuse                   |
/// | otherwise                                                 | `Ready`                                         |
///
/// # Errors
///
/// The rows that refuse.
pub fn next_step(
    target: &Target,
    seen: &Seen,
    tried: &Tried,
    patience: Patience,
) -> Result<Attach, AttachError> {
    if let Some(step) = towards_paths(target, seen, tried, patience)? {
        return Ok(Attach::Step(step));
    }
    let ours = match recognised(target, seen, tried)? {
        Recognised::Step(step) => return Ok(Attach::Step(step)),
        Recognised::Ours(ours) => ours,
    };
    if let Some(step) = towards_likeness(target, seen, tried, &ours)? {
        return Ok(Attach::Step(step));
    }
    towards_map(target, seen, tried, patience, &ours)
}

fn towards_paths(
    target: &Target,
    seen: &Seen,
    tried: &Tried,
    patience: Patience,
) -> Result<Option<AttachStep>, AttachError> {
    let has_session = |portal: &Portal| {
        seen.sessions
            .iter()
            .any(|session| session.portal == *portal)
    };
    let missing: Vec<Portal> = target
        .portals
        .iter()
        .copied()
        .filter(|portal| !has_session(portal))
        .collect();
    let unrecorded = target
        .portals
        .iter()
        .any(|portal| !seen.records.contains(portal));
    if !tried.recorded && (unrecorded || !missing.is_empty()) {
        return Ok(Some(AttachStep::WriteRecords(target.portals.clone())));
    }
    let untried: Vec<Portal> = missing
        .into_iter()
        .filter(|portal| !tried.logins.contains_key(portal))
        .collect();
    if !untried.is_empty() {
        return Ok(Some(AttachStep::Login(untried)));
    }

    let usable: Vec<&Session> = seen
        .sessions
        .iter()
        .filter(|session| session.state.is_usable())
        .collect();
    // A login that succeeded without a session that is logged in is not a success yet (Q12).
    let hoped = tried.logins.iter().any(|(portal, outcome)| {
        outcome.is_ok() && !usable.iter().any(|session| session.portal == *portal)
    });
    let pathless: Vec<&Session> = usable
        .iter()
        .copied()
        .filter(|session| !seen.paths.iter().any(|path| path.host == session.host))
        .collect();
    let due = if tried.path_waits >= patience.paths / 2 {
        2
    } else {
        1
    };
    let unscanned: Vec<Session> = pathless
        .iter()
        .filter(|session| {
            tried
                .scans
                .get(&session.sid)
                .is_none_or(|scans| *scans < due)
        })
        .map(|session| (*session).clone())
        .collect();
    if !unscanned.is_empty() {
        return Ok(Some(AttachStep::Scan(unscanned)));
    }
    if (hoped || !pathless.is_empty()) && tried.path_waits < patience.paths {
        return Ok(Some(AttachStep::AwaitPaths));
    }
    if usable.is_empty() {
        return Err(AttachError::NoSession {
            iqn: target.iqn,
            failures: Failures::of(seen, tried),
        });
    }
    Ok(None)
}

/// What the identities say.
enum Recognised {
    Step(AttachStep),
    Ours(Vec<PathDevice>),
}

fn recognised(target: &Target, seen: &Seen, tried: &Tried) -> Result<Recognised, AttachError> {
    let reachable: Vec<&PathDevice> = seen
        .paths
        .iter()
        .filter(|path| seen.is_reachable(path))
        .collect();
    let unasked: Vec<PathDevice> = reachable
        .iter()
        .filter(|path| !tried.identities.contains_key(&key(path)))
        .map(|path| (*path).clone())
        .collect();
    if !unasked.is_empty() {
        return Ok(Recognised::Step(AttachStep::Identify(unasked)));
    }

    let mut ours = Vec::new();
    for path in reachable {
        match tried.identities.get(&key(path)) {
            Some(Ok(Identity::Naa(wwid))) if *wwid == target.wwid => ours.push(path.clone()),
            Some(Ok(found)) => {
                return purge(seen, tried, path)
                    .map(Recognised::Step)
                    .ok_or_else(|| wrong_device(target, path, found));
            }
            // Not answering is not being wrong: the path is left out, the others may do (S13).
            Some(Err(_)) | None => {}
        }
    }
    if ours.is_empty() {
        return Err(AttachError::NoPath {
            iqn: target.iqn,
            failures: Failures::of(seen, tried),
        });
    }
    Ok(Recognised::Ours(ours))
}

fn towards_likeness(
    target: &Target,
    seen: &Seen,
    tried: &Tried,
    ours: &[PathDevice],
) -> Result<Option<AttachStep>, AttachError> {
    let is_stale = |path: &PathDevice| path.wwid.as_ref().is_some_and(|wwid| *wwid != target.wwid);
    let is_small = |path: &PathDevice| path.size == Capacity::ZERO || path.size < target.expected;
    let unlike = ours
        .iter()
        .any(|path| Some(path.size) != ours.first().map(|first| first.size));
    let odd = unlike || ours.iter().any(|path| is_stale(path) || is_small(path));
    let unread: Vec<PathDevice> = ours
        .iter()
        .filter(|path| !tried.rescanned.contains(&path.name))
        .cloned()
        .collect();
    if odd && !unread.is_empty() {
        return Ok(Some(AttachStep::Rescan(unread)));
    }
    if let Some(path) = ours.iter().find(|path| is_stale(path)) {
        return purge(seen, tried, path)
            .map(Some)
            .ok_or_else(|| AttachError::StaleDevice {
                path: path.name.clone(),
                expected: target.wwid.clone(),
            });
    }
    if let Some(path) = ours.iter().find(|path| is_small(path)) {
        return Err(AttachError::TooSmall {
            path: path.name.clone(),
            size: path.size,
            expected: target.expected,
        });
    }
    if unlike {
        let sizes: Vec<String> = ours
            .iter()
            .map(|path| format!("{} {} bytes", path.name, path.size.bytes()))
            .collect();
        return Err(AttachError::UnlikePaths {
            sizes: sizes.join(", "),
        });
    }
    Ok(None)
}

fn towards_map(
    target: &Target,
    seen: &Seen,
    tried: &Tried,
    patience: Patience,
    ours: &[PathDevice],
) -> Result<Attach, AttachError> {
    let own_name = target.iqn.to_string();
    let twin = seen
        .slaves
        .iter()
        .find_map(|slave| slave.target.as_ref().filter(|name| **name != own_name));
    if let Some(other) = twin {
        return Err(AttachError::Twin {
            wwid: target.wwid.clone(),
            ours: target.iqn,
            other: other.clone(),
        });
    }

    let under_map = |path: &&PathDevice| {
        seen.map
            .as_ref()
            .is_some_and(|map| map.slaves.contains(&path.name))
    };
    let complete = ours.iter().all(|path| under_map(&path));
    let obstacle = obstacle(target, seen, ours);
    if !complete || obstacle.is_some() {
        let due = if tried.map_waits >= patience.map / 2 {
            2
        } else {
            1
        };
        if !complete && tried.added < due {
            return Ok(Attach::Step(AttachStep::AddMap(ours.to_vec())));
        }
        if tried.map_waits < patience.map {
            return Ok(Attach::Step(AttachStep::AwaitMap));
        }
    }
    if let Some(obstacle) = obstacle {
        return Err(obstacle);
    }
    let (Some(map), Some(first)) = (&seen.map, ours.iter().find(under_map)) else {
        return Err(AttachError::MapMissing {
            wwid: target.wwid.clone(),
        });
    };
    if map.size < first.size && !tried.resized {
        return Ok(Attach::Step(AttachStep::ResizeMap(map.clone())));
    }
    if map.size != first.size {
        return Err(AttachError::MapSize {
            map: map.name.clone(),
            size: map.size,
            paths: first.size,
        });
    }
    Ok(Attach::Ready(map.clone()))
}

/// What must pass before the map can be used.
fn obstacle(target: &Target, seen: &Seen, ours: &[PathDevice]) -> Option<AttachError> {
    let map_name = seen.map.as_ref().map(|map| map.name.as_str());
    let held = ours.iter().find(|path| {
        path.holders
            .iter()
            .any(|holder| Some(holder.as_str()) != map_name)
    });
    if let Some(path) = held {
        return Some(AttachError::PathHeld {
            path: path.name.clone(),
            holders: path.holders.join(", "),
        });
    }
    let map = seen.map.as_ref()?;
    if map.suspended {
        return Some(AttachError::Suspended {
            map: map.name.clone(),
        });
    }
    let protected = ours
        .iter()
        .find(|path| path.read_only)
        .map(|path| path.name.clone());
    let protected = protected.or_else(|| map.read_only.then(|| map.name.clone()));
    protected
        .filter(|_| !target.read_only)
        .map(|device| AttachError::WriteProtected { device })
}

/// A path that nobody holds may be deleted once per SCSI host.
fn purge(seen: &Seen, tried: &Tried, path: &PathDevice) -> Option<AttachStep> {
    let session = seen.session_of(path)?;
    let allowed = path.holders.is_empty() && !tried.purged.contains(&path.host);
    allowed.then(|| AttachStep::Purge(path.clone(), session.clone()))
}

fn wrong_device(target: &Target, path: &PathDevice, found: &Identity) -> AttachError {
    AttachError::WrongDevice {
        path: path.name.clone(),
        portal: path
            .portal
            .map_or_else(|| "no portal".to_owned(), |portal| portal.to_string()),
        expected: target.wwid.clone(),
        found: found.clone(),
    }
}

/// The key of a path in [`Tried::identities`].
pub(super) fn key(path: &PathDevice) -> (String, u32) {
    (path.name.clone(), path.host)
}
