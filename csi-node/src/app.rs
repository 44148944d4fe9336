//! The composition root: builds the operations and the services, runs them, and ends them in order.
//!
//! At the end no operation is cut off: calls get a grace period, and operations whose callers gave up get another, because
//! a format that is killed half-way costs more than a few seconds of waiting. What is still running then is in the
//! journal.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use blockd_client::vocabulary::SealingKeys;
use proto::error::Chain;
use proto::in_flight::VolumeLocks;
use proto::service::admin::{self, Admin, Condition, Readiness};
use proto::service::metrics::Metrics;
use proto::service::socket::bind_private;
use proto::service::telemetry::LogControl;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::host::Host;
use crate::ops::{Operations, Waiting};
use crate::record::Journal;
use crate::rpc;

#[cfg(test)]
mod tests;

/// Runs the plugin until `shutdown`.
///
/// # Errors
///
/// What keeps it from starting, and a service that ends before its time.
pub async fn run<H: Host>(
    config: Config,
    host: H,
    log: LogControl,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let readiness = Readiness::default();
    let starting = readiness.latch("going through the journals of earlier runs");
    let host_condition = readiness.condition("host");
    let operations = operations(&config, host).context("cannot open the state of this node")?;
    let locks = VolumeLocks::default();
    let metrics = Arc::new(Metrics::new("gluster_block_csi_node"));

    let listener = bind_private(&config.socket).context("cannot serve at --endpoint")?;
    let routes = rpc::routes(
        operations.clone(),
        locks.clone(),
        config.presentation.clone(),
        readiness.clone(),
    );
    let calls = proto::service::serve(
        listener,
        routes,
        metrics.rpc(),
        shutdown.clone(),
        CALL_GRACE,
    );
    let endpoints = endpoints(
        &config,
        Admin {
            metrics,
            readiness,
            log,
        },
        shutdown.clone(),
    )
    .await?;

    let journals = operations
        .tidy()
        .await
        .context("cannot go through --state-dir")?;
    starting.release();
    tracing::info!(journals, socket = %config.socket.display(), "serving");
    let watch = tokio::spawn(watch_host(operations, host_condition, shutdown));
    let outcome = tokio::try_join!(
        async { calls.await.map_err(anyhow::Error::from) },
        endpoints
    );
    watch.abort();
    if tokio::time::timeout(OPERATION_GRACE, locks.idle())
        .await
        .is_err()
    {
        let volumes = locks.in_flight();
        tracing::warn!(
            volumes,
            "operations are still running and are left to the next run"
        );
    }
    outcome.map(drop)
}

fn operations<H: Host>(config: &Config, host: H) -> anyhow::Result<Operations<H>> {
    let journal = Journal::open(&config.state_dir).context("see --state-dir")?;
    let keys = match &config.sealing_key_file {
        Some(file) => Some(Arc::new(
            SealingKeys::load(file).context("see --sealing-key-file")?,
        )),
        None => None,
    };
    Ok(Operations::new(host, journal, keys, Waiting::default()))
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

/// Looks from time to time whether the host's tools and daemons answer: sooner while they do not.
async fn watch_host<H: Host>(
    operations: Operations<H>,
    condition: Condition,
    shutdown: CancellationToken,
) {
    let mut last = None;
    while !shutdown.is_cancelled() {
        let outcome = operations
            .host()
            .ready()
            .await
            .map_err(|error| Chain(&error).to_string());
        match &outcome {
            Ok(()) => condition.ok(),
            Err(reason) => condition.fail(reason),
        }
        let pause = if outcome.is_ok() { WELL } else { UNWELL };
        if last.as_ref() != Some(&outcome) {
            match &outcome {
                Ok(()) => tracing::info!("this host is ready"),
                Err(reason) => tracing::warn!(reason, "this host is not ready"),
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
const CALL_GRACE: Duration = Duration::from_secs(20);
/// How long operations may still run after the calls; together below the usual 60 seconds of a pod that formats.
const OPERATION_GRACE: Duration = Duration::from_secs(30);
/// Between two looks at a host that is ready, and at one that is not.
const WELL: Duration = Duration::from_mins(1);
const UNWELL: Duration = Duration::from_secs(2);
