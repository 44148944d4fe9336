//! The command line program: words to request, request to the daemon, answer to the right channel.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::grammar::{self, Invocation};
use super::protocol::{CliCall, Reply};
use super::rpc::{self, CallError};
use super::sysconfig::Sysconfig;
use super::usage;

/// Where the program finds its daemon and settings; the environment of tests may move them.
#[derive(Debug, Clone)]
pub struct CliPaths {
    /// The daemon's socket.
    pub socket: PathBuf,
    /// `/etc/sysconfig/gluster-blockd`.
    pub sysconfig: PathBuf,
    /// The environment's `GB_CLI_TIMEOUT`.
    pub environment_timeout: Option<String>,
}

/// Runs the command line and returns its exit code.
///
/// | outcome | channel | exit |
/// |---|---|---|
/// | reply code 0 | stdout | 0 |
/// | reply code N | stderr, the same text | N & 255 |
/// | no reply | stderr, `Did not receive any response …` | 255 |
/// | daemon not running | stderr, `client create failed: …` | 255 |
///
/// (reference §2.1)
pub fn run(words: &[String], paths: &CliPaths, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let (exit, to_out, to_err) = outcome(words, paths);
    // A closed pipe is the reader's business; the exit code still says what happened.
    let _ = out.write_all(to_out.as_bytes()).and_then(|()| out.flush());
    let _ = err.write_all(to_err.as_bytes()).and_then(|()| err.flush());
    exit
}

fn outcome(words: &[String], paths: &CliPaths) -> (u8, String, String) {
    let (call, timeout, notice) = match grammar::parse(words) {
        Ok(Invocation::Help { exit }) => return (exit, usage::HELP.to_owned(), String::new()),
        Ok(Invocation::Version) => return (0, "gluster-block (0.5.1)\n".to_owned(), String::new()),
        Ok(Invocation::Call {
            call,
            timeout,
            notice,
        }) => (call, timeout, notice),
        Err(refusal) => return (refusal.exit, String::new(), refusal.message),
    };
    let mut to_out = notice.unwrap_or_default();
    let Some(sysconfig) = wait_for_sysconfig(paths) else {
        return (255, to_out, NO_RESPONSE.to_owned());
    };
    let environment = paths.environment_timeout.as_deref();
    let limit = timeout_in_force(sysconfig.cli_timeout, timeout, environment);
    match ask(&call, &words.join(" "), paths, limit) {
        Ok(reply) if reply.exit == 0 => {
            to_out.push_str(&reply.out);
            (0, to_out, String::new())
        }
        Ok(reply) => {
            // `exit code = reply code (8 bits)` (reference §2.1)
            let [low, ..] = reply.exit.to_le_bytes();
            (low, to_out, reply.out)
        }
        Err(CallError::Connect(error)) => (255, to_out, not_running(paths, &error)),
        Err(_) => (255, to_out, NO_RESPONSE.to_owned()),
    }
}

const NO_RESPONSE: &str = "Did not receive any response from gluster-block daemon. Please check log \
                           files to find the reason\n";

fn ask(
    call: &CliCall,
    command: &str,
    paths: &CliPaths,
    limit: Duration,
) -> Result<Reply, CallError> {
    let arguments = call.encode(command).map_err(CallError::Malformed)?;
    let bytes = rpc::call_unix(&paths.socket, call.procedure(), &arguments, limit)?;
    Reply::decode(&bytes).map_err(CallError::Malformed)
}

fn not_running(paths: &CliPaths, error: &std::io::Error) -> String {
    let reason = if error.kind() == std::io::ErrorKind::NotFound {
        "No such file or directory"
    } else {
        "Connection refused"
    };
    format!(
        "client create failed: RPC: Remote system error - {reason}, unix addr {}\n",
        paths.socket.display()
    )
}

/// How long to wait for the daemon.
///
/// "uncommented `GB_CLI_TIMEOUT` in `/etc/sysconfig/gluster-blockd` **beats** the command-line `timeout`, which
/// beats environment `GB_CLI_TIMEOUT`"; default 300 s (reference §1.2).
fn timeout_in_force(
    file: Option<Duration>,
    words: Option<Duration>,
    environment: Option<&str>,
) -> Duration {
    let environment = environment
        .and_then(|text| text.parse().ok())
        .map(Duration::from_secs);
    file.or(words)
        .or(environment)
        .unwrap_or(Duration::from_mins(5))
}

/// "otherwise every CLI call stalls 5+ s and ends with 'Did not receive any response'" (reference §5.4).
fn wait_for_sysconfig(paths: &CliPaths) -> Option<Sysconfig> {
    let started = Instant::now();
    loop {
        match Sysconfig::read(&paths.sysconfig) {
            Ok(read) => return Some(read),
            Err(_) if started.elapsed() > Duration::from_secs(5) => return None,
            Err(_) => std::thread::sleep(Duration::from_millis(200)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_beats_the_words_which_beat_the_environment() {
        let seconds = Duration::from_secs;
        assert_eq!(
            timeout_in_force(Some(seconds(1)), Some(seconds(2)), Some("3")),
            seconds(1)
        );
        assert_eq!(
            timeout_in_force(None, Some(seconds(2)), Some("3")),
            seconds(2)
        );
        assert_eq!(timeout_in_force(None, None, Some("3")), seconds(3));
        assert_eq!(timeout_in_force(None, None, None), seconds(300));
    }

    fn run_with(directory: &std::path::Path, line: &str) -> (u8, String, String) {
        let paths = CliPaths {
            socket: directory.join("socket"),
            sysconfig: directory.join("sysconfig"),
            environment_timeout: None,
        };
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let exit = run(&words, &paths, &mut out, &mut err);
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (exit, text(out), text(err))
    }

    #[test]
    fn a_daemon_that_never_started_and_a_stale_socket_are_told_apart() {
        // reference §2.1
        let directory = tempfile::tempdir().expect("temporary directory");
        std::fs::write(directory.path().join("sysconfig"), "#\n").expect("write");
        let (exit, out, err) = run_with(directory.path(), "list v");
        assert_eq!((exit, out.as_str()), (255, ""));
        assert!(err.starts_with(
            "client create failed: RPC: Remote system error - No such file or directory, unix addr "
        ));
        let stale = std::os::unix::net::UnixListener::bind(directory.path().join("socket"));
        drop(stale.expect("bind"));
        let (exit, _, err) = run_with(directory.path(), "list v");
        assert_eq!(exit, 255);
        assert!(err.contains("Connection refused"), "{err}");
    }

    #[test]
    fn without_its_configuration_file_the_program_stalls_and_gives_up() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let started = Instant::now();
        let (exit, _, err) = run_with(directory.path(), "list v");
        assert_eq!((exit, err.as_str()), (255, NO_RESPONSE));
        assert!(started.elapsed() > Duration::from_secs(5));
    }

    #[test]
    fn help_goes_to_stdout_and_refusals_to_stderr() {
        let directory = tempfile::tempdir().expect("temporary directory");
        assert_eq!(
            run_with(directory.path(), "version"),
            (0, "gluster-block (0.5.1)\n".to_owned(), String::new())
        );
        let (exit, out, err) = run_with(directory.path(), "create v/b 10.0.0.1 10GB --json");
        assert_eq!((exit, out.as_str()), (0, ""));
        assert!(!err.is_empty());
    }
}
