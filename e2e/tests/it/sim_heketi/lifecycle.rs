//! What is left when something goes wrong, and what cleans it up.

use serde_json::{Value, json};

use super::server::{Server, token};
use super::{hosting, made, volume_path};

/// Makes a cluster where the next create is cut short by `rule` and a restart.
async fn after_a_death(rule: &Value) -> (Server, String) {
    let mut server = Server::start_with(&["--cleaner-first", "0"]).await;
    server.faults(&json!({ "rules": [rule] }));
    let location = server
        .accepted("POST", "/volumes", &hosting("bhv", 1))
        .await;
    server.died().await;
    server.begin().await;
    (server, location)
}

fn free_space(server: &Server) -> Vec<u64> {
    let database = server.database();
    let devices = database["devices"].as_object().expect("devices");
    devices
        .values()
        .map(|device| device["storage"]["free"].as_u64().expect("free"))
        .collect()
}

#[tokio::test]
async fn a_restart_forgets_the_queue_and_leaves_a_stale_hidden_volume_that_cleanup_removes() {
    let (server, location) =
        after_a_death(&json!({"at": "after:volume-create", "do": "kill"})).await;

    assert_eq!(server.get(&location).await.status, 404);
    assert_eq!(server.get("/volumes").await.json(), json!({"volumes": []}));
    assert_eq!(server.get("/operations").await.json()["stale"], 1);
    assert!(
        server.hosts()["volumes"]["bhv"].is_object(),
        "the volume is really there"
    );
    let again = server.send("POST", "/volumes", &hosting("bhv", 1)).await;
    assert!(again.body.contains("already in use"), "{again:?}");

    let location = server
        .accepted("POST", "/operations/pending/cleanup", &json!({}))
        .await;
    assert_eq!(server.ended(&location).await.status, 204);

    assert_eq!(server.get("/operations").await.json()["total"], 0);
    assert_eq!(server.hosts()["volumes"], json!({}));
    made(&server, "bhv", 1).await;
}

#[tokio::test]
async fn the_background_cleaner_does_the_same_by_itself() {
    let (mut server, _) = after_a_death(&json!({"at": "before:volume-start", "do": "kill"})).await;
    server.kill();
    let before = server.database();
    assert_eq!(
        before["operations"].as_object().expect("operations").len(),
        1
    );
    let mut server = server.with_flags(&["--cleaner-first", "1"]);

    server.begin().await;

    server
        .until(|server| server.database()["operations"] == json!({}))
        .await;
    assert_eq!(server.hosts()["volumes"], json!({}));
}

#[tokio::test]
async fn a_create_that_fails_is_undone_and_its_space_comes_back() {
    let server = Server::start().await;
    let before = free_space(&server);
    let text = "volume start: bhv: failed: Commit failed";
    server.faults(&json!({"rules": [{"at": "before:volume-start", "do": "fail", "text": text}]}));

    let location = server
        .accepted("POST", "/volumes", &hosting("bhv", 1))
        .await;
    let ended = server.ended(&location).await;

    assert_eq!((ended.status, ended.body.trim()), (500, text));
    assert_eq!(free_space(&server), before);
    assert_eq!(server.hosts()["volumes"], json!({}));
}

#[tokio::test]
async fn a_create_is_tried_again_as_often_as_configured() {
    let server = Server::start_with(&["--create-retries", "1"]).await;
    server.faults(&json!({"rules": [{"at": "before:volume-start", "do": "fail", "text": "no"}]}));

    assert_eq!(made(&server, "bhv", 1).await["name"], "bhv");
}

#[tokio::test]
async fn a_create_whose_undoing_fails_keeps_its_space_and_stays_hidden() {
    let server = Server::start().await;
    let before = free_space(&server);
    server.faults(&json!({"rules": [
        {"at": "before:volume-set", "do": "fail", "text": "no"},
        {"at": "before:rollback", "do": "fail", "text": "no"},
    ]}));

    let location = server
        .accepted("POST", "/volumes", &hosting("bhv", 1))
        .await;
    assert_eq!(server.ended(&location).await.status, 500);

    assert_ne!(free_space(&server), before);
    assert_eq!(server.get("/volumes").await.json(), json!({"volumes": []}));
    assert_eq!(server.get("/operations").await.json()["failed"], 1);
}

#[tokio::test]
async fn a_delete_that_fails_shows_the_volume_again_and_a_second_one_helps() {
    let server = Server::start().await;
    let info = made(&server, "bhv", 1).await;
    let down = json!(["10.77.1.11", "10.77.1.12", "10.77.1.13"]);
    server.faults(&json!({ "down": down }));

    let location = server
        .accepted("DELETE", &volume_path(&info), &Value::Null)
        .await;
    assert_eq!(server.ended(&location).await.status, 500);
    assert_eq!(server.get(&volume_path(&info)).await.status, 200);

    server.faults(&json!({}));
    let location = server
        .accepted("DELETE", &volume_path(&info), &Value::Null)
        .await;
    assert_eq!(server.ended(&location).await.status, 204);
}

#[tokio::test]
async fn a_second_delete_meets_the_conflict_text_while_the_first_runs() {
    let server = Server::start().await;
    let info = made(&server, "bhv", 1).await;
    server.faults(&json!({"rules": [{"at": "before:volume-delete", "do": "hang"}]}));
    let location = server
        .accepted("DELETE", &volume_path(&info), &Value::Null)
        .await;
    server.holding("before:volume-delete").await;

    let second = server
        .send("DELETE", &volume_path(&info), &Value::Null)
        .await;

    let text =
        "Failed to set up volume delete: The target exists, contains other items, or is in use.\n";
    assert_eq!((second.status, second.body.as_str()), (500, text));
    server.faults(&json!({}));
    assert_eq!(server.ended(&location).await.status, 204);
}

#[tokio::test]
async fn an_answer_can_be_lost_though_the_work_is_begun() {
    let server = Server::start().await;
    server.faults(&json!({"rules": [{"at": "request", "do": "lose", "method": "POST"}]}));
    let token = format!("bearer {}", token("POST", "/volumes"));

    let lost = server
        .ask("POST", "/volumes", &hosting("bhv", 1), Some(&token))
        .await;

    assert!(lost.is_err(), "{lost:?}");
    server
        .until(|server| server.database()["operations"] == json!({}))
        .await;
    assert_eq!(
        server.get("/volumes").await.json()["volumes"]
            .as_array()
            .expect("ids")
            .len(),
        1
    );
}

#[tokio::test]
async fn finished_volumes_outlive_a_restart() {
    let mut server = Server::start().await;
    let info = made(&server, "bhv", 1).await;
    server.kill();
    server.begin().await;

    assert_eq!(server.get(&volume_path(&info)).await.json(), info);
}
