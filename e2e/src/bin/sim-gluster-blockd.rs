//! The daemon of the gluster-block simulator; runs in the foreground and logs to stderr.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use e2e::sim::gluster_block::{DaemonConfig, Sockets, run_daemon};
use proto::error::Chain;

/// Plays gluster-blockd on a storage host: real LIO targets on a real GlusterFS volume.
#[derive(Debug, Parser)]
#[command(name = "sim-gluster-blockd", version)]
struct Args {
    /// Socket of the command line; the lock file lies beside it.
    #[arg(
        long,
        env = "GB_SIM_SOCKET",
        default_value = "/var/run/gluster-blockd.socket"
    )]
    socket: PathBuf,
    /// Address of the port between daemons; the other hosts are called on the same port.
    #[arg(long, default_value = "0.0.0.0:24010")]
    listen: SocketAddr,
    /// Directory of the fault file `faults`, of `faults.hits` and of `held/`.
    #[arg(long, default_value = "/run/gluster-block-sim")]
    run_dir: PathBuf,
    /// Directory under which volume V is mounted at V; `volumes` in the run directory unless given.
    #[arg(long)]
    mounts: Option<PathBuf>,
    /// Command that mounts `{volume}` on `{path}`; `none` when the directories are there already.
    #[arg(
        long,
        default_value = "mount -t glusterfs -o direct-io-mode=enable,attribute-timeout=0,entry-timeout=0 localhost:/{volume} {path}"
    )]
    mount_command: String,
    /// Directory in which glusterd keeps its notes about volumes.
    #[arg(long, default_value = "/var/lib/glusterd/vols")]
    glusterd: PathBuf,
    /// Root of the kernel's target tree; a plain directory does for tests.
    #[arg(long, default_value = "/sys/kernel/config/target")]
    configfs: PathBuf,
    /// Saved configuration from which targets are restored at start.
    #[arg(long, default_value = "/etc/target/saveconfig.json")]
    saved_config: PathBuf,
    /// Configuration file; must exist and must not be empty.
    #[arg(
        long,
        env = "GB_SIM_SYSCONFIG",
        default_value = "/etc/sysconfig/gluster-blockd"
    )]
    sysconfig: PathBuf,
    /// Capability that this host denies having, for instance `create_io_timeout`; repeatable.
    #[arg(long = "without-capability")]
    without: Vec<String>,
    /// Seconds that one call to another daemon may take.
    #[arg(long, default_value_t = 300.0)]
    remote_timeout: f64,
    /// Seconds that start-up waits for volumes before it gives up on their targets.
    #[arg(long, default_value_t = 60.0)]
    restore_timeout: f64,
    /// Seconds that a stopped volume takes to say so.
    #[arg(long, default_value_t = 3.0)]
    stopped_delay: f64,
    /// Seconds per hosting volume beyond the count kept open; the real one takes about 10, 0 is off.
    #[arg(long, default_value_t = 0.0)]
    eviction_delay: f64,
    /// Export without a write-back cache: every write waits for the volume.
    #[arg(long)]
    write_through: bool,
    /// Sockets to open: `local` plays a host without rpcbind, `hosts` one whose main process was killed.
    #[arg(long, value_enum, default_value_t = Serve::Both)]
    serve: Serve,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Serve {
    Both,
    Local,
    Hosts,
}

fn main() -> ExitCode {
    let args = Args::parse();
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    let Err(error) = run_daemon(&config(args)) else {
        return ExitCode::SUCCESS;
    };
    tracing::error!("{}", Chain(&error));
    ExitCode::FAILURE
}

fn config(args: Args) -> DaemonConfig {
    let seconds = |number: f64| Duration::try_from_secs_f64(number).unwrap_or_default();
    let command = args
        .mount_command
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    DaemonConfig {
        mounts: args.mounts.unwrap_or_else(|| args.run_dir.join("volumes")),
        socket: args.socket,
        listen: args.listen,
        run_dir: args.run_dir,
        mount_command: (args.mount_command != "none").then_some(command),
        glusterd: args.glusterd,
        configfs: args.configfs,
        saved_config: args.saved_config,
        sysconfig: args.sysconfig,
        without: args.without,
        remote_timeout: seconds(args.remote_timeout),
        restore_timeout: seconds(args.restore_timeout),
        stopped_delay: seconds(args.stopped_delay),
        eviction_delay: seconds(args.eviction_delay),
        write_back: !args.write_through,
        sockets: match args.serve {
            Serve::Both => Sockets::Both,
            Serve::Local => Sockets::Local,
            Serve::Hosts => Sockets::Hosts,
        },
    }
}
