//! From arguments to an exit code: the whole of `main`, but for the host it runs on.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Context as _;
use proto::service::settings::Mistakes;
use proto::service::{shutdown, telemetry};

use crate::app;
use crate::args::{Args, Command};
use crate::config::Config;
use crate::host::Host;

/// Runs what the arguments ask for.
///
/// `host` makes the host of a plugin that serves; `probe` answers the question of a child process to a device.
///
/// | exit code | meaning                                                   |
/// |-----------|-----------------------------------------------------------|
/// | 0         | told to stop, and stopped                                 |
/// | 1         | could not start, or a service ended before its time       |
/// | 64        | a setting is wrong; all of them are on standard error     |
pub fn run<H: Host>(
    mut args: Args,
    host: impl FnOnce(&Config) -> anyhow::Result<H>,
    probe: impl FnOnce(Vec<OsString>) -> ExitCode,
) -> ExitCode {
    if let Some(Command::ProbeDevice { arguments }) = args.command.take() {
        return probe(arguments);
    }
    let config = match Config::try_from(args) {
        Ok(config) => config,
        Err(Mistakes(mistakes)) => {
            eprintln!("csi-node: these settings are wrong:");
            for mistake in mistakes {
                eprintln!("  {mistake}");
            }
            return ExitCode::from(WRONG_SETTING);
        }
    };
    match serve(config, host) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "ended with an error");
            // Logging itself may be what failed.
            eprintln!("csi-node: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn serve<H: Host>(
    config: Config,
    host: impl FnOnce(&Config) -> anyhow::Result<H>,
) -> anyhow::Result<()> {
    let log = telemetry::init(config.log_format, &config.log_filter).context("see --log-level")?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), ?config, "starting");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let outcome = runtime.block_on(async {
        let shutdown = shutdown::on_signals().context("cannot listen to signals")?;
        let host = host(&config).context("cannot use this host")?;
        app::run(config, host, log, shutdown).await
    });
    // A thread that waits in the kernel for a dead device must not keep the process.
    runtime.shutdown_background();
    outcome
}

/// `EX_USAGE` of sysexits.
const WRONG_SETTING: u8 = 64;

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::host::fake::FakeHost;

    fn code(arguments: &[&str]) -> String {
        let args = Args::try_parse_from([&["csi-node"], arguments].concat()).unwrap();
        let host = |_: &Config| -> anyhow::Result<FakeHost> { Ok(FakeHost::new()) };
        format!(
            "{:?}",
            run(args, host, |arguments| ExitCode::from(
                u8::try_from(arguments.len()).unwrap()
            ))
        )
    }

    #[test]
    fn a_wrong_setting_is_exit_code_64() {
        let expected = format!("{:?}", ExitCode::from(64));
        assert_eq!(
            code(&["--node-name", "n1", "--state-dir", "relative"]),
            expected
        );
    }

    #[test]
    fn a_probe_gets_its_arguments_and_needs_no_settings() {
        let expected = format!("{:?}", ExitCode::from(3));
        assert_eq!(
            code(&["probe-device", "--wipe", "/dev/dm-3", "x"]),
            expected
        );
    }
}
