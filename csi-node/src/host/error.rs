//! What can go wrong with this host, in variants a reader can act on.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use blockd_client::vocabulary::{FsType, Iqn, Portal};
use proto::error::{Classify, ErrorKind};

/// An observation, question or effect that failed.
///
/// `what` names the act in a few words, `detail` is what the tool said. Neither ever holds a secret.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The program is not there or cannot be run.
    #[error("cannot run {program}")]
    Start {
        /// The program.
        program: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A program ran and failed.
    #[error("{what} failed with {status}: {detail}")]
    Failed {
        /// The act.
        what: String,
        /// Exit code or signal, as words.
        status: String,
        /// What it printed.
        detail: String,
    },
    /// It did not end in time and was stopped.
    #[error("{what} did not end within {limit:?}")]
    Deadline {
        /// The act.
        what: String,
        /// The limit.
        limit: Duration,
    },
    /// A file of the kernel or the system could not be read or written.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// The act, as a verb: "read", "write", "mount".
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A tool or the kernel said something that is not understood.
    #[error("cannot make sense of {what}: {detail}")]
    Unreadable {
        /// Where it came from.
        what: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The portal does not answer (Q07).
    #[error("portal {portal} of {iqn} does not answer: {detail}")]
    PortalSilent {
        /// The target.
        iqn: Iqn,
        /// The portal.
        portal: Portal,
        /// What the tool said.
        detail: String,
    },
    /// The target does not accept the CHAP credentials.
    #[error("portal {portal} of {iqn} rejects the CHAP credentials: {detail}")]
    ChapRejected {
        /// The target.
        iqn: Iqn,
        /// The portal.
        portal: Portal,
        /// What the tool said.
        detail: String,
    },
    /// The target refuses the login for good (Q06).
    #[error("portal {portal} of {iqn} refuses the login: {detail}")]
    LoginRefused {
        /// The target.
        iqn: Iqn,
        /// The portal.
        portal: Portal,
        /// What the tool said.
        detail: String,
    },
    /// Somebody still uses it (D27).
    #[error("{what} is in use: {detail}")]
    Busy {
        /// The mount or device.
        what: String,
        /// By whom, as far as can be told.
        detail: String,
    },
    /// The device node is not there, or is not a block device (F04).
    #[error("device {device} is not usable: {detail}")]
    NoDevice {
        /// The device.
        device: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The device could not be read completely, so nothing is known about what it carries (F02).
    #[error("device {device} cannot be read: {detail}")]
    ReadFailed {
        /// The device.
        device: String,
        /// Which read, and how it failed.
        detail: String,
    },
    /// The file system needs a person (F15).
    #[error("the {fs} file system on {device} is damaged: {detail}")]
    Damaged {
        /// Which kind.
        fs: FsType,
        /// The device.
        device: String,
        /// What the check said.
        detail: String,
    },
    /// A mount option that the kernel does not know (K05).
    #[error("mount options {options:?} are not accepted: {detail}")]
    MountOption {
        /// The options.
        options: String,
        /// What the kernel said.
        detail: String,
    },
    /// multipathd did not do what it was told, whatever its exit code (E05).
    #[error("multipathd refuses {what}: {detail}")]
    MultipathRefused {
        /// The command.
        what: String,
        /// Its answer.
        detail: String,
    },
    /// Something this host must have is missing; `what` says what to install, start or set.
    #[error("this host is not ready: {what}")]
    NotReady {
        /// What is missing and where to look.
        what: String,
    },
    /// The work was lost inside the process.
    #[error("{what} was lost: {detail}")]
    Lost {
        /// The act.
        what: String,
        /// How.
        detail: String,
    },
}

impl Classify for HostError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Start { .. }
            | Self::Failed { .. }
            | Self::Io { .. }
            | Self::Unreadable { .. }
            | Self::Busy { .. }
            | Self::MultipathRefused { .. }
            | Self::Lost { .. } => ErrorKind::Internal,
            Self::Deadline { .. } => ErrorKind::DeadlineExceeded,
            Self::PortalSilent { .. } | Self::NoDevice { .. } | Self::ReadFailed { .. } => {
                ErrorKind::Unavailable
            }
            Self::ChapRejected { .. } => ErrorKind::Unauthenticated,
            Self::LoginRefused { .. } | Self::Damaged { .. } | Self::NotReady { .. } => {
                ErrorKind::FailedPrecondition
            }
            Self::MountOption { .. } => ErrorKind::InvalidArgument,
        }
    }
}
