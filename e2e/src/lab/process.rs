//! The one place where this crate starts programs: argv only, a deadline, the process group killed at it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

/// A program that was to run, and what became of it.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It could not be started at all.
    #[error("{program} could not be started; is its package installed? (`make packages`)")]
    Start {
        /// The program.
        program: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It ran and said that it failed.
    #[error("{command} ended with {code}: {output}")]
    Failed {
        /// The command line.
        command: String,
        /// Exit code, or the signal.
        code: String,
        /// What it wrote.
        output: String,
    },
    /// It did not end in time and was killed.
    #[error("{command} did not end within {limit:?} and was killed")]
    Deadline {
        /// The command line.
        command: String,
        /// The deadline.
        limit: Duration,
    },
    /// It was lost while it ran.
    #[error("{command} was lost")]
    Lost {
        /// The command line.
        command: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// A command line under construction.
#[derive(Debug)]
pub struct Program {
    command: Command,
    line: String,
    limit: Duration,
}

impl Program {
    /// `program`, to be found on the PATH or given whole.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the crate's one program runner"
    )]
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        let line = program.as_ref().to_string_lossy().into_owned();
        let mut command = Command::new(program);
        command
            .stdin(Stdio::null())
            .process_group(0)
            .kill_on_drop(true);
        Self {
            command,
            line,
            limit: Duration::from_secs(30),
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<I: IntoIterator<Item: AsRef<OsStr>>>(mut self, args: I) -> Self {
        for arg in args {
            self.line = format!("{} {}", self.line, arg.as_ref().to_string_lossy());
            self.command.arg(arg);
        }
        self
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs it in another folder.
    #[must_use]
    pub fn current_dir(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Changes the deadline from its default of 30 seconds.
    #[must_use]
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The deadline.
    #[must_use]
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Starts it with all three streams in the caller's hands; so is the deadline.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn piped(mut self) -> Result<Running, ProcessError> {
        self.command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Ok(Running {
            child: self.spawn_raw()?,
        })
    }

    /// Runs it to its end and returns what it wrote to stdout.
    ///
    /// # Errors
    /// When it cannot be started, fails, or does not end in time; its process group is then killed.
    pub async fn output(mut self) -> Result<String, ProcessError> {
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = self.spawn_raw()?;
        let group = child.id();
        let command = self.line;
        match tokio::time::timeout(self.limit, child.wait_with_output()).await {
            Ok(Ok(output)) if output.status.success() => {
                Ok(String::from_utf8_lossy(&output.stdout).into_owned())
            }
            Ok(Ok(output)) => Err(ProcessError::Failed {
                command,
                code: output.status.to_string(),
                output: format!(
                    "{}{}",
                    String::from_utf8_lossy(&output.stdout),
                    String::from_utf8_lossy(&output.stderr)
                ),
            }),
            Ok(Err(source)) => Err(ProcessError::Lost { command, source }),
            Err(_) => {
                kill_group(group);
                Err(ProcessError::Deadline {
                    command,
                    limit: self.limit,
                })
            }
        }
    }

    /// Runs it on the caller's own terminal and returns its exit code.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn interactive(mut self) -> Result<i32, ProcessError> {
        // Its own process group would not be the terminal's foreground group.
        self.command
            .process_group(rustix::process::getpgrp().as_raw_nonzero().get());
        self.command.stdin(Stdio::inherit());
        let mut child = self.spawn_raw()?;
        let status = child.wait().await.map_err(|source| ProcessError::Lost {
            command: self.line,
            source,
        })?;
        Ok(status.code().unwrap_or(1))
    }

    /// Starts it in the background; all it writes goes to the end of `log`.
    /// Its group is killed when the value is dropped, unless detached.
    ///
    /// # Errors
    /// When it cannot be started or the log cannot be opened.
    pub fn background(mut self, log: &Path) -> Result<Background, ProcessError> {
        let open = || std::fs::File::options().create(true).append(true).open(log);
        let (out, err) = open()
            .and_then(|out| Ok((out.try_clone()?, out)))
            .map_err(|source| ProcessError::Lost {
                command: format!("log {} of {}", log.display(), self.line),
                source,
            })?;
        self.command.stdout(out).stderr(err).kill_on_drop(false);
        let child = self.spawn_raw()?;
        Ok(Background {
            child,
            log: log.to_owned(),
            detached: false,
        })
    }

    fn spawn_raw(&mut self) -> Result<Child, ProcessError> {
        self.command.spawn().map_err(|source| ProcessError::Start {
            program: self.line.clone(),
            source,
        })
    }
}

/// A program whose streams the caller reads and writes.
#[derive(Debug)]
pub struct Running {
    child: Child,
}

impl Running {
    /// Its stdin, once.
    pub fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Its stdout, once.
    pub fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Its stderr, once.
    pub fn stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Waits for its end; 128 and the signal when it was killed, as a shell says it.
    ///
    /// # Errors
    /// When it was lost.
    pub async fn wait(&mut self) -> std::io::Result<i32> {
        let status = self.child.wait().await?;
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        Ok(status
            .code()
            .or_else(|| signal.map(|signal| 128 + signal))
            .unwrap_or(-1))
    }

    /// SIGKILL to the whole group.
    pub fn kill(&mut self) {
        kill_group(self.child.id());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A program in the background.
#[derive(Debug)]
pub struct Background {
    child: Child,
    log: PathBuf,
    detached: bool,
}

impl Background {
    /// Its process id, which is also its process group.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// What it wrote so far.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read(&self.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// True when it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end.
    pub async fn wait(&mut self) {
        let _ = self.child.wait().await;
    }

    /// Lets it outlive this value.
    pub fn detach(mut self) {
        self.detached = true;
    }

    /// SIGKILL to the whole group, and waits until it is gone.
    pub async fn kill(&mut self) {
        kill_group(self.child.id());
        let _ = self.child.wait().await;
    }

    /// SIGTERM, then SIGKILL after `grace`; true when SIGTERM was enough.
    pub async fn stop(&mut self, grace: Duration) -> bool {
        if let Some(pid) = self.child.id().and_then(to_pid) {
            let _ = rustix::process::kill_process(pid, Signal::TERM);
        }
        let ended = tokio::time::timeout(grace, self.child.wait()).await.is_ok();
        if !ended {
            self.kill().await;
        }
        ended
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if !self.detached {
            kill_group(self.child.id());
        }
    }
}

/// SIGKILL to a process group that may be gone already.
pub(super) fn kill_group(group: Option<u32>) {
    signal_group(group, Signal::KILL);
}

/// A signal to a process group that may be gone already.
pub(super) fn signal_group(group: Option<u32>, signal: Signal) {
    if let Some(pid) = group.and_then(to_pid) {
        let _ = kill_process_group(pid, signal);
    }
}

/// When a process started, in ticks since boot; `None` when it is gone or a zombie.
#[must_use]
pub fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may hold blanks and brackets of its own.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    (state != "Z" && state != "X")
        .then(|| fields.nth(18)?.parse().ok())
        .flatten()
}

fn to_pid(raw: u32) -> Option<Pid> {
    i32::try_from(raw).ok().and_then(Pid::from_raw)
}

/// True while any process of that group is left; a zombie is none.
pub(super) fn group_exists(group: u32) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return false;
    };
    processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .any(|pid| {
            let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
                return false;
            };
            let mut fields = stat
                .rsplit_once(')')
                .map_or("", |(_, rest)| rest)
                .split_ascii_whitespace();
            let state = fields.next();
            let its_group = fields.nth(1).and_then(|text| text.parse().ok());
            its_group == Some(group) && state != Some("Z") && state != Some("X")
        })
}

/// SIGKILL to one process that may be gone already.
pub(super) fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

/// A signal to one process that may be gone already.
pub(super) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = to_pid(pid) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}
