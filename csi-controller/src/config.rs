//! What is true: the settings of a run, checked. One start reports every mistake.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use blockd_client::Timeouts;
use blockd_client::transport::ssh::SshConfig;
use blockd_client::vocabulary::{Capacity, SealingKeys};
use proto::error::Chain;
use proto::service::telemetry::LogFormat;
use secrecy::SecretString;
use url::Url;

use crate::args::Args;
use crate::hosting::ClusterId;
use crate::hosting::heketi::{Connection, Making, Patience};
use crate::ops::Policy;
use crate::placement::Sizes;

#[cfg(test)]
mod tests;

/// The settings of a run.
#[derive(Debug)]
pub struct Config {
    /// The Unix socket.
    pub socket: PathBuf,
    /// The driver's name.
    pub driver_name: String,
    /// Where the admin endpoints are.
    pub admin_address: Option<SocketAddr>,
    /// How log lines look.
    pub log_format: LogFormat,
    /// What is logged.
    pub log_filter: String,
    /// The keys that seal CHAP credentials.
    pub keys: Option<SealingKeys>,
    /// heketi.
    pub heketi: Connection,
    /// How hosting volumes are made.
    pub making: Making,
    /// What the operator decided on placement.
    pub policy: Policy,
    /// How storage hosts are reached.
    pub ssh: SshConfig,
    /// How long gluster-block may take.
    pub timeouts: Timeouts,
    /// How long a request waits for its turn.
    pub queue: Duration,
}

/// Everything that is wrong with the settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct Mistakes(pub Vec<String>);

impl TryFrom<Args> for Config {
    type Error = Mistakes;

    fn try_from(args: Args) -> Result<Self, Mistakes> {
        let mut check = Checker::default();
        check.backend(&args.backend);
        let socket = check.socket(&args.endpoint);
        let driver_name = check.driver_name(&args.driver_name);
        let admin_address = Some(&args.admin_address)
            .filter(|address| !address.is_empty())
            .and_then(|address| check.parse("--admin-address", address, "an IP:PORT"));
        let log_format = check.parse("--log-format", &args.log_format, "json or text");
        let keys = args
            .sealing_key_file
            .as_deref()
            .and_then(|file| check.sealing_keys(file));
        let heketi = check.heketi(&args);
        let making = check.making(&args);
        let policy = check.policy(&args);
        let ssh = check.ssh(&args);
        let block = check.time("--block-timeout", &args.block_timeout);
        let query = check.time("--query-timeout", &args.query_timeout);
        let queue = check.time("--queue-timeout", &args.queue_timeout);
        let (Some(heketi), true) = (heketi, check.mistakes.is_empty()) else {
            return Err(Mistakes(check.mistakes));
        };
        Ok(Self {
            socket,
            driver_name,
            admin_address,
            log_format: log_format.unwrap_or_default(),
            log_filter: args.log_level,
            keys,
            heketi,
            making,
            policy,
            ssh,
            timeouts: Timeouts {
                create_full: block,
                create_thin: block,
                delete: block,
                resize: block,
                info: query,
                list: query,
                ..Timeouts::default()
            },
            queue,
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

    fn backend(&mut self, backend: &str) {
        match backend {
            "heketi" => {}
            "gd2" => self.mistakes.push(
                "--backend: gd2 is not built yet; this version serves heketi only".to_owned(),
            ),
            other => self.wrong("--backend", other, "heketi"),
        }
    }

    fn socket(&mut self, endpoint: &str) -> PathBuf {
        let path = endpoint
            .strip_prefix("unix://")
            .or_else(|| endpoint.strip_prefix("unix:"));
        let path = PathBuf::from(path.unwrap_or(endpoint));
        // The kernel's limit for the name of a Unix socket.
        let fits = path.as_os_str().len() < 108;
        if !path.is_absolute() || path.file_name().is_none() || !fits {
            let rule = "a Unix socket: unix:///path, of 107 bytes at most";
            self.wrong("--endpoint", endpoint, rule);
        }
        path
    }

    /// CSI's rule, with csi-sanity's: a letter at both ends.
    fn driver_name(&mut self, name: &str) -> String {
        let inside = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
        let letter = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphabetic());
        let legal = name.len() <= 63
            && name.bytes().all(inside)
            && letter(name.bytes().next())
            && letter(name.bytes().next_back());
        if !legal {
            let rule = "a driver name: 63 characters at most, letters, digits, dashes and dots, \
                        the first and the last a letter";
            self.wrong("--driver-name", name, rule);
        }
        name.to_owned()
    }

    fn time(&mut self, flag: &str, value: &str) -> Duration {
        match humantime::parse_duration(value) {
            Ok(time) if time >= Duration::from_secs(1) => time,
            Ok(_) | Err(_) => {
                self.wrong(
                    flag,
                    value,
                    "a time of a second or more, such as 30s or 5min",
                );
                Duration::from_secs(1)
            }
        }
    }

    fn sealing_keys(&mut self, file: &str) -> Option<SealingKeys> {
        let keys = SealingKeys::load(file);
        keys.map_err(|error| {
            let text = format!("--sealing-key-file: {}", Chain(&error));
            self.mistakes.push(text);
        })
        .ok()
    }

    /// A file that must be there and say something.
    fn read(&mut self, flag: &str, file: &str) -> String {
        if file.is_empty() {
            self.mistakes.push(format!("{flag}: a file must be given"));
            return String::new();
        }
        match std::fs::read_to_string(file) {
            Ok(text) if text.trim().is_empty() => {
                self.mistakes.push(format!("{flag}: {file} is empty"));
                String::new()
            }
            Ok(text) => text,
            Err(error) => {
                let text = format!("{flag}: cannot read {file}: {error}");
                self.mistakes.push(text);
                String::new()
            }
        }
    }

    fn heketi(&mut self, args: &Args) -> Option<Connection> {
        let rule = "heketi's address: http://HOST:PORT or https://HOST:PORT, without a path";
        let url: Option<Url> = self.parse("--heketi-url", &args.heketi_url, rule);
        let url = url.filter(|url| {
            let legal = matches!(url.scheme(), "http" | "https")
                && url.has_host()
                && url.path() == "/"
                && url.query().is_none()
                && url.username().is_empty()
                && url.password().is_none();
            if !legal {
                self.wrong("--heketi-url", &args.heketi_url, rule);
            }
            legal
        });
        if args.heketi_user != "admin" {
            let rule = "admin; heketi lets no other user make hosting volumes";
            self.wrong("--heketi-user", &args.heketi_user, rule);
        }
        let key = self.read("--heketi-key-file", &args.heketi_key_file);
        let ca = args
            .heketi_ca_file
            .as_deref()
            .map(|file| self.read("--heketi-ca-file", file).into_bytes());
        let patience = Patience {
            operation: self.time("--heketi-operation-timeout", &args.heketi_operation_timeout),
            ..Patience::default()
        };
        let request_timeout = self.time("--heketi-timeout", &args.heketi_timeout);
        Some(Connection {
            url: url?,
            key: SecretString::from(key.trim_end_matches(['\r', '\n'])),
            ca,
            request_timeout,
            patience,
        })
    }

    fn making(&mut self, args: &Args) -> Making {
        let prefix = &args.hosting_volume_prefix;
        let legal = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if !(1..=30).contains(&prefix.len())
            || !prefix.bytes().all(legal)
            || prefix.starts_with('-')
        {
            let rule = "a name's first part: 1 to 30 letters, digits, dashes or underscores, no dash first";
            self.wrong("--hosting-volume-prefix", prefix, rule);
        }
        let mut options = vec!["group gluster-block".to_owned()];
        let more = args.hosting_volume_options.split(',').map(str::trim);
        for option in more.filter(|option| !option.is_empty()) {
            // gluster takes several pairs in one `volume set`, which saves seconds each.
            let pairs = option.split_whitespace().count();
            let plain = option.bytes().all(|b| {
                b.is_ascii_alphanumeric() || matches!(b, b' ' | b'.' | b'_' | b'-' | b':' | b'/')
            });
            // heketi puts them into a shell's command line as they are.
            if pairs % 2 != 0 || !plain {
                let rule = "options of the form KEY VALUE or KEY VALUE KEY VALUE, of letters, digits and . _ - : /, separated by commas";
                self.wrong("--hosting-volume-options", option, rule);
            }
            options.push(option.to_owned());
        }
        Making {
            prefix: prefix.clone(),
            options,
        }
    }

    fn policy(&mut self, args: &Args) -> Policy {
        let usual = self.gib("--hosting-volume-size", &args.hosting_volume_size);
        let largest = self.gib("--hosting-volume-max-size", &args.hosting_volume_max_size);
        if usual > largest {
            let rule = "at most --hosting-volume-max-size";
            self.wrong("--hosting-volume-size", &args.hosting_volume_size, rule);
        }
        let ids = args.heketi_clusters.split(',').map(str::trim);
        let clusters: Vec<ClusterId> = ids
            .filter(|id| !id.is_empty())
            .filter_map(|id| self.parse("--heketi-clusters", id, "a cluster's id"))
            .collect();
        Policy {
            clusters,
            sizes: Sizes { usual, largest },
            turn: self.time("--queue-timeout", &args.queue_timeout),
        }
    }

    /// Below two, 98 % of it leave less than one GiB; above a million GiB somebody meant bytes.
    fn gib(&mut self, flag: &str, value: &str) -> Capacity {
        let gib = value
            .parse()
            .ok()
            .filter(|gib| (2..=1_048_576).contains(gib));
        if gib.is_none() {
            self.wrong(flag, value, "a number of GiB from 2 to 1048576");
        }
        Capacity::from_bytes(gib.unwrap_or(2) << 30)
    }

    fn ssh(&mut self, args: &Args) -> SshConfig {
        // The transport checks what is in them; here they only have to be there.
        self.read("--ssh-key-file", &args.ssh_key_file);
        self.read("--ssh-known-hosts", &args.ssh_known_hosts);
        if args.ssh_user.is_empty() {
            self.wrong("--ssh-user", &args.ssh_user, "a user");
        }
        if args.ssh_command.is_empty() {
            self.wrong("--ssh-command", &args.ssh_command, "a program");
        }
        let port: Option<u16> = self.parse("--ssh-port", &args.ssh_port, "a port");
        SshConfig {
            user: args.ssh_user.clone(),
            port: port.unwrap_or(22),
            private_key_file: PathBuf::from(&args.ssh_key_file),
            known_hosts_file: PathBuf::from(&args.ssh_known_hosts),
            command: args.ssh_command.clone(),
        }
    }
}
