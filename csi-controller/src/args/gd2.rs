//! The settings of the gd2 backend.

use clap::Args;

/// Flags that begin with `--gd2-`.
#[derive(Debug, Clone, Args)]
pub struct Gd2Args {
    /// Where gd2 is: http://HOST:PORT or https://HOST:PORT. One daemon, for each has a secret of its own.
    #[arg(
        id = "gd2_url",
        long = "gd2-url",
        env = "GBCSI_GD2_URL",
        value_name = "URL",
        default_value = ""
    )]
    pub url: String,

    /// gd2's user. It knows no other than glustercli.
    #[arg(
        id = "gd2_user",
        long = "gd2-user",
        env = "GBCSI_GD2_USER",
        value_name = "USER",
        default_value = "glustercli"
    )]
    pub user: String,

    /// The file with that daemon's secret: a copy of the file auth in its state folder.
    ///
    /// Any text will do where gd2 runs with restauth off.
    #[arg(
        id = "gd2_secret_file",
        long = "gd2-secret-file",
        env = "GBCSI_GD2_SECRET_FILE",
        value_name = "FILE",
        default_value = ""
    )]
    pub secret_file: String,

    /// The file with the certificate authority of gd2's certificate, in PEM; not needed for a public one.
    #[arg(
        id = "gd2_ca_file",
        long = "gd2-ca-file",
        env = "GBCSI_GD2_CA_FILE",
        value_name = "FILE"
    )]
    pub ca_file: Option<String>,

    /// How long one request to gd2 may take. gd2 itself gives up an answer after 30s and goes on working.
    #[arg(
        id = "gd2_timeout",
        long = "gd2-timeout",
        env = "GBCSI_GD2_TIMEOUT",
        value_name = "TIME",
        default_value = "40s"
    )]
    pub timeout: String,

    /// How long gd2 may take to make a hosting volume whose answer was lost. Its transactions end after 3min.
    #[arg(
        id = "gd2_operation_timeout",
        long = "gd2-operation-timeout",
        env = "GBCSI_GD2_OPERATION_TIMEOUT",
        value_name = "TIME",
        default_value = "5min"
    )]
    pub operation_timeout: String,
}
