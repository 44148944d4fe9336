//! The life of a plugin: its sockets, what is served on them, and its end.
//!
//! At the end no operation is cut off while there is time: calls get a grace period, and operations whose callers gave up
//! get another.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;

use super::admin::{self, Admin};
use super::socket::{SocketError, bind_private};
use super::{ServeError, Services};
use crate::in_flight::VolumeLocks;

/// How long calls may still run after the signal.
const CALL_GRACE: Duration = Duration::from_secs(20);
/// How long operations may still run after the calls; together below the usual 60 seconds of a pod that formats.
const OPERATION_GRACE: Duration = Duration::from_secs(30);

/// The sockets of a plugin, listening already.
#[derive(Debug)]
pub struct Plugin {
    calls: UnixListener,
    admin: Option<TcpListener>,
}

/// Why a plugin did not start, or ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// There is no socket for calls.
    #[error("cannot serve at --endpoint")]
    Endpoint(#[source] SocketError),
    /// There is no socket for the admin endpoints.
    #[error("cannot serve at --admin-address {address}")]
    AdminAddress {
        /// Where it should have been.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Calls are no longer served.
    #[error(transparent)]
    Calls(ServeError),
    /// The admin endpoints are no longer served.
    #[error("admin endpoints failed")]
    Admin(#[source] io::Error),
}

impl Plugin {
    /// Listens on the Unix socket for calls, and for the admin endpoints if they have an address.
    ///
    /// # Errors
    ///
    /// When one of the two cannot be had.
    pub async fn bind(socket: &Path, address: Option<SocketAddr>) -> Result<Self, PluginError> {
        let calls = bind_private(socket).map_err(PluginError::Endpoint)?;
        let admin = match address {
            Some(address) => {
                let listener = TcpListener::bind(address).await;
                let refused = |source| PluginError::AdminAddress { address, source };
                Some(listener.map_err(refused)?)
            }
            None => None,
        };
        Ok(Self { calls, admin })
    }

    /// Serves until `shutdown`, with `watch` running beside, and then lets the operations that hold `locks` end.
    ///
    /// # Errors
    ///
    /// When calls or endpoints end before their time, or calls do not end in time.
    pub async fn serve(
        self,
        services: Services,
        admin: Admin,
        locks: VolumeLocks,
        watch: impl Future<Output = ()> + Send + 'static,
        shutdown: CancellationToken,
    ) -> Result<(), PluginError> {
        let metrics = admin.metrics.rpc();
        let calls = super::serve(self.calls, services, metrics, shutdown.clone(), CALL_GRACE);
        let endpoints = async {
            match self.admin {
                Some(listener) => admin::serve(listener, admin, shutdown).await,
                None => Ok(()),
            }
        };
        let watch = tokio::spawn(watch);
        let outcome = tokio::try_join!(async { calls.await.map_err(PluginError::Calls) }, async {
            endpoints.await.map_err(PluginError::Admin)
        },);
        watch.abort();
        let idle = tokio::time::timeout(OPERATION_GRACE, locks.idle()).await;
        if idle.is_err() {
            let volumes = locks.in_flight();
            tracing::warn!(
                volumes,
                "operations are still running; repeats after the next start will find what they leave"
            );
        }
        outcome.map(drop)
    }
}
