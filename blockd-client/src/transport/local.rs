//! gluster-blockd on this machine, asked over its Unix socket.
//!
//! The daemon's socket speaks ONC RPC, and the daemon does not check what it is sent: names and addresses end up in shell
//! commands. All that is sent here comes from types that hold nothing a shell would read ([`VolumeId`],
//! [`HostAddress`], numbers).
//!
//! Conduct:
//!
//! - One call, one connection, so that an answer can only be the answer to its own question; its number is checked all
//!   the same.
//! - Every call ends by its deadline. The daemon serves one request at a time, so most of a wait is for others.
//! - An answer is taken up to a limit.
//! - The layout of `create` differs between releases that call themselves the same version. So a `create` is sent only to
//!   a daemon whose list of capabilities is that of 0.5 (read from its TCP socket, which is on this machine too).
//! - Sessions and sockets are read from the kernel's files; the daemon is not asked.
//! - Nothing that was answered is logged.
//!
//! The answer's number becomes the exit code, and its text goes to stdout or stderr, as the command line would do it.
//!
//! [`VolumeId`]: crate::vocabulary::VolumeId

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, sleep, timeout_at};

use super::{Reply, Request, Transport, TransportError};
use crate::vocabulary::HostAddress;

use self::messages::Procedure;
use self::rpc::{Program, RpcError};

mod kernel;
mod messages;
mod rpc;
mod xdr;

/// Pause before a full queue of the socket is tried again.
const QUEUE_PAUSE: Duration = Duration::from_millis(100);

/// Where the daemon of this machine is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalConfig {
    /// The daemon's Unix socket.
    pub socket: PathBuf,
    /// The daemon's TCP socket, which tells its capabilities.
    pub daemon: SocketAddr,
    /// Where `sys` and `proc` are.
    pub root: PathBuf,
}

impl Default for LocalConfig {
    fn default() -> Self {
        Self {
            socket: PathBuf::from("/var/run/gluster-blockd.socket"),
            daemon: SocketAddr::from((Ipv4Addr::LOCALHOST, 24010)),
            root: PathBuf::from("/"),
        }
    }
}

/// Asks the gluster-blockd of this machine, whatever host it is told to ask.
#[derive(Debug, Clone)]
pub struct LocalTransport {
    config: LocalConfig,
}

impl LocalTransport {
    /// A transport with these settings. Connects to nobody yet.
    #[must_use]
    pub const fn new(config: LocalConfig) -> Self {
        Self { config }
    }

    async fn ask_daemon(
        &self,
        host: HostAddress,
        procedure: &Procedure,
        progress: &Progress,
    ) -> Result<Reply, TransportError> {
        if procedure.depends_on_release() {
            self.require_release(host, progress).await?;
        }
        let stream = progress.within(self.connect(host)).await??;
        progress.mark_started();
        let call = rpc::call(
            stream,
            Program::CommandLine,
            procedure.number(),
            procedure.arguments(),
        );
        let result = progress.within(call).await?;
        let body = result.map_err(|error| error.into_transport(host))?;
        messages::reply(&body).map_err(|malformed| RpcError::from(malformed).into_transport(host))
    }

    /// Connects, waiting for a place in the socket's queue if it is full.
    async fn connect(&self, host: HostAddress) -> Result<UnixStream, TransportError> {
        loop {
            match UnixStream::connect(&self.config.socket).await {
                Ok(stream) => return Ok(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    sleep(QUEUE_PAUSE).await;
                }
                Err(source) => return Err(daemon_down(host, &self.config.socket, source)),
            }
        }
    }

    /// Makes sure that the daemon reads requests as they are written here.
    async fn require_release(
        &self,
        host: HostAddress,
        progress: &Progress,
    ) -> Result<(), TransportError> {
        let not_started = |source: RpcError| TransportError::NotStarted {
            host,
            source: Box::new(source),
        };
        let ask = async {
            let stream = TcpStream::connect(self.config.daemon).await?;
            rpc::call(stream, Program::Hosts, messages::VERSION, &[]).await
        };
        let body = progress.within(ask).await?.map_err(not_started)?;
        let capabilities = messages::capabilities(&body).map_err(|e| not_started(e.into()))?;
        if capabilities.iter().any(|name| name == messages::OF_0_5) {
            return Ok(());
        }
        Err(not_started(RpcError::Release))
    }
}

impl Transport for LocalTransport {
    async fn call(
        &self,
        host: HostAddress,
        request: &Request,
        deadline: Duration,
    ) -> Result<Reply, TransportError> {
        let progress = Progress::new(host, deadline);
        match request {
            Request::Sessions(iqn) => {
                let (root, iqn) = (self.config.root.clone(), *iqn);
                progress
                    .in_background(move || kernel::sessions(&root, &iqn))
                    .await
            }
            Request::Ping => {
                let config = self.config.clone();
                progress.in_background(move || kernel::ping(&config)).await
            }
            Request::Create(_)
            | Request::Delete(_)
            | Request::Info(_)
            | Request::List(_)
            | Request::Resize(..) => {
                let procedure =
                    Procedure::of(request).ok_or_else(|| TransportError::NotStarted {
                        host,
                        source: "the request does not fit gluster-block's protocol".into(),
                    })?;
                self.ask_daemon(host, &procedure, &progress).await
            }
        }
    }
}

/// How far a call has come, and until when it may go on.
struct Progress {
    host: HostAddress,
    deadline: Duration,
    until: Instant,
    started: std::sync::atomic::AtomicBool,
}

impl Progress {
    fn new(host: HostAddress, deadline: Duration) -> Self {
        Self {
            host,
            deadline,
            until: Instant::now() + deadline,
            started: false.into(),
        }
    }

    /// From here on the daemon may act.
    fn mark_started(&self) {
        self.started
            .store(true, std::sync::atomic::Ordering::Release);
    }

    async fn within<T>(&self, step: impl Future<Output = T>) -> Result<T, TransportError> {
        timeout_at(self.until, step)
            .await
            .map_err(|_| TransportError::Deadline {
                host: self.host,
                deadline: self.deadline,
                started: self.started.load(std::sync::atomic::Ordering::Acquire),
            })
    }

    /// Reads files off the runtime's threads.
    async fn in_background(
        &self,
        read: impl FnOnce() -> Reply + Send + 'static,
    ) -> Result<Reply, TransportError> {
        let host = self.host;
        let read = self.within(tokio::task::spawn_blocking(read)).await?;
        read.map_err(|panic| TransportError::Broken {
            host,
            source: Box::new(panic),
        })
    }
}

fn daemon_down(host: HostAddress, socket: &Path, source: io::Error) -> TransportError {
    TransportError::DaemonDown {
        host,
        socket: socket.to_owned(),
        source: Box::new(source),
    }
}

#[cfg(test)]
mod tests;
