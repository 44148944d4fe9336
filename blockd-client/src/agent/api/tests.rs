//! The API over a gluster-block in memory, and its document.

use axum::body::{Body, to_bytes};
use axum::http::{Method, Request};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;
use crate::client::tests::fake::{Fault, GBID, Hosts, PASSWORD};
use crate::schema::PROBLEM_JSON;
use crate::{Blockd, Timeouts};

mod document;

const NODE: &str = "iqn.1993-08.org.debian:01:node";

/// What came back.
#[derive(Debug)]
struct Got {
    status: u16,
    kind: String,
    location: String,
    body: Value,
}

struct Service {
    routes: Router,
    agent: Arc<Agent<Blockd<Hosts>>>,
    _root: tempfile::TempDir,
}

impl Service {
    fn new(faults: &[Fault]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let blocks = Blockd::new(Hosts::with_faults(faults), Timeouts::default());
        let host = "10.0.0.1".parse().unwrap();
        let agent = Agent::new(host, root.path(), blocks);
        Self {
            routes: routes(Arc::clone(&agent)),
            agent,
            _root: root,
        }
    }

    /// Logs these initiators in to every target.
    fn log_in(&self, names: &[&str]) {
        let mut state = self.agent.blocks.transport().state.lock().unwrap();
        state.sessions = names.iter().map(|name| (*name).to_owned()).collect();
    }

    async fn ask(&self, role: &Role, method: Method, path: &str, body: &str) -> Got {
        let request = Request::builder().method(method).uri(path);
        let mut request = request.body(Body::from(body.to_owned())).unwrap();
        request.extensions_mut().insert(role.clone());
        let answer = self.routes.clone().oneshot(request).await.unwrap();
        let text = |name| {
            let value = answer.headers().get(name);
            value.map_or_else(String::new, |value| value.to_str().unwrap().to_owned())
        };
        let (status, kind) = (answer.status().as_u16(), text(header::CONTENT_TYPE));
        let location = text(header::LOCATION);
        let bytes = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        Got {
            status,
            kind,
            location,
            body: serde_json::from_slice(&bytes).unwrap(),
        }
    }

    async fn get(&self, path: &str) -> Got {
        self.ask(&Role::Controller, Method::GET, path, "").await
    }

    /// Asks for a change and for its end.
    async fn change(&self, method: Method, body: &str) -> Value {
        let accepted = self.ask(&Role::Controller, method, PATH, body).await;
        assert_eq!(accepted.status, 202, "{accepted:?}");
        let over = self.get(&format!("{}?wait=5", accepted.location)).await;
        assert_eq!((over.status, &over.body["id"]), (200, &accepted.body["id"]));
        over.body
    }

    async fn make(&self) {
        let over = self.change(Method::PUT, &wanted()).await;
        assert_eq!(over["state"], "succeeded", "{over}");
    }
}

const PATH: &str = "/v1/volumes/hv/blocks/b1";

fn wanted() -> String {
    json!({ "sizeBytes": 1 << 30, "hosts": ["10.0.0.1", "10.0.0.2"], "auth": true, "prealloc": "no" }).to_string()
}

fn node() -> Role {
    Role::Node(NODE.parse().unwrap())
}

#[tokio::test]
async fn a_block_is_made_seen_grown_and_deleted() {
    let service = Service::new(&[]);
    let made = service.change(Method::PUT, &wanted()).await;
    assert_eq!(
        (&made["state"], &made["made"]),
        (&json!("succeeded"), &json!(true))
    );
    let seen = service.get(PATH).await;
    assert_eq!((seen.status, &seen.body), (200, &made["result"]));
    assert_eq!(
        (&seen.body["gbid"], &seen.body["password"]),
        (&json!(GBID), &json!(PASSWORD))
    );
    let list = service.get("/v1/volumes/hv/blocks").await;
    assert_eq!(list.body, json!({ "blocks": ["b1"] }));
    let grown = service
        .change(
            Method::PATCH,
            &json!({ "sizeBytes": 2_u64 << 30 }).to_string(),
        )
        .await;
    assert_eq!(grown["result"]["printedSize"], "2.0 GiB");
    let gone = service.change(Method::DELETE, "").await;
    assert_eq!(
        (&gone["state"], gone.get("result")),
        (&json!("succeeded"), None)
    );
    assert_eq!(service.get(PATH).await.status, 404);
}

// C1
#[tokio::test]
async fn every_change_can_be_repeated() {
    let service = Service::new(&[]);
    service.make().await;
    let again = service.change(Method::PUT, &wanted()).await;
    assert_eq!(
        (&again["state"], &again["made"]),
        (&json!("succeeded"), &json!(false))
    );
    for _ in 0..2 {
        let grown = service
            .change(
                Method::PATCH,
                &json!({ "sizeBytes": 2_u64 << 30 }).to_string(),
            )
            .await;
        assert_eq!(grown["state"], "succeeded", "{grown}");
    }
    for _ in 0..2 {
        let gone = service.change(Method::DELETE, "").await;
        assert_eq!(gone["state"], "succeeded", "{gone}");
    }
}

// C3
#[tokio::test]
async fn work_goes_on_when_nobody_listens() {
    let service = Service::new(&[]);
    let accepted = service
        .ask(&Role::Controller, Method::PUT, PATH, &wanted())
        .await;
    drop(accepted);
    service.agent.idle().await;
    assert_eq!(service.get(PATH).await.status, 200);
}

#[tokio::test]
async fn a_failed_operation_says_why() {
    let service = Service::new(&[Fault::HostFails]);
    let over = service.change(Method::PUT, &wanted()).await;
    assert_eq!(over["state"], "failed");
    let problem = &over["problem"];
    assert_eq!(problem["type"], "urn:gluster-block:problem:not-made");
    assert_eq!(
        problem["cause"]["type"],
        "urn:gluster-block:problem:partial"
    );
    let nowhere = service.get("/v1/volumes/nix/blocks/b1").await;
    assert_eq!((nowhere.status, nowhere.kind.as_str()), (404, PROBLEM_JSON));
    assert_eq!(
        nowhere.body["type"],
        "urn:gluster-block:problem:volume-missing"
    );
}

#[tokio::test]
async fn requests_that_would_reach_a_shell_or_be_changed_on_the_way_are_refused() {
    let service = Service::new(&[]);
    for path in [
        "/v1/volumes/hv/blocks/$(reboot)",
        "/v1/volumes/-hv/blocks/b1",
        "/v1/volumes/h%20v/blocks/b1",
        "/v1/targets/iqn.x/sessions",
    ] {
        let got = service.get(path).await;
        assert_eq!(
            (got.status, got.kind.as_str()),
            (400, PROBLEM_JSON),
            "{path}"
        );
    }
    let good: Value = serde_json::from_str(&wanted()).unwrap();
    for (member, value) in [
        ("hosts", json!(["10.0.0.1; reboot"])),
        ("hosts", json!([])),
        ("sizeBytes", json!(1000)),
        ("sizeBytes", json!("1GiB")),
        ("force", json!(true)),
    ] {
        let mut body = good.clone();
        body[member] = value;
        let got = service
            .ask(&Role::Controller, Method::PUT, PATH, &body.to_string())
            .await;
        assert_eq!(
            (got.status, got.kind.as_str()),
            (400, PROBLEM_JSON),
            "{body}"
        );
    }
    let long = format!("{}{}", wanted(), " ".repeat(BODY_LIMIT));
    let got = service
        .ask(&Role::Controller, Method::PUT, PATH, &long)
        .await;
    assert_eq!(got.status, 400);
    assert!(
        service
            .agent
            .blocks
            .transport()
            .state
            .lock()
            .unwrap()
            .asked
            .is_empty(),
        "nothing was asked of gluster-block"
    );
}

// C7
#[tokio::test]
async fn a_node_sees_its_own_attachments_and_no_password() {
    let service = Service::new(&[]);
    service.make().await;
    let own = |path: &'static str| service.ask(&LOGGED_IN, Method::GET, path, "");
    service.log_in(&["iqn.1993-08.org.debian:01:other"]);
    for path in [
        PATH,
        "/v1/volumes/hv/blocks/b1/sessions",
        "/v1/volumes/hv/blocks/nix",
        "/v1/volumes/nix/blocks/b1",
    ] {
        assert_eq!(own(path).await.status, 403, "{path}");
    }
    service.log_in(&["iqn.1993-08.org.debian:01:other", NODE]);
    let seen = own(PATH).await;
    assert_eq!(
        (seen.status, &seen.body["auth"], seen.body.get("password")),
        (200, &json!(true), None)
    );
    assert!(!seen.body.to_string().contains(PASSWORD));
    let sessions = own("/v1/volumes/hv/blocks/b1/sessions").await;
    assert_eq!(sessions.body, json!({ "initiators": [NODE] }));
    let all = service.get("/v1/volumes/hv/blocks/b1/sessions").await;
    assert_eq!(all.body["initiators"].as_array().unwrap().len(), 2);
}

static LOGGED_IN: std::sync::LazyLock<Role> = std::sync::LazyLock::new(node);

#[tokio::test]
async fn only_the_controller_changes_lists_and_asks_for_operations() {
    let service = Service::new(&[]);
    let operation = format!("/v1/operations/{}", Uuid::new_v4());
    for role in [node(), Role::Stranger] {
        for (method, path) in [
            (Method::PUT, PATH),
            (Method::PATCH, PATH),
            (Method::DELETE, PATH),
            (Method::GET, "/v1/volumes/hv/blocks"),
            (Method::GET, &operation),
        ] {
            let got = service.ask(&role, method.clone(), path, &wanted()).await;
            assert_eq!(
                (got.status, got.kind.as_str()),
                (403, PROBLEM_JSON),
                "{role:?} {method} {path}"
            );
        }
    }
    assert_eq!(
        service.ask(&node(), Method::GET, HEALTH, "").await.status,
        200
    );
    assert_eq!(
        service
            .ask(&Role::Stranger, Method::GET, HEALTH, "")
            .await
            .status,
        403
    );
    assert!(
        service
            .agent
            .blocks
            .transport()
            .state
            .lock()
            .unwrap()
            .volumes["hv"]
            .is_empty()
    );
}

#[tokio::test]
async fn health_names_what_does_not_work() {
    let service = Service::new(&[]);
    let sick = service.get(HEALTH).await.body;
    assert_eq!(
        (&sick["daemon"]["well"], &sick["tcmuRunner"]["well"]),
        (&json!(false), &json!(false))
    );
    assert!(
        sick["daemon"]["reason"]
            .as_str()
            .unwrap()
            .contains("start it")
    );
    service
        .agent
        .blocks
        .transport()
        .state
        .lock()
        .unwrap()
        .sockets = vec!["unix", "tcp"];
    assert_eq!(
        service.get(HEALTH).await.body["daemon"],
        json!({ "well": true })
    );
}

#[tokio::test]
async fn an_operation_that_is_not_known_is_a_problem() {
    let service = Service::new(&[]);
    let got = service
        .get(&format!("/v1/operations/{}", Uuid::new_v4()))
        .await;
    assert_eq!(
        (got.status, &got.body["type"]),
        (404, &json!("urn:gluster-block:problem:no-such-operation"))
    );
}
