//! What a start accepts, and that it reports every mistake.

use clap::CommandFactory;
use proptest::prelude::*;

use super::*;
use crate::hosting::gd2;

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("key"), "secret\n").unwrap();
        let sealing = format!("k1:{}", "A".repeat(43) + "=");
        std::fs::write(folder.path().join("sealing"), sealing).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn gd2(&self, more: &[&str]) -> Result<Config, Mistakes> {
        let key = self.path("key");
        let base = [
            "csi-controller",
            "--backend=gd2",
            "--gd2-url=http://10.0.0.1:24007",
            "--gd2-secret-file",
            &key,
            "--ssh-key-file",
            &key,
            "--ssh-known-hosts",
            &key,
        ];
        let more: Vec<&str> = base.into_iter().chain(more.iter().copied()).collect();
        Args::read(more).unwrap().try_into()
    }

    fn config(&self, more: &[&str]) -> Result<Config, Mistakes> {
        let key = self.path("key");
        let base = [
            "csi-controller",
            "--heketi-url=http://10.0.0.1:8080",
            "--heketi-key-file",
            &key,
            "--ssh-key-file",
            &key,
            "--ssh-known-hosts",
            &key,
        ];
        let more: Vec<&str> = base.into_iter().chain(more.iter().copied()).collect();
        Args::read(more).unwrap().try_into()
    }
}

#[test]
fn an_address_and_three_files_suffice() {
    let config = Files::new().config(&[]).unwrap();
    assert_eq!(config.socket, PathBuf::from("/csi/csi.sock"));
    assert_eq!(config.driver_name, "gluster-block.csi.gluster.org");
    assert_eq!(
        config.policy.rules.sizes.usual,
        Capacity::from_bytes(100 << 30)
    );
    assert_eq!(config.policy.rules.prefer, Preference::BestFit);
    assert_eq!(config.policy.rules.most_blocks, None);
    assert_eq!(config.making.options, ["group gluster-block"]);
    assert_eq!(config.timeouts.create_full, Duration::from_mins(15));
    assert!(config.keys.is_none());
}

#[test]
fn placement_can_spread_and_be_limited() {
    let more = ["--placement=spread", "--hosting-volume-max-blocks=200"];
    let rules = Files::new().config(&more).unwrap().policy.rules;
    assert_eq!(rules.prefer, Preference::Spread);
    assert_eq!(rules.most_blocks, Some(200));
}

#[test]
fn every_mistake_is_reported_at_once_and_names_its_flag() {
    let files = Files::new();
    let absent = files.path("absent");
    let wrong = [
        ("--endpoint", "tcp://0.0.0.0:1"),
        ("--driver-name", "driver9"),
        ("--backend", "glusterd2"),
        ("--placement", "worst-fit"),
        ("--hosting-volume-max-blocks", "-1"),
        ("--admin-address", "localhost"),
        ("--log-format", "xml"),
        ("--sealing-key-file", &absent),
        ("--heketi-url", "ftp://x"),
        ("--heketi-user", "user"),
        ("--heketi-ca-file", &absent),
        ("--heketi-timeout", "soon"),
        ("--heketi-clusters", "a,b c"),
        ("--hosting-volume-size", "1"),
        ("--hosting-volume-max-size", "many"),
        ("--hosting-volume-prefix", "-x"),
        ("--hosting-volume-options", "a;b c"),
        ("--ssh-port", "99999"),
        ("--ssh-command", ""),
        ("--block-timeout", "0s"),
        ("--query-timeout", "x"),
        ("--queue-timeout", "-1"),
    ];
    let flags: Vec<String> = wrong
        .iter()
        .map(|(flag, value)| format!("{flag}={value}"))
        .collect();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let Mistakes(mistakes) = files.config(&flags).unwrap_err();
    for (flag, _) in wrong {
        assert!(
            mistakes.iter().any(|m| m.starts_with(&format!("{flag}: "))),
            "{flag}: {mistakes:#?}"
        );
    }
}

#[test]
fn nothing_given_says_what_is_needed() {
    for (backend, flags) in [
        ("heketi", ["--heketi-url", "--heketi-key-file"]),
        ("gd2", ["--gd2-url", "--gd2-secret-file"]),
    ] {
        let args = Args::read(["csi-controller", "--backend", backend]).unwrap();
        let text = Config::try_from(args).unwrap_err().to_string();
        for flag in flags
            .into_iter()
            .chain(["--ssh-key-file", "--ssh-known-hosts"])
        {
            assert!(text.contains(flag), "{text}");
        }
    }
}

// C15
#[test]
fn gd2_needs_an_address_and_three_files() {
    let config = Files::new().gd2(&[]).unwrap();
    let Backend::Gd2(connection) = config.backend else {
        panic!("{:?}", config.backend);
    };
    assert_eq!(connection.url.as_str(), "http://10.0.0.1:24007/");
    assert_eq!(connection.request_timeout, Duration::from_secs(40));
    assert_eq!(connection.patience.operation, Duration::from_mins(5));
    assert_eq!(config.making.options, gd2::OPTIONS);
}

// C15
#[test]
fn settings_of_the_other_backend_are_refused_by_name() {
    let files = Files::new();
    let key = files.path("key");
    let theirs = ["--gd2-timeout=40s", "--gd2-secret-file", &key];
    let Mistakes(mistakes) = files.config(&theirs).unwrap_err();
    assert_eq!(mistakes.len(), 2, "{mistakes:#?}");
    assert!(mistakes[0].starts_with("--gd2-"), "{mistakes:#?}");
    assert!(mistakes[0].contains("--backend is heketi"), "{mistakes:#?}");
    let error = files.gd2(&["--heketi-clusters=a"]).unwrap_err().to_string();
    assert!(
        error.starts_with("--heketi-clusters: ") && error.contains("--backend is gd2"),
        "{error}"
    );
    // A manifest may hold both sets, one of them empty.
    files.gd2(&["--heketi-url="]).unwrap();
}

#[test]
fn every_mistake_about_gd2_names_its_flag() {
    let files = Files::new();
    let absent = format!("--gd2-ca-file={}", files.path("absent"));
    let wrong = [
        "--gd2-url=http://u:p@h",
        "--gd2-user=admin",
        &absent,
        "--gd2-secret-file=",
        "--gd2-timeout=0s",
        "--gd2-operation-timeout=x",
    ];
    let Mistakes(mistakes) = files.gd2(&wrong).unwrap_err();
    for flag in wrong.map(|flag| flag.split('=').next().unwrap()) {
        assert!(
            mistakes.iter().any(|m| m.starts_with(&format!("{flag}: "))),
            "{flag}: {mistakes:#?}"
        );
    }
}

#[test]
fn options_are_added_to_the_group() {
    let config = Files::new()
        .config(&["--hosting-volume-options=network.ping-timeout 10, a.b on"])
        .unwrap();
    assert_eq!(
        config.making.options,
        ["group gluster-block", "network.ping-timeout 10", "a.b on"]
    );
}

// C14
#[test]
fn no_secret_is_shown_by_the_settings() {
    let files = Files::new();
    let sealing = files.path("sealing");
    let more = ["--sealing-key-file", &sealing];
    for config in [files.config(&more).unwrap(), files.gd2(&more).unwrap()] {
        let shown = format!("{config:?}");
        assert!(
            !shown.contains("secret\"") && !shown.contains("AAAA"),
            "{shown}"
        );
    }
}

#[test]
fn every_flag_has_a_variable_and_a_help() {
    let command = Args::command();
    for argument in command.get_arguments() {
        assert!(argument.get_env().is_some(), "{argument}");
        assert!(argument.get_help().is_some(), "{argument}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_check_panic(value in ".{0,40}") {
        let mut check = Checker::default();
        check.socket(&value);
        check.driver_name(&value);
        time(&mut check, "--x", &value);
        gib(&mut check, "--x", &value);
        let mut args = Args::read(["csi-controller"]).unwrap();
        args.backend = value;
        let kind = backend::kind(&mut check, &args);
        backend::backend(&mut check, kind, &args);
    }
}
