//! What is true: the settings of a run, checked. One start reports every mistake.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use blockd_client::transport::ssh::SshConfig;
use blockd_client::vocabulary::HostingVolume;
use proto::service::telemetry::LogFormat;
use secrecy::SecretString;
use url::Url;

use crate::args::Args;
use crate::hosting::heketi::HeketiConfig;
use crate::ops::Policy;

/// The settings of a run.
#[derive(Debug, Clone)]
pub struct Config {
    /// The Unix socket.
    pub socket: PathBuf,
    /// The driver's name.
    pub driver_name: String,
    /// The backend.
    pub heketi: HeketiConfig,
    /// The way to gluster-block.
    pub ssh: SshConfig,
    /// The file of the sealing keys.
    pub sealing_key_file: Option<PathBuf>,
    /// What the operator decided.
    pub policy: Policy,
    /// Where the admin endpoints are.
    pub admin_address: Option<SocketAddr>,
    /// How log lines look.
    pub log_format: LogFormat,
    /// What is logged.
    pub log_filter: String,
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
        let heketi = check.heketi(&args);
        let ssh = SshConfig {
            user: args.ssh_user,
            port: check
                .parse("--ssh-port", &args.ssh_port, "a port")
                .unwrap_or_default(),
            private_key_file: check.absolute("--ssh-key-file", &args.ssh_key_file),
            known_hosts_file: check.absolute("--ssh-known-hosts", &args.ssh_known_hosts),
            command: args.ssh_command,
        };
        let gib = check.parse(
            "--hosting-volume-size",
            &args.hosting_volume_size,
            "a number of GiB",
        );
        let policy = Policy {
            hosting_gib: gib.unwrap_or(1),
        };
        if policy.hosting_gib == 0 || policy.hosting_gib > 1 << 24 {
            check.wrong(
                "--hosting-volume-size",
                &args.hosting_volume_size,
                "between 1 and 16777216 GiB",
            );
        }
        let socket = check.socket(&args.endpoint);
        let sealing_key_file = args
            .sealing_key_file
            .map(|file| check.absolute("--sealing-key-file", &file));
        let admin_address = Some(args.admin_address)
            .filter(|address| !address.is_empty())
            .and_then(|address| check.parse("--admin-address", &address, "an IP:PORT"));
        let log_format = check.parse("--log-format", &args.log_format, "json or text");
        let driver_name = check.driver_name(args.driver_name);
        match (heketi, check.mistakes.is_empty()) {
            (Some(heketi), true) => Ok(Self {
                socket,
                driver_name,
                heketi,
                ssh,
                sealing_key_file,
                policy,
                admin_address,
                log_format: log_format.unwrap_or_default(),
                log_filter: args.log_level,
            }),
            _ => Err(Mistakes(check.mistakes)),
        }
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
        if !path.is_absolute() || path.file_name().is_none() || path.as_os_str().len() >= 108 {
            self.wrong(
                "--endpoint",
                endpoint,
                "a Unix socket: unix:///path, of 107 bytes at most",
            );
        }
        path
    }

    /// The rule of CSI: 63 characters at most, letters at both ends, alphanumerics, dashes and dots between.
    fn driver_name(&mut self, name: String) -> String {
        let letter = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphabetic());
        let between = name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.');
        if name.len() > 63
            || !between
            || !letter(name.chars().next())
            || !letter(name.chars().last())
        {
            self.wrong(
                "--driver-name",
                &name,
                "up to 63 letters, digits, dashes and dots, with a letter at both ends",
            );
        }
        name
    }

    fn backend(&mut self, backend: &str) {
        match backend {
            "heketi" => {}
            "gd2" => self
                .mistakes
                .push("--backend: gd2 is not built into this version; use heketi".to_owned()),
            other => self.wrong("--backend", other, "heketi"),
        }
    }

    fn heketi(&mut self, args: &Args) -> Option<HeketiConfig> {
        let url: Option<Url> = self.parse(
            "--heketi-url",
            &args.heketi_url,
            "an address such as http://heketi:8080",
        );
        if url
            .as_ref()
            .is_some_and(|url| !["http", "https"].contains(&url.scheme()))
        {
            self.wrong("--heketi-url", &args.heketi_url, "an http or https address");
        }
        if args.heketi_user != "admin" {
            self.wrong(
                "--heketi-user",
                &args.heketi_user,
                "admin: heketi lets other users make no volumes",
            );
        }
        // One hosting volume's name must be legal with a suffix of 32 characters.
        let name = format!("{}{}", args.hosting_volume_prefix, "0".repeat(32));
        if args.hosting_volume_prefix.is_empty() || name.parse::<HostingVolume>().is_err() {
            self.wrong(
                "--hosting-volume-prefix",
                &args.hosting_volume_prefix,
                "1 to 31 of letters, digits, - and _",
            );
        }
        let list = |text: &str| {
            let items = text
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty());
            items.map(str::to_owned).collect::<Vec<_>>()
        };
        let key = args
            .heketi_key_file
            .as_ref()
            .and_then(|file| self.secret("--heketi-key-file", file));
        Some(HeketiConfig {
            url: url?,
            user: args.heketi_user.clone(),
            key,
            clusters: list(&args.heketi_clusters),
            prefix: args.hosting_volume_prefix.clone(),
            options: list(&args.hosting_volume_options),
        })
    }

    fn secret(&mut self, flag: &str, file: &str) -> Option<SecretString> {
        match std::fs::read_to_string(Path::new(file)) {
            Ok(text) if !text.trim().is_empty() => Some(SecretString::from(text.trim().to_owned())),
            Ok(_) => {
                self.mistakes.push(format!("{flag}: {file:?} is empty"));
                None
            }
            Err(error) => {
                self.mistakes
                    .push(format!("{flag}: {file:?} cannot be read: {error}"));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn config(flags: &[&str]) -> Result<Config, Mistakes> {
        Config::try_from(Args::parse_from([&["csi-controller"], flags].concat()))
    }

    #[test]
    fn the_defaults_need_only_heketis_address() {
        let config = config(&["--heketi-url=http://h:8080"]).unwrap();
        assert_eq!(config.heketi.options, ["group gluster-block"]);
        assert_eq!(config.policy.hosting_gib, 100);
    }

    #[test]
    fn one_start_reports_every_mistake() {
        let Mistakes(mistakes) = config(&[
            "--heketi-url=nowhere",
            "--heketi-user=user",
            "--ssh-port=x",
            "--hosting-volume-size=0",
            "--endpoint=relative",
            "--log-format=xml",
            "--backend=gd2",
            "--driver-name=1",
            "--heketi-key-file=/does/not/exist",
            "--hosting-volume-prefix=a b",
        ])
        .unwrap_err();
        for flag in [
            "--heketi-url",
            "--heketi-user",
            "--ssh-port",
            "--hosting-volume-size",
            "--endpoint",
            "--log-format",
            "--backend",
            "--driver-name",
            "--heketi-key-file",
            "--hosting-volume-prefix",
        ] {
            assert!(
                mistakes.iter().any(|mistake| mistake.starts_with(flag)),
                "{flag}: {mistakes:#?}"
            );
        }
    }
}
