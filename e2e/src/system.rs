//! The whole system in a lab: heketi or its simulator and the controller beside it, a node plugin in each node.
//!
//! What they keep lies in the lab's folder, so that each can be killed and started again over what it left.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use aws_lc_rs::rand;
use base64::Engine as _;

use crate::heketi::Heketi;
use crate::kubernetes::kubelet::Kubelet;
use crate::kubernetes::sidecars::Sidecars;
use crate::lab::process::Background;
use crate::lab::{Command, FAST_GLUSTER_OPTIONS, Forward, Guest, GuestProcess, Lab, Role};
use crate::residue;

/// Where the node plugin keeps its journal in a guest.
pub const STATE_DIR: &str = "/var/lib/gluster-block-csi/node";
/// Where it listens in a guest.
pub const NODE_SOCKET: &str = "/run/csi/csi.sock";
const HEKETI_PORT: u16 = 8080;
/// What makes the simulator's hosts agree on a block's content. The real daemon opens blocks with `O_DIRECT`, which gluster's
/// write-behind respects; the kernel's `fileio` does not, and what one host has acknowledged another would not read yet: a
/// change of paths in the middle of mkfs.xfs read old blocks.
const COHERENT: [(&str, &str); 1] = [("performance.write-behind", "off")];
/// How long a program may take to answer after its start.
const START: Duration = Duration::from_mins(1);

/// The running system.
#[derive(Debug)]
pub struct System {
    lab: Lab,
    settings: Settings,
    heketi: Heketi,
    controller: Option<Background>,
    sidecars: Sidecars,
    nodes: BTreeMap<String, Node>,
}

/// What a system may be started with other than by default.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Size of a new hosting volume in GiB.
    pub hosting_gib: u32,
    /// Seconds for which a node's session waits for its portal before another path is taken.
    pub replacement_timeout: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            hosting_gib: 6,
            replacement_timeout: 5,
        }
    }
}

/// A node with its plugin.
#[derive(Debug)]
pub struct Node {
    guest: Guest,
    process: Option<GuestProcess>,
    // Held for its task: the plugin's socket on this machine.
    forward: Forward,
    kubelet: Kubelet,
    id: String,
}

impl System {
    /// Starts everything on a lab that is up.
    ///
    /// # Errors
    /// When a program is missing or does not become ready; its log is named.
    pub async fn start(lab: Lab, settings: Settings) -> anyhow::Result<Self> {
        let dir = lab.run_dir();
        fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        secret(&lab.share().join("sealing.key"), &sealing_key()?)?;
        sweep(&lab).await?;
        let heketi = Heketi::start(&lab, "system", HEKETI_PORT).await?;
        secret(&dir.join("heketi.key"), heketi.admin_key())?;
        let sidecars = Sidecars::new(lazy(&dir.join("csi.sock")));
        let mut system = Self {
            lab,
            settings,
            heketi,
            controller: None,
            sidecars,
            nodes: BTreeMap::new(),
        };
        system.start_controller().await?;
        let guests: Vec<_> = system.lab.nodes().cloned().collect();
        for guest in guests {
            let name = guest.name().to_owned();
            let node = system.node_of(guest)?;
            system.nodes.insert(name.clone(), node);
            system.start_plugin(&name).await?;
        }
        Ok(system)
    }

    /// The lab underneath.
    #[must_use]
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// The sidecars beside the controller.
    #[must_use]
    pub fn sidecars(&self) -> &Sidecars {
        &self.sidecars
    }

    /// kubelet on that node.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn kubelet(&self, node: &str) -> anyhow::Result<&Kubelet> {
        Ok(&self.node(node)?.kubelet)
    }

    /// The id under which the controller knows that node.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn node_id(&self, node: &str) -> anyhow::Result<&str> {
        Ok(&self.node(node)?.id)
    }

    /// The socket on this machine that leads to that node's plugin.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn node_socket(&self, node: &str) -> anyhow::Result<&Path> {
        self.node(node)?
            .forward
            .socket()
            .context("a forward of a socket has one")
    }

    /// The controller's socket on this machine.
    #[must_use]
    pub fn controller_socket(&self) -> PathBuf {
        self.lab.run_dir().join("csi.sock")
    }

    /// heketi, simulated or real.
    #[must_use]
    pub fn heketi(&self) -> &Heketi {
        &self.heketi
    }

    /// The controller's process, for figures about it.
    #[must_use]
    pub fn controller_pid(&self) -> Option<u32> {
        self.controller.as_ref().and_then(Background::pid)
    }

    /// That node's plugin, for figures about it and to kill it.
    ///
    /// # Errors
    /// When there is no such node, or its plugin is not running.
    pub fn plugin(&self, node: &str) -> anyhow::Result<&GuestProcess> {
        self.node(node)?
            .process
            .as_ref()
            .context("the plugin is not running")
    }

    fn node(&self, name: &str) -> anyhow::Result<&Node> {
        self.nodes
            .get(name)
            .with_context(|| format!("there is no node {name}"))
    }

    /// Starts the controller, over what an earlier one left.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn start_controller(&mut self) -> anyhow::Result<()> {
        let dir = self.lab.run_dir();
        // One `volume set` with all of them: each costs seconds in a lab.
        let options: Vec<_> = FAST_GLUSTER_OPTIONS
            .iter()
            .chain(COHERENT.iter().filter(|_| !self.lab.record().real_blockd))
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        let options = options.join(" ");
        let program = self
            .lab
            .program(self.lab.record().bin_dir.join("csi-controller"))
            .args([
                "--endpoint".to_owned(),
                format!("unix://{}", self.controller_socket().display()),
            ])
            .args(["--heketi-url".to_owned(), self.heketi.url()])
            .args(["--heketi-key-file"])
            .args([dir.join("heketi.key")])
            .args([
                "--hosting-volume-size".to_owned(),
                self.settings.hosting_gib.to_string(),
            ])
            .args(["--hosting-volume-options".to_owned(), options])
            .args(["--ssh-key-file"])
            .args([self.lab.ssh_key()])
            .args(["--ssh-known-hosts"])
            .args([self.lab.known_hosts()])
            .args(["--sealing-key-file"])
            .args([self.lab.share().join("sealing.key")])
            .args([
                "--admin-address",
                "",
                "--log-format",
                "text",
                "--log-level",
                "info",
            ]);
        let log = dir.join("controller.log");
        self.controller = Some(program.background(&log)?);
        let start = Instant::now();
        let request = || proto::csi::ControllerGetCapabilitiesRequest {};
        while self
            .sidecars
            .client()
            .controller_get_capabilities(request())
            .await
            .is_err()
        {
            let ended = self.controller.as_mut().is_none_or(Background::has_ended);
            if ended || start.elapsed() > START {
                bail!(
                    "the controller did not start:\n{}",
                    tail(&fs::read_to_string(&log).unwrap_or_default(), 20)
                );
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// SIGKILL to the controller.
    pub async fn kill_controller(&mut self) {
        if let Some(mut controller) = self.controller.take() {
            controller.kill().await;
        }
    }

    fn node_of(&self, guest: Guest) -> anyhow::Result<Node> {
        let socket = self.lab.run_dir().join(format!("{}.sock", guest.name()));
        let forward = Forward::to_guest_socket(&guest, NODE_SOCKET, &socket)?;
        let kubelet = Kubelet::new(lazy(&socket));
        Ok(Node {
            guest,
            process: None,
            forward,
            kubelet,
            id: String::new(),
        })
    }

    /// Starts a node's plugin, over what an earlier one left.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn start_plugin(&mut self, name: &str) -> anyhow::Result<()> {
        let replacement = format!("{}s", self.settings.replacement_timeout);
        let node = self
            .nodes
            .get_mut(name)
            .with_context(|| format!("there is no node {name}"))?;
        node.guest.run("mkdir -p /run/csi").await?;
        let command = Command::new([
            "/lab/bin/csi-node",
            "--endpoint",
            "unix:///run/csi/csi.sock",
            "--node-name",
            name,
            "--sealing-key-file",
            "/lab/share/sealing.key",
            "--state-dir",
            STATE_DIR,
            "--admin-address",
            "",
            "--log-format",
            "text",
            "--log-level",
            "info",
            "--replacement-timeout",
            &replacement,
            "--login-timeout",
            "5s",
            "--noop-interval",
            "2s",
            "--noop-timeout",
            "3s",
        ]);
        node.process = Some(
            node.guest
                .spawn(&command, Path::new("/var/log/csi-node.log"))
                .await?,
        );
        let start = Instant::now();
        loop {
            match node.kubelet.node_id(Duration::from_secs(1)).await {
                Ok(id) => {
                    node.id = id;
                    return Ok(());
                }
                Err(status) if start.elapsed() > START => {
                    let log = node.guest.run("tail -20 /var/log/csi-node.log").await?;
                    bail!(
                        "the plugin on {name} did not start: {}\n{log}",
                        status.message()
                    );
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    }

    /// SIGKILL to a node's plugin.
    ///
    /// # Errors
    /// When the guest does not answer.
    pub async fn kill_plugin(&mut self, name: &str) -> anyhow::Result<()> {
        let node = self
            .nodes
            .get_mut(name)
            .with_context(|| format!("there is no node {name}"))?;
        if let Some(process) = node.process.take() {
            process.kill().await?;
        }
        Ok(())
    }

    /// Everything of gluster-block or of the driver that is left on nodes and storage hosts, a line each.
    ///
    /// # Errors
    /// When a guest does not answer.
    pub async fn residue(&self) -> anyhow::Result<Vec<String>> {
        let mut found = Vec::new();
        for guest in self.lab.guests() {
            let script = match guest.role() {
                Role::Node => residue::node_script(STATE_DIR),
                Role::Storage => residue::storage_script(),
            };
            let lines = residue::findings(&guest.run(&script).await?);
            found.extend(
                lines
                    .into_iter()
                    .map(|line| format!("{}: {line}", guest.name())),
            );
        }
        Ok(found)
    }

    /// The names of all blocks, as gluster-block itself lists them.
    ///
    /// # Errors
    /// When a guest does not answer.
    pub async fn blocks(&self) -> anyhow::Result<Vec<String>> {
        let first = self.lab.guest("s1")?;
        let volumes = first
            .run("gluster --mode=script volume list 2>/dev/null | grep ^gbcsi || true")
            .await?;
        let mut found = Vec::new();
        for volume in volumes.lines() {
            let names = first.run(&format!("gluster-block list {volume}")).await?;
            let names = names
                .lines()
                .filter(|name| *name != "*Nil*" && !name.is_empty());
            found.extend(names.map(|name| format!("{volume}/{name}")));
        }
        Ok(found)
    }

    /// The logs of all programs, for the search for secrets and for whoever looks into a failure.
    ///
    /// # Errors
    /// When a guest does not answer.
    pub async fn logs(&self) -> anyhow::Result<String> {
        let log = self.lab.run_dir().join("controller.log");
        let mut logs = fs::read_to_string(&log).with_context(|| log.display().to_string())?;
        for node in self.nodes.values() {
            logs += &node
                .guest
                .run("cat /var/log/csi-node.log 2>/dev/null || true")
                .await?;
        }
        Ok(logs)
    }

    /// The last lines of each program's log, under a heading each, as far as they can be had.
    pub async fn last_logs(&self, lines: usize) -> String {
        let log = fs::read_to_string(self.lab.run_dir().join("controller.log"));
        let mut logs = vec![
            "--- controller".to_owned(),
            tail(&log.unwrap_or_default(), lines),
        ];
        for (name, node) in &self.nodes {
            let log = node.guest.run("cat /var/log/csi-node.log").await;
            logs.push(format!("--- node plugin on {name}"));
            logs.push(tail(&log.unwrap_or_default(), lines));
        }
        logs.join("\n")
    }

    /// Ends the programs in order and gives the lab back.
    pub async fn stop(mut self) -> Lab {
        for node in self.nodes.values_mut() {
            if let Some(process) = node.process.take() {
                let _ = process.terminate(Duration::from_secs(10)).await;
            }
        }
        if let Some(mut controller) = self.controller.take() {
            controller.stop(Duration::from_secs(10)).await;
        }
        self.heketi.kill().await;
        self.lab
    }
}

/// Ends what an earlier system on this lab left running, because whoever started it was killed.
async fn sweep(lab: &Lab) -> anyhow::Result<()> {
    for guest in lab.nodes() {
        guest
            .run("pkill -KILL -x csi-node; rm -f /run/lab/hold; true")
            .await?;
    }
    let pids = lab
        .program("sh")
        .args(["-c", "ip netns pids $(ip netns identify $$)"])
        .output()
        .await?;
    for pid in pids.split_whitespace() {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        if ["csi-controller", "sim-heketi", "socat"].contains(&name.trim()) {
            lab.program("kill").args(["-KILL", pid]).output().await?;
        }
    }
    Ok(())
}

/// A channel to a Unix socket that connects when it is used, and again after the server was restarted.
fn lazy(socket: &Path) -> tonic::transport::Channel {
    let uri = format!("unix://{}", socket.display());
    tonic::transport::Endpoint::try_from(uri)
        .unwrap_or_else(|_| tonic::transport::Endpoint::from_static("http://unusable"))
        .connect_lazy()
}

fn sealing_key() -> anyhow::Result<String> {
    let mut key = [0_u8; 32];
    rand::fill(&mut key).ok().context("no random numbers")?;
    Ok(format!(
        "lab:{}\n",
        base64::engine::general_purpose::STANDARD.encode(key)
    ))
}

/// Writes a secret that only root can read, unless it is there already.
fn secret(path: &Path, text: &str) -> anyhow::Result<()> {
    if !path.try_exists()? {
        fs::write(path, text).with_context(|| path.display().to_string())?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    }
    Ok(())
}

fn tail(text: &str, lines: usize) -> String {
    let skipped = text.lines().count().saturating_sub(lines);
    text.lines().skip(skipped).collect::<Vec<_>>().join("\n")
}
