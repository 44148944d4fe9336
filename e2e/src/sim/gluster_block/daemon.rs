//! The daemon program: restores targets, opens its two sockets, serves until it is killed.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::FlockOperation;

use super::capabilities::Capabilities;
use super::coordinator::{CliProgram, Peers};
use super::faults::Faults;
use super::host::HostProgram;
use super::saved::SavedFile;
use super::serve::{serve_tcp, serve_unix};
use super::sysconfig::{Sysconfig, SysconfigError};
use super::target::Configfs;
use super::volumes::{VolumeSource, Volumes};

/// Everything the daemon is told at start.
#[derive(Debug, Clone)]
pub struct DaemonConfig {
    /// Socket of the command line.
    pub socket: PathBuf,
    /// Address of the port between hosts; the others are called on the same port.
    pub listen: SocketAddr,
    /// Directory of the fault file and of mounts.
    pub run_dir: PathBuf,
    /// Directory under which volume V is mounted at V.
    pub mounts: PathBuf,
    /// Words of the mount command with `{volume}` and `{path}`; `None` when the directories are there.
    pub mount_command: Option<Vec<String>>,
    /// glusterd's notes about volumes.
    pub glusterd: PathBuf,
    /// Root of LIO's tree.
    pub configfs: PathBuf,
    /// Saved configuration.
    pub saved_config: PathBuf,
    /// `/etc/sysconfig/gluster-blockd`.
    pub sysconfig: PathBuf,
    /// Capabilities this host denies having.
    pub without: Vec<String>,
    /// How long one call to a host may take.
    pub remote_timeout: Duration,
    /// How long start-up waits for volumes.
    pub restore_timeout: Duration,
    /// How long a stopped volume takes to say so.
    pub stopped_delay: Duration,
    /// How long the eviction of an open volume takes.
    pub eviction_delay: Duration,
    /// Whether exports report a write-back cache.
    pub write_back: bool,
    /// Which of its sockets the daemon opens.
    pub sockets: Sockets,
}

/// The sockets of a daemon of which one half may be gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sockets {
    /// A healthy daemon.
    Both,
    /// "Without rpcbind the TCP child exits but the parent lives: `list`/`info` work while every create involving the
    /// node fails with `-107`" (reference §5.3).
    Local,
    /// "Parent killed hard leaves the child serving 24010" (reference §5.3).
    Hosts,
}

/// Why the daemon does not run.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// No usable configuration file.
    #[error("no configuration")]
    Sysconfig(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Another daemon holds the lock file.
    #[error("{0} is held: is the daemon running already?")]
    Running(PathBuf),
    /// A path or socket cannot be made ready.
    #[error("cannot prepare {what}")]
    Prepare {
        /// What it is.
        what: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A listening socket broke.
    #[error("a listening socket failed")]
    Serve(#[source] std::io::Error),
}

impl From<SysconfigError> for DaemonError {
    fn from(error: SysconfigError) -> Self {
        Self::Sysconfig(Box::new(error))
    }
}

/// Runs the daemon; returns only when it cannot go on.
///
/// # Errors
///
/// When the configuration file is missing or empty, another daemon holds the lock, or a socket fails.
pub fn run(config: &DaemonConfig) -> Result<(), DaemonError> {
    // "must exist and be non-empty, for the daemon **and the CLI**" (reference §5.4)
    Sysconfig::read(&config.sysconfig)?;
    let _lock = lock(&config.socket.with_extension("lock"))?;
    fs::create_dir_all(&config.run_dir).map_err(prepare(&config.run_dir.display()))?;
    let source = VolumeSource {
        mounts: config.mounts.clone(),
        mount_command: config.mount_command.clone(),
        glusterd: config.glusterd.clone(),
        stopped_delay: config.stopped_delay,
        eviction_delay: config.eviction_delay,
    };
    let faults = Faults::new(&config.run_dir);
    let host = HostProgram {
        faults: faults.clone(),
        volumes: Volumes::new(source.clone()),
        saved: SavedFile::new(&config.saved_config),
        configfs: Configfs::new(&config.configfs, config.write_back),
        capabilities: Capabilities::without(&config.without),
    };
    host.restore(config.restore_timeout);
    let cli = CliProgram {
        faults,
        volumes: Volumes::new(source),
        sysconfig: config.sysconfig.clone(),
        peers: Peers {
            port: config.listen.port(),
            timeout: config.remote_timeout,
        },
    };
    tracing::info!(socket = %config.socket.display(), listen = %config.listen, "serving");
    // Two loops that do not wait for one another (reference §3.5); the daemon ends with the first that breaks.
    let (broken, outcome) = std::sync::mpsc::channel();
    let also_broken = broken.clone();
    if config.sockets != Sockets::Local {
        let tcp = TcpListener::bind(config.listen).map_err(prepare(&config.listen))?;
        thread::spawn(move || broken.send(serve_tcp(&tcp, host)));
    }
    if config.sockets != Sockets::Hosts {
        let unix = bind_unix(&config.socket)?;
        thread::spawn(move || also_broken.send(serve_unix(&unix, cli)));
    }
    match outcome.recv() {
        Ok(error) => Err(DaemonError::Serve(error)),
        Err(_) => Ok(()),
    }
}

fn prepare(what: &impl std::fmt::Display) -> impl FnOnce(std::io::Error) -> DaemonError {
    let what = what.to_string();
    |source| DaemonError::Prepare { what, source }
}

fn lock(path: &Path) -> Result<File, DaemonError> {
    let file = File::create(path).map_err(prepare(&path.display()))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(_) => Err(DaemonError::Running(path.to_owned())),
    }
}

/// Binds the local socket, mode 0755 (reference §4), over a stale one; anything else at its path is left alone.
fn bind_unix(path: &Path) -> Result<UnixListener, DaemonError> {
    let ready = || -> std::io::Result<UnixListener> {
        if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
            fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
        Ok(listener)
    };
    ready().map_err(prepare(&path.display()))
}
