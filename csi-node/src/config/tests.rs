//! What a start accepts, and that it reports every mistake.

use clap::{CommandFactory, Parser};

use super::*;

fn config(arguments: &[&str]) -> Result<Config, Mistakes> {
    Args::try_parse_from([&["csi-node"], arguments].concat())
        .unwrap()
        .try_into()
}

#[test]
fn the_defaults_need_only_a_node_name() {
    let config = config(&["--node-name", "n1"]).unwrap();
    assert_eq!(config.socket, PathBuf::from("/csi/csi.sock"));
    assert_eq!(
        config.presentation.driver_name,
        "gluster-block.csi.gluster.org"
    );
    assert_eq!(
        config.state_dir,
        PathBuf::from("/var/lib/gluster-block-csi/node")
    );
    assert_eq!(config.timers.replacement, Duration::from_mins(2));
}

#[test]
fn every_mistake_is_reported_at_once_and_names_its_flag() {
    let wrong = [
        ("--endpoint", "tcp://0.0.0.0:1"),
        ("--node-name", "a/b"),
        ("--driver-name", "-driver"),
        ("--state-dir", "relative"),
        ("--sealing-key-file", "keys"),
        ("--admin-address", "localhost"),
        ("--log-format", "xml"),
        ("--max-volumes", "-1"),
        ("--login-timeout", "soon"),
        ("--noop-interval", "0s"),
        ("--noop-timeout", "1500ms"),
        ("--replacement-timeout", "10min"),
        ("--host-process", "init"),
    ];
    let arguments: Vec<String> = wrong
        .iter()
        .map(|(flag, value)| format!("{flag}={value}"))
        .collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let Mistakes(mistakes) = config(&arguments).unwrap_err();
    assert_eq!(mistakes.len(), wrong.len(), "{mistakes:#?}");
    for (flag, _) in wrong {
        assert!(
            mistakes.iter().any(|mistake| mistake.starts_with(flag)),
            "{flag}"
        );
    }
}

#[test]
fn the_endpoint_may_be_written_in_three_ways_and_the_admin_address_left_empty() {
    for endpoint in [
        "unix:///run/csi.sock",
        "unix:/run/csi.sock",
        "/run/csi.sock",
    ] {
        let config = config(&[
            "--node-name",
            "n1",
            "--endpoint",
            endpoint,
            "--admin-address",
            "",
        ])
        .unwrap();
        assert_eq!(config.socket, PathBuf::from("/run/csi.sock"));
        assert_eq!(config.admin_address, None);
    }
}

#[test]
fn every_flag_is_explained_and_has_a_variable() {
    let command = Args::command();
    command.clone().debug_assert();
    for argument in command.get_arguments() {
        assert!(argument.get_help().is_some(), "{argument}");
        assert!(argument.get_env().is_some(), "{argument}");
    }
}
