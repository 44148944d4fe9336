//! Why a volume is not unstaged.

use std::path::PathBuf;

use blockd_client::vocabulary::{Iqn, VolumeId, Wwid};
use proto::error::{Classify, ErrorKind};

use crate::host::HostError;
use crate::record::JournalError;

/// An unstage that was refused or failed. The journal stays.
#[derive(Debug, thiserror::Error)]
pub enum UnstageError {
    /// The journal cannot be read or written.
    #[error("the journal of the unstage failed")]
    Journal {
        /// Why.
        #[source]
        source: JournalError,
    },
    /// There is no journal, and what is mounted is not a gluster-block volume.
    #[error("{volume} has no journal on this node, and {} is a mount of {source_name}, which is no gluster-block volume", path.display())]
    NotOurs {
        /// The volume.
        volume: VolumeId,
        /// The staging path.
        path: PathBuf,
        /// What is mounted there.
        source_name: String,
    },
    /// A session would be ended that is not the volume's (S05).
    #[error("the session to {iqn} is not a session to {wwid}")]
    ForeignSession {
        /// The session's target.
        iqn: Iqn,
        /// The volume's identity.
        wwid: Wwid,
    },
    /// The volume is still mounted (T07, T12).
    #[error("the volume is still mounted at {paths}")]
    StillMounted {
        /// Where.
        paths: String,
    },
    /// Something stands on the map, and so it cannot be flushed.
    #[error("map {map} is held by {holders} and cannot be flushed")]
    Held {
        /// The map.
        map: String,
        /// What stands on it.
        holders: String,
        /// What the flush said.
        #[source]
        source: HostError,
    },
    /// The map is made again after each flush.
    #[error("map {map} was flushed {flushes} times and is there again")]
    MapReturns {
        /// The map.
        map: String,
        /// How often.
        flushes: u32,
    },
    /// A path is used by something that is not the volume's map.
    #[error("device {path} is held by {holders}")]
    PathHeld {
        /// The path.
        path: String,
        /// What stands on it.
        holders: String,
    },
    /// Deleted devices do not go.
    #[error("devices {paths} were deleted and are still there")]
    PathStays {
        /// Which.
        paths: String,
    },
    /// Sessions that were logged out do not go.
    #[error("{count} sessions were logged out and are still there")]
    SessionStays {
        /// How many.
        count: usize,
    },
    /// Node records that were deleted do not go.
    #[error("{count} node records were deleted and are still there")]
    RecordStays {
        /// How many.
        count: usize,
    },
    /// An observation failed.
    #[error("cannot see the state of this host")]
    Observe {
        /// Why.
        #[source]
        source: HostError,
    },
    /// An action failed.
    #[error("step {step} of the unstage failed")]
    Step {
        /// The action.
        step: &'static str,
        /// Why.
        #[source]
        source: HostError,
    },
    /// The unstage never came to an end.
    #[error("the volume did not settle within {limit} steps")]
    Unsettled {
        /// How many were taken.
        limit: u32,
    },
}

impl Classify for UnstageError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Journal { source } => source.kind(),
            Self::Observe { source } | Self::Step { source, .. } => source.kind(),
            Self::NotOurs { .. } | Self::ForeignSession { .. } | Self::Held { .. } => {
                ErrorKind::FailedPrecondition
            }
            Self::StillMounted { .. }
            | Self::MapReturns { .. }
            | Self::PathHeld { .. }
            | Self::PathStays { .. }
            | Self::SessionStays { .. }
            | Self::RecordStays { .. } => ErrorKind::Internal,
            Self::Unsettled { .. } => ErrorKind::Unavailable,
        }
    }
}
