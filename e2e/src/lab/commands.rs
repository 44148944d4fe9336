//! What a guest is asked to do: run programs, start and stop them, read and write files, reach sockets.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::guest::{Guest, GuestError};
use super::wire::{self, Frame, Process, Request, SignalName};

/// Limit of what has none of its own.
const DEFAULT_LIMIT: Duration = Duration::from_mins(1);
/// How often a silent guest is looked at.
const GLANCE: Duration = Duration::from_millis(250);

/// What a command wrote and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Exit code; 128 and the signal when it was killed.
    pub code: i32,
    /// Its stdout.
    pub stdout: String,
    /// Its stderr.
    pub stderr: String,
}

/// A program to run or start in a guest.
#[derive(Debug, Clone)]
pub struct Command {
    argv: Vec<String>,
    env: Vec<(String, String)>,
    stdin: Vec<u8>,
    limit: Duration,
}

impl Command {
    /// A program with its arguments; no shell looks at them.
    pub fn new<I: IntoIterator<Item: AsRef<str>>>(argv: I) -> Self {
        let argv = argv
            .into_iter()
            .map(|word| word.as_ref().to_owned())
            .collect();
        Self {
            argv,
            env: Vec::new(),
            stdin: Vec::new(),
            limit: DEFAULT_LIMIT,
        }
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Gives it something to read.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Changes the deadline from its default of a minute.
    #[must_use]
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    fn line(&self) -> String {
        self.argv.join(" ")
    }
}

/// A program in the background of a guest.
#[derive(Debug, Clone)]
pub struct GuestProcess {
    guest: Guest,
    process: Process,
    log: PathBuf,
}

impl Guest {
    /// Runs a program to its end, which must come within a minute.
    ///
    /// # Errors
    /// When it could not be run or did not end; an exit code of its own is no error here.
    pub async fn exec<I>(&self, argv: I) -> Result<Output, GuestError>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        self.command(&Command::new(argv)).await
    }

    /// [`exec`](Self::exec) with another deadline.
    ///
    /// # Errors
    /// As for `exec`.
    pub async fn exec_within<I>(&self, limit: Duration, argv: I) -> Result<Output, GuestError>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        self.command(&Command::new(argv).within(limit)).await
    }

    /// Runs a shell script that must succeed, within a minute, and returns its stdout without the last line's end.
    ///
    /// # Errors
    /// When it fails, could not be run or did not end.
    pub async fn run(&self, script: &str) -> Result<String, GuestError> {
        self.run_within(DEFAULT_LIMIT, script).await
    }

    /// [`run`](Self::run) with another deadline.
    ///
    /// # Errors
    /// As for `run`.
    pub async fn run_within(&self, limit: Duration, script: &str) -> Result<String, GuestError> {
        let output = self.exec_within(limit, ["sh", "-c", script]).await?;
        if output.code != 0 {
            return Err(GuestError::Failed {
                guest: self.name().to_owned(),
                command: script.trim().to_owned(),
                code: output.code,
                output: format!("{}{}", output.stdout, output.stderr),
            });
        }
        Ok(output.stdout.trim_end().to_owned())
    }

    /// Runs a command to its end.
    ///
    /// # Errors
    /// When it could not be run or did not end; an exit code of its own is no error here.
    pub async fn command(&self, command: &Command) -> Result<Output, GuestError> {
        let request = Request::Exec {
            argv: command.argv.clone(),
            env: command.env.clone(),
            // The lab's own limit comes first: when it hangs up, the agent kills. This is for a connection that is cut.
            limit_ms: u64::try_from(command.limit.as_millis())
                .unwrap_or(u64::MAX)
                .saturating_add(2000),
        };
        let what = command.line();
        let (out, err, end) = self
            .ask(&request, &command.stdin, command.limit, &what)
            .await?;
        let code = self.parse(&end, &what)?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Output {
            code,
            stdout: text(out),
            stderr: text(err),
        })
    }

    /// Starts a program that goes on by itself, in its own process group; it appends what it writes to `log`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn spawn(&self, command: &Command, log: &Path) -> Result<GuestProcess, GuestError> {
        let request = Request::Spawn {
            argv: command.argv.clone(),
            env: command.env.clone(),
            log: log.to_owned(),
        };
        let what = format!("start {}", command.line());
        let (_, _, end) = self.ask(&request, &[], DEFAULT_LIMIT, &what).await?;
        let process = self.parse(&end, &what)?;
        Ok(GuestProcess {
            guest: self.clone(),
            process,
            log: log.to_owned(),
        })
    }

    /// A file's content.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn read_file(&self, path: impl AsRef<Path>) -> Result<Vec<u8>, GuestError> {
        self.read_file_within(DEFAULT_LIMIT, path.as_ref()).await
    }

    pub(super) async fn read_file_within(
        &self,
        limit: Duration,
        path: &Path,
    ) -> Result<Vec<u8>, GuestError> {
        let request = Request::Read {
            path: path.to_owned(),
        };
        let what = format!("read {}", path.display());
        self.ask(&request, &[], limit, &what)
            .await
            .map(|(_, _, end)| end)
    }

    /// Writes a file in one step, with folders that are missing.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn write_file(
        &self,
        path: impl AsRef<Path>,
        mode: u32,
        content: impl AsRef<[u8]>,
    ) -> Result<(), GuestError> {
        let path = path.as_ref().to_owned();
        let what = format!("write {}", path.display());
        let request = Request::Write { path, mode };
        self.ask(&request, content.as_ref(), DEFAULT_LIMIT, &what)
            .await
            .map(drop)
    }

    /// Removes a file; a missing one is well.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub async fn remove_file(&self, path: impl AsRef<Path>) -> Result<(), GuestError> {
        let path = path.as_ref().to_owned();
        let what = format!("remove {}", path.display());
        self.ask(&Request::Remove { path }, &[], DEFAULT_LIMIT, &what)
            .await
            .map(drop)
    }

    /// Connects to a Unix socket in it.
    ///
    /// # Errors
    /// When nobody listens there.
    pub async fn connect(&self, socket: impl AsRef<Path>) -> Result<TcpStream, GuestError> {
        let path = socket.as_ref().to_owned();
        let what = format!("connect to {}", path.display());
        let limit = Duration::from_secs(10);
        let mut stream = self.reach(limit).await?;
        let asked = async {
            wire::send(&mut stream, &Request::Connect { path }, &[]).await?;
            wire::frame(&mut stream).await
        };
        let answer = timeout(limit, asked)
            .await
            .map_err(|_| self.deadline(limit, &what))?;
        match answer.map_err(|source| self.unreachable(source))? {
            Frame::Failed(reason) => Err(self.refused(&what, reason)),
            Frame::Out(_) | Frame::Err(_) | Frame::Done(_) => Ok(stream),
        }
    }

    /// One request and its whole reply: stdout, stderr, end.
    async fn ask(
        &self,
        request: &Request,
        body: &[u8],
        limit: Duration,
        what: &str,
    ) -> Result<(Vec<u8>, Vec<u8>, Vec<u8>), GuestError> {
        let talk = async {
            let mut stream = self.reach(limit).await?;
            let (mut out, mut err) = (Vec::new(), Vec::new());
            wire::send(&mut stream, request, body)
                .await
                .map_err(|e| self.unreachable(e))?;
            loop {
                match wire::frame(&mut stream)
                    .await
                    .map_err(|e| self.unreachable(e))?
                {
                    Frame::Out(bytes) => out.extend(bytes),
                    Frame::Err(bytes) => err.extend(bytes),
                    Frame::Done(end) => return Ok((out, err, end)),
                    Frame::Failed(reason) => return Err(self.refused(what, reason)),
                }
            }
        };
        // A guest that was killed never answers, and its connections do not say so.
        let watch = async {
            loop {
                tokio::time::sleep(GLANCE).await;
                if !self.is_running() {
                    return GuestError::Down {
                        guest: self.name().to_owned(),
                    };
                }
            }
        };
        tokio::select! {
            biased;
            outcome = talk => outcome,
            down = watch => Err(down),
            () = tokio::time::sleep(limit) => Err(self.deadline(limit, what)),
        }
    }

    async fn reach(&self, limit: Duration) -> Result<TcpStream, GuestError> {
        if !self.is_running() {
            return Err(GuestError::Down {
                guest: self.name().to_owned(),
            });
        }
        // Longer than the caller's own limit, so that a guest that hangs is told from one that refuses.
        let limit = limit + Duration::from_secs(1);
        let connected = self.inner.namespace.connect(self.agent(), limit).await;
        connected.map_err(|source| self.unreachable(source))
    }

    fn parse<T: serde::de::DeserializeOwned>(
        &self,
        end: &[u8],
        what: &str,
    ) -> Result<T, GuestError> {
        serde_json::from_slice(end).map_err(|error| self.refused(what, error.to_string()))
    }

    fn unreachable(&self, source: io::Error) -> GuestError {
        GuestError::Unreachable {
            guest: self.name().to_owned(),
            source,
        }
    }

    fn refused(&self, what: &str, reason: String) -> GuestError {
        GuestError::Refused {
            guest: self.name().to_owned(),
            what: what.to_owned(),
            reason,
        }
    }
}

impl GuestProcess {
    /// Its process id in the guest.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid
    }

    /// The guest it runs in.
    #[must_use]
    pub fn guest(&self) -> &Guest {
        &self.guest
    }

    /// True while it runs.
    ///
    /// # Errors
    /// When the guest does not answer.
    pub async fn is_running(&self) -> Result<bool, GuestError> {
        self.signal(None).await
    }

    /// SIGKILL to its group, and waits until it is gone.
    ///
    /// # Errors
    /// When the guest does not answer, or the process stays.
    pub async fn kill(&self) -> Result<(), GuestError> {
        self.end(SignalName::Kill, Duration::from_secs(10)).await
    }

    /// SIGTERM to its group, and waits until it is gone.
    ///
    /// # Errors
    /// When the guest does not answer, or the process stays.
    pub async fn terminate(&self, grace: Duration) -> Result<(), GuestError> {
        self.end(SignalName::Term, grace).await
    }

    /// Sends a signal to its group and says whether it was there.
    ///
    /// # Errors
    /// When the guest does not answer.
    pub async fn signal(&self, signal: Option<SignalName>) -> Result<bool, GuestError> {
        let request = Request::Signal {
            process: self.process,
            signal,
        };
        let what = format!("signal {}", self.process.pid);
        let (_, _, end) = self.guest.ask(&request, &[], DEFAULT_LIMIT, &what).await?;
        self.guest.parse(&end, &what)
    }

    /// What it wrote so far, with what earlier ones wrote to the same log.
    ///
    /// # Errors
    /// When the guest does not answer.
    pub async fn log(&self) -> Result<String, GuestError> {
        let bytes = self.guest.read_file(&self.log).await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    async fn end(&self, signal: SignalName, limit: Duration) -> Result<(), GuestError> {
        let start = std::time::Instant::now();
        let mut there = self.signal(Some(signal)).await?;
        while there {
            if start.elapsed() > limit {
                let what = format!("end of process {}", self.process.pid);
                return Err(self.guest.deadline(limit, &what));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
            there = self.signal(None).await?;
        }
        Ok(())
    }
}
