//! What can come of a question to gluster-block other than success.
//!
//! Every variant is something a caller can act on, and every message says what to do. Bodies of answers never
//! appear in it: they may hold CHAP passwords.

use crate::block::{BlockInfo, Mismatch};
use crate::transport::TransportError;
use crate::vocabulary::{HostAddress, HostingVolume, VolumeId};

/// Why an operation did not prove success.
///
/// | variant                                   | of                     | do next                                    |
/// |-------------------------------------------|------------------------|--------------------------------------------|
/// | `BlockMissing`, `VolumeMissing`           | all                    | deleting: done, or nothing to do            |
/// | `Exists`                                  | create                 | adopt the block: it is complete and matches |
/// | `Conflict`                                | create                 | refuse: that name means another block       |
/// | `Incomplete`                              | create                 | delete what is there, then create again     |
/// | `NotMade`                                 | create                 | see [`Error::cause`]; nothing is there      |
/// | `Unproved`                                | create, delete         | ask again later; anything may be there      |
/// | `Partial`, `Lagging`                      | create, delete, resize | repeat the same request                     |
/// | `HostDown`, `Busy`, `Unavailable`         | all                    | wait, repeat                                |
/// | `Transport`                               | all                    | wait, repeat; or fix the setting it names   |
/// | `NoSpace`                                 | create, resize         | another hosting volume, or a smaller size   |
/// | `Shrink`                                  | resize                 | nothing: the block is larger already        |
/// | `NameTaken`                               | create                 | a person must clear the named hosts         |
/// | `Unsupported`, `InvalidRequest`, `Protocol` | all                  | a person must look                          |
#[expect(
    clippy::error_impl_error,
    reason = "the crate has one error; callers say blockd_client::Error"
)]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The hosting volume exists and has no such block.
    #[error("there is no block {id}")]
    BlockMissing {
        /// The block.
        id: VolumeId,
    },
    /// There is no such hosting volume.
    #[error("there is no hosting volume {hosting_volume}")]
    VolumeMissing {
        /// The volume.
        hosting_volume: HostingVolume,
    },
    /// A complete block of that name is there and matches what was asked for, though this call cannot claim to
    /// have made it.
    #[error("block {} exists already, complete and as asked for", found.id)]
    Exists {
        /// What is there.
        found: Box<BlockInfo>,
        /// Why this call cannot claim it; none if gluster-block plainly said that it exists.
        #[source]
        cause: Option<Box<Error>>,
    },
    /// A complete block of that name is there and is not what was asked for.
    #[error("block {} exists already and differs from what was asked for", found.id)]
    Conflict {
        /// What is there.
        found: Box<BlockInfo>,
        /// How it differs.
        #[source]
        mismatch: Mismatch,
    },
    /// A block of that name is there, and not on all hosts.
    #[error("block {} is half made: {} of {} hosts export it; delete it and create it again", found.id, found.exported_on.len(), found.ha)]
    Incomplete {
        /// What is there.
        found: Box<BlockInfo>,
        /// What create had said; none if it had claimed success or that the block exists.
        #[source]
        cause: Option<Box<Error>>,
    },
    /// The block was not made, and `info` proves that there is none.
    #[error("block {id} was not made and is not there")]
    NotMade {
        /// The block.
        id: VolumeId,
        /// Why.
        #[source]
        cause: Box<Error>,
    },
    /// Neither the call nor the check after it tells whether the block is there.
    #[error("it is not known whether block {id} is there; ask again later")]
    Unproved {
        /// The block.
        id: VolumeId,
        /// What became of the call.
        #[source]
        cause: Box<Error>,
        /// What became of the check; none if there was no use in one.
        check: Option<Box<Error>>,
    },
    /// A storage host holds a left-over of that name, or a block of that name from another hosting volume.
    #[error(
        "block {id} cannot be made: {} already hosts something of that name; clear it there",
        addresses(hosts)
    )]
    NameTaken {
        /// The block.
        id: VolumeId,
        /// Where.
        hosts: Vec<HostAddress>,
    },
    /// The hosting volume has not enough room.
    #[error("hosting volume {hosting_volume} has not enough room")]
    NoSpace {
        /// The volume.
        hosting_volume: HostingVolume,
    },
    /// The gluster-blockd of a host the block needs does not answer; nothing was changed.
    #[error(
        "gluster-blockd on {host} does not answer the others; see that it and rpcbind run there"
    )]
    HostDown {
        /// That host.
        host: HostAddress,
    },
    /// Some hosts did their part and some did not.
    #[error(
        "block {id} was changed on some hosts only; failed: {}; done: {}; repeat the request ({said})",
        addresses(failed),
        addresses(done)
    )]
    Partial {
        /// The block.
        id: VolumeId,
        /// Hosts that failed.
        failed: Vec<HostAddress>,
        /// Hosts that succeeded, as far as known.
        done: Vec<HostAddress>,
        /// gluster-block's own words, cut short; may be empty.
        said: String,
    },
    /// The block has its new size, and some hosts still show the old one.
    #[error("block {} is resized, and {} still show the old size; repeat the request with the same size", found.id, addresses(found.lagging.keys()))]
    Lagging {
        /// What is there.
        found: Box<BlockInfo>,
    },
    /// The block is larger than what was asked for; it is never made smaller.
    #[error("block {id} is larger already ({current}), and is never made smaller")]
    Shrink {
        /// The block.
        id: VolumeId,
        /// Its size as printed.
        current: String,
    },
    /// A host's gluster-block is too old for what was asked.
    #[error(
        "gluster-block on {host} is too old for {capability:?}; upgrade it or leave that option out"
    )]
    Unsupported {
        /// The host.
        host: HostAddress,
        /// The missing capability.
        capability: String,
    },
    /// The command gave up waiting for gluster-blockd, which may still be at it.
    #[error("gluster-blockd on {host} gave no answer in time and may still be at it")]
    Busy {
        /// The host asked.
        host: HostAddress,
    },
    /// gluster-blockd does not run, or cannot use the hosting volume.
    #[error("gluster-block on {host} cannot serve: {reason}")]
    Unavailable {
        /// The host asked.
        host: HostAddress,
        /// What is wrong and where to look.
        reason: String,
    },
    /// The request is wrong.
    #[error("the request is refused: {reason}")]
    InvalidRequest {
        /// What is wrong and what is allowed.
        reason: String,
    },
    /// The answer is none that gluster-block is known to give.
    #[error("the answer of {host} to {verb} is not understood: {reason}")]
    Protocol {
        /// The host asked.
        host: HostAddress,
        /// What it was asked.
        verb: &'static str,
        /// What is odd; never a body.
        reason: String,
    },
    /// There was no answer.
    #[error("there was no answer from gluster-block")]
    Transport(#[source] TransportError),
}

impl Error {
    /// Whether a block of that name may exist, or may yet come to exist.
    ///
    /// | no                                                          | yes            |
    /// |-------------------------------------------------------------|----------------|
    /// | `BlockMissing`, `VolumeMissing`, `NotMade`, `InvalidRequest` | all the others |
    ///
    /// `create` wraps every failure whose effect it could rule out in `NotMade`; a bare `NoSpace`, for instance, comes
    /// from `resize`, whose block exists. `InvalidRequest` comes bare only when nothing was sent.
    #[must_use]
    pub const fn outcome_unknown(&self) -> bool {
        match self {
            Self::BlockMissing { .. }
            | Self::VolumeMissing { .. }
            | Self::NotMade { .. }
            | Self::InvalidRequest { .. } => false,
            Self::Exists { .. }
            | Self::Conflict { .. }
            | Self::Incomplete { .. }
            | Self::Unproved { .. }
            | Self::NameTaken { .. }
            | Self::NoSpace { .. }
            | Self::HostDown { .. }
            | Self::Partial { .. }
            | Self::Lagging { .. }
            | Self::Shrink { .. }
            | Self::Unsupported { .. }
            | Self::Busy { .. }
            | Self::Unavailable { .. }
            | Self::Protocol { .. }
            | Self::Transport(_) => true,
        }
    }

    /// What lies behind [`Error::NotMade`], [`Error::Unproved`], [`Error::Incomplete`] and [`Error::Exists`]; else the error itself.
    #[must_use]
    pub fn cause(&self) -> &Self {
        match self {
            Self::NotMade { cause, .. }
            | Self::Unproved { cause, .. }
            | Self::Incomplete {
                cause: Some(cause), ..
            }
            | Self::Exists {
                cause: Some(cause), ..
            } => cause.cause(),
            Self::Incomplete { cause: None, .. }
            | Self::Exists { cause: None, .. }
            | Self::BlockMissing { .. }
            | Self::VolumeMissing { .. }
            | Self::Conflict { .. }
            | Self::NameTaken { .. }
            | Self::NoSpace { .. }
            | Self::HostDown { .. }
            | Self::Partial { .. }
            | Self::Lagging { .. }
            | Self::Shrink { .. }
            | Self::Unsupported { .. }
            | Self::Busy { .. }
            | Self::Unavailable { .. }
            | Self::InvalidRequest { .. }
            | Self::Protocol { .. }
            | Self::Transport(_) => self,
        }
    }

    /// Whether gluster-block may still be working on the request that failed so.
    pub(crate) fn may_go_on(&self) -> bool {
        let unclear = matches!(self, Self::Busy { .. } | Self::Protocol { .. });
        unclear || matches!(self, Self::Transport(error) if error.may_have_started())
    }

    /// Whether the request did not even reach the host.
    pub(crate) fn never_sent(&self) -> bool {
        matches!(self, Self::Transport(error) if !error.may_have_started())
    }
}

fn addresses<'a>(hosts: impl IntoIterator<Item = &'a HostAddress>) -> String {
    let hosts: Vec<String> = hosts.into_iter().map(ToString::to_string).collect();
    if hosts.is_empty() {
        "none".to_owned()
    } else {
        hosts.join(", ")
    }
}
