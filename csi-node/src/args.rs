//! What was typed: every flag, its variable and its help. Nothing here is checked beyond being text or a number.

#![expect(
    clippy::doc_markdown,
    reason = "doc comments here are the help texts, printed as they are"
)]

use std::ffi::OsString;

use clap::{Parser, Subcommand};

/// The CSI node plugin for gluster-block.
///
/// Runs on every node that shall use volumes. It logs in to a volume's gateways over iSCSI, waits for the multipath map of
/// the volume's own identity, makes and mounts the file system, and undoes all of it in the reverse order. What it has begun
/// is in a journal on the host, so that it may be restarted at any moment.
#[derive(Debug, Clone, Parser)]
#[command(name = "csi-node", version, max_term_width = 100)]
pub struct Args {
    /// What to do instead of serving.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Where kubelet finds this plugin: a Unix socket, as unix:/path or /path.
    ///
    /// A socket that an earlier run left there is removed; any other file is not.
    #[arg(
        long,
        env = "CSI_ENDPOINT",
        value_name = "SOCKET",
        default_value = "unix:///csi/csi.sock"
    )]
    pub endpoint: String,

    /// This node's name in the cluster, as the orchestrator calls it.
    ///
    /// With the initiator's name of this host it makes the node id, which the controller needs to attach volumes.
    #[arg(long, env = "GBCSI_NODE_NAME", value_name = "NAME", default_value = "")]
    pub node_name: String,

    /// The driver's name; the same for the controller, in CSIDriver and in every storage class.
    #[arg(
        long,
        env = "GBCSI_DRIVER_NAME",
        value_name = "NAME",
        default_value = "gluster-block.csi.gluster.org"
    )]
    pub driver_name: String,

    /// Where the journal is: a directory of the host, kept over restarts of this plugin and of the host.
    #[arg(
        long,
        env = "GBCSI_STATE_DIR",
        value_name = "DIR",
        default_value = "/var/lib/gluster-block-csi/node"
    )]
    pub state_dir: String,

    /// The file with the keys that open CHAP credentials; the same keys as the controller's.
    ///
    /// One key a line, ID:BASE64 of 32 bytes. Without it only volumes without CHAP can be staged.
    #[arg(long, env = "GBCSI_SEALING_KEY_FILE", value_name = "FILE")]
    pub sealing_key_file: Option<String>,

    /// Where /metrics, /livez, /readyz and /log-level are served, as IP:PORT; nowhere when empty.
    #[arg(
        long,
        env = "GBCSI_ADMIN_ADDRESS",
        value_name = "IP:PORT",
        default_value = "127.0.0.1:9810"
    )]
    pub admin_address: String,

    /// How log lines look: json or text.
    #[arg(
        long,
        env = "GBCSI_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "json"
    )]
    pub log_format: String,

    /// What is logged: error, warn, info, debug, trace, or a filter such as info,csi_node=debug.
    #[arg(
        long,
        env = "GBCSI_LOG_LEVEL",
        value_name = "FILTER",
        default_value = "info"
    )]
    pub log_level: String,

    /// How many volumes may be published on this node at once; 0 leaves it to the orchestrator.
    ///
    /// Each volume takes as many sessions and disks as it has gateways.
    #[arg(long, env = "GBCSI_MAX_VOLUMES", value_name = "N", default_value = "0")]
    pub max_volumes: String,

    /// How long I/O of a path waits for a lost session before another path is tried.
    ///
    /// It must be below the 130s of tcmu-runner's command timer and above the 42s of GlusterFS's ping timer.
    #[arg(
        long,
        env = "GBCSI_REPLACEMENT_TIMEOUT",
        value_name = "TIME",
        default_value = "120s"
    )]
    pub replacement_timeout: String,

    /// How long one login to a gateway may take.
    #[arg(
        long,
        env = "GBCSI_LOGIN_TIMEOUT",
        value_name = "TIME",
        default_value = "10s"
    )]
    pub login_timeout: String,

    /// How long after its last sign of life a gateway is asked for one.
    #[arg(
        long,
        env = "GBCSI_NOOP_INTERVAL",
        value_name = "TIME",
        default_value = "5s"
    )]
    pub noop_interval: String,

    /// How long a gateway may take to give that sign.
    #[arg(
        long,
        env = "GBCSI_NOOP_TIMEOUT",
        value_name = "TIME",
        default_value = "5s"
    )]
    pub noop_timeout: String,

    /// Run iscsiadm and the multipath tools in the namespaces of this process of the host; 1 is its init.
    ///
    /// They are then the host's own and fit the version of its daemons. Needs the host's process namespace.
    #[arg(long, env = "GBCSI_HOST_PROCESS", value_name = "PID")]
    pub host_process: Option<String>,
}

/// What this program does for itself in a child process.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Looks what a device carries. For the plugin's own use: a question to a device may hang, and a process can be killed.
    #[command(hide = true)]
    ProbeDevice {
        /// As [`host`](crate::host) makes them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}
