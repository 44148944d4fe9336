//! The gd2 simulator as a program: real HTTP, real tokens, real restarts, on a model of the storage hosts; and the
//! controller's own client against it.

use std::collections::BTreeSet;
use std::time::Duration;

use blockd_client::vocabulary::Capacity;
use csi_controller::hosting::{HostingError, HostingVolumes as _};
use serde_json::{Value, json};

mod server;

use server::Server;

const PATIENCE: Duration = Duration::from_secs(20);
const GIB: u64 = 1 << 30;
const LOCK: &str = "could not obtain lock: another conflicting transaction may be in progress";

fn wanted(name: &str, bytes: u64) -> Value {
    json!({
        "name": name,
        "size": bytes,
        "replica": 3,
        "provisioner": "lvm",
        "metadata": {"block-hosting": "yes", "who": "me"},
        "options": {"profile.gluster-block": "on"},
        "allow-advanced-options": true,
    })
}

async fn free(server: &Server) -> Vec<u64> {
    let devices = server.get("/v1/devices").await.json();
    let devices = devices.as_array().expect("devices").clone();
    devices
        .iter()
        .filter_map(|device| device["free-size"].as_u64())
        .collect()
}

// reference §4.2
#[tokio::test]
async fn a_volume_is_made_unstarted_started_stopped_and_deleted() {
    let server = Server::start().await;
    let made = server.send("POST", "/v1/volumes", &wanted("v", GIB)).await;
    assert_eq!(made.status, 201, "{made:?}");
    let info = made.json();
    assert_eq!(
        (&info["state"], &info["capacity"]),
        (&json!("Created"), &json!(GIB))
    );
    let bricks = info["subvols"][0]["bricks"].as_array().expect("bricks");
    let peers: BTreeSet<&str> = bricks
        .iter()
        .filter_map(|brick| brick["peer-id"].as_str())
        .collect();
    assert_eq!(peers.len(), 3);
    assert!(
        !server.hosts()["volumes"]["v"]["started"]
            .as_bool()
            .expect("a flag")
    );
    assert!(free(&server).await.iter().all(|&free| free < 19 * GIB));

    let start = || server.send("POST", "/v1/volumes/v/start", &Value::Null);
    assert_eq!(start().await.json()["state"], "Started");
    let again = start().await;
    assert_eq!(
        (again.status, again.words().as_str()),
        (400, "volume already started")
    );
    let real = &server.hosts()["volumes"]["v"];
    let options = real["options_at_start"][0].as_str().expect("options");
    assert!(
        options.contains("features.shard off") && options.contains("user.cifs off"),
        "{options}"
    );

    let delete = || server.send("DELETE", "/v1/volumes/v", &Value::Null);
    let refused = delete().await;
    assert_eq!(
        refused.words(),
        "volume must be in stopped state before deleting"
    );
    let stop = || server.send("POST", "/v1/volumes/v/stop", &Value::Null);
    assert_eq!(stop().await.json()["state"], "Stopped");
    assert_eq!(stop().await.words(), "volume already stopped");
    assert_eq!(delete().await.status, 204);
    assert_eq!(delete().await.status, 404);
    assert_eq!(free(&server).await, [20 * GIB; 3]);
    assert_eq!(server.hosts()["volumes"], json!({}));
    assert_eq!(server.hosts()["directories"]["10.77.1.11"], json!([]));
}

// reference §4.1
#[tokio::test]
async fn tokens_are_checked_and_every_answer_says_of_which_cluster_it_is() {
    let server = Server::start().await;
    let bare = server
        .ask("GET", "/v1/peers", &Value::Null, None)
        .await
        .expect("an answer");
    assert_eq!(
        (bare.status, bare.words().as_str()),
        (401, "'Authorization' header is required")
    );
    assert_eq!(bare.cluster.len(), 36);
    let other = e2e::gd2::token(server::SECRET, "GET", "/v1/volumes").expect("token");
    let said = server
        .ask("GET", "/v1/peers", &Value::Null, Some(&other))
        .await
        .expect("an answer");
    assert_eq!(said.words(), "invalid qsh claim in token");
    let foreign = e2e::gd2::token("another", "GET", "/v1/peers").expect("token");
    let said = server
        .ask("GET", "/v1/peers", &Value::Null, Some(&foreign))
        .await
        .expect("an answer");
    assert_eq!(said.words(), "signature is invalid");
    let ping = server
        .ask("GET", "/ping", &Value::Null, None)
        .await
        .expect("an answer");
    assert_eq!(ping.status, 200);
    let lost = server.get("/v1/nothing").await;
    assert_eq!((lost.status, lost.body.trim()), (404, "404 page not found"));
    assert_eq!(
        server.send("PUT", "/v1/volumes", &Value::Null).await.status,
        405
    );
}

// reference §4.2: rules, and the limit of 4 KB at create and at edit
#[tokio::test]
async fn each_rule_has_its_words() {
    let server = Server::start().await;
    let create = async |key: &str, value: Value| {
        let mut body = wanted("v", GIB);
        if let Some(place) = body.pointer_mut(key) {
            *place = value;
        }
        let said = server.send("POST", "/v1/volumes", &body).await;
        (
            said.status,
            if said.status < 300 {
                String::new()
            } else {
                said.words()
            },
        )
    };
    let no_space = "no space available or all the devices are not registered";
    let no_devices = "no devices registered or available for allocating bricks";
    for (key, value, status, words) in [
        ("/name", json!("a/b"), 400, "invalid volume name"),
        (
            "/size",
            json!(1),
            400,
            "invalid Volume Size, Minimum size required is 20971520",
        ),
        ("/size", json!(0), 400, "brick list is empty"),
        (
            "/metadata/who",
            json!("y".repeat(4096)),
            400,
            "metadata size exceeds max allowed size of 4KB",
        ),
        ("/replica", json!(4), 500, "invalid Replica Count"),
        (
            "/options",
            json!({"profile.default.x": "on"}),
            400,
            "reserved group profile",
        ),
        (
            "/options",
            json!({"group": "gluster-block"}),
            400,
            "option not found: group",
        ),
        ("/size", json!(20 * GIB), 500, no_space),
        ("/provisioner", json!("loop"), 500, no_devices),
    ] {
        assert_eq!(
            create(key, value).await,
            (status, words.to_owned()),
            "{key}"
        );
    }
    assert_eq!(create("", wanted("v", GIB)).await.0, 201);
    let again = create("", wanted("v", GIB)).await;
    assert_eq!(again, (400, "volume already exists".to_owned()));

    let edit = async |metadata: Value| {
        let body = json!({"metadata": metadata});
        server.send("POST", "/v1/volumes/v/edit", &body).await
    };
    assert_eq!(
        edit(json!({"block-vol:a": "1"})).await.json()["metadata"]["block-vol:a"],
        "1"
    );
    let said = edit(json!({"_x": "1"})).await;
    assert_eq!(
        said.words(),
        "key names starting with '_' are restricted in metadata field"
    );
    let half = json!({"a": "y".repeat(2100)});
    assert_eq!(edit(half).await.status, 200);
    let said = edit(json!({"b": "y".repeat(2100)})).await;
    assert_eq!(
        said.words(),
        "metadata size exceeds max allowed size of 4KB"
    );
}

#[tokio::test]
async fn lists_are_filtered_by_metadata() {
    let server = Server::start().await;
    server.send("POST", "/v1/volumes", &wanted("v", GIB)).await;
    for (query, found) in [
        ("", 1),
        ("?key=who", 1),
        ("?key=who&value=me", 1),
        ("?key=who&value=you", 0),
        ("?value=me", 1),
        ("?key=nobody", 0),
    ] {
        let list = server.get(&format!("/v1/volumes{query}")).await.json();
        assert_eq!(list.as_array().expect("a list").len(), found, "{query}");
    }
}

// reference §4.1: 409 after the lock time-out, nothing begun
#[tokio::test]
async fn a_transaction_that_hangs_locks_its_volume_and_no_other() {
    let server = Server::start_with(&["--lock-timeout", "200"]).await;
    server.send("POST", "/v1/volumes", &wanted("v", GIB)).await;
    server.faults(&json!({"rules": [{"at": "before:volume-start", "do": "hang"}]}));
    let path = "/v1/volumes/v/start";
    let hanging = server.send("POST", path, &Value::Null);
    let others = async {
        server.holding("before:volume-start").await;
        let said = server.send("POST", path, &Value::Null).await;
        assert_eq!((said.status, said.words().as_str()), (409, LOCK));
        assert_eq!(
            server
                .send("POST", "/v1/volumes", &wanted("w", GIB))
                .await
                .status,
            201
        );
        server.faults(&json!({}));
    };
    let (started, ()) = tokio::join!(hanging, others);
    assert_eq!(started.json()["state"], "Started");
}

#[tokio::test]
async fn a_step_that_fails_is_undone_and_says_where() {
    let server = Server::start().await;
    for step in [
        "prepare-bricks",
        "volume-create",
        "volume-set",
        "store-volume",
    ] {
        server.faults(
            &json!({"rules": [{"at": format!("before:{step}"), "do": "fail", "text": "no luck"}]}),
        );
        let said = server.send("POST", "/v1/volumes", &wanted("v", GIB)).await;
        let error = &said.json()["errors"][0];
        assert_eq!((said.status, &error["code"]), (500, &json!(2)), "{step}");
        assert_eq!(
            (&error["fields"]["step"], &error["fields"]["error"]),
            (&json!(step), &json!("no luck"))
        );
        assert_eq!(server.get("/v1/volumes/v").await.status, 404, "{step}");
        assert_eq!(free(&server).await, [20 * GIB; 3], "{step}");
        let hosts = server.hosts();
        assert_eq!(
            (&hosts["volumes"], &hosts["directories"]["10.77.1.11"]),
            (&json!({}), &json!([])),
            "{step}"
        );
    }
}

#[tokio::test]
async fn nothing_begins_while_a_peer_is_down() {
    let server = Server::start().await;
    server.send("POST", "/v1/volumes", &wanted("v", GIB)).await;
    server.faults(&json!({"down": ["10.77.1.12"]}));
    let said = server
        .send("POST", "/v1/volumes/v/start", &Value::Null)
        .await;
    assert_eq!(
        (said.status, said.words().as_str()),
        (500, "probably some of the nodes are down")
    );
    let said = server.send("POST", "/v1/volumes", &wanted("w", GIB)).await;
    assert_eq!(
        said.words(),
        "no space available or all the devices are not registered"
    );
    let peers = server.get("/v1/peers").await.json();
    let online = |host: &str| {
        let mut all = peers.as_array().expect("peers").iter();
        all.find(|peer| peer["name"] == host)
            .map(|peer| peer["online"].clone())
    };
    assert_eq!(online("10.77.1.12"), Some(json!(false)));
    assert_eq!(online("10.77.1.11"), Some(json!(true)));
}

#[tokio::test]
async fn the_state_survives_a_kill() {
    let mut server = Server::start().await;
    server.send("POST", "/v1/volumes", &wanted("v", GIB)).await;
    let before = (server.get("/v1/volumes").await.body, free(&server).await);
    server.kill();
    server.begin().await;
    assert_eq!(
        (server.get("/v1/volumes").await.body, free(&server).await),
        before
    );
}

// C6
#[tokio::test]
async fn the_controller_makes_marks_and_lists_hosting_volumes() {
    let server = Server::start().await;
    server
        .send("POST", "/v1/volumes", &wanted("foreign", GIB))
        .await;
    let gd2 = server.client();
    let size = Capacity::from_bytes(2 * GIB);
    let made = gd2.create(size, &[]).await.expect("a hosting volume");
    assert_eq!((made.size, made.hosts.len()), (size, 3));
    assert_eq!(
        gd2.list().await.expect("a list"),
        std::slice::from_ref(&made)
    );
    let real = &server.hosts()["volumes"][made.name.as_str()];
    let options = real["options_at_start"][0].as_str().expect("options");
    assert!(options.contains("cluster.self-heal-daemon on"), "{options}");
    assert!(options.contains("performance.nl-cache off"), "{options}");
    let room = gd2.room(&[]).await.expect("room").remove(0);
    assert!(
        room.largest < Capacity::from_bytes(18 * GIB)
            && room.largest > Capacity::from_bytes(16 * GIB)
    );
    let fits = gd2.create(room.largest, &[]).await;
    assert!(fits.is_ok(), "what is certain is certain: {fits:?}");
}

// reference §4.1: answers end, work does not; what was begun is never begun again
#[tokio::test]
async fn the_controller_finds_what_an_answer_did_not_say() {
    let slow = ["--write-timeout", "200"];
    let server = Server::start_with(&slow).await;
    for faults in [
        json!({"at": "request", "do": "lose", "method": "POST", "path": "/v1/volumes"}),
        // Too slow for its own answer.
        json!({"at": "before:volume-set", "do": "delay", "millis": 400}),
        json!({"at": "request", "do": "lose", "method": "POST", "path": "/v1/volumes/gbcsi"}),
    ] {
        let before = server
            .get("/v1/volumes")
            .await
            .json()
            .as_array()
            .map_or(0, Vec::len);
        server.faults(&json!({"rules": [faults]}));
        let size = Capacity::from_bytes(GIB);
        let made = server
            .client()
            .create(size, &[])
            .await
            .expect("a hosting volume");
        let volumes = server.get("/v1/volumes").await.json();
        assert_eq!(
            volumes.as_array().map_or(0, Vec::len),
            before + 1,
            "{volumes}"
        );
        let started = server
            .get(&format!("/v1/volumes/{}", made.name))
            .await
            .json();
        assert_eq!(started["state"], "Started");
    }
}

// reference §6.3 CSI #86
#[tokio::test]
async fn the_controller_finishes_what_a_daemon_that_died_left_unstarted() {
    let mut server = Server::start().await;
    server.faults(&json!({"rules": [{"at": "before:volume-start", "do": "kill"}]}));
    let size = Capacity::from_bytes(GIB);
    let error = server
        .client()
        .create(size, &[])
        .await
        .expect_err("it died");
    assert!(matches!(error, HostingError::Unknown { .. }), "{error}");
    server.kill();
    server.begin().await;
    let volumes = server.client().list().await.expect("a list");
    assert_eq!(volumes.len(), 1);
    let path = format!("/v1/volumes/{}", volumes[0].name);
    assert_eq!(server.get(&path).await.json()["state"], "Started");
}

#[tokio::test]
async fn the_controller_tells_locks_failures_and_dead_peers_apart() {
    let server = Server::start().await;
    let gd2 = server.client();
    let size = Capacity::from_bytes(GIB);
    let create = async |rule: Value| {
        server.faults(&rule);
        gd2.create(size, &[]).await.expect_err("a fault")
    };
    let post = |status: u16, times: u64| {
        json!({"rules": [{"at": "request", "do": "fail", "status": status, "times": times,
            "method": "POST", "path": "/v1/volumes"}]})
    };
    let error = create(post(409, 9)).await;
    assert!(matches!(error, HostingError::Busy { .. }), "{error}");
    let error =
        create(json!({"rules": [{"at": "before:volume-create", "do": "fail", "text": "no luck"}]}))
            .await;
    assert!(error.to_string().contains("no luck"), "{error}");
    assert!(matches!(error, HostingError::Refused { .. }), "{error}");
    let error = create(json!({"down": ["10.77.1.13"]})).await;
    assert!(matches!(error, HostingError::NoSpace { .. }), "{error}");
    server.faults(&post(409, 2));
    gd2.create(size, &[])
        .await
        .expect("a hosting volume in the end");
    assert_eq!(gd2.list().await.expect("a list").len(), 1);
}
