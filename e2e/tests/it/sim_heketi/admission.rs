//! What gets past the door: tokens, paths, methods, the admin state, and how many at a time.

use e2e::sim::heketi::auth::request_hash;
use e2e::sim::heketi::model::now;
use serde_json::{Value, json};

use super::server::{ADMIN_KEY, Server, USER_KEY, sign};
use super::{Status, hosting};

async fn answered(server: &Server, path: &str, token: Option<&str>) -> (Status, String) {
    let said = server
        .ask("GET", path, &Value::Null, token)
        .await
        .expect("an answer");
    (said.status, said.body)
}

#[tokio::test]
async fn every_wrong_token_is_refused_and_a_used_up_path_is_not_reusable() {
    let server = Server::start().await;
    let claims = |change: &Value| {
        let mut claims = json!({"iss": "admin", "iat": now(), "exp": now() + 300});
        claims["qsh"] = json!(request_hash("GET", "/clusters"));
        let changes = change.as_object().expect("claims");
        claims
            .as_object_mut()
            .expect("claims")
            .extend(changes.clone());
        claims
    };
    let signed = |change: &Value, key: &str| format!("bearer {}", sign(&claims(change), key));
    let good = signed(&json!({}), ADMIN_KEY);
    let cases = [
        (None, 401, "Required authorization token not found"),
        (
            Some("Basic abc".to_owned()),
            400,
            "Authorization header format must be Bearer {token}",
        ),
        (
            Some(signed(&json!({}), "wrong")),
            401,
            "client and server secrets may not match",
        ),
        (
            Some(signed(&json!({"iat": now() + 200}), ADMIN_KEY)),
            401,
            "client and server clocks may differ",
        ),
        (
            Some(signed(&json!({"exp": now() - 10}), ADMIN_KEY)),
            401,
            "Token is expired by 1",
        ),
        (
            Some(signed(&json!({"iss": "root"}), ADMIN_KEY)),
            401,
            "Unknown user",
        ),
        (
            Some(signed(&json!({"qsh": "0"}), ADMIN_KEY)),
            401,
            "Invalid qsh claim in token",
        ),
        (
            Some(signed(&json!({"iss": "user"}), USER_KEY)),
            401,
            "Administrator access required",
        ),
        (Some(good.clone()), 200, "clusters"),
    ];
    for (token, status, text) in cases {
        let (answer, body) = answered(&server, "/clusters", token.as_deref()).await;
        assert!(
            answer == status && body.contains(text),
            "{token:?}: {answer} {body}"
        );
    }
    // The token of one path opens no other, not even an unknown one.
    assert_eq!(answered(&server, "/volumes", Some(&good)).await.0, 401);
    assert_eq!(answered(&server, "/nowhere", Some(&good)).await.0, 401);
}

#[tokio::test]
async fn a_users_token_opens_the_list_of_volumes_only() {
    let server = Server::start().await;
    let claims = |path: &str| json!({"iss": "user", "iat": now(), "exp": now() + 300, "qsh": request_hash("GET", path)});
    for (path, status) in [("/volumes", 200), ("/queue/abc", 401)] {
        let token = format!("Bearer {}", sign(&claims(path), USER_KEY));
        assert_eq!(
            answered(&server, path, Some(&token)).await.0,
            status,
            "{path}"
        );
    }
}

#[tokio::test]
async fn paths_and_methods_are_strict() {
    let server = Server::start().await;
    let seen = [
        ("GET", "/nowhere", 404, "Invalid path or request\n"),
        ("GET", "/volumes/not-hex", 404, "Invalid path or request\n"),
        ("GET", "/volumes/abc", 404, "Id not found\n"),
        ("DELETE", "/volumes/abc", 404, "Id not found\n"),
        ("PUT", "/volumes", 405, ""),
        ("POST", "/volumes/", 301, ""),
        ("POST", "/volumes", 422, "request unable to be parsed\n"),
    ];
    for (method, path, status, body) in seen {
        let said = server.send(method, path, &Value::Null).await;
        assert_eq!(
            (said.status, said.body.as_str()),
            (status, body),
            "{method} {path}"
        );
    }
}

#[tokio::test]
async fn hello_and_metrics_ask_for_no_token() {
    let server = Server::start().await;
    assert_eq!(
        answered(&server, "/hello", None).await,
        (200, "Hello from Heketi".to_owned())
    );
    let (status, metrics) = answered(&server, "/metrics", None).await;
    assert!(
        status == 200 && metrics.contains("heketi_nodes_count 3"),
        "{metrics}"
    );
}

#[tokio::test]
async fn a_read_only_server_answers_changes_with_503() {
    let server = Server::start().await;
    assert_eq!(
        server
            .send("POST", "/admin", &json!({"state": "read-only"}))
            .await
            .status,
        204
    );

    let refused = server.send("POST", "/volumes", &hosting("bhv", 1)).await;

    assert_eq!(
        (refused.status, refused.body.as_str()),
        (503, "Service disabled for maintenance\n")
    );
    assert_eq!(server.get("/volumes").await.status, 200);
}

#[tokio::test]
async fn the_ninth_operation_in_flight_is_turned_away() {
    let server = Server::start().await;
    server.faults(&json!({"rules": [{"at": "after:build", "do": "hang"}]}));
    for number in 0..8 {
        server
            .accepted("POST", "/volumes", &hosting(&format!("bhv{number}"), 1))
            .await;
    }

    let refused = server.send("POST", "/volumes", &hosting("ninth", 1)).await;

    assert_eq!(
        (refused.status, refused.body.as_str()),
        (429, "Server busy. Retry operation later.\n")
    );
}

#[tokio::test]
async fn requests_can_be_answered_with_faults_for_a_while() {
    let server = Server::start().await;
    server.faults(&json!({"rules": [
        {"at": "request", "do": "fail", "status": 429, "times": 2},
        {"at": "request", "do": "fail", "status": 503},
        {"at": "request", "do": "fail", "status": 500},
    ]}));
    let mut seen = Vec::new();
    for _ in 0..5 {
        let said = server.get("/clusters").await;
        seen.push((said.status, said.body.trim().is_empty()));
    }
    assert_eq!(
        seen,
        [
            (429, false),
            (429, false),
            (503, false),
            (500, true),
            (200, false)
        ]
    );
}
