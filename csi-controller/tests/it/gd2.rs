//! The gd2 backend against a small, strict server: tokens, one request per volume, what is lost, what is unfinished.
//!
//! The paragraphs named beside the tests are of `reference/heketi-gd2.md`.

use std::time::Duration;

use blockd_client::vocabulary::Capacity;
use csi_controller::hosting::gd2::{Connection, Gd2, OPTIONS, Patience};
use csi_controller::hosting::{HostingError, HostingVolumes, Making};
use proto::error::{Classify as _, ErrorKind};

use crate::gd2_server::{CLUSTER, Fault, LOCK, SECRET, Server, volume};

const GIB: u64 = 1 << 30;
const CREATE: &str = "POST /v1/volumes";

fn at(url: &str, secret: &str) -> Gd2 {
    let connection = Connection {
        url: url.parse().unwrap(),
        secret: secret.into(),
        ca: None,
        request_timeout: Duration::from_secs(5),
        patience: Patience {
            repetitions: 3,
            pause: Duration::from_millis(5),
            poll: Duration::from_millis(5),
            operation: Duration::from_millis(500),
        },
    };
    let options = OPTIONS.iter().map(|&option| option.to_owned());
    let making = Making {
        prefix: "gbcsi".to_owned(),
        options: options.chain(["a/b.c 1".to_owned()]).collect(),
    };
    Gd2::new(connection, making).unwrap()
}

fn client(server: &Server) -> Gd2 {
    at(&server.url, SECRET)
}

fn ours(digit: char) -> String {
    format!("gbcsi_{}", String::from(digit).repeat(32))
}

fn six() -> Capacity {
    Capacity::from_bytes(6 * GIB)
}

// §4.2, §4.4: made, marked and started; C6
#[tokio::test]
async fn a_hosting_volume_is_made_marked_started_and_listed() {
    let server = Server::start().await;
    let gd2 = client(&server);
    let made = gd2.create(six(), &[]).await.unwrap();
    assert_eq!(made.size, six());
    assert_eq!(made.cluster.as_str(), CLUSTER);
    let hosts: Vec<String> = made.hosts.iter().map(ToString::to_string).collect();
    assert_eq!(hosts, ["10.77.1.11", "10.77.1.12", "10.77.1.13"]);
    let volume = server.volumes().remove(0);
    assert_eq!(volume["state"], "Started");
    assert_eq!(volume["metadata"]["block-hosting"], "yes");
    let request = &volume["request"];
    assert_eq!(request["replica"], 3);
    assert_eq!(request["size"], 6 * GIB);
    assert_eq!(request["allow-advanced-options"], true);
    assert_eq!(request["options"]["profile.gluster-block"], "on");
    assert_eq!(
        request["options"]["cluster/replicate.self-heal-daemon"],
        "on"
    );
    assert_eq!(request["options"]["a/b.c"], "1");
    let keys = request["metadata"].as_object().unwrap().keys();
    assert!(keys.into_iter().all(|key| !key.starts_with('_')));
    assert_eq!(gd2.list().await.unwrap(), [made]);
}

#[tokio::test]
async fn names_are_never_used_twice() {
    let server = Server::start().await;
    let gd2 = client(&server);
    let one = gd2.create(six(), &[]).await.unwrap();
    let two = gd2.create(six(), &[]).await.unwrap();
    assert_ne!(one.name, two.name);
}

// C6
#[tokio::test]
async fn other_peoples_volumes_are_left_alone() {
    let server = Server::start().await;
    server.add(volume("vol1", "Created", "gbcsi", 6));
    server.add(volume(&ours('0'), "Created", "another", 6));
    let mut unmarked = volume(&ours('1'), "Created", "gbcsi", 6);
    unmarked["metadata"]["block-hosting"] = "no".into();
    server.add(unmarked);
    assert_eq!(client(&server).list().await.unwrap(), []);
    assert!(server.volumes().iter().all(|v| v["state"] == "Created"));
}

// §6.3 CSI #86: a created, unstarted volume is our own unfinished work
#[tokio::test]
async fn a_volume_made_by_an_attempt_that_died_before_starting_it_is_started() {
    let server = Server::start().await;
    server.add(volume(&ours('0'), "Created", "gbcsi", 6));
    let listed = client(&server).list().await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(server.volumes()[0]["state"], "Started");
}

// §6.1 H #1746: what cannot be finished is not made again and again
#[tokio::test]
async fn a_volume_that_cannot_be_started_stands_in_the_way_of_another() {
    let server = Server::start().await;
    server.add(volume(&ours('0'), "Created", "gbcsi", 6));
    let gd2 = client(&server);
    server.fail(
        "POST /v1/volumes/gbcsi",
        &Fault::Step("vol-start failed"),
        2,
    );
    assert_eq!(gd2.list().await.unwrap(), []);
    let error = gd2.create(six(), &[]).await.unwrap_err();
    assert!(error.to_string().contains("vol-start failed"), "{error}");
    assert_eq!(server.volumes().len(), 1);
    let finished = gd2.create(six(), &[]).await.unwrap();
    assert_eq!(finished.name.as_str(), ours('0'));
    assert_eq!(server.volumes().len(), 1);
}

// §6.1 GCS #11: what a person stopped stays stopped, and is not forgotten
#[tokio::test]
async fn a_stopped_volume_is_listed_and_not_started() {
    let server = Server::start().await;
    server.add(volume(&ours('0'), "Stopped", "gbcsi", 6));
    assert_eq!(client(&server).list().await.unwrap().len(), 1);
    assert_eq!(server.volumes()[0]["state"], "Stopped");
}

// §4.1: a long create may lose its answer and still complete
#[tokio::test]
async fn an_answer_that_is_lost_is_looked_up_and_the_request_never_repeated() {
    for fault in [
        Fault::Lose,
        Fault::Late(6),
        Fault::DoneAndFailed("timeout in synchronizing txn"),
        // §6.1 GCS #143: look the volume up after any 5xx
        Fault::DoneAndFailed("a txn step failed"),
        Fault::DoneAndFailed(""),
    ] {
        let server = Server::start().await;
        server.fail(CREATE, &fault, 1);
        let made = client(&server).create(six(), &[]).await.unwrap();
        let volumes = server.volumes();
        assert_eq!(volumes.len(), 1, "{fault:?}");
        assert_eq!(volumes[0]["name"], made.name.as_str(), "{fault:?}");
        assert_eq!(volumes[0]["state"], "Started", "{fault:?}");
        // One to make it and one to start it.
        assert_eq!(server.seen(CREATE), 2, "{fault:?}");
    }
}

#[tokio::test]
async fn a_volume_that_does_not_come_is_unknown_and_adopted_when_it_comes() {
    let server = Server::start().await;
    server.fail(CREATE, &Fault::Late(1000), 1);
    let gd2 = client(&server);
    let error = gd2.create(six(), &[]).await.unwrap_err();
    assert!(matches!(error, HostingError::Unknown { .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    while server.volumes().is_empty() {
        gd2.room(&[]).await.unwrap();
    }
    assert_eq!(gd2.list().await.unwrap().len(), 1);
    assert_eq!(server.volumes()[0]["state"], "Started");
}

#[tokio::test]
async fn a_start_whose_answer_is_lost_is_looked_up_too() {
    let server = Server::start().await;
    server.fail("POST /v1/volumes/gbcsi", &Fault::Lose, 1);
    client(&server).create(six(), &[]).await.unwrap();
    assert_eq!(server.volumes()[0]["state"], "Started");
}

// §4.1, §6.2 GCS #140
#[tokio::test]
async fn a_lock_is_waited_for_and_then_reported_as_not_final() {
    let server = Server::start().await;
    let gd2 = client(&server);
    server.fail(CREATE, &Fault::Say(409, LOCK), 2);
    gd2.create(six(), &[]).await.unwrap();
    server.fail(CREATE, &Fault::Say(500, LOCK), 2);
    gd2.create(six(), &[]).await.unwrap();
    assert_eq!(server.volumes().len(), 2);
    server.fail(CREATE, &Fault::Say(409, LOCK), 100);
    let error = gd2.create(six(), &[]).await.unwrap_err();
    assert!(matches!(error, HostingError::Busy { .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(server.volumes().len(), 2);
}

// §4.1: 500 for everything
#[tokio::test]
async fn failures_keep_the_words_of_gd2_and_its_request_id() {
    let server = Server::start().await;
    let gd2 = client(&server);
    server.fail(CREATE, &Fault::Step("lvcreate failed"), 1);
    let error = gd2.create(six(), &[]).await.unwrap_err();
    assert!(matches!(error, HostingError::Refused { .. }), "{error}");
    assert!(
        error.to_string().contains("lvcreate failed; request r-1"),
        "{error}"
    );
    server.fail(CREATE, &Fault::Say(500, "node p2 is probably down"), 1);
    let error = gd2.create(six(), &[]).await.unwrap_err();
    assert!(matches!(error, HostingError::PeerDown { .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let full = "no space available or all the devices are not registered";
    server.fail(CREATE, &Fault::Say(500, full), 1);
    let error = gd2.create(six(), &[]).await.unwrap_err();
    assert!(matches!(error, HostingError::NoSpace { .. }), "{error}");
    server.fail(
        CREATE,
        &Fault::Say(400, "metadata size exceeds max allowed size of 4KB"),
        1,
    );
    let error = gd2.create(six(), &[]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
    assert!(server.volumes().is_empty());
}

// §6.2 CSI #132: a clear error in place of a time-out
#[tokio::test]
async fn what_no_three_devices_can_hold_is_never_asked_for() {
    let server = Server::start().await;
    let gd2 = client(&server);
    let error = gd2
        .create(Capacity::from_bytes(21 * GIB), &[])
        .await
        .unwrap_err();
    assert!(matches!(error, HostingError::NoSpace { .. }), "{error}");
    server.take_peer_down(1);
    let error = gd2.create(six(), &[]).await.unwrap_err();
    assert!(error.to_string().contains("three zones"), "{error}");
    assert_eq!(server.seen(CREATE), 0);
}

#[tokio::test]
async fn room_is_told_from_below_for_the_one_cluster() {
    let server = Server::start().await;
    let gd2 = client(&server);
    let rooms = gd2.room(&[]).await.unwrap();
    assert_eq!(rooms.len(), 1);
    assert_eq!(rooms[0].hosts.len(), 3);
    // The third-best device has 20 GiB free, and gd2 needs some of it.
    let twenty = Capacity::from_bytes(20 * GIB);
    assert!(rooms[0].largest < twenty && rooms[0].largest > Capacity::from_bytes(19 * GIB));
    assert_eq!(gd2.room(&[CLUSTER.parse().unwrap()]).await.unwrap(), rooms);
    let other = ["ffff".parse().unwrap()];
    assert_eq!(gd2.room(&other).await.unwrap(), []);
    let error = gd2.create(six(), &other).await.unwrap_err();
    assert!(error.to_string().contains("--gd2-url"), "{error}");
}

// §4.1: a secret is of one daemon
#[tokio::test]
async fn a_wrong_secret_and_a_wrong_address_name_their_settings() {
    let server = Server::start().await;
    let error = at(&server.url, "wrong").list().await.unwrap_err();
    assert!(error.to_string().contains("--gd2-secret-file"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Unauthenticated);
    let url = server.url.clone();
    drop(server);
    let error = at(&url, SECRET).list().await.unwrap_err();
    assert!(error.to_string().contains("--gd2-url"), "{error}");
    let heketi = crate::heketi_server::Server::start().await;
    let error = at(&heketi.url, crate::heketi_server::KEY)
        .list()
        .await
        .unwrap_err();
    assert!(error.to_string().contains("--gd2-"), "{error}");
}
