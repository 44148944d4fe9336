//! Which backend a run serves, and how it is reached.

use clap::ValueEnum;
use proto::service::settings::Checker;
use secrecy::SecretString;
use url::Url;

use super::{read, time};
use crate::args::Args;
use crate::hosting::{gd2, heketi};

/// Who makes hosting volumes, and how to reach them.
#[derive(Debug, Clone)]
pub enum Backend {
    /// heketi.
    Heketi(heketi::Connection),
    /// `GlusterD2`.
    Gd2(gd2::Connection),
}

/// The backends there are, under their names in `--backend`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    Heketi,
    Gd2,
}

impl Kind {
    /// The beginning of its flags.
    fn flags(self) -> &'static str {
        match self {
            Self::Heketi => "--heketi-",
            Self::Gd2 => "--gd2-",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Heketi => "heketi",
            Self::Gd2 => "gd2",
        }
    }

    /// What is set on every hosting volume, in its form.
    pub(super) fn options(self) -> &'static [&'static str] {
        match self {
            Self::Heketi => &["group gluster-block"],
            Self::Gd2 => &gd2::OPTIONS,
        }
    }
}

/// `--backend`.
pub(super) fn kind(check: &mut Checker, args: &Args) -> Option<Kind> {
    let kind = Kind::from_str(&args.backend, false).ok();
    if kind.is_none() {
        check.wrong("--backend", &args.backend, "heketi or gd2");
    }
    kind
}

/// The settings of that backend, and that none of another one are there: they would have no effect, and somebody expects one.
///
/// Where the backend is a mistake itself, whatever was given is checked.
pub(super) fn backend(check: &mut Checker, kind: Option<Kind>, args: &Args) -> Option<Backend> {
    let mut backend = None;
    for &candidate in Kind::value_variants() {
        let given: Vec<&String> = args.given_to(candidate.flags()).collect();
        match kind {
            Some(kind) if kind == candidate => backend = settings(check, kind, args),
            Some(kind) => {
                let (theirs, ours) = (candidate.name(), kind.name());
                for flag in given {
                    check.mistake(format!(
                        "{flag}: it is a setting of {theirs}, and --backend is {ours}; leave it out or change --backend"
                    ));
                }
            }
            None if given.is_empty() => {}
            None => drop(settings(check, candidate, args)),
        }
    }
    backend
}

fn settings(check: &mut Checker, kind: Kind, args: &Args) -> Option<Backend> {
    match kind {
        Kind::Heketi => heketi(check, args).map(Backend::Heketi),
        Kind::Gd2 => gd2(check, args).map(Backend::Gd2),
    }
}

fn heketi(check: &mut Checker, args: &Args) -> Option<heketi::Connection> {
    let args = &args.heketi;
    let url = url(check, "--heketi-url", &args.url);
    if args.user != "admin" {
        let rule = "admin; heketi lets no other user make hosting volumes";
        check.wrong("--heketi-user", &args.user, rule);
    }
    let key = secret(check, "--heketi-key-file", &args.key_file);
    let ca = ca(check, "--heketi-ca-file", args.ca_file.as_deref());
    let operation = time(check, "--heketi-operation-timeout", &args.operation_timeout);
    let request_timeout = time(check, "--heketi-timeout", &args.timeout);
    Some(heketi::Connection {
        url: url?,
        key,
        ca,
        request_timeout,
        patience: heketi::Patience {
            operation,
            ..heketi::Patience::default()
        },
    })
}

fn gd2(check: &mut Checker, args: &Args) -> Option<gd2::Connection> {
    let args = &args.gd2;
    let url = url(check, "--gd2-url", &args.url);
    if args.user != gd2::USER {
        let rule = "glustercli; gd2 knows no other user";
        check.wrong("--gd2-user", &args.user, rule);
    }
    let secret = secret(check, "--gd2-secret-file", &args.secret_file);
    let ca = ca(check, "--gd2-ca-file", args.ca_file.as_deref());
    let operation = time(check, "--gd2-operation-timeout", &args.operation_timeout);
    let request_timeout = time(check, "--gd2-timeout", &args.timeout);
    Some(gd2::Connection {
        url: url?,
        secret,
        ca,
        request_timeout,
        patience: gd2::Patience {
            operation,
            ..gd2::Patience::default()
        },
    })
}

fn url(check: &mut Checker, flag: &str, value: &str) -> Option<Url> {
    let rule = "an address: http://HOST:PORT or https://HOST:PORT, without a path";
    let url: Option<Url> = check.parse(flag, value, rule);
    url.filter(|url| {
        let legal = matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.path() == "/"
            && url.query().is_none()
            && url.username().is_empty()
            && url.password().is_none();
        if !legal {
            check.wrong(flag, value, rule);
        }
        legal
    })
}

fn secret(check: &mut Checker, flag: &str, file: &str) -> SecretString {
    let text = read(check, flag, file);
    SecretString::from(text.trim_end_matches(['\r', '\n']))
}

fn ca(check: &mut Checker, flag: &str, file: Option<&str>) -> Option<Vec<u8>> {
    file.map(|file| read(check, flag, file).into_bytes())
}
