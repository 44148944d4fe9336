//! The one process runner of this crate.
//!
//! A program is named by [`Program`], a closed list, and found in a fixed list of directories; there is no shell and no
//! inherited environment. Every run has a deadline. At the deadline the whole process group is killed and reaped; a
//! process that even `SIGKILL` does not end (it sleeps in the kernel on a dead disk) is left behind, counted, and the
//! thing it was started for is refused until it has gone (P07). Arguments are printable by rule: a secret never becomes one.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Child;
use tokio::time::timeout;

use super::HostError;
use super::bounded::{Claim, Stuck};

/// Most bytes kept of each output stream; the rest is read and dropped, so that the program is not blocked.
const OUTPUT_LIMIT: usize = 256 * 1024;

/// Most characters of output quoted in an error.
const DETAIL_LIMIT: usize = 1024;

/// How long a polite signal may take to work before `SIGKILL`.
const POLITE_GRACE: Duration = Duration::from_secs(1);

/// How long a killed process may take to go before it counts as stuck.
const KILL_GRACE: Duration = Duration::from_secs(2);

/// The programs this crate may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Program {
    /// iSCSI sessions and node records.
    Iscsiadm,
    /// Maps: add an identity, check, flush.
    Multipath,
    /// Commands to the multipath daemon.
    Multipathd,
    /// INQUIRY, standard and page 0x83.
    SgInq,
    /// Signatures on a device.
    Blkid,
    /// Makes ext4.
    MkfsExt4,
    /// Makes xfs.
    MkfsXfs,
    /// Checks ext4.
    E2fsck,
    /// Grows ext4.
    Resize2fs,
    /// Grows xfs.
    XfsGrowfs,
    /// This very program, for questions to a device that must be killable.
    Own,
}

impl Program {
    /// Everything that must be installed.
    pub const INSTALLED: [Self; 10] = [
        Self::Iscsiadm,
        Self::Multipath,
        Self::Multipathd,
        Self::SgInq,
        Self::Blkid,
        Self::MkfsExt4,
        Self::MkfsXfs,
        Self::E2fsck,
        Self::Resize2fs,
        Self::XfsGrowfs,
    ];

    /// The name of its file.
    #[must_use]
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Iscsiadm => "iscsiadm",
            Self::Multipath => "multipath",
            Self::Multipathd => "multipathd",
            Self::SgInq => "sg_inq",
            Self::Blkid => "blkid",
            Self::MkfsExt4 => "mkfs.ext4",
            Self::MkfsXfs => "mkfs.xfs",
            Self::E2fsck => "e2fsck",
            Self::Resize2fs => "resize2fs",
            Self::XfsGrowfs => "xfs_growfs",
            Self::Own => "csi-node",
        }
    }

    /// The package that has it on Debian and on Fedora.
    #[must_use]
    pub const fn package(self) -> &'static str {
        match self {
            Self::Iscsiadm => "open-iscsi (iscsi-initiator-utils)",
            Self::Multipath | Self::Multipathd => "multipath-tools (device-mapper-multipath)",
            Self::SgInq => "sg3-utils (sg3_utils)",
            Self::Blkid => "util-linux",
            Self::MkfsExt4 | Self::E2fsck | Self::Resize2fs => "e2fsprogs",
            Self::MkfsXfs | Self::XfsGrowfs => "xfsprogs",
            Self::Own => "csi-node",
        }
    }

    /// The signal it is asked to end with before it is killed.
    ///
    /// iscsiadm holds the lock of its database as a file that outlives it; on `SIGINT` it removes it.
    const fn polite_signal(self) -> Option<Signal> {
        match self {
            Self::Iscsiadm => Some(Signal::INT),
            Self::Multipath
            | Self::Multipathd
            | Self::SgInq
            | Self::Blkid
            | Self::MkfsExt4
            | Self::MkfsXfs
            | Self::E2fsck
            | Self::Resize2fs
            | Self::XfsGrowfs
            | Self::Own => None,
        }
    }

    /// Whether it talks to a daemon of the host and so belongs into the host's namespaces (Q14, D20).
    const fn belongs_to_host(self) -> bool {
        match self {
            Self::Iscsiadm | Self::Multipath | Self::Multipathd => true,
            Self::SgInq
            | Self::Blkid
            | Self::MkfsExt4
            | Self::MkfsXfs
            | Self::E2fsck
            | Self::Resize2fs
            | Self::XfsGrowfs
            | Self::Own => false,
        }
    }
}

/// Where programs are found and how they are entered.
#[derive(Debug, Clone)]
pub struct Tools {
    /// Directories searched in this order; also the `PATH` of every child.
    pub directories: Vec<PathBuf>,
    /// The file of [`Program::Own`].
    pub own: PathBuf,
    /// For a plugin that does not share the host's namespaces: enter those of this process (1 is the host's init) for
    /// the programs that talk to the host's daemons. They then are the host's own, of the version of its daemons (Q08).
    pub host_process: Option<u32>,
}

impl Tools {
    /// The usual directories, and this program as [`Program::Own`].
    ///
    /// # Errors
    ///
    /// The kernel does not say which file this program is.
    pub fn system() -> io::Result<Self> {
        let directories = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
        Ok(Self {
            directories: directories.map(PathBuf::from).to_vec(),
            own: std::env::current_exe()?,
            host_process: None,
        })
    }

    /// The program's file, if it is there. Not known for a program of the host's namespaces.
    #[must_use]
    pub fn find(&self, program: Program) -> Option<PathBuf> {
        if program == Program::Own {
            return Some(self.own.clone());
        }
        self.directories
            .iter()
            .map(|directory| directory.join(program.file_name()))
            .find(|file| file.is_file())
    }

    /// The search path as one word.
    fn path(&self) -> String {
        let directories = self.directories.iter().map(|d| d.display().to_string());
        directories.collect::<Vec<_>>().join(":")
    }

    /// Whether the program runs in the host's namespaces, where this process cannot look for its file.
    #[must_use]
    pub fn is_remote(&self, program: Program) -> bool {
        self.host_process.is_some() && program.belongs_to_host()
    }
}

/// One program to run once.
#[derive(Debug, Clone)]
pub struct Invocation {
    program: Program,
    arguments: Vec<String>,
    limit: Duration,
    subject: Option<String>,
}

impl Invocation {
    /// The program with its arguments, to end within `limit`.
    pub fn new<A: Into<String>>(
        program: Program,
        arguments: impl IntoIterator<Item = A>,
        limit: Duration,
    ) -> Self {
        Self {
            program,
            arguments: arguments.into_iter().map(Into::into).collect(),
            limit,
            subject: None,
        }
    }

    /// Names what the program works on; while an earlier one is stuck on the same thing, no other is started (P07).
    #[must_use]
    pub fn on(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// The arguments.
    #[must_use]
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }
}

impl fmt::Display for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.program.file_name())?;
        self.arguments
            .iter()
            .try_for_each(|argument| write!(f, " {argument}"))
    }
}

/// How a program ended by itself, and what it said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The exit code, or `None` when a signal ended it.
    pub code: Option<i32>,
    /// The code or signal in words.
    pub status: String,
    /// The standard output, at most 256 KiB of it.
    pub stdout: Vec<u8>,
    /// The standard error, likewise.
    pub stderr: Vec<u8>,
}

impl Output {
    /// The standard output as text; what is not UTF-8 is replaced.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// What to quote in an error: the standard error, then the standard output, shortened, on one line.
    #[must_use]
    pub fn detail(&self) -> String {
        let both = [&self.stderr, &self.stdout]
            .map(|bytes| String::from_utf8_lossy(bytes).trim().to_owned());
        let said: Vec<_> = both.into_iter().filter(|text| !text.is_empty()).collect();
        let one_line = said.join("; ").replace(['\n', '\r'], " ");
        if one_line.is_empty() {
            return "it said nothing".to_owned();
        }
        one_line.chars().take(DETAIL_LIMIT).collect()
    }

    /// The error for an exit that means failure.
    #[must_use]
    pub fn failure(&self, what: impl fmt::Display) -> HostError {
        HostError::Failed {
            what: what.to_string(),
            status: self.status.clone(),
            detail: self.detail(),
        }
    }

    /// The same output, if the program succeeded.
    ///
    /// # Errors
    ///
    /// [`HostError::Failed`] for every exit but 0.
    pub fn success(self, what: impl fmt::Display) -> Result<Self, HostError> {
        match self.code {
            Some(0) => Ok(self),
            _ => Err(self.failure(what)),
        }
    }
}

/// Runs programs. Clones share the account of what is stuck.
#[derive(Debug, Clone)]
pub struct Runner {
    tools: Arc<Tools>,
    stuck: Stuck,
}

impl Runner {
    /// A runner over these tools.
    #[must_use]
    pub fn new(tools: Tools, stuck: Stuck) -> Self {
        Self {
            tools: Arc::new(tools),
            stuck,
        }
    }

    /// The tools.
    #[must_use]
    pub fn tools(&self) -> &Tools {
        &self.tools
    }

    /// Runs the program to its end or to its deadline.
    ///
    /// # Errors
    ///
    /// [`HostError::Start`] when it cannot be started, [`HostError::Deadline`] when it was stopped,
    /// [`HostError::Busy`] when an earlier one is stuck on the same subject. An exit code is not an error here.
    pub async fn run(&self, invocation: &Invocation) -> Result<Output, HostError> {
        let claim = match &invocation.subject {
            Some(subject) => Some(self.stuck.claim(subject)?),
            None => None,
        };
        let mut child = self.spawn(invocation).map_err(|source| HostError::Start {
            program: invocation.program.file_name().to_owned(),
            source,
        })?;
        let mut group = Group::of(&child);
        let ended = timeout(invocation.limit, collect(&mut child)).await;
        let lost = |source: io::Error| HostError::Lost {
            what: invocation.to_string(),
            detail: source.to_string(),
        };
        if let Ok(output) = ended {
            group.ended();
            return output.map_err(lost);
        }
        stop(invocation.program, group, child, claim).await;
        Err(HostError::Deadline {
            what: invocation.to_string(),
            limit: invocation.limit,
        })
    }

    /// Runs the program and takes nothing but exit code 0.
    ///
    /// # Errors
    ///
    /// As [`Runner::run`], and [`HostError::Failed`] for every other exit.
    pub async fn run_ok(&self, invocation: &Invocation) -> Result<Output, HostError> {
        self.run(invocation).await?.success(invocation)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that starts programs"
    )]
    fn spawn(&self, invocation: &Invocation) -> io::Result<Child> {
        let program = invocation.program;
        let mut command = match self.tools.host_process {
            Some(process) if program.belongs_to_host() => {
                let mut enter = tokio::process::Command::new("/usr/bin/nsenter");
                enter.arg(format!("--target={process}"));
                enter.args(["--mount", "--ipc", "--net", "--uts", "--"]);
                enter.arg(program.file_name());
                enter
            }
            _ => {
                let file = self.tools.find(program);
                tokio::process::Command::new(file.ok_or(io::ErrorKind::NotFound)?)
            }
        };
        command
            .args(&invocation.arguments)
            .env_clear()
            .env("PATH", self.tools.path())
            .env("LC_ALL", "C")
            .current_dir(Path::new("/"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
    }
}

/// The process group of a child; killed when dropped before [`Group::ended`].
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        let raw = child.id().and_then(|id| i32::try_from(id).ok());
        Self(raw.and_then(Pid::from_raw))
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // It may have gone in this very moment: that is what was wanted.
            let _ = kill_process_group(group, signal);
        }
    }

    fn ended(&mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Reads both streams to their end and waits for the exit.
async fn collect(child: &mut Child) -> io::Result<Output> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr, status) = tokio::join!(bounded(stdout), bounded(stderr), child.wait());
    let status: ExitStatus = status?;
    Ok(Output {
        code: status.code(),
        status: status.to_string(),
        stdout: stdout?,
        stderr: stderr?,
    })
}

async fn bounded(stream: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut kept = Vec::new();
    let Some(mut stream) = stream else {
        return Ok(kept);
    };
    let mut piece = vec![0; 8192];
    loop {
        let read = stream.read(&mut piece).await?;
        if read == 0 {
            return Ok(kept);
        }
        let room = OUTPUT_LIMIT.saturating_sub(kept.len()).min(read);
        kept.extend_from_slice(piece.get(..room).unwrap_or_default());
    }
}

/// Ends a process group that is late. What does not go is reaped by a task of its own, which holds the claim until then.
async fn stop(program: Program, group: Group, mut child: Child, claim: Option<Claim>) {
    if let Some(signal) = program.polite_signal() {
        group.signal(signal);
        if timeout(POLITE_GRACE, child.wait()).await.is_ok() {
            return;
        }
    }
    group.signal(Signal::KILL);
    if timeout(KILL_GRACE, child.wait()).await.is_ok() {
        return;
    }
    let mark = claim.map(Claim::stuck);
    tracing::warn!(
        program = program.file_name(),
        pid = child.id(),
        "a killed process does not end"
    );
    tokio::spawn(async move {
        // An error means that there is nothing left to wait for.
        let _ = child.wait().await;
        drop(mark);
    });
}
