//! gluster-block's own command line, run over ssh on a storage host.
//!
//! Conduct:
//!
//! - The host's key must be in the known-hosts file. There is no way to switch that off.
//! - One key file, no passphrase, no agent, no passwords. It is read anew for each connection, so it can be
//!   exchanged while the driver runs.
//! - A command is an argument list, quoted by the one function in `command.rs`.
//! - Every call ends by its deadline: libssh2's waits are cut to what is left, and should libssh2 hang all the
//!   same, the socket is shut down under it. The remote command is told to give up a second later.
//! - One call uses one connection; up to two per host are kept for half a minute. A connection that failed in any
//!   way is never used again.
//! - Nothing that was printed is logged.
//!
//! libssh2 blocks, so all of it runs on tokio's blocking pool.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Reply, Request, Transport, TransportError};
use crate::vocabulary::HostAddress;

use self::connection::Connection;
use self::progress::Progress;

mod command;
mod connection;
mod files;
mod progress;

/// Idle connections kept per host.
const KEPT: usize = 2;

/// How long an idle connection is trusted.
const KEPT_FOR: Duration = Duration::from_secs(30);

/// How much longer than its deadline a call may take to notice it by itself.
const GRACE: Duration = Duration::from_millis(500);

/// How to reach the storage hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshConfig {
    /// The user to log in as. gluster-block's socket is root's.
    pub user: String,
    /// The port of sshd, the same on all hosts.
    pub port: u16,
    /// The user's private key, without a passphrase, in OpenSSH's format or PEM. Nobody but its owner
    /// and its group may be able to read it.
    pub private_key_file: PathBuf,
    /// The keys of the hosts, in OpenSSH's `known_hosts` format, under the addresses that are connected to.
    pub known_hosts_file: PathBuf,
    /// The program on the hosts, `gluster-block` or its path.
    pub command: String,
}

/// Runs gluster-block over ssh. Clones share their connections.
#[derive(Clone)]
pub struct SshTransport {
    shared: Arc<Shared>,
}

struct Shared {
    config: SshConfig,
    /// Taken for an instant by every call, to take or leave a connection; never while one is in use.
    idle: Mutex<HashMap<HostAddress, Vec<Idle>>>,
}

struct Idle {
    connection: Connection,
    since: Instant,
}

impl SshTransport {
    /// A transport with these settings. Connects to nobody yet.
    ///
    /// # Errors
    ///
    /// [`TransportError::Setting`] if one of the two files cannot be used.
    pub fn new(config: SshConfig) -> Result<Self, TransportError> {
        files::private_key(&config.private_key_file)?;
        files::known_hosts(&config.known_hosts_file)?;
        Ok(Self {
            shared: Arc::new(Shared {
                config,
                idle: Mutex::default(),
            }),
        })
    }
}

impl Transport for SshTransport {
    async fn call(
        &self,
        host: HostAddress,
        request: &Request,
        deadline: Duration,
    ) -> Result<Reply, TransportError> {
        let line = command::line(&self.shared.config.command, request, deadline);
        let shared = Arc::clone(&self.shared);
        let progress = Progress::new(host, deadline);
        let inner = progress.clone();
        let call = tokio::task::spawn_blocking(move || shared.call(&line, &inner));
        match tokio::time::timeout(deadline + GRACE, call).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(panic)) => Err(TransportError::Broken {
                host,
                source: Box::new(panic),
            }),
            Err(_) => {
                progress.abort();
                Err(progress.timed_out())
            }
        }
    }
}

impl Shared {
    fn call(&self, line: &str, progress: &Progress) -> Result<Reply, TransportError> {
        let host = progress.host();
        let (connection, channel) = self.open(progress)?;
        let reply = connection.run(channel, line, progress)?;
        let mut idle = self.idle();
        let kept = idle.entry(host).or_default();
        kept.retain(|idle| idle.since.elapsed() < KEPT_FOR);
        if kept.len() < KEPT {
            kept.push(Idle {
                connection,
                since: Instant::now(),
            });
        }
        Ok(reply)
    }

    /// A connection and a channel on it, kept or new.
    fn open(&self, progress: &Progress) -> Result<(Connection, ssh2::Channel), TransportError> {
        while let Some(connection) = self.kept(progress.host()) {
            // It may have died while it was idle; then nothing was sent, and a new one will do.
            if let Ok(channel) = connection.open_quickly(progress) {
                return Ok((connection, channel));
            }
        }
        let connection = Connection::new(&self.config, progress)?;
        let channel = connection.open(progress)?;
        Ok((connection, channel))
    }

    fn kept(&self, host: HostAddress) -> Option<Connection> {
        let mut idle = self.idle();
        let kept = idle.get_mut(&host)?;
        kept.retain(|idle| idle.since.elapsed() < KEPT_FOR);
        kept.pop().map(|idle| idle.connection)
    }

    /// Nothing in the sections that hold this lock can panic halfway, so a poisoned map is still whole.
    fn idle(&self) -> MutexGuard<'_, HashMap<HostAddress, Vec<Idle>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SshTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SshTransport")
            .field(&self.shared.config)
            .finish()
    }
}
