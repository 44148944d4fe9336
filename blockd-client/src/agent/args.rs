//! What was typed: every flag of the agent, its variable and its help. Nothing here is checked beyond being text.

#![expect(
    clippy::doc_markdown,
    reason = "doc comments here are the help texts, printed as they are"
)]

use clap::Parser;

/// The REST service beside a gluster-blockd.
///
/// Runs on every storage host, next to the daemon whose Unix socket it speaks to: blocks are listed, looked at, made,
/// grown and deleted at /v1/volumes/VOLUME/blocks/BLOCK. Changes go on whoever listens, and may be repeated at any time.
///
/// Callers show certificates. The controller's has the URI urn:gluster-block:controller among its subject alternative names
/// and may do everything; a node's has urn:gluster-block:node:INITIATOR-NAME and may look at the blocks to which it is
/// logged in on this host. The agent's own certificate names the address of the host. Certificates may be exchanged
/// while the agent runs. Without TLS only an address of the machine itself is served, such as 127.0.0.1.
///
/// gluster-blockd must be 0.5 or newer.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "blockd-agent",
    version,
    max_term_width = 100,
    args_override_self = true
)]
pub struct Args {
    /// The address by which gluster-block knows this host, as in its lists of hosts.
    #[arg(
        long,
        env = "BLOCKD_AGENT_HOST_ADDRESS",
        value_name = "IP",
        default_value = ""
    )]
    pub host_address: String,

    /// Where to serve. Other addresses than the machine's own need TLS.
    #[arg(
        long,
        env = "BLOCKD_AGENT_LISTEN",
        value_name = "IP:PORT",
        default_value = "127.0.0.1:24011"
    )]
    pub listen: String,

    /// The file with the certificate authority of callers, in PEM.
    #[arg(long, env = "BLOCKD_AGENT_CA_FILE", value_name = "FILE")]
    pub ca_file: Option<String>,

    /// The file with the agent's certificate, in PEM, with those between it and its authority.
    #[arg(long, env = "BLOCKD_AGENT_CERT_FILE", value_name = "FILE")]
    pub cert_file: Option<String>,

    /// The file with the key of that certificate, in PEM.
    #[arg(long, env = "BLOCKD_AGENT_KEY_FILE", value_name = "FILE")]
    pub key_file: Option<String>,

    /// gluster-blockd's Unix socket.
    #[arg(
        long,
        env = "BLOCKD_AGENT_SOCKET",
        value_name = "PATH",
        default_value = "/var/run/gluster-blockd.socket"
    )]
    pub socket: String,

    /// gluster-blockd's TCP socket, which tells its release.
    #[arg(
        long,
        env = "BLOCKD_AGENT_DAEMON",
        value_name = "IP:PORT",
        default_value = "127.0.0.1:24010"
    )]
    pub daemon: String,

    /// Where the host's sys and proc are. In a container this is where they are mounted.
    #[arg(
        long,
        env = "BLOCKD_AGENT_ROOT",
        value_name = "PATH",
        default_value = "/"
    )]
    pub root: String,

    /// How long gluster-blockd may take to make, grow or delete a block. A full preallocation takes long.
    #[arg(
        long,
        env = "BLOCKD_AGENT_BLOCK_TIMEOUT",
        value_name = "TIME",
        default_value = "15min"
    )]
    pub block_timeout: String,

    /// How long gluster-blockd may take to list blocks or look at one.
    #[arg(
        long,
        env = "BLOCKD_AGENT_QUERY_TIMEOUT",
        value_name = "TIME",
        default_value = "1min"
    )]
    pub query_timeout: String,

    /// How long requests and operations may go on after the agent was told to stop.
    ///
    /// gluster-blockd finishes what it began in any case; repeating the request finds it.
    #[arg(
        long,
        env = "BLOCKD_AGENT_GRACE",
        value_name = "TIME",
        default_value = "25s"
    )]
    pub grace: String,

    /// How log lines look: json or text.
    #[arg(
        long,
        env = "BLOCKD_AGENT_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "json"
    )]
    pub log_format: String,

    /// What is logged: error, warn, info, debug, trace, or a filter such as info,blockd_client=debug.
    #[arg(
        long,
        env = "BLOCKD_AGENT_LOG_LEVEL",
        value_name = "FILTER",
        default_value = "info"
    )]
    pub log_level: String,
}
