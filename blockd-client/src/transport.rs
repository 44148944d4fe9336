//! The seam between what is asked of gluster-block and how the question gets there.
//!
//! A transport carries a [`Request`] to the gluster-block of one storage host and brings back what it printed, as it
//! came. It judges nothing: an exit code is no error here. What a [`Reply`] means is decided by the client.

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use crate::block::CreateBlock;
use crate::vocabulary::{Capacity, HostAddress, HostingVolume, Iqn, VolumeId};

#[cfg(feature = "local")]
pub mod local;
#[cfg(feature = "ssh")]
pub mod ssh;

/// A way to the gluster-block of a storage host.
pub trait Transport: Send + Sync + 'static {
    /// Asks one host, and waits for the answer no longer than `deadline`.
    ///
    /// # Errors
    ///
    /// There is no answer. [`TransportError::may_have_started`] says whether gluster-block may have acted, or may act yet.
    fn call(
        &self,
        host: HostAddress,
        request: &Request,
        deadline: Duration,
    ) -> impl Future<Output = Result<Reply, TransportError>> + Send;
}

/// What a host can be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// `create … --json`
    Create(CreateBlock),
    /// `delete … --json`, never with force.
    Delete(VolumeId),
    /// `info … --json`
    Info(VolumeId),
    /// `list … --json`
    List(HostingVolume),
    /// `modify … size … --json`, never with force.
    Resize(VolumeId, Capacity),
    /// The initiators that are logged in to a target on this host, from the kernel.
    ///
    /// Answered with exit code 0, on stdout one name per line, last a line `end`; NUL bytes mean nothing.
    Sessions(Iqn),
    /// Which of gluster-blockd's two sockets are listening on this host.
    ///
    /// Answered with exit code 0, on stdout the lines `unix` and `tcp`, each only if it listens, last a line `end`.
    Ping,
}

impl Request {
    /// One word for logs and metrics.
    #[must_use]
    pub const fn verb(&self) -> &'static str {
        match self {
            Self::Create(_) => "create",
            Self::Delete(_) => "delete",
            Self::Info(_) => "info",
            Self::List(_) => "list",
            Self::Resize(..) => "resize",
            Self::Sessions(_) => "sessions",
            Self::Ping => "ping",
        }
    }
}

/// What came back. The texts may hold a CHAP password; `Debug` shows their length only.
#[derive(Clone, PartialEq, Eq)]
pub struct Reply {
    /// The exit code.
    pub exit: i32,
    /// What was printed on stdout.
    pub stdout: String,
    /// What was printed on stderr.
    pub stderr: String,
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            exit,
            stdout,
            stderr,
        } = self;
        write!(
            f,
            "Reply(exit {exit}, {} + {} bytes)",
            stdout.len(),
            stderr.len()
        )
    }
}

/// A cause from a library underneath.
type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why there is no reply.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// A setting of the transport cannot be used.
    #[error("setting {setting}: {} {problem}", path.display())]
    Setting {
        /// Which setting.
        setting: &'static str,
        /// The file it names.
        path: PathBuf,
        /// What is wrong with the file and what to do.
        problem: String,
        /// What the system said, if it did.
        #[source]
        source: Option<Cause>,
    },
    /// The host could not be reached.
    #[error("cannot connect to {host} port {port}; is the host up, and is this the right port?")]
    Connect {
        /// The host.
        host: HostAddress,
        /// The port.
        port: u16,
        /// What the system said.
        #[source]
        source: Cause,
    },
    /// The host was reached, and both sides did not come to terms.
    #[error("the handshake with {host} port {port} failed; is this the right port?")]
    Handshake {
        /// The host.
        host: HostAddress,
        /// The port.
        port: u16,
        /// What the library said.
        #[source]
        source: Cause,
    },
    /// The host's key is in nobody's list.
    #[error("{host} port {port} shows the key {key}, and setting {setting} has no key for it; if that key is right, add it to {}", path.display())]
    HostKeyUnknown {
        /// The host.
        host: HostAddress,
        /// The port.
        port: u16,
        /// Type and fingerprint of the key shown.
        key: String,
        /// The setting that names the list.
        setting: &'static str,
        /// The list.
        path: PathBuf,
    },
    /// The host shows another key than the listed one.
    #[error("{host} port {port} shows the key {key}, and setting {setting} has another one for it: somebody may be in between, or the host was set up anew; in that case replace its line in {}", path.display())]
    HostKeyMismatch {
        /// The host.
        host: HostAddress,
        /// The port.
        port: u16,
        /// Type and fingerprint of the key shown.
        key: String,
        /// The setting that names the list.
        setting: &'static str,
        /// The list.
        path: PathBuf,
    },
    /// The host does not let this user in.
    #[error("{host} refuses user {user:?} with the key of setting {setting}; add the public key of {} to that user's authorized keys", path.display())]
    Login {
        /// The host.
        host: HostAddress,
        /// The user.
        user: String,
        /// The setting that names the key.
        setting: &'static str,
        /// The key file.
        path: PathBuf,
        /// What the library said.
        #[source]
        source: Cause,
    },
    /// There was no answer in time.
    #[error("{host} gave no answer within {} s", deadline.as_secs_f32())]
    Deadline {
        /// The host.
        host: HostAddress,
        /// How long it was waited for.
        deadline: Duration,
        /// Whether the request had been sent.
        started: bool,
    },
    /// The connection was lost before the answer was complete.
    #[error("the connection to {host} was lost before the answer was complete")]
    Lost {
        /// The host.
        host: HostAddress,
        /// What the library said.
        #[source]
        source: Cause,
    },
    /// The request could not be started on the host.
    #[error("{host} did not start the request")]
    NotStarted {
        /// The host.
        host: HostAddress,
        /// What the library said.
        #[source]
        source: Cause,
    },
    /// The command on the host was ended by a signal.
    #[error("the command on {host} was ended by signal {signal}")]
    Signal {
        /// The host.
        host: HostAddress,
        /// The signal's name without `SIG`.
        signal: String,
    },
    /// The answer was too long.
    #[error("{host} answered more than {limit} bytes; that is not gluster-block")]
    TooLong {
        /// The host.
        host: HostAddress,
        /// The most that is taken of each of stdout and stderr.
        limit: usize,
    },
    /// Nobody listens on the daemon's own socket.
    #[error("gluster-blockd on {host} does not listen on {}; start it, and see that this is its socket", socket.display())]
    DaemonDown {
        /// The host.
        host: HostAddress,
        /// The socket.
        socket: PathBuf,
        /// What the system said.
        #[source]
        source: Cause,
    },
    /// The agent on the host does not do that for this caller.
    #[error("the agent on {host} refuses: {said}")]
    Refused {
        /// The host.
        host: HostAddress,
        /// The agent's words.
        said: String,
    },
    /// The agent on the host had no answer from gluster-blockd.
    #[error("the agent on {host} had no answer from gluster-blockd: {said}")]
    Remote {
        /// The host.
        host: HostAddress,
        /// Whether the daemon may have acted on the request.
        started: bool,
        /// The agent's words.
        said: String,
    },
    /// The transport itself broke down.
    #[error("the transport to {host} broke down")]
    Broken {
        /// The host.
        host: HostAddress,
        /// How.
        #[source]
        source: Cause,
    },
}

impl TransportError {
    /// Whether gluster-block may have acted on the request, or may act on it yet.
    ///
    /// | no                                                            | yes                                  |
    /// |---------------------------------------------------------------|--------------------------------------|
    /// | settings, connecting, handshake, host key, login, not started | lost, signal, answer too long, broken |
    /// | nobody listens on the daemon's socket, the agent refuses      |                                      |
    /// | the agent had no answer, and knows that nothing was sent      | the agent had no answer otherwise    |
    /// | deadline before the request was sent                          | deadline after it                    |
    #[must_use]
    pub const fn may_have_started(&self) -> bool {
        match self {
            Self::Setting { .. }
            | Self::Connect { .. }
            | Self::Handshake { .. }
            | Self::HostKeyUnknown { .. }
            | Self::HostKeyMismatch { .. }
            | Self::Login { .. }
            | Self::NotStarted { .. }
            | Self::DaemonDown { .. }
            | Self::Refused { .. } => false,
            Self::Deadline { started, .. } | Self::Remote { started, .. } => *started,
            Self::Lost { .. }
            | Self::Signal { .. }
            | Self::TooLong { .. }
            | Self::Broken { .. } => true,
        }
    }
}

impl TransportError {
    /// The host that was asked; none if a setting is wrong.
    #[must_use]
    pub const fn host(&self) -> Option<HostAddress> {
        match self {
            Self::Setting { .. } => None,
            Self::Connect { host, .. }
            | Self::Handshake { host, .. }
            | Self::HostKeyUnknown { host, .. }
            | Self::HostKeyMismatch { host, .. }
            | Self::Login { host, .. }
            | Self::Deadline { host, .. }
            | Self::Lost { host, .. }
            | Self::NotStarted { host, .. }
            | Self::Signal { host, .. }
            | Self::TooLong { host, .. }
            | Self::DaemonDown { host, .. }
            | Self::Refused { host, .. }
            | Self::Remote { host, .. }
            | Self::Broken { host, .. } => Some(*host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // C14
    #[test]
    fn a_reply_does_not_show_its_texts() {
        let secret = "c0b3b4d6-2a5f-4b1e-9a53-8a6f3d1c7e90";
        let reply = Reply {
            exit: 0,
            stdout: secret.to_owned(),
            stderr: secret.to_owned(),
        };
        assert_eq!(format!("{reply:?}"), "Reply(exit 0, 36 + 36 bytes)");
    }

    #[test]
    fn a_deadline_counts_as_started_only_after_sending() {
        let host = "10.0.0.1".parse().unwrap();
        let error = |started| TransportError::Deadline {
            host,
            deadline: Duration::from_secs(1),
            started,
        };
        assert!(error(true).may_have_started());
        assert!(!error(false).may_have_started());
    }
}
