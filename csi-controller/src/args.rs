//! What was typed: every flag, its variable and its help. Nothing here is checked beyond being text.

#![expect(
    clippy::doc_markdown,
    reason = "doc comments here are the help texts, printed as they are"
)]

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{CommandFactory as _, FromArgMatches as _, Parser};

mod gd2;
mod heketi;

pub use self::gd2::Gd2Args;
pub use self::heketi::HeketiArgs;

/// The CSI controller for gluster-block.
///
/// Runs once in the cluster, beside external-provisioner, external-attacher and external-resizer. It makes hosting volumes
/// through heketi or gd2, makes blocks on them by running gluster-block on the storage hosts over ssh, and tells nodes how to reach
/// them. It keeps no state: it may be restarted at any moment. Secrets are given as files only.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "csi-controller",
    version,
    max_term_width = 100,
    args_override_self = true
)]
pub struct Args {
    /// Where the sidecars find this controller: a Unix socket, as unix:///path or /path.
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

    /// Who makes hosting volumes: heketi, or gd2 (GlusterD2). Settings of the other one are refused.
    #[arg(
        long,
        env = "GBCSI_BACKEND",
        value_name = "BACKEND",
        default_value = "heketi"
    )]
    pub backend: String,

    /// Where /metrics, /livez, /readyz and /log-level are served, as IP:PORT; nowhere when empty.
    #[arg(
        long,
        env = "GBCSI_ADMIN_ADDRESS",
        value_name = "IP:PORT",
        default_value = ""
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

    /// The file with the keys that seal CHAP credentials; the same keys as the nodes'.
    ///
    /// One key a line, ID:BASE64 of 32 bytes; the first one seals. Without it only volumes without CHAP can be made.
    #[arg(long, env = "GBCSI_SEALING_KEY_FILE", value_name = "FILE")]
    pub sealing_key_file: Option<String>,

    #[command(flatten)]
    #[expect(
        missing_docs,
        reason = "a doc comment would become a heading of the help"
    )]
    pub heketi: HeketiArgs,

    #[command(flatten)]
    #[expect(missing_docs, reason = "as above")]
    pub gd2: Gd2Args,

    /// The size of a new hosting volume in GiB; more if a block needs more. Blocks can fill 98 % of it.
    #[arg(
        long,
        env = "GBCSI_HOSTING_VOLUME_SIZE",
        value_name = "GIB",
        default_value = "100"
    )]
    pub hosting_volume_size: String,

    /// The largest hosting volume in GiB, and so the largest block: 98 % of it.
    #[arg(
        long,
        env = "GBCSI_HOSTING_VOLUME_MAX_SIZE",
        value_name = "GIB",
        default_value = "4096"
    )]
    pub hosting_volume_max_size: String,

    /// Which of the hosting volumes that have room a block goes to: best-fit, spread or random.
    ///
    /// best-fit takes the fullest, so that large blocks find room for longest. spread takes the emptiest, so that blocks and
    /// the work of making them are shared. random takes any.
    #[arg(
        long,
        env = "GBCSI_PLACEMENT",
        value_name = "POLICY",
        default_value = "best-fit"
    )]
    pub placement: String,

    /// How many blocks a hosting volume may have; 0 for no limit. A new one is made when all that have space are there.
    #[arg(
        long,
        env = "GBCSI_HOSTING_VOLUME_MAX_BLOCKS",
        value_name = "COUNT",
        default_value = "0"
    )]
    pub hosting_volume_max_blocks: String,

    /// The first part of the names of hosting volumes. It marks them as this driver's: do not change it later.
    #[arg(
        long,
        env = "GBCSI_HOSTING_VOLUME_PREFIX",
        value_name = "TEXT",
        default_value = "gbcsi"
    )]
    pub hosting_volume_prefix: String,

    /// More options of new hosting volumes, as the backend names them: "KEY VALUE", separated by commas.
    ///
    /// With heketi they come after "group gluster-block". With gd2 they come beside its profile gluster-block; which of the two
    /// counts where both name an option is gd2's to say.
    #[arg(
        long,
        env = "GBCSI_HOSTING_VOLUME_OPTIONS",
        value_name = "OPTIONS",
        default_value = ""
    )]
    pub hosting_volume_options: String,

    /// The user to log in as on the storage hosts. gluster-block's socket is root's.
    #[arg(
        long,
        env = "GBCSI_SSH_USER",
        value_name = "USER",
        default_value = "root"
    )]
    pub ssh_user: String,

    /// The port of sshd on the storage hosts.
    #[arg(
        long,
        env = "GBCSI_SSH_PORT",
        value_name = "PORT",
        default_value = "22"
    )]
    pub ssh_port: String,

    /// The file with that user's private key, without a passphrase.
    #[arg(
        long,
        env = "GBCSI_SSH_KEY_FILE",
        value_name = "FILE",
        default_value = ""
    )]
    pub ssh_key_file: String,

    /// The file with the storage hosts' own keys, in the form of OpenSSH's known_hosts. Hosts that are not in it are refused.
    #[arg(
        long,
        env = "GBCSI_SSH_KNOWN_HOSTS",
        value_name = "FILE",
        default_value = ""
    )]
    pub ssh_known_hosts: String,

    /// The program on the storage hosts: gluster-block, or its path.
    #[arg(
        long,
        env = "GBCSI_SSH_COMMAND",
        value_name = "PROGRAM",
        default_value = "gluster-block"
    )]
    pub ssh_command: String,

    /// How long gluster-block may take to make, grow or fill a block.
    ///
    /// Filling 1 TiB can take half an hour. After this time the outcome is unknown, and is looked up at the next attempt.
    #[arg(
        long,
        env = "GBCSI_BLOCK_TIMEOUT",
        value_name = "TIME",
        default_value = "15min"
    )]
    pub block_timeout: String,

    /// How long gluster-block may take to answer a question.
    #[arg(
        long,
        env = "GBCSI_QUERY_TIMEOUT",
        value_name = "TIME",
        default_value = "60s"
    )]
    pub query_timeout: String,

    /// How long a request waits for others on the same hosting volume, or for an idle host. What did not get its turn was not begun.
    #[arg(
        long,
        env = "GBCSI_QUEUE_TIMEOUT",
        value_name = "TIME",
        default_value = "5min"
    )]
    pub queue_timeout: String,

    /// Flags that were really given, by flag or by variable, and not empty.
    #[arg(skip)]
    pub given: Vec<String>,
}

impl Args {
    /// Reads a command line and the environment.
    ///
    /// # Errors
    ///
    /// clap's: an unknown flag, or a question such as `--help`.
    pub fn read<I>(words: I) -> Result<Self, clap::Error>
    where
        I: IntoIterator,
        I::Item: Into<OsString> + Clone,
    {
        let mut command = Self::command();
        let matches = command.try_get_matches_from_mut(words)?;
        let mut args = Self::from_arg_matches(&matches)?;
        let typed = |id: &str| {
            let source = matches.value_source(id);
            let full = matches
                .get_raw(id)
                .is_some_and(|mut values| values.any(|value| !value.is_empty()));
            full && source.is_some_and(|source| source != ValueSource::DefaultValue)
        };
        let flags = command.get_arguments();
        args.given = flags
            .filter(|flag| typed(flag.get_id().as_str()))
            .filter_map(|flag| flag.get_long().map(|long| format!("--{long}")))
            .collect();
        Ok(args)
    }

    /// Those of [`given`](Self::given) that begin so.
    pub fn given_to(&self, beginning: &str) -> impl Iterator<Item = &String> {
        let given = self.given.iter();
        given.filter(move |flag| flag.starts_with(beginning))
    }
}
