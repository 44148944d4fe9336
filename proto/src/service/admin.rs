//! What people and machines may ask a running process over HTTP.
//!
//! | request | answer |
//! |---|---|
//! | `GET /metrics` | the text that Prometheus reads |
//! | `GET /livez` | 200 as long as the process can answer |
//! | `GET /readyz` | 200, or 503 and a line for each reason |
//! | `GET /log-level` | the log filter in force |
//! | `PUT /log-level` | replaces it by the body; only from this host, 400 when it is not a filter |
//!
//! Nothing here touches a volume, a device or a backend: a stuck one must not make the process look dead.

mod readiness;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use self::readiness::{Condition, Latch, Readiness};

use super::metrics::Metrics;
use super::telemetry::LogControl;
use crate::error::Chain;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
// A filter is a line.
const BODY_LIMIT: usize = 4096;
// A scrape takes milliseconds; whoever does not read must not hold up the end.
const GRACE: Duration = Duration::from_secs(2);

/// What the endpoints tell of.
#[derive(Debug, Clone)]
pub struct Admin {
    /// The metrics of the process.
    pub metrics: Arc<Metrics>,
    /// Whether it is ready.
    pub readiness: Readiness,
    /// Its log filter.
    pub log: LogControl,
}

/// Serves the endpoints until `shutdown`.
///
/// # Errors
///
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    admin: Admin,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let app = routes(admin).into_make_service_with_connect_info::<SocketAddr>();
    let stop = shutdown.clone().cancelled_owned();
    let server = axum::serve(listener, app).with_graceful_shutdown(stop);
    let grace_over = async {
        shutdown.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        outcome = server => outcome,
        () = grace_over => Ok(()),
    }
}

fn routes(admin: Admin) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/livez", get(async || "alive\n"))
        .route("/readyz", get(readyz))
        .route("/log-level", get(log_level).put(set_log_level))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(admin)
}

async fn metrics(State(admin): State<Admin>) -> impl IntoResponse {
    let text = admin.metrics.encode().map_err(|error| {
        tracing::error!(%error, "metrics cannot be written");
        StatusCode::INTERNAL_SERVER_ERROR
    })?;
    Ok::<_, StatusCode>(([(CONTENT_TYPE, OPEN_METRICS)], text))
}

async fn readyz(State(admin): State<Admin>) -> impl IntoResponse {
    let reasons = admin.readiness.reasons();
    if reasons.is_empty() {
        return (StatusCode::OK, "ready\n".to_owned());
    }
    (StatusCode::SERVICE_UNAVAILABLE, reasons.join("\n") + "\n")
}

async fn log_level(State(admin): State<Admin>) -> Result<String, (StatusCode, String)> {
    let filter = admin.log.filter().map_err(|error| {
        let text = Chain(&error).to_string();
        (StatusCode::INTERNAL_SERVER_ERROR, text)
    })?;
    Ok(filter + "\n")
}

async fn set_log_level(
    State(admin): State<Admin>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    filter: String,
) -> Result<String, (StatusCode, String)> {
    // The metrics port is open to the cluster, and a flood of log lines is a way to do harm.
    if !peer.ip().to_canonical().is_loopback() {
        let text = "the log filter can be changed from this host only\n".to_owned();
        return Err((StatusCode::FORBIDDEN, text));
    }
    admin
        .log
        .set_filter(filter.trim())
        .map_err(|error| (StatusCode::BAD_REQUEST, format!("{}\n", Chain(&error))))?;
    log_level(State(admin)).await
}

#[cfg(test)]
mod tests;
