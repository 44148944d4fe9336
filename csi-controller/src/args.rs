//! What was typed: every flag, its variable and its help. Nothing here is checked beyond being text or a number.

#![expect(
    clippy::doc_markdown,
    reason = "doc comments here are the help texts, printed as they are"
)]

use clap::Parser;

/// The CSI controller for gluster-block.
///
/// Runs once in a cluster, beside the CSI sidecars. It owns block-hosting volumes, which it makes through heketi, makes
/// blocks on them through the gluster-block command over ssh, and tells nodes what they need to attach them. It keeps no
/// state of its own and may be restarted at any moment.
#[derive(Debug, Clone, Parser)]
#[command(name = "csi-controller", version, max_term_width = 100)]
pub struct Args {
    /// Where the sidecars find this controller: a Unix socket, as unix:/path or /path.
    ///
    /// A socket that an earlier run left there is removed; any other file is not.
    #[arg(
        long,
        env = "CSI_ENDPOINT",
        value_name = "SOCKET",
        default_value = "unix:///csi/csi.sock"
    )]
    pub endpoint: String,

    /// The driver's name; the same for the nodes, in CSIDriver and in every storage class.
    #[arg(
        long,
        env = "GBCSI_DRIVER_NAME",
        value_name = "NAME",
        default_value = "gluster-block.csi.gluster.org"
    )]
    pub driver_name: String,

    /// Who makes hosting volumes: heketi. (gd2 is not built into this version.)
    #[arg(
        long,
        env = "GBCSI_BACKEND",
        value_name = "BACKEND",
        default_value = "heketi"
    )]
    pub backend: String,

    /// heketi's address, such as http://heketi.storage:8080.
    #[arg(long, env = "GBCSI_HEKETI_URL", value_name = "URL", default_value = "")]
    pub heketi_url: String,

    /// heketi's user; only admin may make volumes.
    #[arg(
        long,
        env = "GBCSI_HEKETI_USER",
        value_name = "USER",
        default_value = "admin"
    )]
    pub heketi_user: String,

    /// File with that user's key. Leave it out when heketi runs without authentication.
    #[arg(long, env = "GBCSI_HEKETI_KEY_FILE", value_name = "FILE")]
    pub heketi_key_file: Option<String>,

    /// heketi's clusters to use, by id and separated by commas; all when empty.
    #[arg(
        long,
        env = "GBCSI_HEKETI_CLUSTERS",
        value_name = "IDS",
        default_value = ""
    )]
    pub heketi_clusters: String,

    /// Size of a new hosting volume in GiB. 98 % of it can hold blocks; no block can be larger.
    #[arg(
        long,
        env = "GBCSI_HOSTING_VOLUME_SIZE",
        value_name = "GIB",
        default_value = "100"
    )]
    pub hosting_volume_size: String,

    /// What the names of this driver's hosting volumes begin with. Two drivers on one heketi need two prefixes.
    #[arg(
        long,
        env = "GBCSI_HOSTING_VOLUME_PREFIX",
        value_name = "PREFIX",
        default_value = "gbcsi-"
    )]
    pub hosting_volume_prefix: String,

    /// GlusterFS options of a new hosting volume, set in this order and separated by commas.
    #[arg(
        long,
        env = "GBCSI_HOSTING_VOLUME_OPTIONS",
        value_name = "OPTIONS",
        default_value = "group gluster-block"
    )]
    pub hosting_volume_options: String,

    /// User on the storage hosts, who may run gluster-block.
    #[arg(
        long,
        env = "GBCSI_SSH_USER",
        value_name = "USER",
        default_value = "root"
    )]
    pub ssh_user: String,

    /// ssh port of the storage hosts.
    #[arg(
        long,
        env = "GBCSI_SSH_PORT",
        value_name = "PORT",
        default_value = "22"
    )]
    pub ssh_port: String,

    /// File with the private key for the storage hosts, ed25519 or rsa, readable by its owner only.
    #[arg(
        long,
        env = "GBCSI_SSH_KEY_FILE",
        value_name = "FILE",
        default_value = "/etc/gluster-block-csi/ssh/id"
    )]
    pub ssh_key_file: String,

    /// File with the storage hosts' host keys, by address, as ssh-keyscan prints them. A host that is not in it is refused.
    #[arg(
        long,
        env = "GBCSI_SSH_KNOWN_HOSTS",
        value_name = "FILE",
        default_value = "/etc/gluster-block-csi/ssh/known_hosts"
    )]
    pub ssh_known_hosts: String,

    /// The gluster-block command on the storage hosts.
    #[arg(
        long,
        env = "GBCSI_SSH_COMMAND",
        value_name = "COMMAND",
        default_value = "gluster-block"
    )]
    pub ssh_command: String,

    /// The file with the keys that seal CHAP credentials for the nodes; the same keys as theirs.
    ///
    /// One key a line, ID:BASE64 of 32 bytes; the first seals, all open. Without it only volumes without CHAP can be attached.
    #[arg(long, env = "GBCSI_SEALING_KEY_FILE", value_name = "FILE")]
    pub sealing_key_file: Option<String>,

    /// Where /metrics, /livez, /readyz and /log-level are served, as IP:PORT; nowhere when empty.
    #[arg(
        long,
        env = "GBCSI_ADMIN_ADDRESS",
        value_name = "IP:PORT",
        default_value = "127.0.0.1:9811"
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

    /// What is logged: error, warn, info, debug, trace, or a filter such as info,csi_controller=debug.
    #[arg(
        long,
        env = "GBCSI_LOG_LEVEL",
        value_name = "FILTER",
        default_value = "info"
    )]
    pub log_level: String,
}
