//! The gluster-block simulator as programs: daemons on loopback addresses over plain directories that stand for the
//! hosting volumes and for LIO's tree. The numbers beside the tests are those of the reference's short list (§0).

use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

mod client;
mod faults;
mod lifecycle;
mod outages;
mod repair;
mod resize;

/// Some hosts with their daemons, sharing hosting volumes.
struct Cluster {
    directory: tempfile::TempDir,
    network: String,
    daemons: Vec<Option<Child>>,
}

/// What the command line said.
#[derive(Debug)]
struct Said {
    exit: i32,
    out: String,
    err: String,
}

impl Said {
    fn json(&self) -> serde_json::Value {
        let text = if self.out.is_empty() {
            &self.err
        } else {
            &self.out
        };
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    fn texts(&self, key: &str) -> Vec<String> {
        let value = &self.json()[key];
        let items = value
            .as_array()
            .unwrap_or_else(|| panic!("no list {key}: {self:?}"));
        items
            .iter()
            .map(|item| item.as_str().expect("a string").to_owned())
            .collect()
    }

    fn text(&self, key: &str) -> String {
        let value = &self.json()[key];
        value
            .as_str()
            .unwrap_or_else(|| panic!("no text {key}: {self:?}"))
            .to_owned()
    }

    fn succeeded(self) -> Self {
        assert_eq!(self.exit, 0, "{self:?}");
        self
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "these tests run the simulator's two programs and no others"
)]
fn program(path: &str) -> std::process::Command {
    std::process::Command::new(path)
}

impl Cluster {
    /// `hosts` running daemons and the started volumes `hostvol` and `other`.
    fn start(hosts: usize) -> Self {
        static NEXT: AtomicU8 = AtomicU8::new(0);
        let [low, high, ..] = std::process::id().to_le_bytes();
        let third = high.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let directory = tempfile::tempdir().expect("temporary directory");
        let mut cluster = Self {
            directory,
            network: format!("127.{}.{third}", 1 + low % 250),
            daemons: (0..hosts).map(|_| None).collect(),
        };
        for volume in ["hostvol", "other"] {
            cluster.make_volume(volume, "first");
        }
        for host in 0..hosts {
            cluster.boot(host, &[]);
        }
        cluster
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn host_path(&self, host: usize, name: &str) -> PathBuf {
        self.path(&format!("host{host}")).join(name)
    }

    fn address(&self, host: usize) -> String {
        format!("{}.{}", self.network, host + 11)
    }

    fn addresses(&self, hosts: impl IntoIterator<Item = usize>) -> Vec<String> {
        hosts.into_iter().map(|host| self.address(host)).collect()
    }

    /// (Re-)makes a hosting volume as glusterd would note it.
    fn make_volume(&self, name: &str, id: &str) {
        std::fs::create_dir_all(self.path("volumes").join(name)).expect("volume");
        std::fs::create_dir_all(self.path("vols").join(name)).expect("note");
        self.note_volume(name, &format!("status=1\nvolume-id={id}\n"));
    }

    fn note_volume(&self, name: &str, text: &str) {
        std::fs::write(self.path("vols").join(name).join("info"), text).expect("note");
    }

    /// Starts the daemon of a host and waits until it serves.
    fn boot(&mut self, host: usize, more: &[&str]) {
        let at = |name: &str| self.host_path(host, name).display().to_string();
        std::fs::create_dir_all(at("configfs")).expect("configfs");
        std::fs::write(at("sysconfig"), "# GB_CLI_TIMEOUT=300\n").expect("sysconfig");
        let shared = |name: &str| self.path(name).display().to_string();
        let daemon = program(env!("CARGO_BIN_EXE_sim-gluster-blockd"))
            .args([
                "--socket",
                &at("socket"),
                "--listen",
                &format!("{}:24010", self.address(host)),
            ])
            .args(["--run-dir", &at("run"), "--mounts", &shared("volumes")])
            .args(["--mount-command", "none", "--glusterd", &shared("vols")])
            .args([
                "--configfs",
                &at("configfs"),
                "--saved-config",
                &at("saveconfig.json"),
            ])
            .args(["--sysconfig", &at("sysconfig"), "--stopped-delay", "0.1"])
            .args(["--remote-timeout", "20", "--restore-timeout", "1"])
            .args(more)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the daemon starts");
        self.daemons[host] = Some(daemon);
        wait_until("the daemon serves", || {
            std::os::unix::net::UnixStream::connect(self.host_path(host, "socket")).is_ok()
        });
    }

    /// Kills the daemon of a host.
    fn kill(&mut self, host: usize) {
        if let Some(mut daemon) = self.daemons[host].take() {
            daemon.kill().expect("killed");
            daemon.wait().expect("reaped");
        }
    }

    /// Waits until the daemon of a host has ended by itself.
    fn wait_for_end(&mut self, host: usize) {
        self.daemons[host]
            .take()
            .expect("running")
            .wait()
            .expect("ended");
    }

    fn reboot(&mut self, host: usize) {
        self.kill(host);
        let configfs = self.host_path(host, "configfs");
        let gone = self.host_path(host, &format!("configfs-{}", uuid::Uuid::new_v4()));
        std::fs::rename(configfs, gone).expect("the kernel forgets its targets");
        self.boot(host, &[]);
    }

    /// Runs the command line on a host.
    fn run(&self, host: usize, line: &str) -> Said {
        let output = program(env!("CARGO_BIN_EXE_sim-gluster-block"))
            .args(line.split_whitespace())
            .env("GB_SIM_SOCKET", self.host_path(host, "socket"))
            .env("GB_SIM_SYSCONFIG", self.host_path(host, "sysconfig"))
            .output()
            .expect("the command line runs");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        Said {
            exit: output.status.code().expect("an exit code"),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    /// The words that create a block of 1 MiB on the first `ha` hosts.
    fn create_words(&self, name: &str, ha: usize, options: &str) -> String {
        let hosts = self.addresses(0..ha).join(",");
        format!("create {name} ha {ha} prealloc no {options} {hosts} 1048576 --json")
    }

    fn create(&self, name: &str, ha: usize) -> Said {
        self.run(0, &self.create_words(name, ha, ""))
    }

    fn set_faults(&self, host: usize, lines: &str) {
        std::fs::write(self.host_path(host, "run/faults"), lines).expect("fault file");
    }

    fn wait_held(&self, host: usize, point: &str) {
        let marker = self.host_path(host, "run/held").join(point);
        wait_until("a request is held", || {
            marker.try_exists().expect("readable")
        });
    }

    /// Names under LIO's tree of a host: backstores and targets.
    fn exports(&self, host: usize) -> Vec<String> {
        let configfs = self.host_path(host, "configfs");
        let mut names = names_in(configfs.join("core/fileio_0"));
        names.extend(names_in(configfs.join("iscsi")));
        names
    }

    fn stored(&self, volume: &str) -> Vec<String> {
        names_in(self.path("volumes").join(volume).join("block-store"))
    }

    fn journal(&self, volume: &str, block: &str) -> String {
        let path = self
            .path("volumes")
            .join(volume)
            .join("block-meta")
            .join(block);
        std::fs::read_to_string(path).unwrap_or_default()
    }

    fn saved(&self, host: usize) -> String {
        std::fs::read_to_string(self.host_path(host, "saveconfig.json")).unwrap_or_default()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for host in 0..self.daemons.len() {
            self.kill(host);
        }
    }
}

fn names_in(directory: PathBuf) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    let names = entries.map(|entry| entry.expect("entry").file_name());
    names
        .map(|name| name.to_string_lossy().into_owned())
        .collect()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "waited for too long: {what}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}
