//! iscsiadm: argument vectors, exit codes, deadlines.
//!
//! Records are static, one per portal, in the form without a target portal group tag (`IP,3260,-1`): no discovery is ever
//! needed, and one form only keeps records from colliding (Q04). Nothing here parses what the tool prints; its exit code
//! says what happened and sysfs says what is. CHAP values are not set with the tool, whose arguments every process can
//! read, but in the record's file ([`records`](super::records)).
//!
//! Exit codes, from the tool's `iscsi_err.h`, and what they mean to us:
//!
//! | code    | name              | on login                    | on logout, delete          | on a record        |
//! |---------|-------------------|-----------------------------|----------------------------|--------------------|
//! | 0       | success           | done                        | done                       | done               |
//! | 2       | session not found | failed                      | gone (look again, Q20)     | failed             |
//! | 4 8 11 32 33 | no transport | portal silent (Q07)         | failed                     | failed             |
//! | 5 19    | login failed      | refused for good (Q06)      | failed                     | failed             |
//! | 6       | database          | look, then again (Q02)      | again                      | again              |
//! | 7       | invalid           | failed (Q03)                | failed                     | failed             |
//! | 12      | no transport module | host not ready            | failed                     | host not ready     |
//! | 15      | session exists    | done (S11)                  | failed                     | done (S03)         |
//! | 18 20   | daemon            | host not ready (Q08)        | host not ready             | host not ready     |
//! | 21      | no objects        | failed: no record           | gone (S08, Q21)            | failed             |
//! | 24      | authorization     | CHAP rejected               | failed                     | failed             |

use std::time::Duration;

use blockd_client::vocabulary::{Iqn, Portal};

use super::HostError;
use super::command::{Invocation, Output, Program};

/// How often a call is repeated when the tool's database was in the way (Q02).
pub const DATABASE_TRIES: usize = 5;

/// The pause between such tries.
pub const DATABASE_PAUSE: Duration = Duration::from_millis(300);

/// The times that go into a record. The chain that they belong to is in the design, §4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timers {
    /// How long the kernel waits for a lost session before I/O fails; longer than GlusterFS needs to fail over.
    pub replacement: Duration,
    /// How long one login may take.
    pub login: Duration,
    /// How long after the last sign of life the target is asked for one.
    pub noop_interval: Duration,
    /// How long it may take to answer.
    pub noop: Duration,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            replacement: Duration::from_mins(2),
            login: Duration::from_secs(10),
            noop_interval: Duration::from_secs(5),
            noop: Duration::from_secs(5),
        }
    }
}

/// How long each verb may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Making, changing and deleting records: files, but behind a lock that the tool waits 30 s for.
    pub record: Duration,
    /// A login; more than the record's login timer (Q13).
    pub login: Duration,
    /// A logout; the tool asks the target and waits for the devices to go.
    pub logout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            record: Duration::from_secs(40),
            login: Duration::from_secs(40),
            logout: Duration::from_mins(1),
        }
    }
}

/// What an exit code means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0.
    Success,
    /// 2: the session is not there.
    SessionNotFound,
    /// 4, 8, 11, 32, 33: nobody answered, or not in time.
    Silent,
    /// 5, 19: the target refuses the login.
    LoginRefused,
    /// 6: the record database could not be locked or read.
    Database,
    /// 12: the transport's kernel module is not there.
    NoTransport,
    /// 15: the session, or the interface, exists.
    Exists,
    /// 18, 20: the daemon does not answer, or is of another version.
    Daemon,
    /// 21: no record or session of that description.
    NoObjects,
    /// 24: the CHAP credentials are wrong.
    Unauthorized,
    /// Any other code, or a signal (`None`).
    Unknown(Option<i32>),
}

impl From<Option<i32>> for Exit {
    fn from(code: Option<i32>) -> Self {
        match code {
            Some(0) => Self::Success,
            Some(2) => Self::SessionNotFound,
            Some(4 | 8 | 11 | 32 | 33) => Self::Silent,
            Some(5 | 19) => Self::LoginRefused,
            Some(6) => Self::Database,
            Some(12) => Self::NoTransport,
            Some(15) => Self::Exists,
            Some(18 | 20) => Self::Daemon,
            Some(21) => Self::NoObjects,
            Some(24) => Self::Unauthorized,
            other => Self::Unknown(other),
        }
    }
}

/// `-m node -T IQN -p IP:PORT,-1 -o new`. On a record that exists it succeeds and sets everything back to the defaults.
#[must_use]
pub fn new_record(iqn: &Iqn, portal: &Portal, limits: &Limits) -> Invocation {
    let portal = format!("{portal},-1");
    let arguments = node(iqn, portal).chain(["-o", "new"].map(str::to_owned));
    Invocation::new(Program::Iscsiadm, arguments, limits.record)
}

/// One `-o update` with every value that is no secret. It must leave nothing to the host's own defaults that we rely on:
/// automatic start-up brings a second writer back after a crash (S07), automatic scan brings other LUNs (W02).
#[must_use]
pub fn update_record(iqn: &Iqn, portal: &Portal, timers: &Timers, limits: &Limits) -> Invocation {
    let seconds = |time: Duration| time.as_secs().to_string();
    let values = [
        ("node.startup", "manual".to_owned()),
        ("node.conn[0].startup", "manual".to_owned()),
        ("node.leading_login", "No".to_owned()),
        ("node.session.scan", "manual".to_owned()),
        ("node.session.nr_sessions", "1".to_owned()),
        // The driver repeats what fails; the tool need not.
        ("node.session.initial_login_retry_max", "1".to_owned()),
        (
            "node.session.timeo.replacement_timeout",
            seconds(timers.replacement),
        ),
        ("node.conn[0].timeo.login_timeout", seconds(timers.login)),
        (
            "node.conn[0].timeo.noop_out_interval",
            seconds(timers.noop_interval),
        ),
        ("node.conn[0].timeo.noop_out_timeout", seconds(timers.noop)),
    ];
    let update = ["-o", "update"].map(str::to_owned);
    let pairs = values
        .into_iter()
        .flat_map(|(name, value)| ["-n".to_owned(), name.to_owned(), "-v".to_owned(), value]);
    let arguments = node(iqn, portal.to_string()).chain(update).chain(pairs);
    Invocation::new(Program::Iscsiadm, arguments, limits.record)
}

/// `-o delete` of one record.
#[must_use]
pub fn delete_record(iqn: &Iqn, portal: &Portal, limits: &Limits) -> Invocation {
    let arguments = node(iqn, portal.to_string()).chain(["-o", "delete"].map(str::to_owned));
    Invocation::new(Program::Iscsiadm, arguments, limits.record)
}

/// Logs in to one portal by its record.
#[must_use]
pub fn login(iqn: &Iqn, portal: &Portal, limits: &Limits) -> Invocation {
    let arguments = node(iqn, portal.to_string()).chain(["--login".to_owned()]);
    Invocation::new(Program::Iscsiadm, arguments, limits.login).on(format!("{iqn} at {portal}"))
}

/// Logs one session out by its number, which needs no record (S08).
#[must_use]
pub fn logout(sid: u32, limits: &Limits) -> Invocation {
    let sid = sid.to_string();
    let arguments = ["-m", "session", "-r", sid.as_str(), "--logout"];
    Invocation::new(Program::Iscsiadm, arguments, limits.logout).on(format!("session {sid}"))
}

/// The error that a login's exit means; `None` when there is nothing to report.
#[must_use]
pub fn login_error(iqn: &Iqn, portal: &Portal, output: &Output) -> Option<HostError> {
    let (iqn, portal, detail) = (*iqn, *portal, detail(output));
    match Exit::from(output.code) {
        Exit::Success | Exit::Exists => None,
        Exit::Silent => Some(HostError::PortalSilent {
            iqn,
            portal,
            detail,
        }),
        Exit::LoginRefused => Some(HostError::LoginRefused {
            iqn,
            portal,
            detail,
        }),
        Exit::Unauthorized => Some(HostError::ChapRejected {
            iqn,
            portal,
            detail,
        }),
        Exit::Daemon | Exit::NoTransport => Some(host_error(output, "login")),
        Exit::SessionNotFound | Exit::Database | Exit::NoObjects | Exit::Unknown(_) => {
            Some(output.failure(format_args!("the login to {portal} of {iqn}")))
        }
    }
}

/// The error of any other verb that failed.
#[must_use]
pub fn host_error(output: &Output, what: &str) -> HostError {
    match Exit::from(output.code) {
        Exit::Daemon => HostError::NotReady {
            what: format!(
                "iscsid does not answer iscsiadm ({}); start it, and let both be of one version",
                detail(output)
            ),
        },
        Exit::NoTransport => HostError::NotReady {
            what: format!(
                "there is no TCP transport ({}); load it: modprobe iscsi_tcp",
                detail(output)
            ),
        },
        Exit::Success
        | Exit::SessionNotFound
        | Exit::Silent
        | Exit::LoginRefused
        | Exit::Database
        | Exit::Exists
        | Exit::NoObjects
        | Exit::Unauthorized
        | Exit::Unknown(_) => output.failure(format_args!("iscsiadm {what}")),
    }
}

fn detail(output: &Output) -> String {
    format!("{}: {}", output.status, output.detail())
}

fn node(iqn: &Iqn, portal: String) -> impl Iterator<Item = String> {
    let arguments = ["-m", "node", "-T"].map(str::to_owned).into_iter();
    arguments.chain([iqn.to_string(), "-p".to_owned(), portal])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> (Iqn, Portal) {
        (
            "iqn.2016-12.org.gluster-block:6f3c2a10-1111-4222-8333-abcdefabcdef"
                .parse()
                .unwrap(),
            "10.77.1.11:3260".parse().unwrap(),
        )
    }

    fn ended(code: i32, stderr: &str) -> Output {
        Output {
            code: Some(code),
            status: format!("exit status: {code}"),
            stdout: Vec::new(),
            stderr: stderr.as_bytes().to_vec(),
        }
    }

    #[test]
    fn a_record_is_made_in_one_form_and_set_in_one_go() {
        // Q04, S07, W02
        let (iqn, portal) = target();
        let limits = Limits::default();
        insta::assert_snapshot!(new_record(&iqn, &portal, &limits), @"iscsiadm -m node -T iqn.2016-12.org.gluster-block:6f3c2a10-1111-4222-8333-abcdefabcdef -p 10.77.1.11:3260,-1 -o new");
        insta::assert_snapshot!(update_record(&iqn, &portal, &Timers::default(), &limits), @"iscsiadm -m node -T iqn.2016-12.org.gluster-block:6f3c2a10-1111-4222-8333-abcdefabcdef -p 10.77.1.11:3260 -o update -n node.startup -v manual -n node.conn[0].startup -v manual -n node.leading_login -v No -n node.session.scan -v manual -n node.session.nr_sessions -v 1 -n node.session.initial_login_retry_max -v 1 -n node.session.timeo.replacement_timeout -v 120 -n node.conn[0].timeo.login_timeout -v 10 -n node.conn[0].timeo.noop_out_interval -v 5 -n node.conn[0].timeo.noop_out_timeout -v 5");
        insta::assert_snapshot!(delete_record(&iqn, &portal, &limits), @"iscsiadm -m node -T iqn.2016-12.org.gluster-block:6f3c2a10-1111-4222-8333-abcdefabcdef -p 10.77.1.11:3260 -o delete");
    }

    #[test]
    fn a_session_is_left_by_its_number_not_by_its_record() {
        // S08
        insta::assert_snapshot!(logout(7, &Limits::default()), @"iscsiadm -m session -r 7 --logout");
    }

    #[test]
    fn a_login_may_take_longer_than_the_record_lets_it() {
        // Q13
        assert!(Limits::default().login > Timers::default().login * 2);
        let (iqn, portal) = target();
        insta::assert_snapshot!(login(&iqn, &portal, &Limits::default()), @"iscsiadm -m node -T iqn.2016-12.org.gluster-block:6f3c2a10-1111-4222-8333-abcdefabcdef -p 10.77.1.11:3260 --login");
    }

    #[test]
    fn every_exit_of_a_login_means_one_thing() {
        let (iqn, portal) = target();
        let error = |code| login_error(&iqn, &portal, &ended(code, "iscsiadm: said so"));
        assert!(error(0).is_none());
        assert!(error(15).is_none()); // S11
        for silent in [4, 8, 11, 32, 33] {
            assert!(
                matches!(error(silent), Some(HostError::PortalSilent { .. })),
                "{silent}"
            ); // Q07
        }
        for refused in [5, 19] {
            assert!(
                matches!(error(refused), Some(HostError::LoginRefused { .. })),
                "{refused}"
            ); // Q06
        }
        assert!(matches!(error(24), Some(HostError::ChapRejected { .. })));
        for not_ready in [12, 18, 20] {
            assert!(
                matches!(error(not_ready), Some(HostError::NotReady { .. })),
                "{not_ready}"
            ); // Q08
        }
        for failed in [1, 2, 3, 6, 7, 9, 13, 21, 22, 99] {
            assert!(
                matches!(error(failed), Some(HostError::Failed { .. })),
                "{failed}"
            );
        }
    }

    #[test]
    fn a_refused_login_names_target_and_portal() {
        let (iqn, portal) = target();
        let output = ended(
            19,
            "iscsiadm: Could not login to [iface: default, …].\niscsiadm: initiator reported error (19 - encountered non-retryable iSCSI login failure)",
        );
        let text = login_error(&iqn, &portal, &output).unwrap().to_string();
        assert!(
            text.contains("10.77.1.11:3260") && text.contains(&iqn.to_string()),
            "{text}"
        );
    }
}
