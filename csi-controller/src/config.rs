//! What is true: the settings of a run, checked. One start reports every mistake.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use blockd_client::Timeouts;
use blockd_client::transport::ssh::SshConfig;
use blockd_client::vocabulary::{Capacity, SealingKeys};
use proto::error::Chain;
use proto::service::settings::{Checker, Mistakes};
use proto::service::telemetry::LogFormat;

use crate::args::Args;
use crate::hosting::{ClusterId, Making};
use crate::ops::Policy;
use crate::placement::{Preference, Rules, Sizes};

mod backend;
#[cfg(test)]
mod tests;

pub use self::backend::Backend;
use self::backend::Kind;

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
    /// Who makes hosting volumes.
    pub backend: Backend,
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

impl TryFrom<Args> for Config {
    type Error = Mistakes;

    fn try_from(args: Args) -> Result<Self, Mistakes> {
        let mut check = Checker::default();
        let socket = check.socket(&args.endpoint);
        let driver_name = check.driver_name(&args.driver_name);
        let admin_address = check.admin_address(&args.admin_address);
        let log_format = check.log_format(&args.log_format);
        let keys = args
            .sealing_key_file
            .as_deref()
            .and_then(|file| sealing_keys(&mut check, file));
        let kind = backend::kind(&mut check, &args);
        let backend = backend::backend(&mut check, kind, &args);
        let making = making(&mut check, kind, &args);
        let policy = policy(&mut check, &args);
        let ssh = ssh(&mut check, &args);
        let block = time(&mut check, "--block-timeout", &args.block_timeout);
        let query = time(&mut check, "--query-timeout", &args.query_timeout);
        let queue = time(&mut check, "--queue-timeout", &args.queue_timeout);
        let backend = check.finish(backend)?;
        Ok(Self {
            socket,
            driver_name,
            admin_address,
            log_format,
            log_filter: args.log_level,
            keys,
            backend,
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

fn time(check: &mut Checker, flag: &str, value: &str) -> Duration {
    match humantime::parse_duration(value) {
        Ok(time) if time >= Duration::from_secs(1) => time,
        Ok(_) | Err(_) => {
            check.wrong(
                flag,
                value,
                "a time of a second or more, such as 30s or 5min",
            );
            Duration::from_secs(1)
        }
    }
}

fn sealing_keys(check: &mut Checker, file: &str) -> Option<SealingKeys> {
    let keys = SealingKeys::load(file);
    keys.map_err(|error| {
        let text = format!("--sealing-key-file: {}", Chain(&error));
        check.mistake(text);
    })
    .ok()
}

/// A file that must be there and say something.
fn read(check: &mut Checker, flag: &str, file: &str) -> String {
    if file.is_empty() {
        check.mistake(format!("{flag}: a file must be given"));
        return String::new();
    }
    match std::fs::read_to_string(file) {
        Ok(text) if text.trim().is_empty() => {
            check.mistake(format!("{flag}: {file} is empty"));
            String::new()
        }
        Ok(text) => text,
        Err(error) => {
            let text = format!("{flag}: cannot read {file}: {error}");
            check.mistake(text);
            String::new()
        }
    }
}

fn making(check: &mut Checker, kind: Option<Kind>, args: &Args) -> Making {
    let prefix = &args.hosting_volume_prefix;
    let legal = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if !(1..=30).contains(&prefix.len()) || !prefix.bytes().all(legal) || prefix.starts_with('-') {
        let rule =
            "a name's first part: 1 to 30 letters, digits, dashes or underscores, no dash first";
        check.wrong("--hosting-volume-prefix", prefix, rule);
    }
    let first = kind.unwrap_or(Kind::Heketi).options();
    let mut options: Vec<String> = first.iter().map(|&option| option.to_owned()).collect();
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
            check.wrong("--hosting-volume-options", option, rule);
        }
        options.push(option.to_owned());
    }
    Making {
        prefix: prefix.clone(),
        options,
    }
}

fn policy(check: &mut Checker, args: &Args) -> Policy {
    let usual = gib(check, "--hosting-volume-size", &args.hosting_volume_size);
    let largest = gib(
        check,
        "--hosting-volume-max-size",
        &args.hosting_volume_max_size,
    );
    if usual > largest {
        let rule = "at most --hosting-volume-max-size";
        check.wrong("--hosting-volume-size", &args.hosting_volume_size, rule);
    }
    let ids = args.heketi.clusters.split(',').map(str::trim);
    let clusters: Vec<ClusterId> = ids
        .filter(|id| !id.is_empty())
        .filter_map(|id| check.parse("--heketi-clusters", id, "a cluster's id"))
        .collect();
    Policy {
        clusters,
        rules: Rules {
            sizes: Sizes { usual, largest },
            prefer: preference(check, &args.placement),
            most_blocks: most_blocks(check, &args.hosting_volume_max_blocks),
        },
        turn: time(check, "--queue-timeout", &args.queue_timeout),
    }
}

fn preference(check: &mut Checker, value: &str) -> Preference {
    let known = Preference::NAMES.iter().find(|(name, _)| *name == value);
    if known.is_none() {
        check.wrong("--placement", value, "best-fit, spread or random");
    }
    known.map_or(Preference::BestFit, |(_, preference)| *preference)
}

fn most_blocks(check: &mut Checker, value: &str) -> Option<usize> {
    let rule = "a number of blocks, or 0 for no limit";
    let most = check.parse("--hosting-volume-max-blocks", value, rule);
    most.filter(|most| *most > 0)
}

/// Below two, 98 % of it leave less than one GiB; above a million GiB somebody meant bytes.
fn gib(check: &mut Checker, flag: &str, value: &str) -> Capacity {
    let gib = value
        .parse()
        .ok()
        .filter(|gib| (2..=1_048_576).contains(gib));
    if gib.is_none() {
        check.wrong(flag, value, "a number of GiB from 2 to 1048576");
    }
    Capacity::from_bytes(gib.unwrap_or(2) << 30)
}

fn ssh(check: &mut Checker, args: &Args) -> SshConfig {
    // The transport checks what is in them; here they only have to be there.
    read(check, "--ssh-key-file", &args.ssh_key_file);
    read(check, "--ssh-known-hosts", &args.ssh_known_hosts);
    if args.ssh_user.is_empty() {
        check.wrong("--ssh-user", &args.ssh_user, "a user");
    }
    if args.ssh_command.is_empty() {
        check.wrong("--ssh-command", &args.ssh_command, "a program");
    }
    let port: Option<u16> = check.parse("--ssh-port", &args.ssh_port, "a port");
    SshConfig {
        user: args.ssh_user.clone(),
        port: port.unwrap_or(22),
        private_key_file: PathBuf::from(&args.ssh_key_file),
        known_hosts_file: PathBuf::from(&args.ssh_known_hosts),
        command: args.ssh_command.clone(),
    }
}
