//! One guest: what runs in it, and what can be done to it from outside.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::network::{DATA_NETWORKS, LAB_NETWORK, Namespace};
use super::process::{self, ProcessError, Program};
use super::state::{Folder, Owner, Record};

/// How long a guest may take to boot.
const BOOT_LIMIT: Duration = Duration::from_mins(2);
/// How long the remains of a killed guest may take to go.
const KILL_LIMIT: Duration = Duration::from_secs(20);

/// What a guest is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// glusterd, LIO and a gluster-block daemon.
    Storage,
    /// open-iscsi and multipath-tools: a Kubernetes node.
    Node,
}

/// Why a guest did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// It is not running.
    #[error("guest {guest} is not running")]
    Down {
        /// Its name.
        guest: String,
    },
    /// Its agent cannot be talked to.
    #[error("guest {guest} does not answer")]
    Unreachable {
        /// Its name.
        guest: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It took longer than it may.
    #[error("guest {guest} did not finish within {limit:?}: {what}")]
    Deadline {
        /// Its name.
        guest: String,
        /// The deadline.
        limit: Duration,
        /// What it was to do.
        what: String,
    },
    /// The agent could not do it.
    #[error("guest {guest}: {what}: {reason}")]
    Refused {
        /// Its name.
        guest: String,
        /// What was asked.
        what: String,
        /// The agent's words.
        reason: String,
    },
    /// A command that was to succeed did not.
    #[error("guest {guest}: {command}: exit code {code}: {output}")]
    Failed {
        /// Its name.
        guest: String,
        /// The command.
        command: String,
        /// Its exit code.
        code: i32,
        /// What it wrote.
        output: String,
    },
    /// It did not boot; the end of its console is in the text.
    #[error("guest {guest} did not boot within {limit:?}; its console ends with: {console}")]
    NoBoot {
        /// Its name.
        guest: String,
        /// The limit.
        limit: Duration,
        /// Last lines of the console.
        console: String,
    },
    /// A program of the lab's machine failed.
    #[error("guest {guest}")]
    Program {
        /// Its name.
        guest: String,
        /// What failed.
        #[source]
        source: ProcessError,
    },
    /// A file of the lab could not be read or written.
    #[error("guest {guest}: {path}")]
    File {
        /// Its name.
        guest: String,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A guest of a lab. Cheap to clone; says nothing about whether it is running.
#[derive(Debug, Clone)]
pub struct Guest {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) number: u8,
    pub(super) folder: Folder,
    pub(super) namespace: Namespace,
    pub(super) record: Record,
}

impl Guest {
    /// Its host name: s1, s2, … or n1, n2, …
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// What it is for.
    #[must_use]
    pub fn role(&self) -> Role {
        self.inner.role
    }

    /// Its address on the first data network.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        self.address_on(1)
    }

    /// Its address on network 0 (the lab's own), 1 or 2.
    #[must_use]
    pub fn address_on(&self, network: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, network, self.inner.number)
    }

    /// Its initiator name.
    #[must_use]
    pub fn initiator(&self) -> String {
        format!("iqn.1993-08.org.debian:01:{}", self.inner.name)
    }

    /// What its console showed since the lab came up.
    #[must_use]
    pub fn console(&self) -> String {
        let bytes = fs::read(self.inner.folder.console(self.name())).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// True while anything of it runs on the lab's machine, also when paused.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.process().is_some_and(|owner| owner.is_alive())
    }

    /// Boots it and waits until its services are up; its disks are as it left them. Nothing happens to a running guest.
    ///
    /// # Errors
    /// When it does not come up in time.
    pub async fn start(&self) -> Result<(), GuestError> {
        if !self.is_running() {
            self.boot()?;
        }
        self.wait_ready(BOOT_LIMIT).await
    }

    /// Makes its disks, which take no room until they are written.
    pub(super) async fn make_disks(&self) -> Result<(), GuestError> {
        if self.inner.role == Role::Storage {
            let template = self.inner.record.storage_image.with_file_name("bricks.img");
            let copy = Program::new("cp").args(["--sparse=always"]);
            let copy = copy.args([&template, &self.disk("bricks")]).output().await;
            copy.map_err(self.program())?;
            let spare = self.disk("spare");
            let made = fs::File::create(&spare).and_then(|file| file.set_len(8 << 30));
            made.map_err(self.at(&spare))?;
        }
        Ok(())
    }

    fn disk(&self, kind: &str) -> PathBuf {
        self.inner
            .folder
            .path()
            .join("disks")
            .join(format!("{}.{kind}", self.name()))
    }

    /// Starts booting it.
    pub(super) fn boot(&self) -> Result<(), GuestError> {
        let inner = &self.inner;
        let (name, folder) = (&inner.name, inner.folder.path());
        let image = match inner.role {
            Role::Storage => &inner.record.storage_image,
            Role::Node => &inner.record.node_image,
        };
        let mut program = inner.namespace.program(&inner.record.kernel.program).args([
            // Kernels that do not know the setting hand it to init.
            "seccomp=auto".to_owned(),
            format!("mem={}M", inner.record.memory),
            format!("umid={name}"),
            format!("uml_dir={}/", folder.join("uml").display()),
            format!("ubd0={},{}", self.disk("cow").display(), image.display()),
        ]);
        if inner.role == Role::Storage {
            for (unit, kind) in [(1, "bricks"), (2, "spare")] {
                let path = self.disk(kind);
                program = program.args([format!("ubd{unit}={}", path.display())]);
            }
        }
        program = program.args("root=/dev/ubda rw init=/sbin/labinit con=null con0=null,fd:1 ssl=null hostfs=/ panic=1 quiet pty.legacy_count=0".split(' '));
        for network in [LAB_NETWORK, 1, 2] {
            program = program.args([format!(
                "vec{network}:transport=tap,ifname={name}-{network},mac=02:77:00:00:{network:02}:{:02},depth=128,gro=1",
                inner.number
            )]);
        }
        let role = if inner.role == Role::Storage {
            "storage"
        } else {
            "node"
        };
        let console = inner.folder.console(name);
        // So that nobody prunes the image meanwhile.
        let _ = fs::write(image.with_file_name("used"), "");
        // A guest that was killed leaves its control folder, and the next one would take another name.
        let _ = fs::remove_file(folder.join("uml").join(name).join("pid"));
        let _ = fs::remove_file(folder.join("uml").join(name).join("mconsole"));
        let child = program
            .args([
                format!("LAB_HOST={name}"),
                format!("LAB_N={}", inner.number),
                format!("LAB_ROLE={role}"),
                format!("LAB_MODULES={}", inner.record.kernel.modules.display()),
                format!("LAB_CONF={}", inner.folder.conf().display()),
                format!("LAB_BIN={}", inner.record.bin_dir.display()),
            ])
            .env("TMPDIR", memory_folder(inner.record.memory))
            .background(&console)
            .map_err(self.program())?;
        let owner = child.pid().and_then(Owner::of);
        child.detach();
        let file = inner.folder.pid_file(name);
        let text = serde_json::to_vec(&owner).map_err(io::Error::from);
        text.and_then(|text| fs::write(&file, text))
            .map_err(self.at(&file))
    }

    /// Waits until its services are up.
    pub(super) async fn wait_ready(&self, limit: Duration) -> Result<(), GuestError> {
        let start = Instant::now();
        let marker = Path::new("/run/lab/ready");
        while self
            .read_file_within(Duration::from_secs(3), marker)
            .await
            .is_err()
        {
            if start.elapsed() > limit || !self.is_running() {
                let console = self.console();
                let tail = console.lines().rev().take(12).collect::<Vec<_>>();
                let console = tail.into_iter().rev().collect::<Vec<_>>().join("\n");
                return Err(GuestError::NoBoot {
                    guest: self.name().to_owned(),
                    limit,
                    console,
                });
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// Takes the power away: SIGKILL to all of it. Its disks stay.
    ///
    /// # Errors
    /// When something of it stays.
    pub async fn kill(&self) -> Result<(), GuestError> {
        let Some(owner) = self.process() else {
            return Ok(());
        };
        let start = Instant::now();
        while process::group_exists(owner.pid) {
            process::kill_group(Some(owner.pid));
            if start.elapsed() > KILL_LIMIT {
                return Err(self.deadline(KILL_LIMIT, "kill"));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let file = self.inner.folder.pid_file(self.name());
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.at(&file)(error)),
            _ => Ok(()),
        }
    }

    /// Writes everything to its disks and switches it off; a guest that does not obey within 10 s is killed.
    ///
    /// # Errors
    /// When something of it stays.
    pub async fn stop(&self) -> Result<(), GuestError> {
        let start = Instant::now();
        if self.is_running() {
            let command = ["sh", "-c", "sync; poweroff -f"];
            let _ = self.exec_within(Duration::from_secs(8), command).await;
            while self.is_running() && start.elapsed() < Duration::from_secs(10) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        self.kill().await
    }

    /// Takes the power away and boots it again.
    ///
    /// # Errors
    /// When it does not come up in time.
    pub async fn restart(&self) -> Result<(), GuestError> {
        self.kill().await?;
        self.start().await
    }

    /// Makes it hang: it keeps its connections and answers nothing.
    ///
    /// # Errors
    /// When it is not running.
    pub fn pause(&self) -> Result<(), GuestError> {
        self.signal(Signal::STOP)
    }

    /// Ends the hang.
    ///
    /// # Errors
    /// When it is not running.
    pub fn resume(&self) -> Result<(), GuestError> {
        self.signal(Signal::CONT)
    }

    /// Cuts it off from both data networks; packets are lost in silence. The lab can still talk to it.
    ///
    /// # Errors
    /// When the bridge's port cannot be changed.
    pub async fn cut(&self) -> Result<(), GuestError> {
        for network in DATA_NETWORKS {
            self.cut_from(network).await?;
        }
        Ok(())
    }

    /// Ends the cut on both data networks.
    ///
    /// # Errors
    /// When the bridge's port cannot be changed.
    pub async fn join(&self) -> Result<(), GuestError> {
        for network in DATA_NETWORKS {
            self.join_to(network).await?;
        }
        Ok(())
    }

    /// Cuts it off from one data network, 1 or 2.
    ///
    /// # Errors
    /// When the bridge's port cannot be changed.
    pub async fn cut_from(&self, network: u8) -> Result<(), GuestError> {
        self.inner
            .namespace
            .cut(self.name(), network)
            .await
            .map_err(self.program())
    }

    /// Ends the cut on one data network.
    ///
    /// # Errors
    /// When the bridge's port cannot be changed.
    pub async fn join_to(&self, network: u8) -> Result<(), GuestError> {
        self.inner
            .namespace
            .join(self.name(), network)
            .await
            .map_err(self.program())
    }

    /// The command that opens a shell in it, or runs one there with the caller's terminal.
    #[must_use]
    pub fn ssh(&self) -> Program {
        let option = |name: &str, value: &Path| format!("{name}={}", value.display());
        self.inner
            .namespace
            .program("ssh")
            .args([
                "-t",
                "-q",
                "-o",
                "BatchMode=yes",
                "-o",
                "ServerAliveInterval=2",
                "-o",
            ])
            .args([option(
                "UserKnownHostsFile",
                &self.inner.folder.known_hosts(),
            )])
            .args(["-o", "IdentitiesOnly=yes", "-i"])
            .args([self.inner.folder.client_key()])
            .args([format!("root@{}", self.address_on(LAB_NETWORK))])
    }

    pub(super) fn agent(&self) -> SocketAddr {
        SocketAddr::from((self.address_on(LAB_NETWORK), super::wire::PORT))
    }

    /// Its main process on the lab's machine.
    #[must_use]
    pub fn process(&self) -> Option<Owner> {
        let text = fs::read(self.inner.folder.pid_file(self.name())).ok()?;
        serde_json::from_slice::<Option<Owner>>(&text)
            .ok()
            .flatten()
    }

    fn signal(&self, signal: Signal) -> Result<(), GuestError> {
        let owner = self.process().filter(Owner::is_alive);
        let owner = owner.ok_or_else(|| GuestError::Down {
            guest: self.name().to_owned(),
        })?;
        process::signal(owner.pid, signal);
        Ok(())
    }

    pub(super) fn deadline(&self, limit: Duration, what: &str) -> GuestError {
        GuestError::Deadline {
            guest: self.name().to_owned(),
            limit,
            what: what.to_owned(),
        }
    }

    fn program(&self) -> impl FnOnce(ProcessError) -> GuestError + use<> {
        let guest = self.name().to_owned();
        move |source| GuestError::Program { guest, source }
    }

    fn at(&self, path: &Path) -> impl FnOnce(io::Error) -> GuestError + use<> {
        let (guest, path) = (self.name().to_owned(), path.to_owned());
        move |source| GuestError::File {
            guest,
            path,
            source,
        }
    }
}

/// Where a guest's memory lies: in memory if there is room for many guests, else on disk.
fn memory_folder(memory: u32) -> &'static str {
    let room = rustix::fs::statvfs("/dev/shm").map_or(0, |fs| fs.f_bavail * fs.f_frsize);
    if room > (u64::from(memory) << 20) * 8 {
        "/dev/shm"
    } else {
        "/tmp"
    }
}
