//! Long work, as something that can be asked for again.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::vocabulary::VolumeId;

use super::{Block, Problem};

/// Work on one block, under way or done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// Its id.
    pub id: Uuid,
    /// What is done.
    pub verb: Verb,
    /// To which block.
    pub block: VolumeId,
    /// How far it is.
    #[serde(flatten)]
    pub progress: Progress,
}

/// What can be done to a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// It is made.
    Create,
    /// It is deleted.
    Delete,
    /// It is grown.
    Resize,
}

/// How far an operation is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum Progress {
    /// Under way.
    Running,
    /// Done, and proved.
    Succeeded {
        /// Whether a create made the block; false if it was there, complete and as wanted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        made: Option<bool>,
        /// The block; none after a delete.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<Box<Block>>,
    },
    /// Not done, or not proved.
    Failed {
        /// Why.
        problem: Box<Problem>,
    },
}

impl Operation {
    /// Whether nothing more will come of it.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        !matches!(self.progress, Progress::Running)
    }
}

impl Verb {
    /// One word for logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::Resize => "resize",
        }
    }
}
