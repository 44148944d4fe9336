//! csi-sanity against the real drivers, run in a node guest so that its paths are the node's.

use std::net::SocketAddr;

use super::*;

/// Runs csi-sanity with volumes of that access type; everything that is advertised must pass.
async fn passes(access: &str) {
    let system = system().await;
    let sanity = settings::cache().join("tools/bin/csi-sanity");
    assert!(
        sanity.is_file(),
        "{} is missing; `make tools` installs it",
        sanity.display()
    );
    let share = system.lab().share();
    std::fs::copy(&sanity, share.join("csi-sanity")).expect("copy");
    std::fs::write(share.join("parameters.yaml"), "prealloc: \"no\"\n").expect("parameters");
    // The controller's socket is on this machine: a port of the lab's network leads to it.
    let address: SocketAddr = "10.77.1.1:10100".parse().expect("address");
    let socket = system.controller_socket();
    let relay = system
        .lab()
        .program("socat")
        .args([format!(
            "TCP-LISTEN:{},bind={},fork,reuseaddr",
            address.port(),
            address.ip()
        )])
        .args([format!("UNIX-CONNECT:{}", socket.display())])
        .background(&system.lab().run_dir().join("relay.log"))
        .expect("socat");
    let script = format!(
        "rm -rf /tmp/sanity && mkdir /tmp/sanity && /lab/share/csi-sanity --csi.endpoint=unix:///run/csi/csi.sock \
         --csi.controllerendpoint=dns:///{address} --csi.mountdir=/tmp/sanity/mount --csi.stagingdir=/tmp/sanity/stage \
         --csi.testvolumesize=335544320 --csi.testvolumeexpandsize=402653184 --csi.testvolumeaccesstype={access} \
         --csi.testvolumeparameters=/lab/share/parameters.yaml --ginkgo.no-color > /tmp/sanity.log 2>&1; \
         code=$?; grep -E '^(Ran|PASS|FAIL|SUCCESS|Summarizing)|\\[Fail\\]|\\[FAIL\\]' /tmp/sanity.log; exit $code"
    );
    let guest = system.lab().guest("n1").expect("guest").clone();
    let outcome = guest
        .exec_within(Duration::from_mins(15), ["sh", "-c", &script])
        .await
        .expect("it ends");
    if outcome.code != 0 {
        let log = guest
            .run("tail -c 20000 /tmp/sanity.log")
            .await
            .expect("log");
        panic!("csi-sanity failed ({access}):\n{}\n{log}", outcome.stdout);
    }
    eprintln!("{}", outcome.stdout);
    drop(relay);
    clean(system).await;
}

#[tokio::test]
async fn csi_sanity_passes_with_mounted_volumes() {
    passes("mount").await;
}

#[tokio::test]
async fn csi_sanity_passes_with_raw_block_volumes() {
    passes("block").await;
}
