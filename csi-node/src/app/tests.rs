//! The whole plugin on the modelled host, over its real socket.

use clap::Parser;
use proto::csi;
use proto::csi::identity_client::IdentityClient;
use proto::service::telemetry::{self, LogFormat};
use proto::testing::connect;

use super::*;
use crate::args::Args;
use crate::host::HostError;
use crate::host::fake::FakeHost;

fn config(directory: &std::path::Path) -> Config {
    let path = |name: &str| directory.join(name).display().to_string();
    Args::try_parse_from([
        "csi-node",
        "--node-name=n1",
        "--endpoint",
        &path("csi.sock"),
        "--state-dir",
        &path("state"),
        "--admin-address=127.0.0.1:0",
    ])
    .unwrap()
    .try_into()
    .unwrap()
}

#[tokio::test]
async fn the_plugin_serves_at_once_is_ready_when_its_host_is_and_stops_when_told() {
    let directory = tempfile::tempdir().unwrap();
    let host = FakeHost::new();
    host.fail("ready", u32::MAX, || HostError::NotReady {
        what: "iscsid is not running".to_owned(),
    });
    let shutdown = CancellationToken::new();
    let log = telemetry::init(LogFormat::Text, "off").unwrap();
    let config = config(directory.path());
    let socket = config.socket.clone();
    let plugin = tokio::spawn(run(config, host.clone(), log, shutdown.clone()));

    let channel = loop {
        match connect(&socket).await {
            Ok(channel) => break channel,
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    let mut identity = IdentityClient::new(channel);
    let info = identity
        .get_plugin_info(csi::GetPluginInfoRequest {})
        .await
        .unwrap();
    assert_eq!(info.into_inner().name, "gluster-block.csi.gluster.org");
    let probe = identity.probe(csi::ProbeRequest {}).await.unwrap();
    assert_eq!(probe.into_inner().ready, Some(false));

    host.heal();
    for _ in 0..1000 {
        let probe = identity.probe(csi::ProbeRequest {}).await.unwrap();
        if probe.into_inner().ready == Some(true) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let probe = identity.probe(csi::ProbeRequest {}).await.unwrap();
    assert_eq!(probe.into_inner().ready, Some(true));

    shutdown.cancel();
    drop(identity);
    plugin.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_start_with_a_wrong_setting_says_which() {
    let directory = tempfile::tempdir().unwrap();
    let mut wrong = config(directory.path());
    wrong.sealing_key_file = Some(directory.path().join("absent"));
    let error = operations(&wrong, FakeHost::new()).unwrap_err();
    assert!(
        format!("{error:#}").contains("--sealing-key-file"),
        "{error:#}"
    );
}
