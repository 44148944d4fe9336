//! The settings of the heketi backend.

use clap::Args;

/// Flags that begin with `--heketi-`.
#[derive(Debug, Clone, Args)]
pub struct HeketiArgs {
    /// Where heketi is: http://HOST:PORT or https://HOST:PORT.
    #[arg(
        id = "heketi_url",
        long = "heketi-url",
        env = "GBCSI_HEKETI_URL",
        value_name = "URL",
        default_value = ""
    )]
    pub url: String,

    /// heketi's user. Only admin can make hosting volumes.
    #[arg(
        id = "heketi_user",
        long = "heketi-user",
        env = "GBCSI_HEKETI_USER",
        value_name = "USER",
        default_value = "admin"
    )]
    pub user: String,

    /// The file with heketi's admin key.
    #[arg(
        id = "heketi_key_file",
        long = "heketi-key-file",
        env = "GBCSI_HEKETI_KEY_FILE",
        value_name = "FILE",
        default_value = ""
    )]
    pub key_file: String,

    /// The file with the certificate authority of heketi's certificate, in PEM; not needed for a public one.
    #[arg(
        id = "heketi_ca_file",
        long = "heketi-ca-file",
        env = "GBCSI_HEKETI_CA_FILE",
        value_name = "FILE"
    )]
    pub ca_file: Option<String>,

    /// How long one request to heketi may take.
    #[arg(
        id = "heketi_timeout",
        long = "heketi-timeout",
        env = "GBCSI_HEKETI_TIMEOUT",
        value_name = "TIME",
        default_value = "30s"
    )]
    pub timeout: String,

    /// How long heketi may take to make a hosting volume.
    #[arg(
        id = "heketi_operation_timeout",
        long = "heketi-operation-timeout",
        env = "GBCSI_HEKETI_OPERATION_TIMEOUT",
        value_name = "TIME",
        default_value = "15min"
    )]
    pub operation_timeout: String,

    /// The clusters of heketi to use, as ids separated by commas; all when empty.
    ///
    /// A storage class may choose among them with the parameter clusterids.
    #[arg(
        id = "heketi_clusters",
        long = "heketi-clusters",
        env = "GBCSI_HEKETI_CLUSTERS",
        value_name = "IDS",
        default_value = ""
    )]
    pub clusters: String,
}
