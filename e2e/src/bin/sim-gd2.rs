//! `sim-gd2`: the gd2 simulator as a program. `docs/simulators-gd2.md` explains its flags and its switch file.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Parser, ValueEnum};
use e2e::sim::executor::AnyExecutor;
use e2e::sim::executor::fake::Fake;
use e2e::sim::executor::ssh::{Ssh, SshSettings};
use e2e::sim::gd2::auth::Check;
use e2e::sim::gd2::model::Cluster;
use e2e::sim::gd2::{Settings, Simulator, serve};
use e2e::sim::store::{Store, replace};
use tokio::net::TcpListener;
use tracing_subscriber::EnvFilter;

/// Simulates gd2 on the storage hosts of a lab.
#[derive(Debug, Parser)]
#[command(name = "sim-gd2", args_override_self = true)]
struct Args {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:24007")]
    listen: String,
    /// File that gets the address, once it is listened on.
    #[arg(long)]
    address_file: Option<PathBuf>,
    /// Folder for the state, which survives restarts.
    #[arg(long)]
    state_dir: PathBuf,
    /// Storage hosts, a peer with one device each.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "10.77.1.11,10.77.1.12,10.77.1.13"
    )]
    peers: Vec<String>,
    /// Their zones, in the same order; a zone of its own for each without.
    #[arg(long, value_delimiter = ',')]
    zones: Vec<String>,
    /// Size of the devices.
    #[arg(long, default_value_t = 20)]
    device_gib: u64,
    /// Folder on the hosts below which bricks are made.
    #[arg(long, default_value = "/bricks/gd2")]
    bricks_root: String,
    /// File with the secret of the issuer `glustercli`.
    #[arg(long, required_unless_present = "disable_auth")]
    secret_file: Option<PathBuf>,
    /// Check no tokens.
    #[arg(long)]
    disable_auth: bool,
    /// Milliseconds for which a lock is waited for.
    #[arg(long, default_value_t = 5000)]
    lock_timeout: u64,
    /// Milliseconds after which an answer is lost, while the work behind it goes on.
    #[arg(long, default_value_t = 30_000)]
    write_timeout: u64,
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

const GIB: u64 = 1 << 30;
const KIB: u64 = 1 << 10;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_new(&args.log)?)
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
    fs::create_dir_all(&args.state_dir).with_context(|| args.state_dir.display().to_string())?;
    let device = args.device_gib.saturating_mul(GIB);
    let initial = || Cluster::of(&args.peers, &args.zones, device);
    let store = Store::open(args.state_dir.join("gd2.json"), initial, |_| ())?;
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

fn settings(args: &Args) -> anyhow::Result<Settings> {
    let auth = match &args.secret_file {
        Some(file) if !args.disable_auth => {
            let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
            Some(Check::new(text.trim()))
        }
        _ => None,
    };
    Ok(Settings {
        auth,
        lock_timeout: Duration::from_millis(args.lock_timeout),
        write_timeout: Duration::from_millis(args.write_timeout),
        bricks_root: args.bricks_root.clone(),
        faults: args.faults.clone(),
    })
}

fn executor(args: &Args) -> anyhow::Result<AnyExecutor> {
    if args.executor == ExecutorKind::Mock {
        let kib = args.device_gib.saturating_mul(GIB / KIB);
        let hosts = Fake::open(args.state_dir.join("hosts.json"), kib)?;
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
