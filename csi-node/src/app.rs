//! The composition root: builds the operations and the services, runs them, and ends them in order.
//!
//! At the end operations get time, because a format that is killed half-way costs more than a few seconds of waiting. What
//! is still running then is in the journal.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use blockd_client::vocabulary::SealingKeys;
use proto::error::Chain;
use proto::in_flight::VolumeLocks;
use proto::service::admin::{Admin, Condition, Readiness};
use proto::service::metrics::Metrics;
use proto::service::plugin::Plugin;
use proto::service::telemetry::LogControl;
use proto::service::watch::Watch;
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

    let plugin = Plugin::bind(&config.socket, config.admin_address).await?;
    let services = rpc::routes(
        operations.clone(),
        locks.clone(),
        config.presentation,
        readiness.clone(),
    );
    let admin = Admin {
        metrics: Arc::new(Metrics::new("gluster_block_csi_node")),
        readiness,
        log,
    };

    let journals = operations
        .tidy()
        .await
        .context("cannot go through --state-dir")?;
    starting.release();
    tracing::info!(journals, socket = %config.socket.display(), "serving");
    let host_condition = Arc::new(host_condition);
    let watch = WATCH.run(
        move || look(operations.clone(), Arc::clone(&host_condition)),
        shutdown.clone(),
    );
    Ok(plugin
        .serve(services, admin, locks, watch, shutdown)
        .await?)
}

/// Whether the host's tools and daemons answer.
const WATCH: Watch = Watch {
    well: "this host is ready",
    unwell: "this host is not ready",
    retry: Duration::from_secs(2),
};

async fn look<H: Host>(operations: Operations<H>, condition: Arc<Condition>) -> Result<(), String> {
    let outcome = operations.host().ready().await;
    let outcome = outcome.map_err(|error| Chain(&error).to_string());
    match &outcome {
        Ok(()) => condition.ok(),
        Err(reason) => condition.fail(reason),
    }
    outcome
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
