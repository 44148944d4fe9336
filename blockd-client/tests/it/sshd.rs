//! An sshd of one test's own: its keys, its configuration, its port on 127.0.0.1, and a stand-in for gluster-block.

#![expect(
    clippy::disallowed_methods,
    reason = "sshd and ssh-keygen are what is tested against"
)]

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use blockd_client::transport::ssh::SshConfig;
use tempfile::TempDir;

/// Answers by the name of the block. `exec` where it sleeps, so that nothing is left behind when it is killed.
const STAND_IN: &str = r#"#!/bin/sh
case "$*" in
  *hv/ok*) printf '{ "args": "%s" }\n' "$*";;
  *hv/fail*) echo '{ "RESULT": "FAIL" }' >&2; exit 17;;
  *hv/hang*) exec sleep 6;;
  *hv/slow*) sleep 1; echo done;;
  *hv/big*) head -c 9000000 /dev/zero | tr '\0' x;;
  *hv/both*) head -c 3000000 /dev/zero | tr '\0' e >&2; head -c 3000000 /dev/zero | tr '\0' o;;
  *hv/killed*) kill -KILL $$;;
  *hv/input*) cat; echo "end of input";;
  *hv/pid*) echo "$PPID";;
  *) echo "no such case: $*" >&2; exit 99;;
esac
"#;

/// A running sshd, ended with its last connection when dropped.
pub(crate) struct Sshd {
    directory: TempDir,
    child: Child,
    pub(crate) port: u16,
}

impl Sshd {
    pub(crate) fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        if fs::metadata("/proc/self").map(|own| own_uid(&own)).unwrap() == 0 {
            // Where sshd, started by root, locks its unprivileged half in. It refuses to start without.
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o755)
                .create("/run/sshd")
                .unwrap();
        }
        key(&root.join("host_key"), "ed25519", "");
        key(&root.join("user_key"), "ed25519", "");
        fs::copy(root.join("user_key.pub"), root.join("authorized_keys")).unwrap();
        fs::write(root.join("gluster-block"), STAND_IN).unwrap();
        fs::set_permissions(
            root.join("gluster-block"),
            fs::Permissions::from_mode(0o755),
        )
        .unwrap();
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {0}/host_key\nAuthorizedKeysFile {0}/authorized_keys\n\
             PidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             PermitRootLogin prohibit-password\n",
            root.display()
        );
        fs::write(root.join("sshd_config"), config).unwrap();
        let child = spawn(root);
        let sshd = Self {
            directory,
            child,
            port,
        };
        sshd.wait();
        sshd.knows(port);
        sshd
    }

    /// The same host with another configuration.
    pub(crate) fn restarted_with(mut self, config: &str) -> Self {
        self.stop();
        fs::write(self.path("sshd_config"), config).unwrap();
        self.child = spawn(self.directory.path());
        self.wait();
        self
    }

    /// Lists the host's key under a port, as the only entry.
    pub(crate) fn knows(&self, port: u16) {
        let public = fs::read_to_string(self.path("host_key.pub")).unwrap();
        fs::write(
            self.path("known_hosts"),
            format!("[127.0.0.1]:{port} {public}"),
        )
        .unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn config(&self) -> SshConfig {
        SshConfig {
            user: user(),
            port: self.port,
            private_key_file: self.path("user_key"),
            known_hosts_file: self.path("known_hosts"),
            command: self.path("gluster-block").to_str().unwrap().to_owned(),
        }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap()
    }

    fn stop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn wait(&self) {
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(
                start.elapsed() < Duration::from_secs(10),
                "sshd does not listen: {}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.stop();
    }
}

fn spawn(root: &Path) -> Child {
    Command::new("/usr/sbin/sshd")
        .args(["-D", "-e", "-f"])
        .arg(root.join("sshd_config"))
        .stderr(fs::File::create(root.join("log")).unwrap())
        .spawn()
        .unwrap()
}

/// Makes a key pair. The kind `pem` is RSA in the older PEM format.
pub(crate) fn key(path: &Path, kind: &str, passphrase: &str) {
    let kind: &[&str] = if kind == "pem" {
        &["rsa", "-m", "PEM"]
    } else {
        &[kind]
    };
    let status = Command::new("ssh-keygen")
        .args(["-q", "-N", passphrase, "-f"])
        .arg(path)
        .arg("-t")
        .args(kind)
        .stdin(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
}

fn user() -> String {
    let output = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn own_uid(metadata: &fs::Metadata) -> u32 {
    std::os::unix::fs::MetadataExt::uid(metadata)
}
