//! The composition root: builds ports, operations and services, runs them, and ends them in order.
//!
//! It serves at once and is ready when the backend answers and a storage host does; until then `Probe` and `/readyz` say no, the
//! latter with the setting to look at. At the end operations get time: a half-made block would be found and removed by the
//! next attempt, but that costs more than a few seconds of waiting.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use blockd_client::Blockd;
use blockd_client::transport::ssh::SshTransport;
use proto::error::Chain;
use proto::in_flight::VolumeLocks;
use proto::service::admin::{Admin, Condition, Readiness};
use proto::service::metrics::Metrics;
use proto::service::plugin::Plugin;
use proto::service::telemetry::LogControl;
use proto::service::watch::Watch;
use tokio_util::sync::CancellationToken;

use crate::blocks::Blocks;
use crate::blocks::daemons::Daemons;
use crate::config::{Backend, Config};
use crate::hosting::HostingVolumes;
use crate::hosting::gd2::Gd2;
use crate::hosting::heketi::Heketi;
use crate::metrics::{BackendMetrics, HostMetrics, SpaceMetrics};
use crate::ops::Operations;
use crate::rpc;

/// Runs the controller until `shutdown`.
///
/// # Errors
///
/// What keeps it from starting, and a service that ends before its time.
pub async fn run(
    config: Config,
    log: LogControl,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let making = config.making.clone();
    match config.backend.clone() {
        Backend::Heketi(connection) => {
            serve(
                "heketi",
                Heketi::new(connection, making)?,
                config,
                log,
                shutdown,
            )
            .await
        }
        Backend::Gd2(connection) => {
            serve("gd2", Gd2::new(connection, making)?, config, log, shutdown).await
        }
    }
}

async fn serve<H: HostingVolumes>(
    backend: &'static str,
    hosting: H,
    config: Config,
    log: LogControl,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let readiness = Readiness::default();
    let conditions = Conditions {
        backend: readiness.condition(backend),
        hosts: readiness.condition("storage hosts"),
    };
    let mut metrics = Metrics::new("gluster_block_csi_controller");
    let requests = BackendMetrics::default();
    let (hosts, spaces) = (HostMetrics::default(), SpaceMetrics::default());
    requests.register(metrics.registry_mut());
    hosts.register(metrics.registry_mut());
    spaces.register(metrics.registry_mut());

    let transport =
        SshTransport::new(config.ssh).context("cannot use --ssh-key-file or --ssh-known-hosts")?;
    let blocks = Blockd::new(transport, config.timeouts);
    let daemons = Daemons::new(blocks, config.queue, requests, hosts);
    let operations = Operations::new(hosting, daemons, config.keys, config.policy, spaces);
    let locks = VolumeLocks::default();

    let plugin = Plugin::bind(&config.socket, config.admin_address).await?;
    let services = rpc::routes(
        operations.clone(),
        locks.clone(),
        config.driver_name,
        readiness.clone(),
    );
    let admin = Admin {
        metrics: Arc::new(metrics),
        readiness,
        log,
    };
    tracing::info!(socket = %config.socket.display(), "serving");
    let conditions = Arc::new(conditions);
    let watch = WATCH.run(
        move || look(operations.clone(), Arc::clone(&conditions)),
        shutdown.clone(),
    );
    Ok(plugin
        .serve(services, admin, locks, watch, shutdown)
        .await?)
}

/// Whether the backend and the storage hosts answer.
const WATCH: Watch = Watch {
    well: "backend and storage hosts answer",
    unwell: "not ready",
    retry: Duration::from_secs(5),
};

/// What the controller cannot do without.
struct Conditions {
    backend: Condition,
    hosts: Condition,
}

async fn look<H: HostingVolumes, B: Blocks>(
    operations: Operations<H, B>,
    conditions: Arc<Conditions>,
) -> Result<(), String> {
    let rooms = operations.hosting.room(&[]).await.map_err(|error| {
        let reason = Chain(&error).to_string();
        conditions.backend.fail(&reason);
        reason
    })?;
    conditions.backend.ok();
    let hosts: BTreeSet<_> = rooms.into_iter().flat_map(|room| room.hosts).collect();
    if hosts.is_empty() {
        let reason = "the backend has no cluster for block volumes with nodes in it".to_owned();
        conditions.hosts.fail(&reason);
        return Err(reason);
    }
    let (alive, dead) = operations.ping_all(hosts).await;
    let dead = dead.trim_start_matches("; ").to_owned();
    // One suffices to serve; the others are reported, and each create says which it lacks.
    if alive.is_empty() {
        let reason = format!(
            "none answers; see --ssh-user, --ssh-port, --ssh-key-file and --ssh-known-hosts: {dead}"
        );
        conditions.hosts.fail(&reason);
        return Err(reason);
    }
    conditions.hosts.ok();
    if !dead.is_empty() {
        tracing::warn!(hosts = dead, "storage hosts do not answer");
    }
    Ok(())
}
