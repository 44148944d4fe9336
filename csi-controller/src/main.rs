//! The CSI controller: arguments, settings, logs, and then the composition root. Exit code 2 means wrong settings.

use std::process::ExitCode;

use csi_controller::app;
use csi_controller::args::Args;
use csi_controller::config::Config;
use proto::service::{shutdown, telemetry};

fn main() -> ExitCode {
    let args = Args::read(std::env::args_os()).unwrap_or_else(|error| error.exit());
    let config = match Config::try_from(args) {
        Ok(config) => config,
        Err(mistakes) => {
            eprintln!("csi-controller cannot start:\n{mistakes}");
            return ExitCode::from(2);
        }
    };
    match run(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("csi-controller: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run(config: Config) -> anyhow::Result<()> {
    let log = telemetry::init(config.log_format, &config.log_filter)?;
    let shutdown = shutdown::on_signals()?;
    let outcome = app::run(config, log, shutdown).await;
    if let Err(error) = &outcome {
        tracing::error!(error = format!("{error:#}"), "stopped");
    }
    outcome
}
