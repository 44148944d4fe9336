//! What is true: the settings of a run, checked. One start reports every mistake.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

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

/// Everything that is wrong with the settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct Mistakes(pub Vec<String>);

impl TryFrom<Args> for Config {
    type Error = Mistakes;

    fn try_from(args: Args) -> Result<Self, Mistakes> {
        let mut check = Checker::default();
        let socket = check.socket(&args.endpoint);
        let state_dir = check.absolute("--state-dir", &args.state_dir);
        let sealing_key_file = args
            .sealing_key_file
            .map(|file| check.absolute("--sealing-key-file", &file));
        let admin_address = Some(args.admin_address)
            .filter(|address| !address.is_empty())
            .and_then(|address| check.parse("--admin-address", &address, "an IP:PORT"));
        let log_format = check.parse("--log-format", &args.log_format, "json or text");
        let host_process = args
            .host_process
            .and_then(|pid| check.parse("--host-process", &pid, "the number of a process"));
        let presentation = Presentation {
            driver_name: check.driver_name(args.driver_name),
            node_name: check.node_name(args.node_name),
            max_volumes: check
                .parse("--max-volumes", &args.max_volumes, "a number, 0 or above")
                .unwrap_or_default(),
        };
        let timers = SessionTimers {
            replacement: check.seconds("--replacement-timeout", &args.replacement_timeout),
            login: check.seconds("--login-timeout", &args.login_timeout),
            noop_interval: check.seconds("--noop-interval", &args.noop_interval),
            noop_timeout: check.seconds("--noop-timeout", &args.noop_timeout),
        };
        check.chain(&timers);
        if !check.mistakes.is_empty() {
            return Err(Mistakes(check.mistakes));
        }
        Ok(Self {
            socket,
            presentation,
            state_dir,
            sealing_key_file,
            admin_address,
            log_format: log_format.unwrap_or_default(),
            log_filter: args.log_level,
            timers,
            host_process,
        })
    }
}

/// Collects mistakes and goes on; what it gives in place of a wrong value is never used.
#[derive(Debug, Default)]
struct Checker {
    mistakes: Vec<String>,
}

impl Checker {
    fn wrong(&mut self, flag: &str, value: &str, rule: &str) {
        self.mistakes
            .push(format!("{flag}: {value:?} is not {rule}"));
    }

    fn parse<T: FromStr>(&mut self, flag: &str, value: &str, rule: &str) -> Option<T> {
        let parsed = value.parse().ok();
        if parsed.is_none() {
            self.wrong(flag, value, rule);
        }
        parsed
    }

    fn absolute(&mut self, flag: &str, value: &str) -> PathBuf {
        let path = PathBuf::from(value);
        if !path.is_absolute() {
            self.wrong(flag, value, "an absolute path");
        }
        path
    }

    fn socket(&mut self, endpoint: &str) -> PathBuf {
        let path = endpoint
            .strip_prefix("unix://")
            .or_else(|| endpoint.strip_prefix("unix:"));
        let path = PathBuf::from(path.unwrap_or(endpoint));
        // The kernel's limit for the name of a Unix socket.
        let fits = path.as_os_str().len() < 108;
        if !path.is_absolute() || path.file_name().is_none() || !fits {
            self.wrong(
                "--endpoint",
                endpoint,
                "a Unix socket: unix:///path, of 107 bytes at most",
            );
        }
        path
    }

    /// The rule of CSI: 63 characters at most, alphanumeric at both ends, dashes and dots between.
    fn driver_name(&mut self, name: String) -> String {
        let inside = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
        let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
        let legal = name.len() <= 63
            && name.bytes().all(inside)
            && ends(name.bytes().next())
            && ends(name.bytes().next_back());
        if !legal {
            let rule = "a driver name: 63 characters at most, letters, digits, dashes and dots, \
                        the first and the last a letter or digit";
            self.wrong("--driver-name", &name, rule);
        }
        name
    }

    fn node_name(&mut self, name: String) -> String {
        if name.is_empty() || name.contains('/') || name.len() > 253 {
            let rule = "a node name; give the name of this node in the cluster";
            self.wrong("--node-name", &name, rule);
        }
        name
    }

    /// open-iscsi counts in whole seconds.
    fn seconds(&mut self, flag: &str, value: &str) -> Duration {
        match humantime::parse_duration(value) {
            Ok(time) if time.as_secs() > 0 && time.subsec_nanos() == 0 => time,
            Ok(_) | Err(_) => {
                self.wrong(
                    flag,
                    value,
                    "a time of whole seconds above zero, such as 120s or 2min",
                );
                Duration::from_secs(1)
            }
        }
    }

    /// The chain of design §4: a link that is out of order loses I/O in a failover or never fails over at all.
    fn chain(&mut self, timers: &SessionTimers) {
        if timers.replacement >= TCMU_COMMAND {
            let value = humantime::format_duration(timers.replacement).to_string();
            self.wrong(
                "--replacement-timeout",
                &value,
                "below the 130s of tcmu-runner's command timer",
            );
        }
    }
}

/// tcmu-runner's command timer as gluster-block sets it.
const TCMU_COMMAND: Duration = Duration::from_secs(130);
