//! The composition root: builds the adapters, the operations and the services, runs them, and ends them in order.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use blockd_client::transport::ssh::SshTransport;
use blockd_client::vocabulary::SealingKeys;
use blockd_client::{Blockd, Timeouts};
use proto::error::Chain;
use proto::in_flight::VolumeLocks;
use proto::service::admin::{self, Admin, Condition, Readiness};
use proto::service::metrics::Metrics;
use proto::service::socket::bind_private;
use proto::service::telemetry::LogControl;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::hosting::heketi::Heketi;
use crate::ops::Operations;
use crate::rpc;

/// Runs the controller until `shutdown`.
///
/// # Errors
/// What keeps it from starting, and a service that ends before its time.
pub async fn run(
    config: Config,
    log: LogControl,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let keys = config
        .sealing_key_file
        .as_ref()
        .map(SealingKeys::load)
        .transpose();
    let keys = keys.context("see --sealing-key-file")?;
    if keys.is_none() {
        tracing::warn!("no --sealing-key-file: volumes with CHAP cannot be attached");
    }
    let transport = SshTransport::new(config.ssh.clone())
        .context("see --ssh-key-file and --ssh-known-hosts")?;
    let blocks = Blockd::new(transport, Timeouts::default());
    let heketi = Heketi::new(config.heketi.clone()).context("see --heketi-url")?;
    let probe = Heketi::new(config.heketi.clone()).context("see --heketi-url")?;
    let operations = Operations::new(heketi, blocks, keys, config.policy.clone());

    let readiness = Readiness::default();
    let backend = readiness.condition("heketi");
    let locks = VolumeLocks::default();
    let metrics = Arc::new(Metrics::new("gluster_block_csi_controller"));
    let listener = bind_private(&config.socket).context("cannot serve at --endpoint")?;
    let is_ready = {
        let readiness = readiness.clone();
        Arc::new(move || readiness.is_ready())
    };
    let services = rpc::services(operations, locks.clone(), &config.driver_name, is_ready);
    let calls = proto::service::serve(
        listener,
        services,
        metrics.rpc(),
        shutdown.clone(),
        CALL_GRACE,
    );
    let admin = Admin {
        metrics,
        readiness,
        log,
    };
    let endpoints = endpoints(&config, admin, shutdown.clone()).await?;
    tracing::info!(socket = %config.socket.display(), heketi = %config.heketi.url, "serving");
    let watch = tokio::spawn(watch(probe, backend, shutdown));
    let outcome = tokio::try_join!(
        async { calls.await.map_err(anyhow::Error::from) },
        endpoints
    );
    watch.abort();
    if tokio::time::timeout(OPERATION_GRACE, locks.idle())
        .await
        .is_err()
    {
        // They are found again by name at the next try.
        tracing::warn!(
            volumes = locks.in_flight(),
            "operations are still running and are left to the next run"
        );
    }
    outcome.map(drop)
}

/// The admin endpoints as a future to run, listening already; one that only waits when there are none.
async fn endpoints(
    config: &Config,
    admin: Admin,
    shutdown: CancellationToken,
) -> anyhow::Result<impl Future<Output = anyhow::Result<()>> + use<>> {
    let listener = match config.admin_address {
        Some(address) => {
            let listener = TcpListener::bind(address).await;
            Some(listener.with_context(|| format!("cannot serve at --admin-address {address}"))?)
        }
        None => None,
    };
    Ok(async move {
        match listener {
            Some(listener) => admin::serve(listener, admin, shutdown)
                .await
                .map_err(Into::into),
            None => Ok(()),
        }
    })
}

/// Looks from time to time whether heketi answers and takes the key: sooner while it does not.
async fn watch(heketi: Heketi, condition: Condition, shutdown: CancellationToken) {
    let mut last = None;
    while !shutdown.is_cancelled() {
        let outcome = heketi.check().await;
        match &outcome {
            Ok(()) => condition.ok(),
            Err(error) => condition.fail(error),
        }
        let pause = if outcome.is_ok() { WELL } else { UNWELL };
        if last.as_ref() != Some(&outcome) {
            match &outcome {
                Ok(()) => tracing::info!("heketi answers"),
                Err(error) => tracing::warn!(error = %Chain(error), "not ready"),
            }
            last = Some(outcome);
        }
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// How long calls may still run after the signal.
const CALL_GRACE: Duration = Duration::from_secs(10);
/// How long operations may still run after the calls.
const OPERATION_GRACE: Duration = Duration::from_secs(15);
/// Between two looks at a backend that is well, and at one that is not.
const WELL: Duration = Duration::from_mins(1);
const UNWELL: Duration = Duration::from_secs(2);
