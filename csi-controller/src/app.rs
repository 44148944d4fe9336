//! The composition root: builds ports, operations and services, runs them, and ends them in order.
//!
//! It serves at once and is ready when heketi answers and a storage host does; until then `Probe` and `/readyz` say no, the
//! latter with the setting to look at. At the end no operation is cut off while there is time: a half-made block
//! would be found and removed by the next attempt, but that costs more than a few seconds of waiting.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use blockd_client::Blockd;
use blockd_client::transport::ssh::SshTransport;
use proto::error::Chain;
use proto::in_flight::VolumeLocks;
use proto::service::admin::{self, Admin, Condition, Readiness};
use proto::service::metrics::Metrics;
use proto::service::socket::bind_private;
use proto::service::telemetry::LogControl;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::blocks::Blocks;
use crate::blocks::queue::Queue;
use crate::config::Config;
use crate::hosting::HostingVolumes;
use crate::hosting::heketi::Heketi;
use crate::metrics::{BackendMetrics, SpaceMetrics};
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
    let readiness = Readiness::default();
    let conditions = Conditions {
        backend: readiness.condition("heketi"),
        hosts: readiness.condition("storage hosts"),
    };
    let mut metrics = Metrics::new("gluster_block_csi_controller");
    let (requests, spaces) = (BackendMetrics::default(), SpaceMetrics::default());
    requests.register(metrics.registry_mut());
    spaces.register(metrics.registry_mut());

    let heketi = Heketi::new(config.heketi, config.making)?;
    let transport =
        SshTransport::new(config.ssh).context("cannot use --ssh-key-file or --ssh-known-hosts")?;
    let blocks = Queue::new(
        Blockd::new(transport, config.timeouts),
        config.queue,
        requests,
    );
    let operations = Operations::new(heketi, blocks, config.keys, config.policy, spaces);
    let locks = VolumeLocks::default();

    let listener = bind_private(&config.socket).context("cannot serve at --endpoint")?;
    let routes = rpc::routes(
        operations.clone(),
        locks.clone(),
        config.driver_name,
        readiness.clone(),
    );
    let calls = proto::service::serve(
        listener,
        routes,
        metrics.rpc(),
        shutdown.clone(),
        CALL_GRACE,
    );
    let admin = Admin {
        metrics: Arc::new(metrics),
        readiness,
        log,
    };
    let endpoints = endpoints(config.admin_address, admin, shutdown.clone()).await?;

    tracing::info!(socket = %config.socket.display(), "serving");
    let watch = tokio::spawn(watch(operations, conditions, shutdown));
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
            "operations are still running; repeats after the next start will find what they leave"
        );
    }
    outcome.map(drop)
}

/// The admin endpoints as a future to run, listening already; one that only waits when there are none.
async fn endpoints(
    address: Option<std::net::SocketAddr>,
    admin: Admin,
    shutdown: CancellationToken,
) -> anyhow::Result<impl Future<Output = anyhow::Result<()>> + use<>> {
    let listener = match address {
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

/// What the controller cannot do without.
struct Conditions {
    backend: Condition,
    hosts: Condition,
}

/// Looks from time to time whether heketi and the storage hosts answer: sooner while they do not.
async fn watch<H: HostingVolumes, B: Blocks>(
    operations: Operations<H, B>,
    conditions: Conditions,
    shutdown: CancellationToken,
) {
    let mut last = None;
    while !shutdown.is_cancelled() {
        let outcome = look(&operations, &conditions).await;
        if last.as_ref() != Some(&outcome) {
            match &outcome {
                Ok(()) => tracing::info!("backend and storage hosts answer"),
                Err(reason) => tracing::warn!(reason, "not ready"),
            }
        }
        let pause = if outcome.is_ok() { WELL } else { UNWELL };
        last = Some(outcome);
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

async fn look<H: HostingVolumes, B: Blocks>(
    operations: &Operations<H, B>,
    conditions: &Conditions,
) -> Result<(), String> {
    let rooms = operations.hosting.room(&[]).await.map_err(|error| {
        let reason = Chain(&error).to_string();
        conditions.backend.fail(&reason);
        reason
    })?;
    conditions.backend.ok();
    let hosts: BTreeSet<_> = rooms.into_iter().flat_map(|room| room.hosts).collect();
    if hosts.is_empty() {
        let reason = "heketi has no cluster for block volumes with nodes in it".to_owned();
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

/// How long calls may still run after the signal.
const CALL_GRACE: Duration = Duration::from_secs(20);
/// How long operations may still run after the calls.
const OPERATION_GRACE: Duration = Duration::from_secs(30);
/// Between two looks at a backend that answers, and at one that does not.
const WELL: Duration = Duration::from_mins(1);
const UNWELL: Duration = Duration::from_secs(5);
