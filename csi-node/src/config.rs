//! What is true: the settings of a run, checked. One start reports every mistake.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use proto::service::settings::{Checker, Mistakes};
use proto::service::telemetry::LogFormat;

use crate::args::Args;
use crate::rpc::Presentation;

#[cfg(test)]
mod tests;

/// The settings of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The Unix socket.
    pub socket: PathBuf,
    /// What the services say of this plugin and this node.
    pub presentation: Presentation,
    /// Where the journal is.
    pub state_dir: PathBuf,
    /// The file of the sealing keys.
    pub sealing_key_file: Option<PathBuf>,
    /// Where the admin endpoints are.
    pub admin_address: Option<SocketAddr>,
    /// How log lines look.
    pub log_format: LogFormat,
    /// What is logged.
    pub log_filter: String,
    /// The times that go into node records.
    pub timers: SessionTimers,
    /// The process in whose namespaces the host's tools are run.
    pub host_process: Option<u32>,
}

/// The times of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionTimers {
    /// How long I/O waits for a lost session.
    pub replacement: Duration,
    /// How long a login may take.
    pub login: Duration,
    /// How long after the last sign of life one is asked for.
    pub noop_interval: Duration,
    /// How long that sign may take.
    pub noop_timeout: Duration,
}

impl TryFrom<Args> for Config {
    type Error = Mistakes;

    fn try_from(args: Args) -> Result<Self, Mistakes> {
        let mut check = Checker::default();
        let socket = check.socket(&args.endpoint);
        let state_dir = absolute(&mut check, "--state-dir", &args.state_dir);
        let sealing_key_file = args
            .sealing_key_file
            .map(|file| absolute(&mut check, "--sealing-key-file", &file));
        let admin_address = check.admin_address(&args.admin_address);
        let log_format = check.log_format(&args.log_format);
        let host_process = args
            .host_process
            .and_then(|pid| check.parse("--host-process", &pid, "the number of a process"));
        let presentation = Presentation {
            driver_name: check.driver_name(&args.driver_name),
            node_name: node_name(&mut check, args.node_name),
            max_volumes: check
                .parse("--max-volumes", &args.max_volumes, "a number, 0 or above")
                .unwrap_or_default(),
        };
        let timers = SessionTimers {
            replacement: seconds(
                &mut check,
                "--replacement-timeout",
                &args.replacement_timeout,
            ),
            login: seconds(&mut check, "--login-timeout", &args.login_timeout),
            noop_interval: seconds(&mut check, "--noop-interval", &args.noop_interval),
            noop_timeout: seconds(&mut check, "--noop-timeout", &args.noop_timeout),
        };
        chain(&mut check, &timers);
        check.finish(Some(Self {
            socket,
            presentation,
            state_dir,
            sealing_key_file,
            admin_address,
            log_format,
            log_filter: args.log_level,
            timers,
            host_process,
        }))
    }
}

fn absolute(check: &mut Checker, flag: &str, value: &str) -> PathBuf {
    let path = PathBuf::from(value);
    if !path.is_absolute() {
        check.wrong(flag, value, "an absolute path");
    }
    path
}

fn node_name(check: &mut Checker, name: String) -> String {
    if name.is_empty() || name.contains('/') || name.len() > 253 {
        let rule = "a node name; give the name of this node in the cluster";
        check.wrong("--node-name", &name, rule);
    }
    name
}

/// open-iscsi counts in whole seconds.
fn seconds(check: &mut Checker, flag: &str, value: &str) -> Duration {
    match humantime::parse_duration(value) {
        Ok(time) if time.as_secs() > 0 && time.subsec_nanos() == 0 => time,
        Ok(_) | Err(_) => {
            check.wrong(
                flag,
                value,
                "a time of whole seconds above zero, such as 120s or 2min",
            );
            Duration::from_secs(1)
        }
    }
}

/// The chain of design §4: a link that is out of order loses I/O in a failover or never fails over at all.
fn chain(check: &mut Checker, timers: &SessionTimers) {
    if timers.replacement >= TCMU_COMMAND {
        let value = humantime::format_duration(timers.replacement).to_string();
        check.wrong(
            "--replacement-timeout",
            &value,
            "below the 130s of tcmu-runner's command timer",
        );
    }
}

/// tcmu-runner's command timer as gluster-block sets it.
const TCMU_COMMAND: Duration = Duration::from_secs(130);
