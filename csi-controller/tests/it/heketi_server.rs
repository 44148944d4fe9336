//! A small heketi for tests: checks every token against method and path, keeps a one-shot queue, hides nothing and forgives
//! nothing. The full simulator is in `e2e`.

use std::collections::{BTreeMap, VecDeque};
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

pub(crate) const KEY: &str = "a key with / and +";
const CLUSTER: &str = "0c0c";

#[derive(Debug, Clone, Default)]
pub(crate) struct Volume {
    pub(crate) name: String,
    pub(crate) block: bool,
    pub(crate) restriction: String,
    pub(crate) heketi_blocks: Vec<String>,
    /// Listed, and gone when looked at.
    pub(crate) vanishing: bool,
    pub(crate) body: Value,
}

#[derive(Debug, Default)]
struct Model {
    volumes: Vec<Volume>,
    queue: BTreeMap<String, VecDeque<(u16, String)>>,
    next: usize,
    says: VecDeque<(u16, String)>,
    lose: bool,
    fail: Option<String>,
}

pub(crate) struct Server {
    pub(crate) url: String,
    model: Arc<Mutex<Model>>,
    task: Option<tokio::task::JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Server {
    pub(crate) async fn start() -> Self {
        let model = Arc::new(Mutex::new(Model::default()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(model.clone());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            url,
            model,
            task: Some(task),
        }
    }

    /// Nobody, at that address.
    pub(crate) fn at(url: String) -> Self {
        Self {
            url,
            model: Arc::default(),
            task: None,
        }
    }

    pub(crate) fn add(&self, volume: Volume) {
        self.model.lock().unwrap().volumes.push(volume);
    }

    pub(crate) fn volumes(&self) -> Vec<Volume> {
        self.model.lock().unwrap().volumes.clone()
    }

    /// The next requests get this answer, whatever they ask.
    pub(crate) fn say_next(&self, status: u16, text: &str, times: usize) {
        let mut model = self.model.lock().unwrap();
        model.says = std::iter::repeat_n((status, text.to_owned()), times).collect();
    }

    pub(crate) fn lose_next_queue_entry(&self) {
        self.model.lock().unwrap().lose = true;
    }

    pub(crate) fn fail_next_operation(&self, text: &str) {
        self.model.lock().unwrap().fail = Some(text.to_owned());
    }
}

#[derive(Debug, Deserialize)]
struct Claims {
    iss: String,
    qsh: String,
}

fn authorized(method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), &'static str> {
    let header = headers.get("authorization").and_then(|v| v.to_str().ok());
    let header = header.ok_or("Required authorization token not found")?;
    let token = header.strip_prefix("bearer ").ok_or("malformed header")?;
    let mut validation = Validation::new(Algorithm::HS256);
    validation.set_required_spec_claims(&["exp"]);
    let key = DecodingKey::from_secret(KEY.as_bytes()).unwrap();
    let claims = jsonwebtoken::decode::<Claims>(token, &key, &validation).map_err(
        |_| "Invalid JWT token: signature is invalid (client and server secrets may not match)",
    )?;
    let text = format!("{method}&{}", uri.path());
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    let hex = hash.as_ref().iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    if claims.claims.qsh != hex {
        return Err("Invalid qsh claim in token");
    }
    if claims.claims.iss != "admin" {
        return Err("Administrator access required");
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
    let mut model = model.lock().unwrap();
    if let Err(text) = authorized(&method, &uri, &headers) {
        return (StatusCode::UNAUTHORIZED, format!("{text}\n")).into_response();
    }
    if let Some((status, text)) = model.says.pop_front() {
        return (StatusCode::from_u16(status).unwrap(), text).into_response();
    }
    let path: Vec<&str> = uri.path().trim_start_matches('/').split('/').collect();
    match (method.as_str(), path.as_slice()) {
        ("GET", ["clusters"]) => axum::Json(json!({"clusters": [CLUSTER]})).into_response(),
        ("GET", ["clusters", _]) => {
            let nodes = ["a1", "a2", "a3"];
            axum::Json(json!({"id": CLUSTER, "nodes": nodes, "block": true, "file": true}))
                .into_response()
        }
        ("GET", ["nodes", id]) => axum::Json(node(id)).into_response(),
        ("GET", ["volumes"]) => {
            let ids: Vec<String> = (0..model.volumes.len()).map(|n| n.to_string()).collect();
            axum::Json(json!({ "volumes": ids })).into_response()
        }
        ("GET", ["volumes", id]) => volume(&model, id),
        ("POST", ["volumes"]) => create(&mut model, &body),
        ("POST", ["volumes", id, "block-restriction"]) => restrict(&mut model, id, &body),
        ("GET", ["queue", id]) => queue(&mut model, id),
        _ => (StatusCode::NOT_FOUND, "404 page not found\n").into_response(),
    }
}

fn node(id: &str) -> Value {
    let (last, free) = match id {
        "a1" => (11, 100),
        "a2" => (12, 50),
        _ => (13, 20),
    };
    json!({
        "id": id,
        "state": "online",
        "hostnames": {"manage": ["m"], "storage": [format!("10.77.1.{last}")]},
        "devices": [{"state": "online", "storage": {"free": free * 1024 * 1024}}],
    })
}

fn volume(model: &Model, id: &str) -> Response {
    let found = id.parse().ok().and_then(|n: usize| model.volumes.get(n));
    let Some(volume) = found.filter(|volume| !volume.vanishing) else {
        return (StatusCode::NOT_FOUND, "Id not found\n").into_response();
    };
    let mut info = json!({"blockvolume": volume.heketi_blocks, "freesize": 1});
    if !volume.restriction.is_empty() {
        info["restriction"] = json!(volume.restriction);
    }
    let hosts = ["10.77.1.12", "10.77.1.11", "10.77.1.13"];
    axum::Json(json!({
        "id": id,
        "name": volume.name,
        "size": volume.body["size"].as_u64().unwrap_or(1),
        "cluster": CLUSTER,
        "block": volume.block,
        "blockinfo": info,
        "mount": {"glusterfs": {"hosts": hosts, "device": "x", "options": {}}},
        "bricks": [],
    }))
    .into_response()
}

fn accepted(model: &mut Model, end: (u16, String)) -> Response {
    let id = format!("{:032x}", model.next);
    model.next += 1;
    if !std::mem::take(&mut model.lose) {
        let entry = VecDeque::from([(200, String::new()), end]);
        model.queue.insert(id.clone(), entry);
    }
    (StatusCode::ACCEPTED, [("location", format!("/queue/{id}"))]).into_response()
}

fn create(model: &mut Model, body: &Bytes) -> Response {
    let body: Value = serde_json::from_slice(body).unwrap();
    if let Some(text) = model.fail.take() {
        return accepted(model, (500, text));
    }
    let name = body["name"].as_str().unwrap().to_owned();
    let block = body["block"].as_bool().unwrap();
    let id = model.volumes.len();
    model.volumes.push(Volume {
        name,
        block,
        body,
        ..Volume::default()
    });
    accepted(model, (303, format!("/volumes/{id}")))
}

fn restrict(model: &mut Model, id: &str, body: &Bytes) -> Response {
    let body: Value = serde_json::from_slice(body).unwrap();
    let index: usize = id.parse().unwrap();
    model.volumes[index].restriction = body["restriction"].as_str().unwrap().to_owned();
    accepted(model, (303, format!("/volumes/{id}")))
}

/// A finished entry can be read once.
fn queue(model: &mut Model, id: &str) -> Response {
    let entry = model.queue.get_mut(id).and_then(VecDeque::pop_front);
    match entry {
        Some((200, _)) => (StatusCode::OK, [("x-pending", "true")]).into_response(),
        Some((303, path)) => (StatusCode::SEE_OTHER, [("location", path)]).into_response(),
        Some((_, text)) => (StatusCode::INTERNAL_SERVER_ERROR, text).into_response(),
        None => (StatusCode::NOT_FOUND, "Id not found\n").into_response(),
    }
}
