//! The title and the status code of each kind of problem.

use super::What;

impl What {
    /// The kind in words.
    #[must_use]
    pub const fn title(&self) -> &'static str {
        match self {
            Self::BlockMissing { .. } => "There is no such block",
            Self::VolumeMissing { .. } => "There is no such hosting volume",
            Self::Exists { .. } => "The block exists already",
            Self::Conflict { .. } => "Another block has that name",
            Self::Incomplete { .. } => "The block is half made",
            Self::NotMade { .. } => "The block was not made",
            Self::Unproved { .. } => "It is not known whether the block is there",
            Self::NameTaken { .. } => "A host already has something of that name",
            Self::NoSpace { .. } => "The hosting volume has not enough room",
            Self::HostDown { .. } => "The gluster-blockd of a host does not answer",
            Self::Partial { .. } => "Some hosts failed",
            Self::Lagging { .. } => "Some hosts still show the old size",
            Self::Shrink { .. } => "The block is larger already",
            Self::Unsupported { .. } => "A host's gluster-block is too old",
            Self::Busy { .. } => "gluster-blockd gave no answer in time",
            Self::Unavailable { .. } => "gluster-block cannot serve",
            Self::InvalidRequest { .. } => "The request is wrong",
            Self::Protocol { .. } => "The answer of gluster-block is not understood",
            Self::NoAnswer { .. } => "There was no answer from gluster-blockd",
            Self::Forbidden { .. } => "The certificate does not allow that",
            Self::NoSuchPath => "There is nothing at this path",
            Self::NoSuchOperation { .. } => "There is no such operation",
            Self::OperationRunning { .. } => "Other work on this block is under way",
        }
    }

    /// The status code.
    ///
    /// | code | problems                                                        |
    /// |------|-----------------------------------------------------------------|
    /// | 400  | the request is wrong                                             |
    /// | 403  | the caller may not do that                                      |
    /// | 404  | block, hosting volume, path or operation is not there           |
    /// | 409  | what is there is in the way, or other work is under way          |
    /// | 500  | some hosts failed, or it is not known what is there              |
    /// | 501  | gluster-block is too old                                        |
    /// | 502  | gluster-block's answer is not understood                        |
    /// | 503  | gluster-blockd, a peer of it or the hosting volume cannot serve |
    /// | 504  | gluster-blockd gave no answer                                   |
    /// | 507  | no room                                                         |
    ///
    /// A block that was not made has the code of the reason.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::InvalidRequest { .. } => 400,
            Self::Forbidden { .. } => 403,
            Self::BlockMissing { .. }
            | Self::VolumeMissing { .. }
            | Self::NoSuchPath
            | Self::NoSuchOperation { .. } => 404,
            Self::Exists { .. }
            | Self::Conflict { .. }
            | Self::Incomplete { .. }
            | Self::NameTaken { .. }
            | Self::Shrink { .. }
            | Self::OperationRunning { .. } => 409,
            Self::Partial { .. } | Self::Lagging { .. } | Self::Unproved { .. } => 500,
            Self::Unsupported { .. } => 501,
            Self::Protocol { .. } => 502,
            Self::HostDown { .. } | Self::Unavailable { .. } => 503,
            Self::Busy { .. } | Self::NoAnswer { .. } => 504,
            Self::NoSpace { .. } => 507,
            Self::NotMade { cause, .. } => cause.status,
        }
    }
}

/// The verb as the program knows it.
pub(super) fn known_verb(verb: &str) -> &'static str {
    const VERBS: [&str; 7] = [
        "create", "delete", "info", "list", "resize", "sessions", "ping",
    ];
    VERBS
        .into_iter()
        .find(|known| *known == verb)
        .unwrap_or("the request")
}
