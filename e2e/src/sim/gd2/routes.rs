//! From a request to its answer: token, fault, path and method, in that order; headers that every answer has.
//!
//! | the request | answer |
//! |---|---|
//! | a token that is wrong | 401, also for paths that do not exist |
//! | an unknown path | 404 as the router says it: plain text |
//! | a known path with a wrong method | 405, empty |
//! | a known path that is left out here | 501 `not simulated`, which gd2 never sends |

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use axum::body::{Bytes, to_bytes};
use axum::extract::{ConnectInfo, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use uuid::Uuid;

use super::model::{Volume, now};
use super::refusal::Refusal;
use super::request::{Create, Edit, parse};
use super::simulator::Simulator;
use crate::sim::connection::Peer;
use crate::sim::executor::Executor;
use crate::sim::faults::{Point, Verdict};

/// The largest body that is read.
const BODY_LIMIT: usize = 1024 * 1024;

type Filters = HashMap<String, String>;

/// Answers one request. The work behind it goes on when the client goes away.
pub(super) async fn answer<E: Executor>(
    State(simulator): State<Arc<Simulator<E>>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: Request,
) -> Response {
    let begun = Instant::now();
    let (parts, body) = request.into_parts();
    let (method, uri) = (parts.method, parts.uri);
    let mut response = match admit(&simulator, &method, &uri, &parts.headers).await {
        Err(refusal) => refusal.into_response(),
        Ok(verdict) => {
            let body = to_bytes(body, BODY_LIMIT).await.unwrap_or_default();
            let (this, verb, place) = (Arc::clone(&simulator), method.clone(), uri.clone());
            let work = tokio::spawn(async move { dispatch(&this, &verb, &place, &body).await });
            let response = work.await.unwrap_or_else(|error| {
                Refusal::internal(format!("internal error: {error}")).into_response()
            });
            if verdict == Verdict::Lose {
                peer.cut();
            }
            response
        }
    };
    if begun.elapsed() >= simulator.settings.write_timeout {
        peer.cut();
    }
    let id = Uuid::new_v4();
    mark(&simulator, id, response.headers_mut());
    let status = response.status().as_u16();
    tracing::info!(%method, path = uri.path(), status, request = %id, "answered");
    response
}

async fn admit<E: Executor>(
    simulator: &Simulator<E>,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Verdict, Refusal> {
    let path = uri.path();
    if let Some(check) = &simulator.settings.auth {
        let header = headers.get(header::AUTHORIZATION);
        let header = header.map(|value| value.to_str().unwrap_or("?"));
        check.judge(header, method.as_str(), path, now())?;
    }
    let method = method.as_str();
    match simulator.faults.meet(Point::Request { method, path }).await {
        Verdict::Fail { status, text } => Err(faulty(status, text)),
        verdict @ (Verdict::Proceed | Verdict::Lose) => Ok(verdict),
    }
}

/// The text that belongs to a status when the rule has none; a 500 may be empty.
fn faulty(status: u16, text: String) -> Refusal {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if status == StatusCode::CONFLICT && text.is_empty() {
        return Refusal::locked();
    }
    Refusal::new(status, text)
}

fn mark<E: Executor>(simulator: &Simulator<E>, id: Uuid, headers: &mut HeaderMap) {
    let ours = simulator.store.view(|cluster| {
        let peer = cluster.peers.first().map(|peer| peer.id.clone());
        (cluster.id.clone(), peer.unwrap_or_default())
    });
    let marks = [
        ("x-request-id", id.to_string()),
        ("x-gluster-cluster-id", ours.0),
        ("x-gluster-peer-id", ours.1),
    ];
    for (name, value) in marks {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
}

async fn dispatch<E: Executor>(
    simulator: &Simulator<E>,
    method: &Method,
    uri: &Uri,
    body: &Bytes,
) -> Response {
    let path: Vec<&str> = uri.path().trim_start_matches('/').split('/').collect();
    let answered = match (method.as_str(), path.as_slice()) {
        ("GET", ["ping"]) => Ok(StatusCode::OK.into_response()),
        ("GET", ["version"]) => Ok(answer_of(
            &json!({"peer-id": "", "glusterd-version": "v6.0", "api-version": 1}),
        )),
        (verb, ["v1", "volumes", rest @ ..]) => volumes(simulator, verb, rest, uri, body).await,
        ("GET", ["v1", "peers", rest @ ..]) => peers(simulator, rest),
        ("GET", ["v1", "devices", rest @ ..]) if rest.len() < 2 => {
            Ok(devices(simulator, rest.first()))
        }
        ("POST", ["v1", "devices", peer, device]) => device_state(simulator, peer, device, body),
        (_, ["v1", "peers" | "devices", ..]) => Ok(StatusCode::METHOD_NOT_ALLOWED.into_response()),
        (
            _,
            [
                "v1",
                "cluster" | "blockvolumes" | "snapshots" | "events",
                ..,
            ]
            | ["endpoints" | "statedump"],
        ) => Err(Refusal::new(StatusCode::NOT_IMPLEMENTED, "not simulated")),
        _ => Ok((StatusCode::NOT_FOUND, "404 page not found\n").into_response()),
    };
    answered.unwrap_or_else(IntoResponse::into_response)
}

async fn volumes<E: Executor>(
    simulator: &Simulator<E>,
    verb: &str,
    rest: &[&str],
    uri: &Uri,
    body: &Bytes,
) -> Result<Response, Refusal> {
    match (verb, rest) {
        ("GET", []) => list(simulator, uri),
        ("POST", []) => {
            let made = simulator.create(parse::<Create>(body)?).await?;
            let location = [(header::LOCATION, format!("/v1/volumes/{}", made.name))];
            Ok((StatusCode::CREATED, location, axum::Json(made.shown())).into_response())
        }
        ("GET", [name]) => Ok(answer_of(&simulator.volume(name)?.shown())),
        ("DELETE", [name]) => {
            simulator.delete(name).await?;
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        ("POST", [name, "start"]) => Ok(answer_of(&simulator.start(name).await?.shown())),
        ("POST", [name, "stop"]) => Ok(answer_of(&simulator.stop(name).await?.shown())),
        ("POST", [name, "edit"]) => Ok(answer_of(
            &simulator.edit(name, &parse::<Edit>(body)?).await?.shown(),
        )),
        (_, [] | [_] | [_, "start" | "stop" | "edit"]) => {
            Ok(StatusCode::METHOD_NOT_ALLOWED.into_response())
        }
        _ => Err(Refusal::new(StatusCode::NOT_IMPLEMENTED, "not simulated")),
    }
}

/// The filter is on metadata; either part may be left out.
fn list<E: Executor>(simulator: &Simulator<E>, uri: &Uri) -> Result<Response, Refusal> {
    let filters =
        Query::<Filters>::try_from_uri(uri).map_err(|_| Refusal::bad_request("bad query"))?;
    let (key, value) = (filters.get("key"), filters.get("value"));
    let fits = |volume: &&Volume| match (key, value) {
        (Some(key), Some(value)) => volume.metadata.get(key) == Some(value),
        (Some(key), None) => volume.metadata.contains_key(key),
        (None, Some(value)) => volume.metadata.values().any(|found| found == value),
        (None, None) => true,
    };
    let shown: Vec<Value> = simulator.store.view(|cluster| {
        let volumes = cluster.volumes.values();
        volumes.filter(fits).map(Volume::shown).collect()
    });
    Ok(answer_of(&json!(shown)))
}

fn peers<E: Executor>(simulator: &Simulator<E>, rest: &[&str]) -> Result<Response, Refusal> {
    let down = simulator.down();
    let wanted = |id: &str| rest.first().is_none_or(|&wanted| wanted == id);
    let mut shown: Vec<Value> = simulator.store.view(|cluster| {
        let peers = cluster.peers.iter().filter(|peer| wanted(&peer.id));
        peers.map(|peer| peer.shown(&down)).collect()
    });
    if rest.is_empty() {
        return Ok(answer_of(&json!(shown)));
    }
    let absent = || Refusal::new(StatusCode::NOT_FOUND, "peer not found");
    Ok(answer_of(&shown.pop().ok_or_else(absent)?))
}

fn devices<E: Executor>(simulator: &Simulator<E>, peer: Option<&&str>) -> Response {
    let shown: Vec<Value> = simulator.store.view(|cluster| {
        let devices = cluster.devices.iter();
        let wanted = devices.filter(|device| peer.is_none_or(|&peer| device.peer == peer));
        wanted.map(super::model::Device::shown).collect()
    });
    answer_of(&json!(shown))
}

/// A device is named in the path without its first slash, escaped.
fn device_state<E: Executor>(
    simulator: &Simulator<E>,
    peer: &str,
    device: &str,
    body: &Bytes,
) -> Result<Response, Refusal> {
    let asked: Value = parse(body)?;
    let enabled = match asked.pointer("/state").and_then(Value::as_str) {
        Some("enabled") => true,
        Some("disabled") => false,
        _ => return Err(Refusal::bad_request("invalid device state")),
    };
    let name = format!("/{}", device.trim_start_matches("%2F").replace("%2F", "/"));
    simulator.store.update(|cluster| {
        let mut devices = cluster.devices.iter_mut();
        let found = devices.find(|known| known.peer == peer && known.name == name);
        let absent = || {
            Refusal::new(
                StatusCode::NOT_FOUND,
                "device does not exist in the given peer",
            )
        };
        found.ok_or_else(absent)?.enabled = enabled;
        Ok::<_, Refusal>(())
    })?;
    Ok(StatusCode::OK.into_response())
}

fn answer_of(body: &Value) -> Response {
    axum::Json(body).into_response()
}
