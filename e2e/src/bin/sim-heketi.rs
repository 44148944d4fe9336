//! `sim-heketi`: the heketi simulator as a program. `docs/simulators-heketi.md` explains its flags and its switch file.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Parser, ValueEnum};
use e2e::sim::executor::AnyExecutor;
use e2e::sim::executor::fake::Fake;
use e2e::sim::executor::ssh::{Ssh, SshSettings};
use e2e::sim::heketi::auth::{Check, Keys};
use e2e::sim::heketi::model::Database;
use e2e::sim::heketi::topology::Topology;
use e2e::sim::heketi::{Settings, Simulator, serve};
use e2e::sim::store::{Store, replace};
use tokio::net::TcpListener;
use tracing_subscriber::EnvFilter;

/// Simulates heketi on the storage hosts of a lab.
#[derive(Debug, Parser)]
#[command(name = "sim-heketi", args_override_self = true)]
struct Args {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: String,
    /// File that gets the address, once it is listened on.
    #[arg(long)]
    address_file: Option<PathBuf>,
    /// Folder for the state, which survives restarts.
    #[arg(long)]
    state_dir: PathBuf,
    /// heketi's topology file; a device may be `{"name": …, "size_gib": …}`. Read when there is no state yet.
    #[arg(long, conflicts_with = "nodes")]
    topology: Option<PathBuf>,
    /// Storage hosts, one device each, when there is no topology file.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "10.77.1.11,10.77.1.12,10.77.1.13"
    )]
    nodes: Vec<String>,
    /// Size of those devices.
    #[arg(long, default_value_t = 20)]
    device_gib: u64,
    /// Folder on the hosts below which bricks are made.
    #[arg(long, default_value = "/bricks")]
    bricks_root: String,
    /// Key of the issuer `admin`.
    #[arg(long, env = "HEKETI_ADMIN_KEY", hide_env_values = true)]
    admin_key: Option<String>,
    /// Key of the issuer `user`.
    #[arg(long, env = "HEKETI_USER_KEY", hide_env_values = true)]
    user_key: Option<String>,
    /// Check no tokens.
    #[arg(long)]
    disable_auth: bool,
    /// Seconds by which `iat` may lie in the future.
    #[arg(long, env = "HEKETI_JWT_IAT_LEEWAY_SECONDS", default_value_t = 120)]
    iat_leeway: i64,
    /// Where commands go.
    #[arg(long, value_enum, default_value_t = ExecutorKind::Ssh)]
    executor: ExecutorKind,
    /// Account on the hosts.
    #[arg(long, default_value = "root")]
    ssh_user: String,
    /// Port on the hosts.
    #[arg(long, default_value_t = 22)]
    ssh_port: u16,
    /// Private key for the hosts.
    #[arg(long, required_if_eq("executor", "ssh"))]
    ssh_key: Option<PathBuf>,
    /// Host keys of the hosts.
    #[arg(long, required_if_eq("executor", "ssh"))]
    ssh_known_hosts: Option<PathBuf>,
    /// Switch file for faults.
    #[arg(long)]
    faults: Option<PathBuf>,
    /// Operations at a time.
    #[arg(long, env = "HEKETI_MAX_INFLIGHT_OPERATIONS", default_value_t = 8)]
    max_inflight: usize,
    /// Volumes in a cluster.
    #[arg(
        long,
        env = "HEKETI_GLUSTER_MAX_VOLUMES_PER_CLUSTER",
        default_value_t = 1000
    )]
    max_volumes_per_cluster: usize,
    /// How often a failed volume create is tried again.
    #[arg(long, default_value_t = 4)]
    create_retries: u32,
    /// Options of every hosting volume, comma separated.
    #[arg(
        long,
        env = "HEKETI_BLOCK_HOSTING_VOLUME_OPTIONS",
        default_value = "group gluster-block"
    )]
    block_hosting_volume_options: String,
    /// `strict` wants one zone per brick of a set.
    #[arg(long, env = "HEKETI_ZONE_CHECKING", default_value = "none")]
    zone_checking: String,
    /// Seconds until the background cleaner runs first; 0 switches it off.
    #[arg(long, default_value_t = 60)]
    cleaner_first: u64,
    /// Seconds between its further runs.
    #[arg(long, default_value_t = 3600)]
    cleaner_every: u64,
    /// What to log, in the form of `RUST_LOG`.
    #[arg(long, default_value = "info")]
    log: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExecutorKind {
    /// The hosts, over ssh.
    Ssh,
    /// A model of the hosts, kept in the state folder.
    Mock,
}

const KIB_PER_GIB: u64 = 1024 * 1024;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_new(&args.log)?)
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
    fs::create_dir_all(&args.state_dir).with_context(|| args.state_dir.display().to_string())?;
    let topology = topology(&args)?;
    let initial = || topology.into_database();
    let store = Store::open(
        args.state_dir.join("heketi.json"),
        initial,
        Database::after_a_restart,
    )?;
    let simulator = Arc::new(Simulator::new(settings(&args)?, store, executor(&args)?));
    let listener = TcpListener::bind(&args.listen)
        .await
        .with_context(|| args.listen.clone())?;
    let address = listener.local_addr()?;
    if let Some(file) = &args.address_file {
        replace(file, format!("{address}\n").as_bytes())
            .with_context(|| file.display().to_string())?;
    }
    tracing::info!(%address, "listening");
    serve(listener, simulator).await?;
    Ok(())
}

fn topology(args: &Args) -> anyhow::Result<Topology> {
    let Some(path) = &args.topology else {
        return Ok(Topology::simple(&args.nodes, args.device_gib));
    };
    let bytes = fs::read(path).with_context(|| path.display().to_string())?;
    serde_json::from_slice(&bytes).with_context(|| path.display().to_string())
}

fn settings(args: &Args) -> anyhow::Result<Settings> {
    let auth = match (&args.admin_key, &args.user_key) {
        _ if args.disable_auth => None,
        (Some(admin), Some(user)) if !admin.is_empty() && !user.is_empty() => Some(Check {
            keys: Keys::new(admin, user),
            iat_leeway: args.iat_leeway,
        }),
        _ => bail!("give --admin-key and --user-key, or --disable-auth"),
    };
    let cleaner = (args.cleaner_first > 0).then(|| {
        (
            Duration::from_secs(args.cleaner_first),
            Duration::from_secs(args.cleaner_every),
        )
    });
    Ok(Settings {
        auth,
        max_in_flight: args.max_inflight,
        max_volumes_per_cluster: args.max_volumes_per_cluster,
        create_retries: args.create_retries,
        block_options: args
            .block_hosting_volume_options
            .split(',')
            .map(str::to_owned)
            .collect(),
        strict_zones: args.zone_checking == "strict",
        bricks_root: args.bricks_root.clone(),
        faults: args.faults.clone(),
        cleaner,
    })
}

fn executor(args: &Args) -> anyhow::Result<AnyExecutor> {
    if args.executor == ExecutorKind::Mock {
        let hosts = Fake::open(
            args.state_dir.join("hosts.json"),
            args.device_gib.saturating_mul(KIB_PER_GIB),
        )?;
        return Ok(AnyExecutor::Fake(hosts));
    }
    let (Some(key), Some(known_hosts)) = (&args.ssh_key, &args.ssh_known_hosts) else {
        bail!("the ssh executor needs --ssh-key and --ssh-known-hosts");
    };
    Ok(AnyExecutor::Ssh(Ssh::new(SshSettings {
        user: args.ssh_user.clone(),
        port: args.ssh_port,
        key: key.clone(),
        known_hosts: known_hosts.clone(),
    })))
}
