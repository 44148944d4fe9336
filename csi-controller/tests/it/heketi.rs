//! The heketi backend against a small, strict server: tokens, the one-shot queue, plain-text errors, marking and adoption.

use std::time::Duration;

use blockd_client::vocabulary::Capacity;
use csi_controller::hosting::heketi::{Connection, Heketi, Patience};
use csi_controller::hosting::{HostingError, HostingVolumes, Making};

use crate::heketi_server::{KEY, Server, Volume};

const GIB: u64 = 1 << 30;

fn client(server: &Server, key: &str) -> Heketi {
    let connection = Connection {
        url: server.url.parse().unwrap(),
        key: key.into(),
        ca: None,
        request_timeout: Duration::from_secs(5),
        patience: Patience {
            repetitions: 3,
            pause: Duration::from_millis(5),
            poll: Duration::from_millis(5),
            operation: Duration::from_secs(5),
        },
    };
    let making = Making {
        prefix: "gbcsi".to_owned(),
        options: vec!["group gluster-block".to_owned()],
    };
    Heketi::new(connection, making).unwrap()
}

fn ours(restriction: &str) -> Volume {
    Volume {
        name: format!("gbcsi_{}", "0".repeat(32)),
        block: true,
        restriction: restriction.to_owned(),
        ..Volume::default()
    }
}

#[tokio::test]
async fn a_hosting_volume_is_made_marked_and_listed() {
    let server = Server::start().await;
    let heketi = client(&server, KEY);
    let made = heketi
        .create(Capacity::from_bytes(6 * GIB), &[])
        .await
        .unwrap();
    assert_eq!(made.size, Capacity::from_bytes(6 * GIB));
    assert_eq!(made.hosts.len(), 3);
    assert!(made.name.as_str().starts_with("gbcsi_"));
    let volume = server.volumes().remove(0);
    assert_eq!(volume.restriction, "locked");
    assert!(volume.block);
    assert_eq!(volume.body["durability"]["replicate"]["replica"], 3);
    assert_eq!(volume.body["durability"]["type"], "replicate");
    assert_eq!(
        volume.body["glustervolumeoptions"][0],
        "group gluster-block"
    );
    assert_eq!(heketi.list().await.unwrap(), [made]);
}

#[tokio::test]
async fn names_are_never_used_twice() {
    let server = Server::start().await;
    let heketi = client(&server, KEY);
    let size = Capacity::from_bytes(GIB);
    let one = heketi.create(size, &[]).await.unwrap();
    let two = heketi.create(size, &[]).await.unwrap();
    assert_ne!(one.name, two.name);
}

#[tokio::test]
async fn a_volume_made_by_an_attempt_that_died_before_marking_it_is_adopted() {
    let server = Server::start().await;
    server.add(ours(""));
    let heketi = client(&server, KEY);
    assert_eq!(heketi.list().await.unwrap().len(), 1);
    assert_eq!(server.volumes()[0].restriction, "locked");
}

#[tokio::test]
async fn other_peoples_volumes_are_left_alone() {
    let server = Server::start().await;
    server.add(Volume {
        name: "vol_theirs".to_owned(),
        ..ours("")
    });
    server.add(Volume {
        name: "vol_locked".to_owned(),
        ..ours("locked")
    });
    server.add(Volume {
        block: false,
        ..ours("")
    });
    server.add(Volume {
        heketi_blocks: vec!["1".to_owned()],
        ..ours("")
    });
    let heketi = client(&server, KEY);
    for _ in 0..2 {
        assert_eq!(heketi.list().await.unwrap(), []);
    }
    let restrictions: Vec<String> = server
        .volumes()
        .into_iter()
        .map(|volume| volume.restriction)
        .collect();
    assert_eq!(restrictions, ["", "locked", "", ""]);
}

#[tokio::test]
async fn a_pending_volume_and_one_that_went_meanwhile_are_no_errors() {
    let server = Server::start().await;
    server.add(Volume {
        vanishing: true,
        ..ours("locked")
    });
    assert_eq!(client(&server, KEY).list().await.unwrap(), []);
}

#[tokio::test]
async fn a_restart_of_heketi_while_it_makes_a_volume_is_seen_through() {
    let server = Server::start().await;
    let heketi = client(&server, KEY);
    server.lose_next_queue_entry();
    let made = heketi.create(Capacity::from_bytes(GIB), &[]).await.unwrap();
    assert_eq!(server.volumes().len(), 1);
    assert_eq!(server.volumes()[0].name, made.name.as_str());
    assert_eq!(server.volumes()[0].restriction, "locked");
}

#[tokio::test]
async fn busy_and_maintenance_are_waited_for_and_then_reported() {
    let server = Server::start().await;
    let heketi = client(&server, KEY);
    server.say_next(429, "Server busy. Retry operation later.\n", 2);
    heketi.list().await.unwrap();
    server.say_next(503, "Service disabled for maintenance\n", 100);
    let error = heketi.list().await.unwrap_err();
    assert!(matches!(error, HostingError::Busy { .. }), "{error}");
    assert!(error.to_string().contains("maintenance"), "{error}");
}

#[tokio::test]
async fn failures_keep_the_words_of_heketi_even_when_it_has_none() {
    let server = Server::start().await;
    let heketi = client(&server, KEY);
    let size = Capacity::from_bytes(GIB);
    server.say_next(500, "Failed to allocate new volume: No space\n", 1);
    let error = heketi.create(size, &[]).await.unwrap_err();
    assert!(matches!(error, HostingError::NoSpace { .. }), "{error}");
    server.say_next(500, "", 1);
    let error = heketi.create(size, &[]).await.unwrap_err();
    assert!(error.to_string().contains("status 500"), "{error}");
    server.fail_next_operation("Unable to execute command on s1: \n");
    let error = heketi.create(size, &[]).await.unwrap_err();
    assert!(error.to_string().contains("command on s1"), "{error}");
    assert!(server.volumes().is_empty());
}

#[tokio::test]
async fn a_wrong_key_and_a_wrong_address_name_their_settings() {
    let server = Server::start().await;
    let error = client(&server, "wrong").list().await.unwrap_err();
    assert!(error.to_string().contains("--heketi-key-file"), "{error}");
    let gone = server.url.clone();
    drop(server);
    let nobody = Server::at(gone);
    let error = client(&nobody, KEY).list().await.unwrap_err();
    assert!(error.to_string().contains("--heketi-url"), "{error}");
}

#[tokio::test]
async fn room_is_told_per_cluster_from_below() {
    let server = Server::start().await;
    let rooms = client(&server, KEY).room(&[]).await.unwrap();
    assert_eq!(rooms.len(), 1);
    assert_eq!(rooms[0].hosts.len(), 3);
    // The smallest of three devices has 20 GiB free, and heketi needs some of it.
    assert_eq!(rooms[0].largest, Capacity::from_bytes(19 * GIB));
    let other = "ffff".parse().unwrap();
    assert_eq!(client(&server, KEY).room(&[other]).await.unwrap(), []);
}
