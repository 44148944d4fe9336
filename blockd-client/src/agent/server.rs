//! Connections: accepted, authenticated, given one request each, and ended in time.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::blocks::Blocks;

use super::roles::Role;
use super::settings::Settings;
use super::tls::{Tls, TlsError};
use super::{Agent, api, tls};

/// Connections at a time; more wait in the kernel's queue.
const CONNECTIONS: usize = 256;

/// For the handshake, and for the head of a request.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// What a request may take beyond the longest question to gluster-blockd.
const REQUEST_MARGIN: Duration = Duration::from_mins(1);

/// Pause after a connection could not be accepted, when files or memory ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// A bound agent.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    request_limit: Duration,
    grace: Duration,
}

/// Why the agent does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// A file of TLS cannot be used.
    #[error("TLS cannot be used")]
    Tls(#[source] TlsError),
    /// Nobody can reach this address without TLS.
    #[error(
        "--listen: {0} can be reached from elsewhere, and that takes TLS: give --ca-file, --cert-file and --key-file, or listen on 127.0.0.1"
    )]
    Exposed(SocketAddr),
    /// The address cannot be bound.
    #[error("--listen: {address} cannot be bound")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl Server {
    /// Binds the address, once TLS is known to work, or to be needless.
    ///
    /// # Errors
    ///
    /// The files of TLS cannot be used; they are missing and the address is not this machine's own; the address is taken.
    pub async fn bind(settings: &Settings) -> Result<Self, ServerError> {
        let address = settings.listen;
        let tls = settings.tls.clone().map(Tls::new).transpose();
        let tls = tls.map_err(ServerError::Tls)?.map(Arc::new);
        if tls.is_none() && !address.ip().is_loopback() {
            return Err(ServerError::Exposed(address));
        }
        let bound = TcpListener::bind(address).await;
        let listener = bound.map_err(|source| ServerError::Bind { address, source })?;
        Ok(Self {
            listener,
            tls,
            request_limit: settings.timeouts.info + REQUEST_MARGIN,
            grace: settings.grace,
        })
    }

    /// The address that is served.
    ///
    /// # Errors
    ///
    /// What the system said.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `shutdown`, then lets requests and operations end, for the grace period at most.
    pub async fn serve<B: Blocks>(self, agent: Arc<Agent<B>>, shutdown: CancellationToken) {
        let routes = api::routes(Arc::clone(&agent));
        let tasks = TaskTracker::new();
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        if self.tls.is_none() {
            tracing::warn!("without TLS: every user of this machine can change blocks");
        }
        while let Some(accepted) = shutdown.run_until_cancelled(self.listener.accept()).await {
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Ok(place) = Arc::clone(&places).acquire_owned().await else {
                break;
            };
            let (tls, routes, limit) = (self.tls.clone(), routes.clone(), self.request_limit);
            tasks.spawn(async move {
                if timeout(limit, connection(stream, peer, tls, routes))
                    .await
                    .is_err()
                {
                    tracing::warn!(%peer, "a request took too long");
                }
                drop(place);
            });
        }
        tasks.close();
        let ended = async { tokio::join!(tasks.wait(), agent.idle()) };
        if timeout(self.grace, ended).await.is_err() {
            tracing::warn!("operations are left to gluster-blockd: the grace period is over");
        }
    }
}

async fn connection(stream: TcpStream, peer: SocketAddr, tls: Option<Arc<Tls>>, routes: Router) {
    // Answers are small and at once; without this they would wait for more.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else {
        return request(stream, peer, Role::Controller, routes).await;
    };
    match timeout(HANDSHAKE, tls.acceptor().accept(stream)).await {
        Ok(Ok(stream)) => {
            let role = tls::role(stream.get_ref().1.peer_certificates());
            request(stream, peer, role, routes).await;
        }
        Ok(Err(error)) => tracing::warn!(%peer, %error, "a caller was not let in"),
        Err(_) => tracing::warn!(%peer, "a handshake took too long"),
    }
}

async fn request<S>(stream: S, peer: SocketAddr, role: Role, routes: Router)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = TowerToHyperService::new(routes.layer(axum::Extension(role)));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HANDSHAKE)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%peer, %error, "a connection broke");
    }
}

#[cfg(test)]
mod tests;
