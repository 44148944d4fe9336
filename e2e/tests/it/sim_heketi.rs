//! The heketi simulator as a program: real HTTP, real tokens, real restarts, on a model of the storage hosts.

use std::time::Duration;

use serde_json::{Value, json};

mod admission;
mod lifecycle;
mod server;

use server::{Server, Status};

/// A hosting volume as the controller asks for it.
fn hosting(name: &str, size: u64) -> Value {
    json!({
        "name": name,
        "size": size,
        "block": true,
        "durability": {"type": "replicate", "replicate": {"replica": 3}},
        "glustervolumeoptions": ["network.ping-timeout 5", "server.keepalive-time 2"],
    })
}

/// Makes a hosting volume and answers with what heketi says of it.
async fn made(server: &Server, name: &str, size: u64) -> Value {
    let location = server
        .accepted("POST", "/volumes", &hosting(name, size))
        .await;
    let ended = server.ended(&location).await;
    assert_eq!(ended.status, 303, "{ended:?}");
    server.get(&ended.location).await.json()
}

fn volume_path(info: &Value) -> String {
    format!("/volumes/{}", info["id"].as_str().expect("id"))
}

#[tokio::test]
async fn a_hosting_volume_is_made_started_with_all_its_options_and_deleted() {
    let server = Server::start().await;

    let info = made(&server, "bhv", 10).await;

    assert_eq!(info["blockinfo"], json!({"freesize": 9, "reservedsize": 1}));
    let hosts = info["mount"]["glusterfs"]["hosts"]
        .as_array()
        .expect("hosts");
    let device = info["mount"]["glusterfs"]["device"]
        .as_str()
        .expect("device");
    assert_eq!(hosts.len(), 3);
    assert_eq!(device, format!("{}:bhv", hosts[0].as_str().expect("host")));
    assert_eq!(info["bricks"].as_array().expect("bricks").len(), 3);
    let real = &server.hosts()["volumes"]["bhv"];
    let id = info["id"].as_str().expect("id");
    let options = json!([
        "group gluster-block",
        "network.ping-timeout 5",
        "server.keepalive-time 2",
        format!("user.heketi.id {id}"),
    ]);
    assert_eq!(
        (&real["kind"], &real["started"]),
        (&json!("replica 3"), &json!(true))
    );
    assert_eq!(real["options_at_start"], options);

    let location = server
        .accepted("DELETE", &volume_path(&info), &Value::Null)
        .await;
    assert_eq!(server.ended(&location).await.status, 204);
    assert_eq!(server.get(&volume_path(&info)).await.status, 404);
    let hosts = server.hosts();
    assert_eq!(hosts["volumes"], json!({}));
    assert_eq!(hosts["directories"]["10.77.1.11"], json!([]));
}

#[tokio::test]
async fn the_queue_answers_once() {
    let server = Server::start().await;
    let location = server
        .accepted("POST", "/volumes", &hosting("bhv", 1))
        .await;

    assert_eq!(server.ended(&location).await.status, 303);

    let again = server.get(&location).await;
    assert_eq!((again.status, again.body.as_str()), (404, "Id not found\n"));
}

#[tokio::test]
async fn a_volume_is_hidden_until_it_is_done() {
    let server = Server::start().await;
    server.faults(&json!({"rules": [{"at": "before:volume-start", "do": "hang"}]}));
    let location = server
        .accepted("POST", "/volumes", &hosting("bhv", 1))
        .await;
    server.holding("before:volume-start").await;

    let pending = server.get(&location).await;
    assert_eq!((pending.status, pending.pending), (200, true));
    assert_eq!(server.get("/volumes").await.json(), json!({"volumes": []}));
    let operations = server.get("/operations/pending").await.json();
    assert_eq!(
        operations["pendingoperations"][0]["type_name"],
        "create-volume"
    );
    assert_eq!(
        operations["pendingoperations"][0]["sub_status"],
        "in-flight"
    );

    server.faults(&json!({}));
    assert_eq!(server.ended(&location).await.status, 303);
    assert_eq!(
        server.get("/volumes").await.json()["volumes"]
            .as_array()
            .expect("ids")
            .len(),
        1
    );
}

#[tokio::test]
async fn a_name_in_use_and_a_cluster_without_room_are_errors_500() {
    let server = Server::start().await;
    made(&server, "bhv", 1).await;

    let taken = server.send("POST", "/volumes", &hosting("bhv", 1)).await;
    let large = server.send("POST", "/volumes", &hosting("other", 21)).await;

    let text = "Failed to allocate new volume: Volume name 'bhv' already in use\n";
    assert_eq!((taken.status, taken.body.as_str()), (500, text));
    let text = "Failed to allocate new volume: No space\n";
    assert_eq!((large.status, large.body.as_str()), (500, text));
}

#[tokio::test]
async fn a_locked_hosting_volume_says_so_and_can_be_unlocked() {
    let server = Server::start().await;
    let info = made(&server, "bhv", 1).await;
    let path = format!("{}/block-restriction", volume_path(&info));

    for (restriction, seen) in [("locked", json!("locked")), ("", Value::Null)] {
        let location = server
            .accepted("POST", &path, &json!({"restriction": restriction}))
            .await;
        let ended = server.ended(&location).await;
        assert_eq!(
            (ended.status, ended.location.as_str()),
            (303, volume_path(&info).as_str())
        );
        let info = server.get(&volume_path(&info)).await.json();
        assert_eq!(info["blockinfo"]["restriction"], seen);
    }
    let refused = server
        .send("POST", &path, &json!({"restriction": "locked-by-update"}))
        .await;
    assert_eq!(refused.status, 400);
}

#[tokio::test]
async fn an_expand_counts_its_own_two_percent() {
    let server = Server::start().await;
    let info = made(&server, "bhv", 10).await;
    let path = format!("{}/expand", volume_path(&info));

    let location = server
        .accepted("POST", &path, &json!({"expand_size": 1}))
        .await;
    assert_eq!(server.ended(&location).await.status, 303);

    let info = server.get(&volume_path(&info)).await.json();
    assert_eq!(
        (&info["size"], &info["blockinfo"]["freesize"]),
        (&json!(11), &json!(9))
    );
    assert_eq!(
        server.hosts()["volumes"]["bhv"]["bricks"]
            .as_array()
            .expect("bricks")
            .len(),
        6
    );
}

#[tokio::test]
async fn what_is_not_simulated_says_so() {
    let server = Server::start().await;

    assert_eq!(
        server.get("/blockvolumes").await.json(),
        json!({"blockvolumes": []})
    );
    let refused = server
        .send("POST", "/blockvolumes", &json!({"size": 1}))
        .await;
    assert_eq!(
        (refused.status, refused.body.as_str()),
        (501, "not simulated\n")
    );
}

/// Long enough for anything on a busy machine, short enough to end a test that waits in vain.
const PATIENCE: Duration = Duration::from_secs(20);
