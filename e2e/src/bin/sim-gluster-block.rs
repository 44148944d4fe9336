//! The command line of the gluster-block simulator. Its words are those of the real one and nothing else;
//! `GB_SIM_SOCKET` and `GB_SIM_SYSCONFIG` move the two paths that it uses.

use std::ffi::OsString;
use std::process::ExitCode;

use e2e::sim::gluster_block::{CliPaths, run_cli};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    #[expect(
        clippy::disallowed_methods,
        reason = "the program that it stands for reads its own environment"
    )]
    let setting = |name: &str| std::env::var_os(name);
    let path = |name: &str, default: &str| {
        setting(name)
            .unwrap_or_else(|| OsString::from(default))
            .into()
    };
    let paths = CliPaths {
        socket: path("GB_SIM_SOCKET", "/var/run/gluster-blockd.socket"),
        sysconfig: path("GB_SIM_SYSCONFIG", "/etc/sysconfig/gluster-blockd"),
        environment_timeout: setting("GB_CLI_TIMEOUT")
            .map(|text| text.to_string_lossy().into_owned()),
    };
    ExitCode::from(run_cli(
        &words,
        &paths,
        &mut std::io::stdout(),
        &mut std::io::stderr(),
    ))
}
