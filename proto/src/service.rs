//! Serves gRPC on a Unix socket, the same way for every plugin.
//!
//! Each call gets a span and is measured; the server stops gracefully, and for good once the grace period is over. It
//! knows nothing of what it serves and decides nothing about who may connect: that is the [`socket`]'s.

pub mod admin;
pub mod identity;
pub mod metrics;
pub mod plugin;
pub mod settings;
pub mod shutdown;
pub mod socket;
pub mod telemetry;
pub mod watch;

use std::time::Duration;

use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::codegen::http;
use tonic::transport::Server;
use tracing::Span;
use tracing::field::Empty;

pub use tonic::service::Routes as Services;

use self::metrics::{RpcMetrics, rpc_name};

// external-provisioner alone runs 100 workers over one connection. Calls beyond this wait in the caller.
const CALLS_PER_CONNECTION: u32 = 256;

/// Why a server did not end well.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// It could not serve at all.
    #[error("gRPC server failed")]
    Transport(#[source] tonic::transport::Error),
    /// It was told to stop, and calls were still running when the grace period was over.
    #[error("calls were still running {grace:?} after the server was told to stop")]
    Unfinished {
        /// How long it waited.
        grace: Duration,
    },
}

/// Serves `services` until `shutdown`, then lets the running calls end, for `grace` at most.
///
/// # Guarantees
///
/// - No new connection or call is accepted after `shutdown`.
/// - It returns as soon as the last call has been answered.
///
/// # Assumptions
///
/// Operations outlive their calls (see [`in_flight`](crate::in_flight)): whoever ends the process waits for
/// [`VolumeLocks::idle`](crate::in_flight::VolumeLocks::idle) as well.
///
/// # Errors
///
/// [`ServeError`]; `Unfinished` when the grace period was too short for a call.
pub async fn serve(
    listener: UnixListener,
    services: Services,
    metrics: RpcMetrics,
    shutdown: CancellationToken,
    grace: Duration,
) -> Result<(), ServeError> {
    let server = Server::builder()
        .trace_fn(rpc_span)
        .max_concurrent_streams(CALLS_PER_CONNECTION)
        .layer(metrics)
        .add_routes(services)
        .serve_with_incoming_shutdown(
            UnixListenerStream::new(listener),
            shutdown.clone().cancelled_owned(),
        );
    let grace_over = async {
        shutdown.cancelled().await;
        tokio::time::sleep(grace).await;
    };
    tokio::select! {
        outcome = server => outcome.map_err(ServeError::Transport),
        () = grace_over => Err(ServeError::Unfinished { grace }),
    }
}

/// The span that everything logged about one call belongs to. The volume is noted when its guard is taken.
fn rpc_span(request: &http::Request<()>) -> Span {
    let (_, rpc) = rpc_name(request.uri().path());
    tracing::info_span!("rpc", rpc, volume.id = Empty)
}

#[cfg(test)]
mod tests;
