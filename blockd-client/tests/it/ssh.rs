//! What the transport makes of hosts that answer, refuse, hang, die and lie.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use blockd_client::transport::ssh::{SshConfig, SshTransport};
use blockd_client::vocabulary::HostAddress;
use blockd_client::{Blockd, Error, Reply, Request, Timeouts, Transport, TransportError};

use crate::proxy::Proxy;
use crate::sshd::{Sshd, key};

const PATIENCE: Duration = Duration::from_secs(15);

fn loopback() -> HostAddress {
    "127.0.0.1".parse().unwrap()
}

fn info(block: &str) -> Request {
    Request::Info(format!("hv/{block}").parse().unwrap())
}

async fn ask(transport: &SshTransport, block: &str) -> Result<Reply, TransportError> {
    transport.call(loopback(), &info(block), PATIENCE).await
}

async fn ask_once(config: SshConfig, block: &str) -> Result<Reply, TransportError> {
    ask(&SshTransport::new(config)?, block).await
}

#[tokio::test]
async fn a_command_runs_with_the_arguments_meant() {
    let sshd = Sshd::start();
    let reply = ask_once(sshd.config(), "ok").await.unwrap();
    assert_eq!(reply.exit, 0, "{}", sshd.log());
    assert_eq!(
        reply.stdout,
        "{ \"args\": \"timeout 16 info hv/ok --json\" }\n"
    );
    assert_eq!(reply.stderr, "");
}

#[tokio::test]
async fn exit_code_and_stderr_come_back() {
    let sshd = Sshd::start();
    let reply = ask_once(sshd.config(), "fail").await.unwrap();
    assert_eq!((reply.exit, reply.stdout.as_str()), (17, ""));
    assert_eq!(reply.stderr, "{ \"RESULT\": \"FAIL\" }\n");
}

#[tokio::test]
async fn a_command_that_reads_meets_the_end_of_its_input() {
    let sshd = Sshd::start();
    assert_eq!(
        ask_once(sshd.config(), "input").await.unwrap().stdout,
        "end of input\n"
    );
}

#[tokio::test]
async fn megabytes_on_both_streams_come_back_whole() {
    let sshd = Sshd::start();
    let reply = ask_once(sshd.config(), "both").await.unwrap();
    assert_eq!(
        (reply.stdout.len(), reply.stderr.len()),
        (3_000_000, 3_000_000)
    );
}

#[tokio::test]
async fn too_much_output_is_cut_off() {
    let sshd = Sshd::start();
    let error = ask_once(sshd.config(), "big").await.unwrap_err();
    assert!(matches!(error, TransportError::TooLong { .. }), "{error:?}");
    assert!(error.may_have_started());
}

#[tokio::test]
async fn a_signal_is_no_exit_code() {
    let sshd = Sshd::start();
    let error = ask_once(sshd.config(), "killed").await.unwrap_err();
    assert!(
        matches!(&error, TransportError::Signal { signal, .. } if signal == "KILL"),
        "{error:?}"
    );
    assert!(error.may_have_started());
}

#[tokio::test]
async fn keys_of_every_common_kind_log_in() {
    let sshd = Sshd::start();
    for (name, kind) in [("rsa", "rsa"), ("ecdsa", "ecdsa"), ("old", "pem")] {
        let path = sshd.path(name);
        key(&path, kind, "");
        fs::copy(
            sshd.path(&format!("{name}.pub")),
            sshd.path("authorized_keys"),
        )
        .unwrap();
        let config = SshConfig {
            private_key_file: path,
            ..sshd.config()
        };
        let reply = ask_once(config, "ok")
            .await
            .unwrap_or_else(|e| panic!("{name}: {e:?} {}", sshd.log()));
        assert_eq!(reply.exit, 0);
    }
}

#[tokio::test]
async fn an_unlisted_host_key_is_refused_with_file_and_fingerprint() {
    let sshd = Sshd::start();
    fs::write(sshd.path("known_hosts"), "# nobody\n").unwrap();
    let error = ask_once(sshd.config(), "ok").await.unwrap_err();
    assert!(
        matches!(error, TransportError::HostKeyUnknown { .. }),
        "{error:?}"
    );
    assert!(!error.may_have_started());
    let message = error.to_string();
    for part in [
        "SHA256:",
        "ssh-ed25519",
        "known_hosts_file",
        sshd.path("known_hosts").to_str().unwrap(),
    ] {
        assert!(message.contains(part), "{message}");
    }
}

#[tokio::test]
async fn another_host_key_than_the_listed_one_is_refused() {
    let sshd = Sshd::start();
    key(&sshd.path("other"), "ed25519", "");
    let public = fs::read_to_string(sshd.path("other.pub")).unwrap();
    fs::write(
        sshd.path("known_hosts"),
        format!("[127.0.0.1]:{} {public}", sshd.port),
    )
    .unwrap();
    let error = ask_once(sshd.config(), "ok").await.unwrap_err();
    assert!(
        matches!(error, TransportError::HostKeyMismatch { .. }),
        "{error:?}"
    );
    assert!(
        error.to_string().contains("somebody may be in between"),
        "{error}"
    );
}

#[tokio::test]
async fn a_host_listed_with_one_key_of_several_is_asked_for_that_one() {
    let sshd = Sshd::start();
    key(&sshd.path("rsa_key"), "rsa", "");
    let config = fs::read_to_string(sshd.path("sshd_config")).unwrap();
    let config = format!("{config}HostKey {}\n", sshd.path("rsa_key").display());
    let both = sshd.restarted_with(&config);
    let public = fs::read_to_string(both.path("rsa_key.pub")).unwrap();
    fs::write(
        both.path("known_hosts"),
        format!("[127.0.0.1]:{} {public}", both.port),
    )
    .unwrap();
    assert_eq!(ask_once(both.config(), "ok").await.unwrap().exit, 0);
}

#[tokio::test]
async fn a_key_that_the_host_does_not_know_is_named() {
    let sshd = Sshd::start();
    let path = sshd.path("stranger");
    key(&path, "ed25519", "");
    let config = SshConfig {
        private_key_file: path.clone(),
        ..sshd.config()
    };
    let error = ask_once(config, "ok").await.unwrap_err();
    assert!(matches!(error, TransportError::Login { .. }), "{error:?}");
    assert!(!error.may_have_started());
    let message = error.to_string();
    assert!(
        message.contains("private_key_file") && message.contains(path.to_str().unwrap()),
        "{message}"
    );
}

#[test]
fn key_files_that_cannot_be_used_are_refused_at_start() {
    let sshd = Sshd::start();
    key(&sshd.path("locked"), "ed25519", "secret");
    key(&sshd.path("open"), "ed25519", "");
    fs::set_permissions(sshd.path("open"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(sshd.path("user_key.pub"), fs::Permissions::from_mode(0o600)).unwrap();
    for (name, expected) in [
        ("locked", "passphrase"),
        ("open", "0644"),
        ("missing", "cannot be read"),
        ("user_key.pub", "public key"),
        (".", "not a file"),
    ] {
        let config = SshConfig {
            private_key_file: sshd.path(name),
            ..sshd.config()
        };
        let message = SshTransport::new(config).unwrap_err().to_string();
        assert!(
            message.contains(expected) && message.contains("private_key_file"),
            "{message}"
        );
    }
}

#[test]
fn known_hosts_files_that_cannot_be_used_are_refused_at_start() {
    let sshd = Sshd::start();
    fs::write(sshd.path("markers"), "@cert-authority * ssh-ed25519 AAAA\n").unwrap();
    for (name, expected) in [
        ("missing", "cannot be read"),
        ("markers", "@cert-authority"),
    ] {
        let config = SshConfig {
            known_hosts_file: sshd.path(name),
            ..sshd.config()
        };
        let message = SshTransport::new(config).unwrap_err().to_string();
        assert!(
            message.contains(expected) && message.contains("known_hosts_file"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn a_port_that_nobody_listens_on_is_named() {
    let sshd = Sshd::start();
    let error = ask_once(
        SshConfig {
            port: 1,
            ..sshd.config()
        },
        "ok",
    )
    .await
    .unwrap_err();
    assert!(
        matches!(error, TransportError::Connect { port: 1, .. }),
        "{error:?}"
    );
    assert!(!error.may_have_started());
}

#[tokio::test]
async fn a_port_that_is_not_sshs_ends_by_its_deadline() {
    let sshd = Sshd::start();
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = mute.local_addr().unwrap().port();
    let transport = SshTransport::new(SshConfig {
        port,
        ..sshd.config()
    })
    .unwrap();
    let start = Instant::now();
    let error = transport
        .call(loopback(), &info("ok"), Duration::from_secs(1))
        .await
        .unwrap_err();
    assert!(
        start.elapsed() < Duration::from_secs(3),
        "{:?}",
        start.elapsed()
    );
    assert!(!error.may_have_started(), "{error:?}");
}

#[tokio::test]
async fn a_command_that_hangs_ends_by_its_deadline_with_its_outcome_unknown() {
    let sshd = Sshd::start();
    let timeouts = Timeouts {
        info: Duration::from_secs(1),
        ..Timeouts::default()
    };
    let client = Blockd::new(SshTransport::new(sshd.config()).unwrap(), timeouts);
    let start = Instant::now();
    let error = client
        .info(loopback(), &"hv/hang".parse().unwrap())
        .await
        .unwrap_err();
    assert!(
        start.elapsed() < Duration::from_secs(3),
        "{:?}",
        start.elapsed()
    );
    assert!(
        matches!(
            &error,
            Error::Transport(TransportError::Deadline { started: true, .. })
        ),
        "{error:?}"
    );
    assert!(error.outcome_unknown());
}

#[tokio::test]
async fn a_connection_cut_midway_leaves_the_outcome_unknown() {
    let sshd = Sshd::start();
    let proxy = Proxy::to(sshd.port);
    sshd.knows(proxy.port);
    let transport = SshTransport::new(SshConfig {
        port: proxy.port,
        ..sshd.config()
    })
    .unwrap();
    let call = tokio::spawn({
        let transport = transport.clone();
        async move { ask(&transport, "hang").await }
    });
    tokio::time::sleep(Duration::from_millis(800)).await;
    proxy.cut();
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(error, TransportError::Lost { .. }), "{error:?}");
    assert!(error.may_have_started());
    assert_eq!(ask(&transport, "ok").await.unwrap().exit, 0);
}

#[tokio::test]
async fn a_network_that_goes_silent_ends_by_the_deadline() {
    let sshd = Sshd::start();
    let proxy = Proxy::to(sshd.port);
    sshd.knows(proxy.port);
    let transport = SshTransport::new(SshConfig {
        port: proxy.port,
        ..sshd.config()
    })
    .unwrap();
    ask(&transport, "ok").await.unwrap();
    proxy.go_silent();
    let start = Instant::now();
    let error = transport
        .call(loopback(), &info("ok"), Duration::from_secs(2))
        .await
        .unwrap_err();
    assert!(
        start.elapsed() < Duration::from_secs(4),
        "{:?}",
        start.elapsed()
    );
    assert!(
        !error.may_have_started(),
        "nothing can have arrived: {error:?}"
    );
}

#[tokio::test]
async fn connections_are_kept_and_replaced_when_they_died() {
    let sshd = Sshd::start();
    let proxy = Proxy::to(sshd.port);
    sshd.knows(proxy.port);
    let transport = SshTransport::new(SshConfig {
        port: proxy.port,
        ..sshd.config()
    })
    .unwrap();
    for _ in 0..3 {
        assert_eq!(ask(&transport, "fail").await.unwrap().exit, 17);
    }
    assert_eq!(proxy.accepted(), 1);
    proxy.cut();
    assert_eq!(ask(&transport, "ok").await.unwrap().exit, 0);
    assert_eq!(proxy.accepted(), 2);
}

#[tokio::test]
async fn a_long_command_does_not_hold_up_another_on_the_same_host() {
    let sshd = Sshd::start();
    let transport = SshTransport::new(sshd.config()).unwrap();
    let start = Instant::now();
    let slow = ask(&transport, "slow");
    let quick = async {
        ask(&transport, "ok").await.unwrap();
        start.elapsed()
    };
    let (slow, quick) = tokio::join!(slow, quick);
    assert_eq!(slow.unwrap().stdout, "done\n");
    assert!(quick < Duration::from_millis(900), "{quick:?}");
}

#[tokio::test]
async fn the_daemon_that_does_not_run_here_is_found_missing() {
    let sshd = Sshd::start();
    let client = Blockd::new(
        SshTransport::new(sshd.config()).unwrap(),
        Timeouts::default(),
    );
    let error = client.ping(loopback()).await.unwrap_err();
    assert!(
        matches!(&error, Error::Unavailable { reason, .. } if reason.contains("does not run")),
        "{error:?}"
    );
}
