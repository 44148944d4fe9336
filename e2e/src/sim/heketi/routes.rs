//! From a request to its handler: token, admin state, fault, path, method, in that order.
//!
//! | the request                                  | answer                                        |
//! |----------------------------------------------|-----------------------------------------------|
//! | `GET /hello`, `GET /metrics`                 | answered before the token check               |
//! | a token that is wrong                        | 400 or 401, also for paths that do not exist  |
//! | a change while the admin state forbids it    | 503 `Service disabled for maintenance`        |
//! | an unknown path, or an id that is not hex    | 404 `Invalid path or request`                 |
//! | a known path with a slash too many           | 301 to the path without it                    |
//! | a known path with a wrong method             | 405, empty                                    |

use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::answer::Answer;
use super::model::{Id, now};
use super::queue::Poll;
use super::refusal::Refusal;
use super::simulator::{AdminState, Simulator};
use crate::sim::connection::Peer;
use crate::sim::executor::Executor;
use crate::sim::faults::{Point, Verdict};

mod admin;
mod cluster;
mod node;
mod operation;
mod place;
mod volume;

use place::{Place, place};

type Answered = Result<Answer, Refusal>;

/// The largest body that is read.
const BODY_LIMIT: usize = 1024 * 1024;

/// Answers one request.
pub(super) async fn answer<E: Executor>(
    State(simulator): State<Arc<Simulator<E>>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let (method, path) = (&parts.method, parts.uri.path());
    if method == Method::GET && path == "/hello" {
        let plain = [(header::CONTENT_TYPE, "text/plain; charset=UTF-8")];
        return (plain, "Hello from Heketi").into_response();
    }
    if method == Method::GET && path == "/metrics" {
        return admin::metrics(&simulator).into_response();
    }
    match admit(&simulator, method, path, &parts.headers, &peer) {
        Ok(()) => {}
        Err(refusal) => return logged(method, path, refusal.into_response()),
    }
    let verdict = simulator
        .faults
        .meet(Point::Request {
            method: method.as_str(),
            path,
        })
        .await;
    if let Verdict::Fail { status, text } = &verdict {
        return logged(method, path, faulty(*status, text).into_response());
    }
    let response = match read(body).await {
        Ok(body) => dispatch(&simulator, method, path, &body).await,
        Err(refusal) => refusal.into_response(),
    };
    if verdict == Verdict::Lose {
        peer.cut();
    }
    logged(method, path, response)
}

fn logged(method: &Method, path: &str, response: Response) -> Response {
    tracing::info!(%method, path, status = response.status().as_u16(), "answered");
    response
}

fn admit<E: Executor>(
    simulator: &Simulator<E>,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    peer: &Peer,
) -> Result<(), Refusal> {
    if let Some(check) = &simulator.settings.auth {
        let header = headers
            .get(header::AUTHORIZATION)
            .map(|value| value.to_str().unwrap_or("?"));
        let now = i64::try_from(now()).unwrap_or(i64::MAX);
        check.judge(header, method.as_str(), path, now)?;
    }
    let allowed = match simulator.admin() {
        AdminState::Normal => true,
        AdminState::ReadOnly => is_read(method),
        AdminState::LocalClient => is_read(method) || peer.address.ip().is_loopback(),
    };
    if allowed {
        Ok(())
    } else {
        Err(Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "Service disabled for maintenance",
        ))
    }
}

fn is_read(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
}

/// The text that belongs to a status when the rule has none; a 500 may be empty, as it is when heketi's tool is missing.
fn faulty(status: u16, text: &str) -> Refusal {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    match (status, text) {
        (StatusCode::TOO_MANY_REQUESTS, "") => Refusal::busy(),
        (StatusCode::SERVICE_UNAVAILABLE, "") => {
            Refusal::new(status, "Service disabled for maintenance")
        }
        (status, text) => Refusal::new(status, text),
    }
}

async fn read(body: Body) -> Result<Bytes, Refusal> {
    to_bytes(body, BODY_LIMIT)
        .await
        .map_err(|_| Refusal::unparsable())
}

async fn dispatch<E: Executor>(
    simulator: &Arc<Simulator<E>>,
    method: &Method,
    path: &str,
    body: &[u8],
) -> Response {
    let Some(place) = place(path) else {
        return match path
            .strip_suffix('/')
            .filter(|shorter| place(shorter).is_some())
        {
            Some(shorter) => moved(method, shorter),
            None => Refusal::new(StatusCode::NOT_FOUND, "Invalid path or request").into_response(),
        };
    };
    let verb = method.as_str();
    let answered = match place {
        Place::Queue(_)
        | Place::Admin
        | Place::Operations
        | Place::PendingList
        | Place::Pending(_)
        | Place::Cleanup => operation::handle(simulator, verb, &place, body),
        Place::Clusters | Place::Cluster(_) | Place::ClusterFlags(_) => {
            cluster::handle(simulator, verb, &place, body)
        }
        Place::Nodes
        | Place::Node(_)
        | Place::NodeState(_)
        | Place::Devices
        | Place::Device(_)
        | Place::DeviceState(_) => node::handle(simulator, verb, &place, body).await,
        Place::Volumes | Place::Volume(_) | Place::VolumeExpand(_) | Place::BlockRestriction(_) => {
            volume::handle(simulator, verb, &place, body)
        }
        Place::BlockVolumes | Place::NotSimulated => Some(not_simulated(verb, &place)),
    };
    match answered {
        Some(answered) => answered.into_response(),
        None => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    }
}

fn moved(method: &Method, path: &str) -> Response {
    let location = [
        (header::LOCATION, path),
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
    ];
    let body = format!("<a href=\"{path}\">Moved Permanently</a>.\n\n");
    if is_read(method) {
        (StatusCode::MOVED_PERMANENTLY, location, body).into_response()
    } else {
        (StatusCode::MOVED_PERMANENTLY, [(header::LOCATION, path)]).into_response()
    }
}

/// What this simulator leaves out says so, with a status that heketi never sends.
fn not_simulated(verb: &str, place: &Place<'_>) -> Answered {
    match (verb, place) {
        ("GET", Place::BlockVolumes) => Answer::ok(&serde_json::json!({"blockvolumes": []})),
        _ => Err(Refusal::new(StatusCode::NOT_IMPLEMENTED, "not simulated")),
    }
}

fn poll<E: Executor>(simulator: &Simulator<E>, id: &Id) -> Answered {
    match simulator.queue.poll(id) {
        Poll::Unknown => Err(Refusal::not_found()),
        Poll::Pending => Ok(Answer::Pending),
        Poll::Done(outcome) => Ok(Answer::Ended(outcome)),
    }
}
