//! Why a volume is not staged.

use std::path::PathBuf;

use blockd_client::vocabulary::{FsType, Iqn, SealError, VolumeId};
use proto::error::{Classify, ErrorKind};

use super::super::attach::AttachError;
use crate::host::HostError;
use crate::record::JournalError;

/// A stage that was refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// The journal cannot be read or written; nothing was begun.
    #[error("the journal of the stage failed")]
    Journal {
        /// Why.
        #[source]
        source: JournalError,
    },
    /// The credentials cannot be opened.
    #[error("cannot open the CHAP credentials of {volume}")]
    Unseal {
        /// The volume.
        volume: VolumeId,
        /// Why.
        #[source]
        source: SealError,
    },
    /// The credentials are sealed and this node has no key.
    #[error(
        "the CHAP credentials of {volume} are sealed and this node has no key; set --sealing-key-file"
    )]
    NoKey {
        /// The volume.
        volume: VolumeId,
    },
    /// The journal describes another block of the same name.
    #[error(
        "{volume} is journaled on this node as {journal} and shall be staged as {request}; unstage it first"
    )]
    OtherTarget {
        /// The volume.
        volume: VolumeId,
        /// The target in the journal.
        journal: Iqn,
        /// The target in the request.
        request: Iqn,
    },
    /// The volume is staged with another path, access type or mode.
    #[error("{volume} is already staged differently, at {}", path.display())]
    StagedDifferently {
        /// The volume.
        volume: VolumeId,
        /// Where it is staged.
        path: PathBuf,
    },
    /// Something else is mounted at the staging path (D26).
    #[error("{} is a mount of {source_name}, which is not the volume", path.display())]
    ForeignMount {
        /// The staging path.
        path: PathBuf,
        /// What is mounted there.
        source_name: String,
    },
    /// The kernel turned the file system read-only (R05).
    #[error("the file system at {} is read-only, most likely after an error; end its pods so that it is staged anew", path.display())]
    TurnedReadOnly {
        /// The staging path.
        path: PathBuf,
    },
    /// The map cannot be had.
    #[error("the volume cannot be attached")]
    Attach {
        /// Why.
        #[source]
        source: AttachError,
    },
    /// The map is mounted at another path (F23).
    #[error("map {map} is mounted elsewhere already: {paths}")]
    MountedElsewhere {
        /// The map.
        map: String,
        /// Where.
        paths: String,
    },
    /// Something stands on the map.
    #[error("map {map} is held by {holders}")]
    Held {
        /// The map.
        map: String,
        /// What stands on it.
        holders: String,
    },
    /// The device carries another file system.
    #[error("the device carries {found} and the request asks for {wanted}")]
    OtherFilesystem {
        /// What is there.
        found: FsType,
        /// What is wanted.
        wanted: FsType,
    },
    /// The device carries something that is not ours.
    #[error("the device carries {found}; it is not formatted and not mounted")]
    Foreign {
        /// What is there.
        found: String,
    },
    /// The device carries something that has no signature (F03).
    #[error("the device carries no known file system but is not blank either; it is not formatted")]
    NotBlank,
    /// The device was formatted in this stage and looks empty now.
    #[error("the {fs} file system that was made on the device is not there any more")]
    Vanished {
        /// What was made.
        fs: FsType,
    },
    /// A reader-only stage of a device without a file system.
    #[error("the device carries no file system and shall be staged for readers only")]
    NothingToRead,
    /// An observation failed.
    #[error("cannot see the state of this host")]
    Observe {
        /// Why.
        #[source]
        source: HostError,
    },
    /// An action failed.
    #[error("step {step} of the stage failed")]
    Step {
        /// The action.
        step: &'static str,
        /// Why.
        #[source]
        source: HostError,
    },
    /// The stage never came to an end.
    #[error("the volume did not settle within {limit} steps")]
    Unsettled {
        /// How many were taken.
        limit: u32,
    },
}

impl Classify for StageError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Journal { source } => source.kind(),
            Self::Attach { source } => source.kind(),
            Self::Observe { source } | Self::Step { source, .. } => source.kind(),
            Self::StagedDifferently { .. } => ErrorKind::AlreadyExists,
            Self::Unseal { .. }
            | Self::NoKey { .. }
            | Self::OtherTarget { .. }
            | Self::ForeignMount { .. }
            | Self::TurnedReadOnly { .. }
            | Self::MountedElsewhere { .. }
            | Self::Held { .. }
            | Self::OtherFilesystem { .. }
            | Self::Foreign { .. }
            | Self::NotBlank
            | Self::NothingToRead => ErrorKind::FailedPrecondition,
            Self::Vanished { .. } => ErrorKind::Internal,
            Self::Unsettled { .. } => ErrorKind::Unavailable,
        }
    }
}
