//! What is true: the settings of a run, checked. One start reports every mistake.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::client::Timeouts;
use crate::transport::local::LocalConfig;
use crate::vocabulary::HostAddress;

use super::args::Args;
use super::tls::TlsFiles;

/// The settings of a run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The address by which gluster-block knows this host.
    pub host: HostAddress,
    /// Where to serve.
    pub listen: SocketAddr,
    /// The files of TLS; none without TLS.
    pub tls: Option<TlsFiles>,
    /// Where the daemon is.
    pub local: LocalConfig,
    /// How long the daemon may take.
    pub timeouts: Timeouts,
    /// How long the end may take.
    pub grace: Duration,
    /// How log lines look.
    pub log_format: LogFormat,
    /// What is logged.
    pub log_filter: String,
}

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// Everything that is wrong with the settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct Mistakes(pub Vec<String>);

impl TryFrom<Args> for Settings {
    type Error = Mistakes;

    fn try_from(args: Args) -> Result<Self, Mistakes> {
        let mut mistakes = Vec::new();
        let address = "the IPv4 address of this host in gluster-block's lists, such as 10.0.0.1";
        let host = parse(&mut mistakes, "--host-address", &args.host_address, address);
        let listen = parse(&mut mistakes, "--listen", &args.listen, "an IP:PORT");
        let daemon = parse(&mut mistakes, "--daemon", &args.daemon, "an IP:PORT");
        let block = time(&mut mistakes, "--block-timeout", &args.block_timeout);
        let query = time(&mut mistakes, "--query-timeout", &args.query_timeout);
        let grace = time(&mut mistakes, "--grace", &args.grace);
        let log_format = match args.log_format.as_str() {
            "json" => LogFormat::Json,
            "text" => LogFormat::Text,
            other => {
                mistakes.push(format!("--log-format: {other:?} is neither json nor text"));
                LogFormat::Json
            }
        };
        let tls = tls(&mut mistakes, &args);
        match (host, listen, daemon) {
            (Some(host), Some(listen), Some(daemon)) if mistakes.is_empty() => Ok(Self {
                host,
                listen,
                tls,
                local: LocalConfig {
                    socket: PathBuf::from(args.socket),
                    daemon,
                    root: PathBuf::from(args.root),
                },
                timeouts: Timeouts {
                    create_full: block,
                    create_thin: block,
                    delete: block,
                    resize: block,
                    info: query,
                    list: query,
                    ..Timeouts::default()
                },
                grace,
                log_format,
                log_filter: args.log_level,
            }),
            _ => Err(Mistakes(mistakes)),
        }
    }
}

/// All three files, or none.
fn tls(mistakes: &mut Vec<String>, args: &Args) -> Option<TlsFiles> {
    match (&args.ca_file, &args.cert_file, &args.key_file) {
        (Some(ca), Some(cert), Some(key)) => Some(TlsFiles {
            ca: ca.into(),
            cert: cert.into(),
            key: key.into(),
        }),
        (None, None, None) => None,
        _ => {
            mistakes.push(
                "--ca-file, --cert-file and --key-file go together: give all or none".to_owned(),
            );
            None
        }
    }
}

fn parse<T: FromStr>(mistakes: &mut Vec<String>, flag: &str, value: &str, rule: &str) -> Option<T> {
    let parsed = value.parse().ok();
    if parsed.is_none() {
        mistakes.push(format!("{flag}: {value:?} is not {rule}"));
    }
    parsed
}

fn time(mistakes: &mut Vec<String>, flag: &str, value: &str) -> Duration {
    match humantime::parse_duration(value) {
        Ok(time) if time >= Duration::from_secs(1) => time,
        Ok(_) | Err(_) => {
            mistakes.push(format!(
                "{flag}: {value:?} is not a time of a second or more, such as 30s or 5min"
            ));
            Duration::from_secs(1)
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn settings(flags: &[&str]) -> Result<Settings, Mistakes> {
        let words = [&["blockd-agent"], flags].concat();
        Settings::try_from(Args::try_parse_from(words).unwrap())
    }

    #[test]
    fn only_the_address_of_the_host_must_be_given() {
        let settings = settings(&["--host-address", "10.0.0.1"]).unwrap();
        assert!(settings.listen.ip().is_loopback() && settings.tls.is_none());
        assert_eq!(settings.local, LocalConfig::default());
        assert_eq!(settings.timeouts.create_full, Duration::from_mins(15));
    }

    #[test]
    fn one_start_reports_every_mistake() {
        let flags = [
            "--listen",
            "here",
            "--grace",
            "0s",
            "--ca-file",
            "/ca",
            "--log-format",
            "xml",
        ];
        let Mistakes(mistakes) = settings(&flags).unwrap_err();
        for flag in [
            "--host-address",
            "--listen",
            "--grace",
            "--key-file",
            "--log-format",
        ] {
            assert!(
                mistakes.iter().any(|mistake| mistake.contains(flag)),
                "{flag}: {mistakes:?}"
            );
        }
        assert_eq!(mistakes.len(), 5);
    }
}
