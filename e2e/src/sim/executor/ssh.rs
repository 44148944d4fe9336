//! Commands over the ssh program, host keys checked, as heketi's ssh executor runs them: one per host at a time.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::process::Command;

use super::{ExecError, Executor, Output};

/// How the storage hosts are reached.
#[derive(Debug, Clone)]
pub struct SshSettings {
    /// Account on the hosts.
    pub user: String,
    /// Port on the hosts.
    pub port: u16,
    /// Private key.
    pub key: PathBuf,
    /// Host keys; a host that is not in it is refused.
    pub known_hosts: PathBuf,
}

/// The storage hosts.
#[derive(Debug)]
pub struct Ssh {
    settings: SshSettings,
    /// One lock per host: heketi never runs two commands on one node.
    hosts: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Ssh {
    /// An executor for those hosts.
    #[must_use]
    pub fn new(settings: SshSettings) -> Self {
        Self {
            settings,
            hosts: Mutex::default(),
        }
    }

    fn turn(&self, host: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(hosts.entry(host.to_owned()).or_default())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "kill_on_drop and the limit in `run` give the deadline"
    )]
    fn command(&self, host: &str, command: &str) -> Command {
        let SshSettings {
            user,
            port,
            key,
            known_hosts,
        } = &self.settings;
        let mut ssh = Command::new("ssh");
        ssh.arg("-i").arg(key).arg("-p").arg(port.to_string());
        ssh.arg("-o")
            .arg(format!("UserKnownHostsFile={}", known_hosts.display()));
        for option in [
            "BatchMode=yes",
            "IdentitiesOnly=yes",
            "StrictHostKeyChecking=yes",
            "ConnectTimeout=10",
            // A host that is switched off would otherwise keep the client for ever.
            "ServerAliveInterval=2",
            "ServerAliveCountMax=5",
            "LogLevel=ERROR",
        ] {
            ssh.arg("-o").arg(option);
        }
        ssh.arg(format!("{user}@{host}")).arg("--").arg(command);
        ssh.stdin(Stdio::null()).kill_on_drop(true);
        ssh
    }
}

/// The exit code of the ssh program when the connection failed and not the command.
const NOT_CONNECTED: i32 = 255;

impl Executor for Ssh {
    async fn run(&self, host: &str, command: &str, limit: Duration) -> Result<Output, ExecError> {
        let turn = self.turn(host);
        let _turn = turn.lock().await;
        tracing::debug!(host, command, "running");
        let unreachable = |reason: String| ExecError::Unreachable {
            host: host.to_owned(),
            reason,
        };
        let done = tokio::time::timeout(limit, self.command(host, command).output())
            .await
            .map_err(|_| ExecError::Timeout)?
            .map_err(|source| unreachable(source.to_string()))?;
        let stderr = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        match done.status.code() {
            Some(0) => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
            Some(NOT_CONNECTED) => Err(unreachable(stderr)),
            exit => {
                tracing::warn!(host, command, ?exit, stderr, "command failed");
                Err(ExecError::Failed { exit, stderr })
            }
        }
    }
}
