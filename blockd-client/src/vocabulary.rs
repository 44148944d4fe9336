//! The nouns of gluster-block, as types that cannot hold anything else.
//!
//! - [`HostingVolume`]: a `GlusterFS` volume that holds the files of blocks. [`BlockName`]: one block in it.
//!   [`VolumeId`] is both, `<hosting volume>/<block>`, and is also the CSI volume id.
//! - [`Capacity`]: whole bytes, checked arithmetic, and what gluster-block prints for a size.
//! - [`Gbid`]: the UUID of a block. Its [`Iqn`] and the [`Wwid`] of its multipath map follow from it.
//! - [`HostAddress`] and [`Portal`]: a storage host, and its iSCSI portal.
//! - [`Initiator`] and [`NodeId`]: who logs in, and how a node is called in CSI.
//! - [`ChapPassword`] and [`ChapCredentials`]: secrets that cannot be printed. [`SealedChap`] is the
//!   form in which they travel, made and opened by [`SealingKeys`].
//! - [`VolumeContext`] and [`PublishContext`]: what the controller hands to the node, as string maps.
//!
//! Every type from outside is parsed once (`FromStr`, `TryFrom`) and is valid from then on.

use std::fmt;

mod capacity;
mod chap;
mod context;
mod iscsi;
mod node;
mod seal;
mod volume;

pub use capacity::Capacity;
pub use chap::{ChapCredentials, ChapPassword};
pub use context::{ContextError, FsDefaults, FsType, PublishContext, VolumeContext};
pub use iscsi::{Gbid, HostAddress, ISCSI_PORT, Iqn, Portal, Wwid};
pub use node::{Initiator, NodeId};
pub use seal::{SealError, SealedChap, SealingKey, SealingKeys};
pub use volume::{BlockName, HostingVolume, VolumeId};

/// A text that is not what it should be; says what was expected instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Invalid {
    what: &'static str,
    given: Option<String>,
    rule: &'static str,
}

impl Invalid {
    /// Longest part of a refused text that is repeated in the message.
    const SHOWN: usize = 140;

    pub(crate) fn new(what: &'static str, given: &str, rule: &'static str) -> Self {
        let given = Some(given.chars().take(Self::SHOWN).collect());
        Self { what, given, rule }
    }

    /// For secrets: the message does not repeat what was given.
    pub(crate) fn hidden(what: &'static str, rule: &'static str) -> Self {
        Self {
            what,
            given: None,
            rule,
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, given, rule } = self;
        match given {
            Some(given) => write!(f, "{what} {given:?} is not valid: {rule}"),
            None => write!(f, "{what} is not valid: {rule}"),
        }
    }
}
