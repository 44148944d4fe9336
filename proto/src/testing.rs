//! Real servers inside a test's process, and clients for them.
//!
//! A [`TestServer`] is served by the same function as in production, on a private socket in a folder of its own.

#![expect(
    clippy::expect_used,
    reason = "a test that cannot start its server has failed"
)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};

use crate::service::metrics::Metrics;
use crate::service::socket::bind_private;
use crate::service::{ServeError, Services, serve};

/// A client of the gRPC server that listens on the socket at `path`.
///
/// # Errors
///
/// When nobody listens there.
pub async fn connect(path: &Path) -> Result<Channel, tonic::transport::Error> {
    Endpoint::from_shared(format!("unix://{}", path.display()))?
        .connect()
        .await
}

/// A server that ends with the test.
#[derive(Debug)]
pub struct TestServer {
    channel: Channel,
    metrics: Metrics,
    shutdown: CancellationToken,
    serving: JoinHandle<Result<(), ServeError>>,
    path: PathBuf,
    // Removed when dropped.
    _folder: TempDir,
}

impl TestServer {
    /// Serves `services`, with a second of grace.
    ///
    /// # Panics
    ///
    /// When there is no room for a socket.
    pub async fn start(services: impl Into<Services>) -> Self {
        Self::start_with_grace(services, Duration::from_secs(1)).await
    }

    /// Serves `services`, with `grace` for calls that still run at the end.
    ///
    /// # Panics
    ///
    /// When there is no room for a socket.
    pub async fn start_with_grace(services: impl Into<Services>, grace: Duration) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the socket");
        let path = folder.path().join("csi.sock");
        let listener = bind_private(&path).expect("a socket");
        let metrics = Metrics::new("test");
        let shutdown = CancellationToken::new();
        let serving = tokio::spawn(serve(
            listener,
            services.into(),
            metrics.rpc(),
            shutdown.clone(),
            grace,
        ));
        Self {
            channel: connect(&path).await.expect("a connection"),
            metrics,
            shutdown,
            serving,
            path,
            _folder: folder,
        }
    }

    /// A client's side of a connection to it.
    #[must_use]
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Where it listens, for more connections.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it measured.
    #[must_use]
    pub const fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Tells it to stop, as a signal would, and waits for the end.
    ///
    /// # Errors
    ///
    /// What serving ended with.
    ///
    /// # Panics
    ///
    /// When the server did.
    pub async fn stop(self) -> Result<(), ServeError> {
        self.shutdown.cancel();
        self.serving.await.expect("a server does not panic")
    }
}
