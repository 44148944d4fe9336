//! `csi-node`: arguments, and the real host.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use csi_node::args::Args;
use csi_node::host::command::Tools;
use csi_node::host::iscsiadm::Timers;
use csi_node::host::linux::LinuxHost;
use csi_node::host::probe;
use csi_node::process;

fn main() -> ExitCode {
    process::run(
        Args::parse(),
        |config| {
            let tools = Tools::system().context("cannot find out which program this is")?;
            let tools = Tools {
                host_process: config.host_process,
                ..tools
            };
            let timers = Timers {
                replacement: config.timers.replacement,
                login: config.timers.login,
                noop_interval: config.timers.noop_interval,
                noop: config.timers.noop_timeout,
            };
            Ok(LinuxHost::new(tools, timers))
        },
        |arguments| probe::run(&arguments),
    )
}
