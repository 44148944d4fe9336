//! A small gd2 for tests: checks every token, wraps errors as gd2 does, and loses answers on request. The full simulator is
//! in `e2e`.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;

pub(crate) const SECRET: &str = "5ec4e7";
pub(crate) const CLUSTER: &str = "c1057e4a-0000-4000-8000-000000000001";
pub(crate) const LOCK: &str =
    "could not obtain lock: another conflicting transaction may be in progress";

/// What goes wrong with the next request of that method and path.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// Nothing is done, and gd2 says so.
    Say(u16, &'static str),
    /// A step fails; nothing is left.
    Step(&'static str),
    /// It is done, and the answer is lost.
    Lose,
    /// It is done, and gd2 says that it failed.
    DoneAndFailed(&'static str),
    /// It is accepted, the answer is lost, and it is done only after so many further requests.
    Late(usize),
}

#[derive(Debug, Default)]
struct Model {
    volumes: Vec<Value>,
    late: Vec<(usize, Value)>,
    faults: VecDeque<(&'static str, Fault)>,
    seen: Vec<String>,
    free_gib: [u64; 3],
    offline: Option<usize>,
}

pub(crate) struct Server {
    pub(crate) url: String,
    model: Arc<Mutex<Model>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(crate) async fn start() -> Self {
        let model = Arc::new(Mutex::new(Model {
            free_gib: [100, 50, 20],
            ..Model::default()
        }));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(model.clone());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, model, task }
    }

    pub(crate) fn add(&self, volume: Value) {
        self.model.lock().unwrap().volumes.push(volume);
    }

    pub(crate) fn volumes(&self) -> Vec<Value> {
        self.model.lock().unwrap().volumes.clone()
    }

    /// The next requests whose `METHOD path` begins so meet that.
    pub(crate) fn fail(&self, request: &'static str, fault: &Fault, times: usize) {
        let mut model = self.model.lock().unwrap();
        model
            .faults
            .extend(std::iter::repeat_n((request, fault.clone()), times));
    }

    /// How many requests began so.
    pub(crate) fn seen(&self, request: &str) -> usize {
        let model = self.model.lock().unwrap();
        let seen = model.seen.iter();
        seen.filter(|line| line.starts_with(request)).count()
    }

    pub(crate) fn take_peer_down(&self, number: usize) {
        self.model.lock().unwrap().offline = Some(number);
    }
}

#[derive(Debug, Deserialize)]
struct Claims {
    iss: String,
    qsh: String,
}

fn authorized(method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), String> {
    let header = headers.get("authorization").and_then(|v| v.to_str().ok());
    let header = header.ok_or("'Authorization' header is required")?;
    let token = header
        .strip_prefix("bearer ")
        .ok_or("'Authorization' header must be of the format - Bearer <TOKEN>")?;
    let mut validation = Validation::new(Algorithm::HS256);
    validation.set_required_spec_claims(&["exp"]);
    let key = DecodingKey::from_secret(SECRET.as_bytes()).unwrap();
    let claims = jsonwebtoken::decode::<Claims>(token, &key, &validation)
        .map_err(|_| "signature is invalid")?
        .claims;
    if claims.iss != "glustercli" {
        return Err(format!("invalid App ID: {}", claims.iss));
    }
    let text = format!("{method}&{}", uri.path());
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    let hex = hash.as_ref().iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    if claims.qsh != hex {
        return Err("invalid qsh claim in token".to_owned());
    }
    Ok(())
}

async fn answer(
    State(model): State<Arc<Mutex<Model>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mut response = match authorized(&method, &uri, &headers) {
        Err(text) => error(401, 1, &text),
        Ok(()) => faulty(&mut model.lock().unwrap(), &method, &uri, &body),
    };
    let headers = response.headers_mut();
    headers.insert("x-gluster-cluster-id", CLUSTER.parse().unwrap());
    headers.insert("x-request-id", "r-1".parse().unwrap());
    response
}

fn faulty(model: &mut Model, method: &Method, uri: &Uri, body: &Bytes) -> Response {
    let request = format!("{method} {}", uri.path());
    model.seen.push(request.clone());
    ripen(model);
    let hit = model
        .faults
        .iter()
        .position(|(at, _)| request.starts_with(at));
    let fault = hit.and_then(|index| model.faults.remove(index));
    match fault.map(|(_, fault)| fault) {
        None => perform(model, method, uri, body),
        Some(Fault::Say(status, text)) => error(status, 1, text),
        Some(Fault::Step(text)) => error(500, 2, text),
        Some(Fault::Lose) => {
            perform(model, method, uri, body);
            lost()
        }
        Some(Fault::DoneAndFailed(text)) => {
            perform(model, method, uri, body);
            error(500, 1, text)
        }
        Some(Fault::Late(requests)) => {
            perform(model, method, uri, body);
            let volume = model.volumes.pop().unwrap();
            model.late.push((requests, volume));
            lost()
        }
    }
}

fn ripen(model: &mut Model) {
    for (requests, _) in &mut model.late {
        *requests = requests.saturating_sub(1);
    }
    let late = std::mem::take(&mut model.late);
    let (ripe, late): (Vec<_>, Vec<_>) = late.into_iter().partition(|(requests, _)| *requests == 0);
    model.late = late;
    model
        .volumes
        .extend(ripe.into_iter().map(|(_, volume)| volume));
}

/// Promises more than it sends, so that the connection breaks off in the answer.
fn lost() -> Response {
    let text = axum::body::Body::from_stream(Broken);
    (StatusCode::OK, text).into_response()
}

struct Broken;

impl tokio_stream::Stream for Broken {
    type Item = Result<Bytes, std::io::Error>;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Ready(Some(Err(std::io::ErrorKind::ConnectionReset.into())))
    }
}

pub(crate) fn error(status: u16, code: u32, text: &str) -> Response {
    let body = json!({"errors": [{"code": code, "message": text}]});
    (StatusCode::from_u16(status).unwrap(), axum::Json(body)).into_response()
}

fn perform(model: &mut Model, method: &Method, uri: &Uri, body: &Bytes) -> Response {
    let path: Vec<&str> = uri.path().trim_start_matches('/').split('/').collect();
    match (method.as_str(), path.as_slice()) {
        ("GET", ["v1", "peers"]) => axum::Json(peers(model)).into_response(),
        ("GET", ["v1", "devices"]) => axum::Json(devices(model)).into_response(),
        ("GET", ["v1", "volumes"]) => {
            assert_eq!(uri.query(), Some("key=gluster-block-csi-owner&value=gbcsi"));
            let marked = |v: &&Value| v["metadata"]["gluster-block-csi-owner"] == "gbcsi";
            let found: Vec<&Value> = model.volumes.iter().filter(marked).collect();
            axum::Json(found).into_response()
        }
        ("GET", ["v1", "volumes", name]) => match find(model, name) {
            Some(volume) => axum::Json(volume).into_response(),
            None => error(404, 1, "volume not found"),
        },
        ("POST", ["v1", "volumes"]) => create(model, body),
        ("POST", ["v1", "volumes", name, "start"]) => match find(model, name) {
            None => error(404, 1, "volume not found"),
            Some(volume) if volume["state"] == "Started" => error(400, 1, "volume already started"),
            Some(volume) => {
                volume["state"] = json!("Started");
                axum::Json(volume).into_response()
            }
        },
        _ => (StatusCode::NOT_FOUND, "404 page not found\n").into_response(),
    }
}

fn find<'a>(model: &'a mut Model, name: &str) -> Option<&'a mut Value> {
    model.volumes.iter_mut().find(|v| v["name"] == name)
}

fn peers(model: &Model) -> Vec<Value> {
    let peer = |n: usize| {
        json!({
            "id": format!("p{n}"),
            "name": format!("s{n}"),
            "peer-addresses": [format!("10.77.1.1{n}:24008")],
            "client-addresses": ["127.0.0.1:24007", format!("10.77.1.1{n}:24007")],
            "online": model.offline != Some(n),
            "metadata": {"_zone": format!("p{n}")},
        })
    };
    (1..=3).map(peer).collect()
}

fn devices(model: &Model) -> Vec<Value> {
    let device = |(n, gib): (usize, &u64)| {
        json!({
            "device": "/dev/vdb",
            "provisioner": "lvm",
            "state": "enabled",
            "free-size": gib << 30,
            "total-size": 100_u64 << 30,
            "peer-id": format!("p{n}"),
        })
    };
    (1..).zip(&model.free_gib).map(device).collect()
}

pub(crate) fn volume(name: &str, state: &str, owner: &str, gib: u64) -> Value {
    let brick = |n: u8| json!({"peer-id": format!("p{n}"), "host": format!("10.77.1.1{n}")});
    json!({
        "name": name,
        "state": state,
        "type": "Replicate",
        "replica-count": 3,
        "capacity": gib << 30,
        "metadata": {"block-hosting": "yes", "gluster-block-csi-owner": owner},
        "subvols": [{"bricks": [brick(3), brick(1), brick(2)]}],
    })
}

fn create(model: &mut Model, body: &Bytes) -> Response {
    let body: Value = serde_json::from_slice(body).unwrap();
    let name = body["name"].as_str().unwrap();
    if find(model, name).is_some() {
        return error(400, 1, "volume already exists");
    }
    let mut made = volume(name, "Created", "", 0);
    made["capacity"] = body["size"].clone();
    made["metadata"] = body["metadata"].clone();
    made["request"] = body.clone();
    model.volumes.push(made.clone());
    (StatusCode::CREATED, axum::Json(made)).into_response()
}
