//! The agent: arguments, settings, logs, and then the service. Exit code 2 means wrong settings.

use std::io;
use std::process::ExitCode;

use anyhow::Context as _;
use blockd_client::Blockd;
use blockd_client::agent::{Agent, Args, LogFormat, Server, Settings};
use blockd_client::transport::local::LocalTransport;
use clap::Parser as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let settings = match Settings::try_from(Args::parse()) {
        Ok(settings) => settings,
        Err(mistakes) => {
            eprintln!("blockd-agent cannot start:\n{mistakes}");
            return ExitCode::from(2);
        }
    };
    match run(&settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("blockd-agent: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run(settings: &Settings) -> anyhow::Result<()> {
    log(settings)?;
    let shutdown = on_signals()?;
    let server = Server::bind(settings).await?;
    let transport = LocalTransport::new(settings.local.clone());
    let blocks = Blockd::new(transport, settings.timeouts);
    let agent = Agent::new(settings.host, &settings.local.root, blocks);
    let (listen, tls) = (server.local_addr()?, settings.tls.is_some());
    tracing::info!(%listen, tls, host = %settings.host, "serving");
    server.serve(agent, shutdown).await;
    tracing::info!("stopped");
    Ok(())
}

fn log(settings: &Settings) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&settings.log_filter);
    let filter = filter.with_context(|| format!("--log-level: {:?}", settings.log_filter))?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr);
    match settings.log_format {
        LogFormat::Json => lines.json().flatten_event(true).init(),
        LogFormat::Text => lines.init(),
    }
    Ok(())
}

/// A token that is cancelled at the first SIGTERM or SIGINT.
fn on_signals() -> io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let token = CancellationToken::new();
    let cancel = token.clone();
    tokio::spawn(async move {
        let signal = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        tracing::info!(signal, "told to stop");
        cancel.cancel();
    });
    Ok(token)
}
