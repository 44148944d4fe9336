//! Unpublish: the target path is gone afterwards, and nothing else is touched (D08).
//!
//! # Guarantees
//!
//! - Whether something is mounted is read from the mount table alone: a file system that answers with errors, or not at all,
//!   is still unmounted (T06).
//! - The target is removed only when nothing is mounted there, and only if it is empty or a file (D25).
//! - Absent is success; nothing but the path is needed, not even the journal (T02).

use std::path::{Path, PathBuf};

use proto::error::{Classify, ErrorKind};

use super::Operations;
use crate::host::{Host, HostError};

#[cfg(test)]
mod tests;

impl<H: Host> Operations<H> {
    /// Removes every mount from `target`, then `target` itself.
    ///
    /// # Errors
    ///
    /// A mount that does not go, or a target that is not empty.
    pub async fn unpublish(&self, target: &Path) -> Result<(), UnpublishError> {
        let target = &self.host.resolve(target).await;
        for _ in 0..LAYERS {
            let mounts = self
                .host
                .mounts()
                .await
                .map_err(|source| UnpublishError::Observe { source })?;
            if !mounts.iter().any(|entry| entry.mountpoint == *target) {
                return self.host.remove_target(target).await.map_err(|source| {
                    UnpublishError::Remove {
                        path: target.clone(),
                        source,
                    }
                });
            }
            self.host
                .unmount(target)
                .await
                .map_err(|source| UnpublishError::Unmount {
                    path: target.clone(),
                    source,
                })?;
        }
        Err(UnpublishError::StillMounted {
            path: target.clone(),
        })
    }
}

/// An unpublish that failed.
#[derive(Debug, thiserror::Error)]
pub enum UnpublishError {
    /// The mount table cannot be read.
    #[error("cannot see the state of this host")]
    Observe {
        /// Why.
        #[source]
        source: HostError,
    },
    /// The mount does not go.
    #[error("cannot unmount {}", path.display())]
    Unmount {
        /// The target path.
        path: PathBuf,
        /// Why.
        #[source]
        source: HostError,
    },
    /// The mount was taken off and is there again.
    #[error("{} is still mounted", path.display())]
    StillMounted {
        /// The target path.
        path: PathBuf,
    },
    /// The target does not go.
    #[error("cannot remove {}", path.display())]
    Remove {
        /// The target path.
        path: PathBuf,
        /// Why.
        #[source]
        source: HostError,
    },
}

impl Classify for UnpublishError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Observe { source }
            | Self::Unmount { source, .. }
            | Self::Remove { source, .. } => source.kind(),
            Self::StillMounted { .. } => ErrorKind::Internal,
        }
    }
}

/// More layers than any driver stacked by mistake (T13).
const LAYERS: u32 = 32;
