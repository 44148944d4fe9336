//! heketi on the lab's storage guests: real hosting volumes, made with all their options before they start.

use e2e::heketi::Heketi;
use e2e::lab::{FAST_GLUSTER_OPTIONS, Guest, Lab, LabOptions};
use e2e::settings;
use serde_json::{Value, json};

/// The hosting volume; no other test's.
const VOLUME: &str = "heketitest";

async fn lab() -> Lab {
    if let Some(id) = settings::lab_id() {
        return Lab::attach(&id).expect("the lab is up");
    }
    let mut options = LabOptions::new(format!("hk-{}", std::process::id())).expect("options");
    options.nodes = 0;
    Lab::up(options).await.expect("a lab")
}

async fn on(guest: &Guest, script: &str) -> String {
    guest
        .run(script)
        .await
        .unwrap_or_else(|error| panic!("{script}: {error}"))
}

/// All options in one entry: gluster takes them in one transaction, and heketi passes an entry on as it is.
fn wanted() -> Value {
    let options: Vec<String> = FAST_GLUSTER_OPTIONS
        .iter()
        .map(|(key, value)| format!("{key} {value}"))
        .collect();
    json!({
        "name": VOLUME,
        "size": 1,
        "block": true,
        "durability": {"type": "replicate", "replicate": {"replica": 3}},
        "glustervolumeoptions": [options.join(" ")],
    })
}

#[tokio::test]
async fn heketi_makes_and_removes_a_real_replicated_hosting_volume() {
    let lab = lab().await;
    let first = lab.guest("s1").expect("a guest");
    let heketi = Heketi::start(&lab, "heketi-test", 8099)
        .await
        .expect("heketi");

    let volume = heketi
        .done("POST", "/volumes", &wanted())
        .await
        .expect("a volume");

    assert_eq!(volume["blockinfo"], json!({"reservedsize": 1}));
    let info = on(&first, &format!("gluster volume info {VOLUME}")).await;
    for line in [
        "Status: Started",
        "Number of Bricks: 1 x 3 = 3",
        "features.shard: on",
        "network.ping-timeout: 5",
    ] {
        assert!(info.contains(line), "{line}: {info}");
    }
    let hosts = volume["mount"]["glusterfs"]["hosts"]
        .as_array()
        .expect("hosts");
    assert_eq!(hosts.len(), 3);

    let path = format!("/volumes/{}", volume["id"].as_str().expect("an id"));
    heketi
        .done("DELETE", &path, &Value::Null)
        .await
        .expect("the volume goes");

    assert_eq!(
        heketi
            .send("GET", &path, &Value::Null)
            .await
            .expect("an answer")
            .status,
        404
    );
    let left = on(&first, "gluster volume list").await;
    assert!(!left.contains(VOLUME), "{left}");
    for guest in lab.storage() {
        let bricks = volume["bricks"].as_array().expect("bricks");
        for brick in bricks {
            let brick = brick["path"].as_str().expect("a path");
            on(guest, &format!("test ! -e {brick}")).await;
        }
    }
}
