//! Stats: how full a volume is. Never touches the block device, and gives up when the file system does not answer (C12, P06).

use std::path::PathBuf;

use blockd_client::vocabulary::{Capacity, VolumeId};
use proto::error::{Classify, ErrorKind};

use super::Operations;
use super::observe::Seen;
use crate::host::{Host, HostError, Usage};
use crate::record::JournalError;

#[cfg(test)]
mod tests;

/// What a caller asks about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeAt {
    /// The volume.
    pub id: VolumeId,
    /// Where it is published or staged.
    pub path: PathBuf,
}

/// How full it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VolumeUsage {
    /// A block device has a size; what is used of it only its user knows.
    Block(Capacity),
    /// A file system has bytes and inodes.
    Filesystem(Usage),
}

impl<H: Host> Operations<H> {
    /// How full the volume is.
    ///
    /// # Errors
    ///
    /// The volume is not at that path, or its file system does not answer.
    pub async fn stats(&self, asked: &VolumeAt) -> Result<VolumeUsage, StatsError> {
        let asked = &VolumeAt {
            id: asked.id.clone(),
            path: self.host.resolve(&asked.path).await,
        };
        let missing = || StatsError::NotHere {
            volume: asked.id.clone(),
            path: asked.path.clone(),
        };
        let record = self
            .journal
            .load(&asked.id)
            .await
            .map_err(|source| StatsError::Journal { source })?
            .ok_or_else(missing)?;
        let observe = |source| StatsError::Observe { source };
        let map = self
            .host
            .map(&record.wwid)
            .await
            .map_err(observe)?
            .ok_or_else(missing)?;
        let mounts = self.host.mounts().await.map_err(observe)?;
        let seen = Seen {
            mounts,
            ..Seen::default()
        };
        let top = seen
            .mounts_at(&asked.path)
            .next_back()
            .ok_or_else(missing)?;
        if top.node == Some(map.dev) {
            return Ok(VolumeUsage::Block(map.size));
        }
        if top.dev != map.dev {
            return Err(missing());
        }
        self.host
            .usage(&asked.path)
            .await
            .map(VolumeUsage::Filesystem)
            .map_err(|source| StatsError::Usage {
                path: asked.path.clone(),
                source,
            })
    }
}

/// No stats.
#[derive(Debug, thiserror::Error)]
pub enum StatsError {
    /// The journal cannot be read.
    #[error("the journal of the volume failed")]
    Journal {
        /// Why.
        #[source]
        source: JournalError,
    },
    /// The volume is not on this node, or not at that path.
    #[error("{volume} is not at {} on this node", path.display())]
    NotHere {
        /// The volume.
        volume: VolumeId,
        /// The path asked for.
        path: PathBuf,
    },
    /// An observation failed.
    #[error("cannot see the state of this host")]
    Observe {
        /// Why.
        #[source]
        source: HostError,
    },
    /// The file system does not say.
    #[error("cannot measure the file system at {}", path.display())]
    Usage {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: HostError,
    },
}

impl Classify for StatsError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Journal { source } => source.kind(),
            Self::NotHere { .. } => ErrorKind::NotFound,
            Self::Observe { source } | Self::Usage { source, .. } => source.kind(),
        }
    }
}
