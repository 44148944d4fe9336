//! Why a volume cannot be attached.

use std::fmt;

use blockd_client::vocabulary::{Capacity, Iqn, Portal, Wwid};
use proto::error::{Classify, ErrorKind};

use super::{Failure, Tried, key};
use crate::host::Identity;
use crate::ops::observe::Seen;

/// Why each portal cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failures(Vec<(Portal, Failure)>);

impl Failures {
    pub(super) fn of(seen: &Seen, tried: &Tried) -> Self {
        let failed = tried.logins.iter().filter_map(|(portal, outcome)| {
            outcome
                .as_ref()
                .err()
                .map(|failure| (*portal, failure.clone()))
        });
        let down = seen
            .sessions
            .iter()
            .filter(|session| !session.state.is_usable())
            .map(|session| {
                let text = format!("session {} is {:?}", session.sid, session.state);
                (
                    session.portal,
                    Failure {
                        kind: ErrorKind::Unavailable,
                        text,
                    },
                )
            });
        let silent = seen.paths.iter().filter_map(|path| {
            let text = tried.identities.get(&key(path))?.as_ref().err()?.clone();
            Some((
                path.portal?,
                Failure {
                    kind: ErrorKind::Unavailable,
                    text,
                },
            ))
        });
        Self(failed.chain(down).chain(silent).collect())
    }

    /// The kind that asks most of the caller: credentials and refusals do not pass by waiting.
    fn kind(&self) -> ErrorKind {
        let has = |kind| self.0.iter().any(|(_, failure)| failure.kind == kind);
        [ErrorKind::Unauthenticated, ErrorKind::FailedPrecondition]
            .into_iter()
            .find(|kind| has(*kind))
            .unwrap_or(ErrorKind::Unavailable)
    }
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no portal showed the LUN");
        }
        for (index, (portal, failure)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{portal}: {}", failure.text)?;
        }
        Ok(())
    }
}

/// Why a volume is not attached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// No portal lets us in.
    #[error("no session to {iqn} can be used ({failures})")]
    NoSession {
        /// The target.
        iqn: Iqn,
        /// Why, per portal.
        failures: Failures,
    },
    /// Sessions, but no disk that answers.
    #[error("no path to {iqn} can be used ({failures})")]
    NoPath {
        /// The target.
        iqn: Iqn,
        /// Why, per portal.
        failures: Failures,
    },
    /// A path is not the volume (W01).
    #[error(
        "device {path} at {portal} is not the volume: it should be {expected} and says {found}"
    )]
    WrongDevice {
        /// The path.
        path: String,
        /// Its portal.
        portal: String,
        /// The volume's identity.
        expected: Wwid,
        /// The device's.
        found: Identity,
    },
    /// The kernel still takes the path for another volume's.
    #[error(
        "the kernel takes device {path} for another volume than {expected}, also after a rescan"
    )]
    StaleDevice {
        /// The path.
        path: String,
        /// The volume's identity.
        expected: Wwid,
    },
    /// A device is smaller than the volume (G12).
    #[error("device {path} has {} bytes and the volume at least {}", size.bytes(), expected.bytes())]
    TooSmall {
        /// The path.
        path: String,
        /// Its size.
        size: Capacity,
        /// The volume's.
        expected: Capacity,
    },
    /// The paths are not one volume's (W16).
    #[error("the paths differ in size: {sizes}")]
    UnlikePaths {
        /// Each path and its size.
        sizes: String,
    },
    /// Two targets claim the volume's identity (W15).
    #[error("two targets claim to be {wwid}: {ours} and {other}")]
    Twin {
        /// The identity.
        wwid: Wwid,
        /// The volume's target.
        ours: Iqn,
        /// The other one.
        other: String,
    },
    /// multipathd makes no map (W04).
    #[error(
        "multipathd made no map {wwid} in time; see its log and find_multipaths in its configuration"
    )]
    MapMissing {
        /// The map's identity.
        wwid: Wwid,
    },
    /// I/O to the map is held back (W19).
    #[error("map {map} is suspended")]
    Suspended {
        /// The map.
        map: String,
    },
    /// A device refuses writes (R04).
    #[error("device {device} refuses writes")]
    WriteProtected {
        /// The path or map.
        device: String,
    },
    /// Something else stands on a path (M01).
    #[error(
        "device {path} is held by {holders}, which is not the volume's map; if nothing uses that (`lsblk` shows it), end \
         it: `vgchange -an` for a volume group; for a map of a disk that was here earlier delete its device \
         (`echo 1 > /sys/block/{path}/device/delete`), then the map (`multipath -f`)"
    )]
    PathHeld {
        /// The path.
        path: String,
        /// What stands on it.
        holders: String,
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
}

impl Classify for AttachError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::NoSession { failures, .. } | Self::NoPath { failures, .. } => failures.kind(),
            Self::WrongDevice { .. } | Self::StaleDevice { .. } | Self::MapSize { .. } => {
                ErrorKind::Internal
            }
            Self::TooSmall { .. }
            | Self::UnlikePaths { .. }
            | Self::Twin { .. }
            | Self::PathHeld { .. } => ErrorKind::FailedPrecondition,
            Self::MapMissing { .. } | Self::Suspended { .. } | Self::WriteProtected { .. } => {
                ErrorKind::Unavailable
            }
        }
    }
}
