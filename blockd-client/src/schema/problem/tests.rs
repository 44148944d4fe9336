//! Every error becomes a problem, and that problem the same error.

use std::collections::BTreeMap;

use super::*;
use crate::block::BlockInfo;

fn host() -> HostAddress {
    "10.0.0.1".parse().unwrap()
}

fn id() -> VolumeId {
    "hv/b1".parse().unwrap()
}

fn found() -> Box<BlockInfo> {
    Box::new(BlockInfo {
        id: id(),
        gbid: "7f9aa1b2-aba7-4c77-9a5b-02a3ed562b15".parse().unwrap(),
        printed_size: "1.0 GiB".to_owned(),
        ha: 2,
        exported_on: vec![host()],
        failing: vec![],
        lagging: BTreeMap::from([(host(), "1.0 MiB".to_owned())]),
        password: Some("c0b3b4d6-2a5f".parse().unwrap()),
    })
}

fn remote() -> Error {
    Error::Transport(TransportError::Remote {
        host: host(),
        started: true,
        said: "gone".to_owned(),
    })
}

fn words(text: &str) -> String {
    text.to_owned()
}

/// One error of each kind, some with others behind them.
fn errors() -> Vec<Error> {
    let hosting_volume = || id().hosting_volume;
    let conflict = |mismatch| Error::Conflict {
        found: found(),
        mismatch,
    };
    let size = Mismatch::Size {
        found: words("1.0 GiB"),
        wanted: Capacity::from_bytes(2 << 30),
    };
    vec![
        Error::BlockMissing { id: id() },
        Error::VolumeMissing {
            hosting_volume: hosting_volume(),
        },
        Error::Exists {
            found: found(),
            cause: None,
        },
        Error::Exists {
            found: found(),
            cause: Some(Box::new(Error::Busy { host: host() })),
        },
        conflict(size),
        conflict(Mismatch::Ha {
            found: 1,
            wanted: 3,
        }),
        conflict(Mismatch::Auth { found: true }),
        Error::Incomplete {
            found: found(),
            cause: Some(Box::new(remote())),
        },
        Error::NotMade {
            id: id(),
            cause: Box::new(Error::NoSpace {
                hosting_volume: hosting_volume(),
            }),
        },
        Error::Unproved {
            id: id(),
            cause: Box::new(remote()),
            check: Some(Box::new(Error::Busy { host: host() })),
        },
        Error::NameTaken {
            id: id(),
            hosts: vec![host()],
        },
        Error::NoSpace {
            hosting_volume: hosting_volume(),
        },
        Error::HostDown { host: host() },
        Error::Partial {
            id: id(),
            failed: vec![host()],
            done: vec![],
            said: words("so"),
        },
        Error::Lagging { found: found() },
        Error::Shrink {
            id: id(),
            current: words("2.0 GiB"),
        },
        Error::Unsupported {
            host: host(),
            capability: words("create_io_timeout"),
        },
        Error::Busy { host: host() },
        Error::Unavailable {
            host: host(),
            reason: words("start it"),
        },
        Error::InvalidRequest {
            reason: words("no size"),
        },
        Error::Protocol {
            host: host(),
            verb: "info",
            reason: words("odd"),
        },
        remote(),
    ]
}

/// One problem of each kind.
pub(crate) fn every_problem() -> Vec<Problem> {
    let own = [
        What::Forbidden {
            reason: words("no"),
        },
        What::NoSuchPath,
        What::NoSuchOperation {
            operation: Uuid::nil(),
        },
        What::OperationRunning {
            operation: Uuid::nil(),
        },
    ];
    let own = own.map(|what| Problem::new(what, "so it is"));
    errors().into_iter().map(Problem::from).chain(own).collect()
}

#[test]
fn every_error_comes_back_from_its_problem() {
    for error in errors() {
        let (shown, printed, unknown) = (
            format!("{error:?}"),
            error.to_string(),
            error.outcome_unknown(),
        );
        let text = serde_json::to_string(&Problem::from(error)).unwrap();
        let problem: Problem = serde_json::from_str(&text).unwrap();
        let back = problem.clone().into_error(host());
        assert_eq!(format!("{back:?}"), shown, "{text}");
        assert_eq!(
            (back.to_string(), back.outcome_unknown()),
            (printed, unknown)
        );
        assert_eq!(Problem::from(back).what, problem.what);
    }
}

#[test]
fn an_error_of_a_transport_keeps_what_counts() {
    let deadline = |started| TransportError::Deadline {
        host: host(),
        deadline: std::time::Duration::from_secs(1),
        started,
    };
    for started in [true, false] {
        let problem = Problem::from(Error::Transport(deadline(started)));
        let Error::Transport(back) = problem.into_error(host()) else {
            panic!("another kind");
        };
        assert_eq!(back.may_have_started(), started);
        assert!(back.to_string().contains("within 1 s"), "{back}");
    }
}

// C7
#[test]
fn no_problem_has_a_password_in_its_words() {
    for error in errors() {
        let problem = Problem::from(error);
        assert!(!problem.detail.contains("c0b3b4d6"), "{}", problem.detail);
        assert!(!format!("{problem:?}").contains("c0b3b4d6"));
    }
}

#[test]
fn a_problem_has_the_members_of_its_standard() {
    let problem = Problem::from(Error::NoSpace {
        hosting_volume: id().hosting_volume,
    });
    insta::assert_snapshot!(serde_json::to_string(&problem).unwrap(), @r#"{"title":"The hosting volume has not enough room","status":507,"detail":"hosting volume hv has not enough room","type":"urn:gluster-block:problem:no-space","hostingVolume":"hv"}"#);
}

#[test]
fn a_block_that_was_not_made_has_the_code_of_the_reason() {
    let cause = Box::new(Error::NoSpace {
        hosting_volume: id().hosting_volume,
    });
    assert_eq!(
        Problem::from(Error::NotMade { id: id(), cause }).status,
        507
    );
}
