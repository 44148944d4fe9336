//! Errors as RFC 9457 problems, and back.
//!
//! `title` is the kind in words, `detail` the error in words, and the other members are the error itself: from them a client gets the
//! same [`Error`] that the agent had. Only a transport's error becomes a shorter one: whether the daemon may have
//! started is kept, and its words.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::block::Mismatch;
use crate::error::Error;
use crate::transport::TransportError;
use crate::vocabulary::{Capacity, HostAddress, HostingVolume, VolumeId};

use super::Block;

mod kinds;

/// An error on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The kind in words.
    pub title: String,
    /// The status code that goes with it.
    pub status: u16,
    /// The error in words, with what lies behind it. Never a secret.
    pub detail: String,
    /// The error itself, beginning with its `type`.
    #[serde(flatten)]
    pub what: Box<What>,
}

/// The members of each kind of problem. The kinds are those of [`Error`], and the agent's own four.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
#[expect(
    missing_docs,
    reason = "the members are those of the errors, which have them"
)]
pub enum What {
    #[serde(rename = "urn:gluster-block:problem:block-missing")]
    BlockMissing { block: VolumeId },
    #[serde(rename = "urn:gluster-block:problem:volume-missing")]
    VolumeMissing { hosting_volume: HostingVolume },
    #[serde(rename = "urn:gluster-block:problem:exists")]
    Exists {
        found: Box<Block>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<Box<Problem>>,
    },
    #[serde(rename = "urn:gluster-block:problem:conflict")]
    Conflict {
        found: Box<Block>,
        difference: Difference,
    },
    #[serde(rename = "urn:gluster-block:problem:incomplete")]
    Incomplete {
        found: Box<Block>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<Box<Problem>>,
    },
    #[serde(rename = "urn:gluster-block:problem:not-made")]
    NotMade {
        block: VolumeId,
        cause: Box<Problem>,
    },
    #[serde(rename = "urn:gluster-block:problem:unproved")]
    Unproved {
        block: VolumeId,
        cause: Box<Problem>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        check: Option<Box<Problem>>,
    },
    #[serde(rename = "urn:gluster-block:problem:name-taken")]
    NameTaken {
        block: VolumeId,
        hosts: Vec<HostAddress>,
    },
    #[serde(rename = "urn:gluster-block:problem:no-space")]
    NoSpace { hosting_volume: HostingVolume },
    #[serde(rename = "urn:gluster-block:problem:host-down")]
    HostDown { host: HostAddress },
    #[serde(rename = "urn:gluster-block:problem:partial")]
    Partial {
        block: VolumeId,
        failed: Vec<HostAddress>,
        done: Vec<HostAddress>,
        said: String,
    },
    #[serde(rename = "urn:gluster-block:problem:lagging")]
    Lagging { found: Box<Block> },
    #[serde(rename = "urn:gluster-block:problem:shrink")]
    Shrink { block: VolumeId, current: String },
    #[serde(rename = "urn:gluster-block:problem:unsupported")]
    Unsupported {
        host: HostAddress,
        capability: String,
    },
    #[serde(rename = "urn:gluster-block:problem:busy")]
    Busy { host: HostAddress },
    #[serde(rename = "urn:gluster-block:problem:unavailable")]
    Unavailable { host: HostAddress, reason: String },
    #[serde(rename = "urn:gluster-block:problem:invalid-request")]
    InvalidRequest { reason: String },
    #[serde(rename = "urn:gluster-block:problem:protocol")]
    Protocol {
        host: HostAddress,
        verb: String,
        reason: String,
    },
    #[serde(rename = "urn:gluster-block:problem:no-answer")]
    NoAnswer {
        host: HostAddress,
        may_have_started: bool,
        said: String,
    },
    #[serde(rename = "urn:gluster-block:problem:forbidden")]
    Forbidden { reason: String },
    #[serde(rename = "urn:gluster-block:problem:no-such-path")]
    NoSuchPath,
    #[serde(rename = "urn:gluster-block:problem:no-such-operation")]
    NoSuchOperation { operation: Uuid },
    #[serde(rename = "urn:gluster-block:problem:operation-running")]
    OperationRunning { operation: Uuid },
}

/// How a block differs from the one that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "in", rename_all = "lowercase", rename_all_fields = "camelCase")]
#[expect(
    missing_docs,
    reason = "the members are those of Mismatch, which has them"
)]
pub enum Difference {
    Size { found: String, wanted_bytes: u64 },
    Ha { found: u32, wanted: u64 },
    Auth { found: bool },
}

impl Problem {
    /// The problem that says so much, in these words.
    #[must_use]
    pub fn new(what: What, detail: impl Into<String>) -> Self {
        Self {
            title: what.title().to_owned(),
            status: what.status(),
            detail: detail.into(),
            what: Box::new(what),
        }
    }

    /// The error that the agent of `host` had.
    #[must_use]
    pub fn into_error(self, host: HostAddress) -> Error {
        let said = self.detail;
        let boxed = |problem: Box<Self>| Box::new(problem.into_error(host));
        let info = |block: Box<Block>| Box::new((*block).into());
        match *self.what {
            What::BlockMissing { block: id } => Error::BlockMissing { id },
            What::VolumeMissing { hosting_volume } => Error::VolumeMissing { hosting_volume },
            What::Exists { found, cause } => Error::Exists {
                found: info(found),
                cause: cause.map(boxed),
            },
            What::Conflict { found, difference } => Error::Conflict {
                found: info(found),
                mismatch: difference.into(),
            },
            What::Incomplete { found, cause } => Error::Incomplete {
                found: info(found),
                cause: cause.map(boxed),
            },
            What::NotMade { block: id, cause } => Error::NotMade {
                id,
                cause: boxed(cause),
            },
            What::Unproved {
                block: id,
                cause,
                check,
            } => Error::Unproved {
                id,
                cause: boxed(cause),
                check: check.map(boxed),
            },
            What::NameTaken { block: id, hosts } => Error::NameTaken { id, hosts },
            What::NoSpace { hosting_volume } => Error::NoSpace { hosting_volume },
            What::HostDown { host } => Error::HostDown { host },
            What::Partial {
                block: id,
                failed,
                done,
                said,
            } => Error::Partial {
                id,
                failed,
                done,
                said,
            },
            What::Lagging { found } => Error::Lagging { found: info(found) },
            What::Shrink { block: id, current } => Error::Shrink { id, current },
            What::Unsupported { host, capability } => Error::Unsupported { host, capability },
            What::Busy { host } => Error::Busy { host },
            What::Unavailable { host, reason } => Error::Unavailable { host, reason },
            What::InvalidRequest { reason } => Error::InvalidRequest { reason },
            What::Protocol { host, verb, reason } => Error::Protocol {
                host,
                verb: kinds::known_verb(&verb),
                reason,
            },
            What::NoAnswer {
                host,
                may_have_started: started,
                said,
            } => Error::Transport(TransportError::Remote {
                host,
                started,
                said,
            }),
            What::Forbidden { .. } | What::NoSuchPath => {
                Error::Transport(TransportError::Refused { host, said })
            }
            What::NoSuchOperation { .. } => Error::Transport(TransportError::Remote {
                host,
                started: true,
                said,
            }),
            What::OperationRunning { .. } => Error::Busy { host },
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let detail = chain(&error);
        let boxed = |error: Box<Error>| Box::new(Self::from(*error));
        let block = |info: Box<crate::block::BlockInfo>| Box::new(Block::from(*info));
        let what = match error {
            Error::BlockMissing { id: block } => What::BlockMissing { block },
            Error::VolumeMissing { hosting_volume } => What::VolumeMissing { hosting_volume },
            Error::Exists { found, cause } => What::Exists {
                found: block(found),
                cause: cause.map(boxed),
            },
            Error::Conflict { found, mismatch } => What::Conflict {
                found: block(found),
                difference: mismatch.into(),
            },
            Error::Incomplete { found, cause } => What::Incomplete {
                found: block(found),
                cause: cause.map(boxed),
            },
            Error::NotMade { id, cause } => What::NotMade {
                block: id,
                cause: boxed(cause),
            },
            Error::Unproved { id, cause, check } => What::Unproved {
                block: id,
                cause: boxed(cause),
                check: check.map(boxed),
            },
            Error::NameTaken { id: block, hosts } => What::NameTaken { block, hosts },
            Error::NoSpace { hosting_volume } => What::NoSpace { hosting_volume },
            Error::HostDown { host } => What::HostDown { host },
            Error::Partial {
                id: block,
                failed,
                done,
                said,
            } => What::Partial {
                block,
                failed,
                done,
                said,
            },
            Error::Lagging { found } => What::Lagging {
                found: block(found),
            },
            Error::Shrink { id: block, current } => What::Shrink { block, current },
            Error::Unsupported { host, capability } => What::Unsupported { host, capability },
            Error::Busy { host } => What::Busy { host },
            Error::Unavailable { host, reason } => What::Unavailable { host, reason },
            Error::InvalidRequest { reason } => What::InvalidRequest { reason },
            Error::Protocol { host, verb, reason } => What::Protocol {
                host,
                verb: verb.to_owned(),
                reason,
            },
            Error::Transport(error) => no_answer(&error),
        };
        Self::new(what, detail)
    }
}

fn no_answer(error: &TransportError) -> What {
    let may_have_started = error.may_have_started();
    let Some(host) = error.host() else {
        // A wrong setting; an agent has none that is found out so late.
        let reason = chain(error);
        return What::Forbidden { reason };
    };
    let said = if let TransportError::Remote { said, .. } = error {
        said.clone()
    } else {
        chain(error)
    };
    What::NoAnswer {
        host,
        may_have_started,
        said,
    }
}

/// An error's words and those of what lies behind it.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

impl From<Mismatch> for Difference {
    fn from(mismatch: Mismatch) -> Self {
        match mismatch {
            Mismatch::Size { found, wanted } => Self::Size {
                found,
                wanted_bytes: wanted.bytes(),
            },
            Mismatch::Ha { found, wanted } => Self::Ha {
                found,
                wanted: u64::try_from(wanted).unwrap_or(u64::MAX),
            },
            Mismatch::Auth { found } => Self::Auth { found },
        }
    }
}

impl From<Difference> for Mismatch {
    fn from(difference: Difference) -> Self {
        match difference {
            Difference::Size {
                found,
                wanted_bytes,
            } => Self::Size {
                found,
                wanted: Capacity::from_bytes(wanted_bytes),
            },
            Difference::Ha { found, wanted } => Self::Ha {
                found,
                wanted: usize::try_from(wanted).unwrap_or(usize::MAX),
            },
            Difference::Auth { found } => Self::Auth { found },
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
