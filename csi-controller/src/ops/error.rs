//! Why an operation did not succeed, and what that means to the caller.

use blockd_client::Error as BlockError;
use blockd_client::vocabulary::{Capacity, HostingVolume, SealError, VolumeId};
use proto::error::{Classify, ErrorKind};

use crate::hosting::HostingError;

/// An operation that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum OpError {
    /// The backend.
    #[error("hosting volumes")]
    Backend(#[source] HostingError),
    /// gluster-block.
    #[error("cannot {verb} the block")]
    Block {
        /// What was tried.
        verb: &'static str,
        /// What came of it.
        #[source]
        source: Box<BlockError>,
    },
    /// No storage host of a hosting volume answers.
    #[error(
        "no storage host of hosting volume {hosting_volume} has a gluster-blockd that answers over ssh; see --ssh-key-file, --ssh-known-hosts and the daemons"
    )]
    NoHost {
        /// The volume.
        hosting_volume: HostingVolume,
        /// The last answer, if there was one.
        #[source]
        source: Option<Box<BlockError>>,
    },
    /// The turn at the hosting volume did not come.
    #[error("hosting volume {hosting_volume} is busy with other requests")]
    Queue {
        /// The volume.
        hosting_volume: HostingVolume,
    },
    /// There is no such volume.
    #[error("there is no volume {id}")]
    NotFound {
        /// Its id.
        id: VolumeId,
    },
    /// The hosting volume exists and is not ours.
    #[error(
        "hosting volume of {id} is not one of this driver's: its name does not begin with --hosting-volume-prefix, or it is no block hosting volume"
    )]
    Foreign {
        /// The volume's id.
        id: VolumeId,
    },
    /// A volume of that name exists and is another.
    #[error("volume {id} exists and differs: {difference}")]
    Differs {
        /// Its id.
        id: VolumeId,
        /// How.
        difference: String,
    },
    /// No hosting volume could take the size.
    #[error(
        "{wanted} bytes do not fit a hosting volume: the limit is {limit} bytes; ask for less or raise --hosting-volume-size"
    )]
    TooBig {
        /// What was wanted.
        wanted: u64,
        /// The limit.
        limit: u64,
    },
    /// The hosting volume has no room for growth.
    #[error("hosting volume of {id} has {free} bytes left and {wanted} more are needed")]
    Full {
        /// The volume's id.
        id: VolumeId,
        /// What is left.
        free: u64,
        /// What is needed.
        wanted: u64,
    },
    /// More hosts are wanted than there are.
    #[error("haCount {wanted} is more than the {hosts} storage hosts of a hosting volume")]
    TooFewHosts {
        /// What was wanted.
        wanted: usize,
        /// How many there are.
        hosts: usize,
    },
    /// Not enough hosts are alive.
    #[error("haCount {wanted} needs as many living gluster-blockd; {alive} answer now")]
    HostsDown {
        /// What was wanted.
        wanted: usize,
        /// How many answer.
        alive: usize,
    },
    /// The volume is in use.
    #[error("volume {id} is {how}")]
    InUse {
        /// Its id.
        id: VolumeId,
        /// By whom, as words: "published to node n1".
        how: String,
    },
    /// It is published to that node in another way.
    #[error("volume {id} is published to node {node} with another access")]
    Incompatible {
        /// Its id.
        id: VolumeId,
        /// The node.
        node: String,
    },
    /// No host exports the block.
    #[error("volume {id} is exported by no storage host now; see `gluster-block info {id}`")]
    NotExported {
        /// Its id.
        id: VolumeId,
    },
    /// The block has a CHAP password and there is no key to seal it with.
    #[error("volume {id} uses CHAP and the controller has no --sealing-key-file")]
    NoKey {
        /// Its id.
        id: VolumeId,
    },
    /// Sealing failed.
    #[error("cannot seal the CHAP password")]
    Seal(#[source] SealError),
    /// The page token is none of ours.
    #[error(
        "starting_token {token:?} is none that this driver gave out; list again from the start"
    )]
    Token {
        /// The token.
        token: String,
    },
    /// A limit below what the volume already has.
    #[error("volume {id} already has more than the limit of {} bytes", limit.bytes())]
    Limit {
        /// Its id.
        id: VolumeId,
        /// The limit.
        limit: Capacity,
    },
}

impl OpError {
    pub(super) fn block(verb: &'static str, source: BlockError) -> Self {
        Self::Block {
            verb,
            source: Box::new(source),
        }
    }
}

impl Classify for OpError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Backend(error) => error.kind(),
            Self::Block { source, .. } => kind_of(source),
            Self::NoHost { .. } | Self::HostsDown { .. } | Self::NotExported { .. } => {
                ErrorKind::Unavailable
            }
            Self::Queue { .. } | Self::Token { .. } => ErrorKind::Aborted,
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::Foreign { .. } | Self::InUse { .. } | Self::NoKey { .. } => {
                ErrorKind::FailedPrecondition
            }
            Self::Differs { .. } | Self::Incompatible { .. } => ErrorKind::AlreadyExists,
            Self::TooBig { .. } | Self::Limit { .. } => ErrorKind::OutOfRange,
            Self::Full { .. } => ErrorKind::ResourceExhausted,
            Self::TooFewHosts { .. } => ErrorKind::InvalidArgument,
            Self::Seal(_) => ErrorKind::Internal,
        }
    }
}

/// What gluster-block's answer means to the caller. Where a block may exist or come to exist, the kind is not final (C2).
fn kind_of(error: &BlockError) -> ErrorKind {
    match error {
        BlockError::BlockMissing { .. } | BlockError::VolumeMissing { .. } => ErrorKind::NotFound,
        BlockError::Conflict { .. } => ErrorKind::AlreadyExists,
        // Proved absent: what went wrong is the answer, and it may be final.
        BlockError::NotMade { cause, .. } => {
            let failed = matches!(
                cause.cause(),
                BlockError::Partial { .. }
                    | BlockError::Protocol { .. }
                    | BlockError::Incomplete { .. }
            );
            if failed {
                ErrorKind::Internal
            } else {
                kind_of(cause.cause())
            }
        }
        BlockError::NoSpace { .. } => ErrorKind::ResourceExhausted,
        BlockError::InvalidRequest { .. } => ErrorKind::InvalidArgument,
        BlockError::Unsupported { .. } | BlockError::NameTaken { .. } => {
            ErrorKind::FailedPrecondition
        }
        BlockError::Shrink { .. } => ErrorKind::OutOfRange,
        BlockError::Exists { .. }
        | BlockError::Incomplete { .. }
        | BlockError::Unproved { .. }
        | BlockError::HostDown { .. }
        | BlockError::Partial { .. }
        | BlockError::Lagging { .. }
        | BlockError::Busy { .. }
        | BlockError::Unavailable { .. }
        | BlockError::Protocol { .. }
        | BlockError::Transport(_) => ErrorKind::Unavailable,
    }
}
