//! The port to whoever makes hosting volumes, and the nouns of it.
//!
//! A backend tells which hosting volumes are ours, makes new ones, and says what room there is for more. It never
//! deletes one, and it knows nothing of blocks: what is on a hosting volume is gluster-block's to say.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::str::FromStr;

use blockd_client::vocabulary::{Capacity, HostAddress, HostingVolume};
use proto::error::{Classify, ErrorKind};

mod address;
#[cfg(any(test, feature = "testing"))]
pub mod fake;
pub mod gd2;
pub mod heketi;
mod naming;
mod rest;
mod token;

pub use self::naming::Making;
pub use self::rest::ClientError;

/// Whoever makes hosting volumes.
pub trait HostingVolumes: Send + Sync + 'static {
    /// All hosting volumes that are ours.
    ///
    /// # Guarantees
    ///
    /// None is missing: a volume that cannot be read fails the whole list. One that an earlier attempt made and could not
    /// mark any more is marked now.
    ///
    /// # Errors
    ///
    /// [`HostingError`].
    fn list(&self) -> impl Future<Output = Result<Vec<Hosting>, HostingError>> + Send;

    /// Makes one more, in one of `clusters` or in any, and marks it as ours.
    ///
    /// # Errors
    ///
    /// [`HostingError`]; after [`HostingError::Unknown`] the volume may yet show up in [`list`](Self::list).
    fn create(
        &self,
        size: Capacity,
        clusters: &[ClusterId],
    ) -> impl Future<Output = Result<Hosting, HostingError>> + Send;

    /// What could still be made, per cluster; of `clusters` or of all.
    ///
    /// # Errors
    ///
    /// [`HostingError`].
    fn room(
        &self,
        clusters: &[ClusterId],
    ) -> impl Future<Output = Result<Vec<Room>, HostingError>> + Send;
}

/// A hosting volume of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosting {
    /// Its name in `GlusterFS`.
    pub name: HostingVolume,
    /// Its size as made; what blocks may fill is less.
    pub size: Capacity,
    /// The storage hosts that can serve its blocks, in order of preference for questions.
    pub hosts: Vec<HostAddress>,
    /// The cluster it is in.
    pub cluster: ClusterId,
}

/// What a cluster has room for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// The cluster.
    pub cluster: ClusterId,
    /// Its storage hosts.
    pub hosts: BTreeSet<HostAddress>,
    /// A size that one new hosting volume could certainly have.
    pub largest: Capacity,
}

/// The id of a cluster in the backend.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(String);

/// A text that is no cluster id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no cluster id: use up to 64 letters, digits and dashes")]
pub struct InvalidClusterId(String);

impl ClusterId {
    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ClusterId {
    type Err = InvalidClusterId;

    fn from_str(text: &str) -> Result<Self, InvalidClusterId> {
        let legal = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        if (1..=64).contains(&text.len()) && text.bytes().all(legal) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidClusterId(text.chars().take(80).collect()))
        }
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why the backend did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum HostingError {
    /// It cannot be reached.
    #[error("the backend at {url} does not answer; see setting {setting}")]
    Unreachable {
        /// Where it was looked for.
        url: String,
        /// The setting to look at.
        setting: &'static str,
        /// What the system said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It does not accept our credentials.
    #[error("the backend refuses our credentials; see setting {setting} ({said})")]
    Unauthorized {
        /// The setting to look at.
        setting: &'static str,
        /// Its own words.
        said: String,
    },
    /// It is busy, or in maintenance, and was so for as long as we asked.
    #[error("the backend is busy ({said})")]
    Busy {
        /// Its own words.
        said: String,
    },
    /// One of its own nodes is down, and it begins nothing without it.
    #[error("the backend lacks a node; start it, or take it out of the backend ({said})")]
    PeerDown {
        /// Its own words.
        said: String,
    },
    /// There is no room for the volume.
    #[error(
        "the backend has no room for a hosting volume of {size}; add devices or free some ({said})"
    )]
    NoSpace {
        /// The size asked for.
        size: Capacity,
        /// Its own words.
        said: String,
    },
    /// It refuses the request; only a person can change that.
    #[error("the backend refuses: {said}")]
    Refused {
        /// Its own words.
        said: String,
    },
    /// It is not known what has become of the request.
    #[error("it is not known what has become of {what}: {why}")]
    Unknown {
        /// The request.
        what: String,
        /// How it got lost.
        why: String,
    },
    /// A storage host has no IPv4 address that we could find.
    #[error(
        "storage host {name:?} has no IPv4 address, and gluster-block takes no other; see the backend's topology"
    )]
    NoAddress {
        /// The host as the backend calls it.
        name: String,
    },
    /// The answer is none that the backend is known to give.
    #[error("the backend's answer to {what} is not understood: {why}")]
    Protocol {
        /// What it was asked.
        what: String,
        /// What is odd.
        why: String,
    },
}

impl Classify for HostingError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Unreachable { .. }
            | Self::Busy { .. }
            | Self::PeerDown { .. }
            | Self::NoAddress { .. }
            // Not Internal: what is not known may yet come to be.
            | Self::Unknown { .. }
            | Self::Protocol { .. } => ErrorKind::Unavailable,
            Self::Unauthorized { .. } => ErrorKind::Unauthenticated,
            Self::NoSpace { .. } => ErrorKind::ResourceExhausted,
            Self::Refused { .. } => ErrorKind::FailedPrecondition,
        }
    }
}
