//! `csi-controller`: arguments, settings, telemetry, then the app until a signal.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use csi_controller::app;
use csi_controller::args::Args;
use csi_controller::config::Config;
use proto::service::{shutdown, telemetry};

/// Exit code for wrong settings (`EX_USAGE`).
const USAGE: u8 = 64;

#[tokio::main]
async fn main() -> ExitCode {
    let config = match Config::try_from(Args::parse()) {
        Ok(config) => config,
        Err(mistakes) => {
            eprintln!("csi-controller: wrong settings:\n{mistakes}\nSee --help.");
            return ExitCode::from(USAGE);
        }
    };
    match start(config).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("csi-controller: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn start(config: Config) -> anyhow::Result<()> {
    let log = telemetry::init(config.log_format, &config.log_filter).context("see --log-level")?;
    let shutdown = shutdown::on_signals().context("cannot listen for signals")?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "csi-controller");
    app::run(config, log, shutdown).await
}
