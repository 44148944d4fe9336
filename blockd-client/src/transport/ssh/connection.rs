//! One ssh connection: made, checked, logged in, and one command run on it at a time.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use ssh2::{Channel, CheckResult, ErrorCode, HashType, KnownHostFileKind, MethodType, Session};

use super::SshConfig;
use super::files::{self, KNOWN_HOSTS_SETTING, PRIVATE_KEY_SETTING};
use super::progress::Progress;
use crate::transport::{Reply, TransportError};
use crate::vocabulary::HostAddress;

/// Longest wait for a connection to come about, and again for the handshake and the login.
const CONNECT: Duration = Duration::from_secs(10);

/// Longest wait for a channel on a connection that was idle.
const REOPEN: Duration = Duration::from_secs(3);

/// How often a running command is looked at, when it prints nothing.
const TICK: Duration = Duration::from_millis(500);

/// How often the host is asked for a sign of life.
const KEEPALIVE: u32 = 10;

/// How long the host may leave anything unacknowledged before the connection counts as lost, in milliseconds.
const SILENCE: u32 = 30_000;

/// The most that is taken of each of stdout and stderr. Ten thousand block names are half a megabyte.
const OUTPUT_LIMIT: usize = 4 << 20;

/// libssh2's codes, which the ssh2 crate passes on as numbers.
const TIMEOUT: i32 = -9;
const FILE: i32 = -16;
const REQUEST_DENIED: i32 = -22;

/// A connection on which a user is logged in. Dropped, it is closed.
pub(super) struct Connection {
    session: Session,
    socket: TcpStream,
}

impl Connection {
    /// Connects, checks the host's key and logs in.
    pub(super) fn new(config: &SshConfig, progress: &Progress) -> Result<Self, TransportError> {
        let (host, port) = (progress.host(), config.port);
        let key = files::private_key(&config.private_key_file)?;
        let known = files::known_hosts(&config.known_hosts_file)?;

        let connect_error = |source| TransportError::Connect { host, port, source };
        let address = SocketAddr::from((host.ip(), port));
        let socket = TcpStream::connect_timeout(&address, progress.left(CONNECT)?)
            .map_err(|source| connect_error(source.into()))?;
        watch(&socket).map_err(|source| connect_error(source.into()))?;
        let clone = |socket: &TcpStream| {
            socket
                .try_clone()
                .map_err(|source| connect_error(source.into()))
        };
        progress.uses(Some(clone(&socket)?));

        let handshake_error = |source: ssh2::Error| TransportError::Handshake {
            host,
            port,
            source: Box::new(source),
        };
        let mut session = Session::new().map_err(handshake_error)?;
        session.set_tcp_stream(clone(&socket)?);
        limit(&session, progress, CONNECT)?;
        prefer_known_types(&session, &known, host, port).map_err(handshake_error)?;
        session.handshake().map_err(handshake_error)?;
        check_host_key(&session, config, &known, host)?;

        limit(&session, progress, CONNECT)?;
        session.userauth_pubkey_memory(&config.user, None, &key, None).map_err(|source| {
            match source.code() {
                ErrorCode::Session(TIMEOUT) => handshake_error(source),
                ErrorCode::Session(FILE) => TransportError::Setting {
                    setting: PRIVATE_KEY_SETTING,
                    path: config.private_key_file.clone(),
                    problem: "holds a key that libssh2 cannot use; make one with: ssh-keygen -t ed25519 -N ''".to_owned(),
                    source: Some(Box::new(source)),
                },
                ErrorCode::Session(_) | ErrorCode::SFTP(_) => TransportError::Login {
                    host,
                    user: config.user.clone(),
                    setting: PRIVATE_KEY_SETTING,
                    path: config.private_key_file.clone(),
                    source: Box::new(source),
                },
            }
        })?;
        session.set_keepalive(true, KEEPALIVE);
        Ok(Self { session, socket })
    }

    /// A channel on a new connection.
    pub(super) fn open(&self, progress: &Progress) -> Result<Channel, TransportError> {
        limit(&self.session, progress, CONNECT)?;
        let host = progress.host();
        self.session
            .channel_session()
            .map_err(|source| TransportError::NotStarted {
                host,
                source: Box::new(source),
            })
    }

    /// A channel on a connection that was idle, or a quick failure.
    pub(super) fn open_quickly(&self, progress: &Progress) -> Result<Channel, TransportError> {
        let host = progress.host();
        let not_started = |source| TransportError::NotStarted { host, source };
        let socket = self
            .socket
            .try_clone()
            .map_err(|source| not_started(source.into()))?;
        progress.uses(Some(socket));
        limit(&self.session, progress, REOPEN)?;
        self.session
            .channel_session()
            .map_err(|source| not_started(source.into()))
    }

    /// Runs one command line to its end.
    ///
    /// After an error the connection is in an unknown state and must be dropped.
    pub(super) fn run(
        &self,
        mut channel: Channel,
        line: &str,
        progress: &Progress,
    ) -> Result<Reply, TransportError> {
        let host = progress.host();
        let lost = |source: ssh2::Error| match source.code() {
            ErrorCode::Session(TIMEOUT) => progress.timed_out(),
            ErrorCode::Session(_) | ErrorCode::SFTP(_) => TransportError::Lost {
                host,
                source: Box::new(source),
            },
        };
        limit(&self.session, progress, Duration::MAX)?;
        progress.started();
        channel.exec(line).map_err(|source| match source.code() {
            ErrorCode::Session(REQUEST_DENIED) => TransportError::NotStarted {
                host,
                source: Box::new(source),
            },
            ErrorCode::Session(_) | ErrorCode::SFTP(_) => lost(source),
        })?;
        channel.send_eof().map_err(lost)?;
        let (stdout, stderr) = self.collect(&mut channel, progress)?;

        // sshd sends the exit status before it closes the channel. Without the close, a status of zero may
        // only mean that none came.
        limit(&self.session, progress, Duration::MAX)?;
        channel.wait_close().map_err(lost)?;
        if let Some(signal) = channel.exit_signal().map_err(lost)?.exit_signal {
            return Err(TransportError::Signal { host, signal });
        }
        let exit = channel.exit_status().map_err(lost)?;
        progress.uses(None);
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Reply {
            exit,
            stdout: text(stdout),
            stderr: text(stderr),
        })
    }

    /// Reads both streams to the end of the channel.
    fn collect(
        &self,
        channel: &mut Channel,
        progress: &Progress,
    ) -> Result<(Vec<u8>, Vec<u8>), TransportError> {
        let host = progress.host();
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        loop {
            // Wait on stdout for a tick, then take what stderr has without waiting. The end of a channel ends both.
            limit(&self.session, progress, TICK)?;
            let ended = drain(channel, &mut stdout, host)?;
            self.session.set_blocking(false);
            let rest = drain(&mut channel.stderr(), &mut stderr, host);
            self.session.set_blocking(true);
            rest?;
            if ended && channel.eof() {
                return Ok((stdout, stderr));
            }
            if ended {
                let source = "the channel ended without an end of its output".into();
                return Err(TransportError::Lost { host, source });
            }
            // Sends only when due. A failure shows in the next read.
            let _ = self.session.keepalive_send();
        }
    }
}

/// Appends what `stream` has to `output` until it would have to wait; true at its end.
fn drain(
    stream: &mut impl Read,
    output: &mut Vec<u8>,
    host: HostAddress,
) -> Result<bool, TransportError> {
    let mut buffer = [0; 16 << 10];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(true),
            Ok(count) => output.extend(buffer.iter().take(count)),
            Err(error) if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock) => {
                return Ok(false);
            }
            Err(error) => {
                return Err(TransportError::Lost {
                    host,
                    source: Box::new(error),
                });
            }
        }
        if output.len() > OUTPUT_LIMIT {
            return Err(TransportError::TooLong {
                host,
                limit: OUTPUT_LIMIT,
            });
        }
    }
}

/// Cuts libssh2's waits to what is left of the call, and to `at_most`.
fn limit(session: &Session, progress: &Progress, at_most: Duration) -> Result<(), TransportError> {
    // Zero would mean for ever.
    let left = progress.left(at_most)?.as_millis().max(1);
    session.set_timeout(u32::try_from(left).unwrap_or(u32::MAX));
    Ok(())
}

/// Lets the kernel find out that the other side is gone, though nothing is sent to us.
fn watch(socket: &TcpStream) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    rustix::net::sockopt::set_tcp_user_timeout(socket, SILENCE)?;
    Ok(())
}

/// Asks the host for a key of a type that is listed for it, before all others.
///
/// Otherwise a host listed with its RSA key alone would show its Ed25519 key, which is not listed.
fn prefer_known_types(
    session: &Session,
    known: &str,
    host: HostAddress,
    port: u16,
) -> Result<(), ssh2::Error> {
    let listed = files::listed_types(known, host, port);
    let supported = session.supported_algs(MethodType::HostKey)?;
    let is_listed = |method: &&str| listed.iter().any(|listed| listed == method);
    let (first, rest): (Vec<&str>, Vec<&str>) = supported.into_iter().partition(is_listed);
    session.method_pref(MethodType::HostKey, &[first, rest].concat().join(","))
}

fn check_host_key(
    session: &Session,
    config: &SshConfig,
    known: &str,
    host: HostAddress,
) -> Result<(), TransportError> {
    let SshConfig {
        port,
        known_hosts_file: path,
        ..
    } = config;
    let (port, path, setting) = (*port, path.clone(), KNOWN_HOSTS_SETTING);
    let unusable = |path: &std::path::Path, source: Option<ssh2::Error>| TransportError::Setting {
        setting,
        path: path.to_owned(),
        problem: "cannot be used as a list of host keys; make one with: ssh-keyscan".to_owned(),
        source: source.map(Into::into),
    };
    let mut hosts = session
        .known_hosts()
        .map_err(|source| unusable(&path, Some(source)))?;
    for line in files::entries(known) {
        hosts
            .read_str(line, KnownHostFileKind::OpenSSH)
            .map_err(|source| unusable(&path, Some(source)))?;
    }
    let shown = session.host_key().map(|(key, _)| key).unwrap_or_default();
    let key = fingerprint(session);
    match hosts.check_port(&host.to_string(), port, shown) {
        CheckResult::Match => Ok(()),
        CheckResult::NotFound => Err(TransportError::HostKeyUnknown {
            host,
            port,
            key,
            setting,
            path,
        }),
        CheckResult::Mismatch => Err(TransportError::HostKeyMismatch {
            host,
            port,
            key,
            setting,
            path,
        }),
        CheckResult::Failure => Err(unusable(&path, None)),
    }
}

/// The shown key's type and fingerprint, as `ssh-keygen -l` prints them.
fn fingerprint(session: &Session) -> String {
    let method = session
        .methods(MethodType::HostKey)
        .unwrap_or("of unknown type");
    let hash = session.host_key_hash(HashType::Sha256).unwrap_or_default();
    format!("{method} SHA256:{}", STANDARD_NO_PAD.encode(hash))
}
