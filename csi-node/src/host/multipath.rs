//! multipath and multipathd: argument vectors, and what their answers mean.
//!
//! multipathd answers `fail` or `timeout` on stdout and still exits with 0 (E05), so answers are read.

use std::time::Duration;

use blockd_client::vocabulary::Wwid;

use super::HostError;
use super::command::{Invocation, Output, Program};

/// How long one command may take. A flush writes what is dirty and has a limit of its own.
const COMMAND: Duration = Duration::from_secs(15);
const FLUSH: Duration = Duration::from_mins(1);

/// `multipath -a DEV`: the identity is one of multipath's, whatever `find_multipaths` says (W05).
#[must_use]
pub fn add_identity(path: &str) -> Invocation {
    Invocation::new(
        Program::Multipath,
        ["-a".to_owned(), format!("/dev/{path}")],
        COMMAND,
    )
    .on(path)
}

/// `multipathd add path DEV`.
#[must_use]
pub fn add_path(path: &str) -> Invocation {
    daemon(["add", "path", path])
}

/// `multipathd add map WWID`.
#[must_use]
pub fn add_map(wwid: &Wwid) -> Invocation {
    daemon(["add", "map", wwid.as_str()])
}

/// `multipathd resize map WWID` (E02).
#[must_use]
pub fn resize_map(wwid: &Wwid) -> Invocation {
    daemon(["resize", "map", wwid.as_str()])
}

/// `multipathd del path DEV`.
#[must_use]
pub fn del_path(path: &str) -> Invocation {
    daemon(["del", "path", path])
}

/// `multipathd disablequeueing map WWID`.
#[must_use]
pub fn disable_queueing(wwid: &Wwid) -> Invocation {
    daemon(["disablequeueing", "map", wwid.as_str()])
}

/// `multipathd show paths format %d`: names only, a form that no path's state can break (D23).
#[must_use]
pub fn list_paths() -> Invocation {
    daemon(["show", "paths", "raw", "format", "%d"])
}

/// `multipathd show daemon`, to see that it answers.
#[must_use]
pub fn status() -> Invocation {
    daemon(["show", "daemon"])
}

/// `multipath -f WWID`: writes what is dirty and removes the map.
#[must_use]
pub fn flush_map(wwid: &Wwid) -> Invocation {
    Invocation::new(Program::Multipath, ["-f", wwid.as_str()], FLUSH).on(wwid.to_string())
}

fn daemon<const N: usize>(words: [&str; N]) -> Invocation {
    Invocation::new(Program::Multipathd, words, COMMAND)
}

/// What an answer of multipathd means.
///
/// | exit | stdout | meaning |
/// |---|---|---|
/// | not 0 | | refused |
/// | 0 | a line `fail`, or one with `timeout` | refused (E05) |
/// | 0 | else | done |
///
/// # Errors
///
/// [`HostError::MultipathRefused`].
pub fn accepted(what: &Invocation, output: &Output) -> Result<(), HostError> {
    let text = output.text();
    let refused = text
        .lines()
        .map(str::trim)
        .any(|line| line == "fail" || line.contains("timeout"));
    if output.code == Some(0) && !refused {
        return Ok(());
    }
    let detail = format!("{}: {}", output.status, output.detail());
    Err(HostError::MultipathRefused {
        what: what.to_string(),
        detail,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: i32, stdout: &str) -> Output {
        Output {
            code: Some(code),
            status: format!("exit status: {code}"),
            stdout: stdout.as_bytes().to_vec(),
            stderr: Vec::new(),
        }
    }

    // E05
    #[test]
    fn fail_and_timeout_are_errors_although_the_exit_code_is_zero() {
        let what = status();
        assert!(accepted(&what, &said(0, "ok\n")).is_ok());
        assert!(accepted(&what, &said(0, "")).is_ok());
        for answer in ["fail\n", "timeout\n", "error: receiving packet: timeout"] {
            assert!(accepted(&what, &said(0, answer)).is_err(), "{answer}");
        }
        assert!(accepted(&what, &said(1, "ok\n")).is_err());
    }

    // D24
    #[test]
    fn a_map_is_flushed_by_its_identity_and_never_forced() {
        let wwid = "360014056f3c2a10111142228333abcde".parse().unwrap();
        assert_eq!(flush_map(&wwid).to_string(), format!("multipath -f {wwid}"));
    }
}
