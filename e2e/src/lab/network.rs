//! The lab's network: one namespace with three bridges, a tap a guest on each, and ways in from outside.
//!
//! Bridge 0 is the lab's own (the agents); bridges 1 and 2 carry what is under test. Faults touch only 1 and 2: a guest
//! that is cut off can still be asked what it sees.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::process::{ProcessError, Program};

/// The networks that faults may cut.
pub const DATA_NETWORKS: [u8; 2] = [1, 2];
/// The network of the agents.
pub const LAB_NETWORK: u8 = 0;

/// A network namespace by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace(String);

impl Namespace {
    /// The namespace of the lab with that name.
    #[must_use]
    pub fn of(id: &str) -> Self {
        Self(format!("gbcsi-{id}"))
    }

    /// Its name, as `ip netns` knows it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }

    fn path(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.0)
    }

    /// Makes it, with its bridges and one tap a guest and bridge.
    ///
    /// # Errors
    /// When `ip` refuses; it needs root.
    pub async fn create(
        &self,
        guests: impl Iterator<Item = &str>,
        work: &Path,
    ) -> Result<(), ProcessError> {
        let mut batch = String::from("link set lo up\n");
        for network in [LAB_NETWORK, 1, 2] {
            let _ = writeln!(batch, "link add br{network} type bridge forward_delay 0");
            let _ = writeln!(batch, "addr add 10.77.{network}.1/24 dev br{network}");
            let _ = writeln!(batch, "link set br{network} up");
        }
        for guest in guests {
            for network in [LAB_NETWORK, 1, 2] {
                let tap = tap(guest, network);
                let _ = writeln!(batch, "tuntap add dev {tap} mode tap");
                let _ = writeln!(batch, "link set {tap} master br{network} up");
            }
        }
        let file = work.join("network.batch");
        fs::write(&file, batch).map_err(|source| ProcessError::Lost {
            command: format!("writing {}", file.display()),
            source,
        })?;
        Program::new("ip")
            .args(["netns", "add", &self.0])
            .output()
            .await?;
        Program::new("ip")
            .args(["-n", &self.0, "-batch"])
            .args([&file])
            .output()
            .await
            .map(drop)
    }

    /// Ends every process in it and removes it; well when there is none.
    ///
    /// # Errors
    /// When a process does not even end by SIGKILL, or `ip` refuses.
    pub async fn remove(&self) -> Result<(), ProcessError> {
        if !self.path().try_exists().unwrap_or(true) {
            return Ok(());
        }
        for _ in 0..100 {
            let pids = Program::new("ip")
                .args(["netns", "pids", &self.0])
                .output()
                .await?;
            if pids.trim().is_empty() {
                break;
            }
            for pid in pids.lines().filter_map(|line| line.trim().parse().ok()) {
                super::process::kill(pid);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        match Program::new("ip")
            .args(["netns", "del", &self.0])
            .output()
            .await
        {
            // Another hand may have removed it meanwhile.
            Err(error) if self.path().try_exists().unwrap_or(true) => Err(error),
            _ => Ok(()),
        }
    }

    /// A program of the lab's machine that is to run in it.
    #[must_use]
    pub fn program(&self, program: impl AsRef<std::ffi::OsStr>) -> Program {
        Program::new("ip")
            .args(["netns", "exec", &self.0])
            .args([program])
    }

    /// Connects to an address in it from outside.
    ///
    /// # Errors
    /// When there is no such namespace or nobody listens.
    pub async fn connect(
        &self,
        address: SocketAddr,
        limit: Duration,
    ) -> io::Result<tokio::net::TcpStream> {
        let path = self.path();
        let (sender, receiver) = tokio::sync::oneshot::channel();
        // A thread of its own: it is in the other namespace for good, so it must not come from a pool.
        std::thread::Builder::new()
            .name("lab-connect".to_owned())
            .spawn(move || {
                let stream = File::open(path).and_then(|namespace| {
                    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
                    TcpStream::connect_timeout(&address, limit)
                });
                let _ = sender.send(stream);
            })?;
        let stream = receiver.await.map_err(io::Error::other)??;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        tokio::net::TcpStream::from_std(stream)
    }

    /// Takes a guest's port out of a bridge: packets go nowhere, links stay up.
    ///
    /// # Errors
    /// When `ip` refuses.
    pub async fn cut(&self, guest: &str, network: u8) -> Result<(), ProcessError> {
        let tap = tap(guest, network);
        self.link(&["link", "set", &tap, "nomaster"]).await
    }

    /// Puts a guest's port back into its bridge.
    ///
    /// # Errors
    /// When `ip` refuses.
    pub async fn join(&self, guest: &str, network: u8) -> Result<(), ProcessError> {
        let (tap, bridge) = (tap(guest, network), format!("br{network}"));
        self.link(&["link", "set", &tap, "master", &bridge]).await
    }

    async fn link(&self, args: &[&str]) -> Result<(), ProcessError> {
        Program::new("ip")
            .args(["-n", &self.0])
            .args(args)
            .output()
            .await
            .map(drop)
    }
}

/// The namespaces of labs, by the labs' names.
#[must_use]
pub fn labs_with_namespace() -> Vec<String> {
    let Ok(entries) = fs::read_dir("/run/netns") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| {
            entry
                .ok()?
                .file_name()
                .to_string_lossy()
                .strip_prefix("gbcsi-")
                .map(str::to_owned)
        })
        .collect()
}

/// The name of a guest's tap on a bridge.
#[must_use]
pub fn tap(guest: &str, network: u8) -> String {
    format!("{guest}-{network}")
}
