//! Port to the backend: the hosting volumes that are ours, and the making of a new one.

use blockd_client::vocabulary::{Capacity, HostAddress, HostingVolume};
use proto::error::{Classify, ErrorKind};

pub mod fake;
pub mod heketi;

/// A hosting volume that this driver owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosting {
    /// Its GlusterFS name, never used twice.
    pub name: HostingVolume,
    /// Its whole size; 98 % of it may hold blocks.
    pub size: Capacity,
    /// The storage hosts that can export its blocks.
    pub hosts: Vec<HostAddress>,
}

/// Whose a hosting volume is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ownership {
    /// It is ours.
    Ours(Hosting),
    /// The backend has it, and it does not carry our mark.
    Foreign,
    /// The backend has none of that name.
    Absent,
}

/// The backend that makes hosting volumes.
pub trait HostingVolumes: Send + Sync + 'static {
    /// All that are ours, in the order of their names.
    fn list(&self) -> impl Future<Output = Result<Vec<Hosting>, HostingError>> + Send;

    /// The one of that name, and whether it is ours.
    fn find(
        &self,
        name: &HostingVolume,
    ) -> impl Future<Output = Result<Ownership, HostingError>> + Send;

    /// Makes one of `gib` GiB under a fresh name and marks it ours before it is returned.
    fn create(&self, gib: u64) -> impl Future<Output = Result<Hosting, HostingError>> + Send;

    /// True when the backend has room for one more of `gib` GiB, as far as it can tell.
    fn has_room(&self, gib: u64) -> impl Future<Output = Result<bool, HostingError>> + Send;
}

/// Why the backend did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostingError {
    /// It cannot be reached.
    #[error("the backend at {url} does not answer ({reason}); see --heketi-url")]
    Unreachable {
        /// Its address.
        url: String,
        /// Why, without secrets.
        reason: String,
    },
    /// It refuses our key.
    #[error("the backend refuses the key: {reason}; see --heketi-key-file and --heketi-user")]
    Refused {
        /// Its words.
        reason: String,
    },
    /// It is busy, in maintenance, or an operation is in the way.
    #[error("the backend is busy: {reason}")]
    Busy {
        /// Its words.
        reason: String,
    },
    /// It has no room.
    #[error(
        "the backend has no room for a hosting volume: {reason}; add devices, or lower --hosting-volume-size"
    )]
    NoRoom {
        /// Its words.
        reason: String,
    },
    /// What became of a request is not known.
    #[error("it is not known what became of {what}; it is looked for at the next try")]
    Unknown {
        /// The request.
        what: String,
    },
    /// It failed.
    #[error("the backend failed to {what}: {reason}")]
    Failed {
        /// What it was asked.
        what: String,
        /// Its words.
        reason: String,
    },
    /// A storage host is known to it by a name, and gluster-block takes addresses only.
    #[error(
        "storage host {host:?} of hosting volume {name} is not an IPv4 address; gluster-block takes no others, so give heketi's topology addresses"
    )]
    HostName {
        /// The volume.
        name: String,
        /// The host.
        host: String,
    },
}

impl Classify for HostingError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Unreachable { .. }
            | Self::Refused { .. }
            | Self::Busy { .. }
            | Self::Unknown { .. } => ErrorKind::Unavailable,
            Self::NoRoom { .. } => ErrorKind::ResourceExhausted,
            Self::HostName { .. } => ErrorKind::FailedPrecondition,
            Self::Failed { .. } => ErrorKind::Internal,
        }
    }
}
