//! What can come of an operation other than success, and of which kind it is.
//!
//! For `CreateVolume` the kind says whether a block of the volume's name may exist (C2): not final if and only if it may.
//! Two exceptions are CSI's own: a block that is there and differs is `ALREADY_EXISTS`, and one that is there twice stays
//! `ABORTED` until a person has looked.

use blockd_client::vocabulary::{Capacity, HostingVolume, SealError, VolumeId};
use blockd_client::{Error as BlockError, Mismatch};
use proto::error::{Classify, ErrorKind};

use crate::hosting::{ClusterId, HostingError};

/// Why an operation did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    /// It is not known which hosting volumes are ours, so not which blocks there are either.
    #[error("cannot learn which hosting volumes there are")]
    Volumes(#[source] HostingError),
    /// It is not known what is on a hosting volume.
    #[error("cannot learn what is on hosting volume {volume}")]
    Contents {
        /// The hosting volume.
        volume: HostingVolume,
        /// Why not.
        #[source]
        source: Box<BlockError>,
    },
    /// A hosting volume has no storage hosts.
    #[error("hosting volume {volume} has no storage hosts; see the backend's topology")]
    NoHosts {
        /// The hosting volume.
        volume: HostingVolume,
    },
    /// There is no such volume.
    #[error("there is no volume {id}")]
    NotFound {
        /// The volume.
        id: VolumeId,
    },
    /// A block of that name is there and differs.
    #[error("volume {id} exists already and differs from what is asked for")]
    Differs {
        /// The volume.
        id: VolumeId,
        /// How.
        #[source]
        source: Mismatch,
    },
    /// Blocks of that name are on several hosting volumes.
    #[error(
        "block {block} exists on several hosting volumes: {places}; delete all but the right one by hand"
    )]
    Ambiguous {
        /// The block.
        block: String,
        /// Where.
        places: String,
    },
    /// Half a block is there, and somebody uses it.
    #[error(
        "what is there of volume {id} is not complete, and {user} is logged in to it; it is left alone"
    )]
    HalfMadeInUse {
        /// The volume.
        id: VolumeId,
        /// Who.
        user: String,
    },
    /// What is there of a block cannot be removed now.
    #[error("volume {id} cannot be removed now; try again")]
    NotRemoved {
        /// The volume.
        id: VolumeId,
        /// Why.
        #[source]
        source: Box<BlockError>,
    },
    /// The block may be there, or may come yet.
    #[error("it is not known yet whether volume {id} was made; ask again")]
    Unproved {
        /// The volume.
        id: VolumeId,
        /// Why.
        #[source]
        source: Box<BlockError>,
    },
    /// The block was not made, and nothing of it is left.
    #[error("volume {id} could not be made; nothing is left of it")]
    NotMade {
        /// The volume.
        id: VolumeId,
        /// Why.
        #[source]
        source: Box<BlockError>,
    },
    /// No hosting volume has room, and none could be made.
    #[error("no hosting volume has room for {size}, and none could be made")]
    NoRoom {
        /// The size asked for.
        size: Capacity,
        /// What the backend said.
        #[source]
        source: HostingError,
    },
    /// No hosting volume kept its promise of room.
    #[error("every hosting volume with room for {size} turned out to be full or out of reach")]
    Exhausted {
        /// The size asked for.
        size: Capacity,
    },
    /// Other placements took too long.
    #[error("other volumes are being placed; nothing was begun for this one")]
    NoTurn,
    /// No hosting volume could ever hold it.
    #[error(
        "{size} is more than a volume can have; the largest is {largest} (see --hosting-volume-max-size)"
    )]
    TooBig {
        /// The size asked for.
        size: Capacity,
        /// The largest there can be.
        largest: Capacity,
    },
    /// Fewer hosts than asked for.
    #[error(
        "hacount is {wanted}, and no cluster of those allowed has more than {hosts} storage hosts"
    )]
    TooFewHosts {
        /// As asked for.
        wanted: usize,
        /// As there are.
        hosts: usize,
    },
    /// Fewer hosts answer than are needed.
    #[error("hacount is {wanted}, and gluster-blockd answers on {alive} storage hosts only{why}")]
    TooFewAlive {
        /// As asked for.
        wanted: usize,
        /// As answer.
        alive: usize,
        /// What the others said.
        why: String,
    },
    /// A cluster that the controller must not use.
    #[error("clusterids names cluster {cluster}, which is not among those of --heketi-clusters")]
    ClusterNotAllowed {
        /// The cluster.
        cluster: ClusterId,
    },
    /// CHAP without a key to seal it with.
    #[error(
        "volumes with CHAP need a key to seal their credentials with; set --sealing-key-file, or chapauthenabled to false"
    )]
    NoSealingKey,
    /// The credentials could not be sealed.
    #[error("cannot hand out the CHAP credentials of volume {id}")]
    Seal {
        /// The volume.
        id: VolumeId,
        /// Why.
        #[source]
        source: SealError,
    },
    /// The volume is in use.
    #[error("volume {id} is in use by {user}")]
    InUse {
        /// The volume.
        id: VolumeId,
        /// Who uses it.
        user: String,
    },
    /// Two nodes call themselves the same towards targets.
    #[error(
        "nodes {node} and {other} have the same iSCSI initiator name {initiator}, so a target cannot tell them apart; \
         give each its own in /etc/iscsi/initiatorname.iscsi (iscsi-iname makes one), restart iscsid and the node plugin"
    )]
    SharedInitiator {
        /// The node that asks.
        node: String,
        /// The node that has a volume.
        other: String,
        /// Their name.
        initiator: String,
    },
    /// No exporting host says who uses the volume.
    #[error("none of the hosts of volume {id} says who is logged in to it")]
    SessionsUnknown {
        /// The volume.
        id: VolumeId,
        /// What the last one said.
        #[source]
        source: Box<BlockError>,
    },
    /// The volume is published to that node in another way.
    #[error("volume {id} is published to node {node} already, for another access mode or type")]
    PublishedOtherwise {
        /// The volume.
        id: VolumeId,
        /// The node.
        node: String,
    },
    /// No host exports the volume.
    #[error("volume {id} is exported by no host; see gluster-block info")]
    NotExported {
        /// The volume.
        id: VolumeId,
    },
    /// The hosting volume has not enough room to grow the block.
    #[error("volume {id} cannot grow to {wanted}: its hosting volume has {free} free")]
    NoRoomToGrow {
        /// The volume.
        id: VolumeId,
        /// The size asked for.
        wanted: Capacity,
        /// What is free there.
        free: Capacity,
    },
    /// The hosting volume could never hold the block at that size.
    #[error("volume {id} cannot grow to {wanted}: its hosting volume holds {largest} at most")]
    TooBigToGrow {
        /// The volume.
        id: VolumeId,
        /// The size asked for.
        wanted: Capacity,
        /// What it could hold.
        largest: Capacity,
    },
    /// The volume is larger than the limit.
    #[error("volume {id} has {current} already, more than limit_bytes {limit}")]
    AboveLimit {
        /// The volume.
        id: VolumeId,
        /// Its size.
        current: Capacity,
        /// The limit.
        limit: Capacity,
    },
    /// Some hosts still show the old size, and which size they should show is not known.
    #[error("hosts of volume {id} lag behind its size; ask again for the size it was to have")]
    Lags {
        /// The volume.
        id: VolumeId,
    },
    /// Growing failed, or has not ended.
    #[error("volume {id} could not be grown yet")]
    NotGrown {
        /// The volume.
        id: VolumeId,
        /// Why.
        #[source]
        source: Box<BlockError>,
    },
    /// The token is none that a listing gave.
    #[error("starting_token {token:?} is none of ours; begin the listing anew")]
    BadToken {
        /// The token.
        token: String,
    },
}

impl Classify for OperationError {
    fn kind(&self) -> ErrorKind {
        match self {
            // Of CreateVolume these leave open whether the block is there; so even a refused key is not final.
            Self::Volumes(_)
            | Self::Contents { .. }
            | Self::NoHosts { .. }
            | Self::NotRemoved { .. }
            | Self::Unproved { .. }
            | Self::SessionsUnknown { .. }
            | Self::Lags { .. } => ErrorKind::Unavailable,
            Self::Ambiguous { .. } | Self::HalfMadeInUse { .. } | Self::BadToken { .. } => {
                ErrorKind::Aborted
            }
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::Differs { .. } | Self::PublishedOtherwise { .. } => ErrorKind::AlreadyExists,
            Self::NotMade { source, .. } => not_made(source),
            Self::NoRoom { source, .. } => no_room(source),
            Self::NoTurn | Self::Exhausted { .. } | Self::NoRoomToGrow { .. } => {
                ErrorKind::ResourceExhausted
            }
            Self::TooBig { .. } | Self::TooBigToGrow { .. } | Self::AboveLimit { .. } => {
                ErrorKind::OutOfRange
            }
            Self::TooFewHosts { .. } | Self::ClusterNotAllowed { .. } => ErrorKind::InvalidArgument,
            Self::TooFewAlive { .. }
            | Self::NoSealingKey
            | Self::InUse { .. }
            | Self::SharedInitiator { .. }
            | Self::NotExported { .. } => ErrorKind::FailedPrecondition,
            Self::Seal { .. } => ErrorKind::Internal,
            Self::NotGrown { source, .. } => not_grown(source),
        }
    }
}

/// The kind of a failed create of which nothing is left: always a final one.
fn not_made(error: &BlockError) -> ErrorKind {
    match error.cause() {
        BlockError::NoSpace { .. } => ErrorKind::ResourceExhausted,
        BlockError::InvalidRequest { .. } => ErrorKind::InvalidArgument,
        BlockError::NameTaken { .. }
        | BlockError::HostDown { .. }
        | BlockError::Unsupported { .. }
        | BlockError::Busy { .. }
        | BlockError::Unavailable { .. }
        | BlockError::VolumeMissing { .. }
        | BlockError::Transport(_) => ErrorKind::FailedPrecondition,
        BlockError::BlockMissing { .. }
        | BlockError::Exists { .. }
        | BlockError::Conflict { .. }
        | BlockError::Incomplete { .. }
        | BlockError::NotMade { .. }
        | BlockError::Unproved { .. }
        | BlockError::Partial { .. }
        | BlockError::Lagging { .. }
        | BlockError::Shrink { .. }
        | BlockError::Protocol { .. } => ErrorKind::Internal,
    }
}

/// The kind when no hosting volume can be made: final, for no block can come of it.
fn no_room(error: &HostingError) -> ErrorKind {
    match error {
        HostingError::Refused { .. } | HostingError::Unauthorized { .. } => {
            ErrorKind::FailedPrecondition
        }
        HostingError::NoSpace { .. }
        | HostingError::Unreachable { .. }
        | HostingError::Busy { .. }
        | HostingError::PeerDown { .. }
        | HostingError::Unknown { .. }
        | HostingError::NoAddress { .. }
        | HostingError::Protocol { .. } => ErrorKind::ResourceExhausted,
    }
}

/// The kind of a failed expand: the resizer goes on after most.
fn not_grown(error: &BlockError) -> ErrorKind {
    match error.cause() {
        BlockError::NoSpace { .. } => ErrorKind::ResourceExhausted,
        BlockError::BlockMissing { .. } | BlockError::VolumeMissing { .. } => ErrorKind::NotFound,
        BlockError::InvalidRequest { .. } => ErrorKind::InvalidArgument,
        BlockError::Unsupported { .. } => ErrorKind::FailedPrecondition,
        BlockError::NameTaken { .. }
        | BlockError::HostDown { .. }
        | BlockError::Busy { .. }
        | BlockError::Unavailable { .. }
        | BlockError::Transport(_)
        | BlockError::Exists { .. }
        | BlockError::Conflict { .. }
        | BlockError::Incomplete { .. }
        | BlockError::NotMade { .. }
        | BlockError::Unproved { .. }
        | BlockError::Partial { .. }
        | BlockError::Lagging { .. }
        | BlockError::Shrink { .. }
        | BlockError::Protocol { .. } => ErrorKind::Unavailable,
    }
}
