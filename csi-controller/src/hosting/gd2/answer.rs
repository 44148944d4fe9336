//! What an answer of gd2 means. It says 500 for nearly everything, so its words count.

use std::fmt::Write as _;

use reqwest::StatusCode;

use super::wire;
use crate::hosting::HostingError;
use crate::hosting::rest::Answer;

/// What has become of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// It is done.
    Done,
    /// There is no such volume.
    Absent,
    /// It is so already.
    Already,
    /// Somebody else holds the lock; nothing was begun.
    Locked,
    /// A peer is down; nothing was begun.
    PeerDown,
    /// No device has the room; nothing was begun.
    NoSpace,
    /// gd2 does not accept the token.
    Unauthorized,
    /// It failed and was undone, or was refused before.
    Failed,
    /// It may be done, be undone, or still be on its way.
    Unsettled,
    /// That was not gd2.
    Foreign,
}

/// The meaning of a status and of gd2's errors.
///
/// | status | its words | meaning |
/// |---|---|---|
/// | 2xx | | `Done` |
/// | 401 | | `Unauthorized` |
/// | 404 | `volume not found` | `Absent` |
/// | 409 | | `Locked`: no lock within five seconds |
/// | 500 | `could not obtain lock`, and no step failed | `Locked`: some handlers leave the mapping to 409 out |
/// | 500 | `probably down`, `nodes are down` | `PeerDown`: asked before a transaction begins |
/// | 500 | `no space available`, `no devices registered` | `NoSpace`: the planner's |
/// | 400 | `volume already started`, `volume already exists` | `Already` |
/// | 500 | `timeout in synchronizing txn`, `deadline exceeded`, `etcdserver` | `Unsettled` |
/// | 500 | errors without a message, or none | `Unsettled` |
/// | 502, 503, 504 | | `Unsettled`: said by something in between |
/// | 400, 500 | else | `Failed` |
/// | else | | `Foreign` |
pub(super) fn meaning(status: StatusCode, errors: &[wire::Fault]) -> Meaning {
    let says = |texts: &[&str]| {
        let mut messages = errors.iter().map(|error| &error.message);
        messages.any(|message| texts.iter().any(|text| message.contains(text)))
    };
    let stepped = errors.iter().any(|error| error.code == wire::STEP_FAILED);
    match status.as_u16() {
        200..=299 => Meaning::Done,
        401 => Meaning::Unauthorized,
        404 if says(&["volume not found"]) => Meaning::Absent,
        409 => Meaning::Locked,
        500 if !stepped && says(&["could not obtain lock"]) => Meaning::Locked,
        500 if !stepped && says(&["probably down", "nodes are down"]) => Meaning::PeerDown,
        500 if !stepped && says(&["no space available", "no devices registered"]) => {
            Meaning::NoSpace
        }
        400 if says(&["volume already started", "volume already exists"]) => Meaning::Already,
        500 if says(&[
            "timeout in synchronizing txn",
            "deadline exceeded",
            "etcdserver",
        ]) =>
        {
            Meaning::Unsettled
        }
        500 if errors.iter().all(|error| error.message.is_empty()) => Meaning::Unsettled,
        502..=504 => Meaning::Unsettled,
        400 | 500 => Meaning::Failed,
        _ => Meaning::Foreign,
    }
}

/// An answer, understood.
#[derive(Debug)]
pub(super) struct Understood {
    pub(super) meaning: Meaning,
    pub(super) answer: Answer,
    said: String,
}

impl From<Answer> for Understood {
    fn from(answer: Answer) -> Self {
        let errors = serde_json::from_str::<wire::Errors>(&answer.text);
        let errors = errors.map_or(Vec::new(), |errors| errors.errors);
        Self {
            meaning: meaning(answer.status, &errors),
            said: said(&answer, &errors),
            answer,
        }
    }
}

impl Understood {
    /// gd2's own words, and the id under which its log has more.
    pub(super) fn said(&self) -> String {
        let id = self.answer.headers.get("x-request-id");
        match id.and_then(|id| id.to_str().ok()) {
            Some(id) => format!(
                "{}; request {}",
                self.said,
                id.chars().take(40).collect::<String>()
            ),
            None => self.said.clone(),
        }
    }

    /// As an error, where no meaning but `Done` was hoped for.
    pub(super) fn refusal(&self) -> HostingError {
        let (said, what) = (self.said(), self.answer.what.clone());
        match self.meaning {
            Meaning::Locked => HostingError::Busy { said },
            Meaning::PeerDown => HostingError::PeerDown { said },
            Meaning::Unauthorized => unauthorized(said),
            Meaning::Unsettled => HostingError::Unknown { what, why: said },
            Meaning::Absent | Meaning::Already | Meaning::NoSpace | Meaning::Failed => {
                HostingError::Refused { said }
            }
            Meaning::Done | Meaning::Foreign => HostingError::Protocol {
                what,
                why: format!("{said}; is this gd2? see setting --gd2-url"),
            },
        }
    }
}

fn said(answer: &Answer, errors: &[wire::Fault]) -> String {
    let mut said = String::new();
    for error in errors.iter().filter(|error| !error.message.is_empty()) {
        let between = if said.is_empty() { "" } else { "; " };
        let _ = write!(said, "{between}{}", error.message);
        for (name, value) in error.fields.iter().flatten() {
            let _ = write!(said, ", {name} {value}");
        }
    }
    if said.is_empty() {
        return format!("status {} and no message", answer.status.as_u16());
    }
    said.chars().take(500).collect()
}

/// gd2 tells apart what is wrong with a token in words only.
fn unauthorized(said: String) -> HostingError {
    let setting = if said.contains("expired") {
        "the clocks of this host and of gd2's; they are too far apart"
    } else {
        "--gd2-secret-file: it must hold the secret of the very daemon that --gd2-url names"
    };
    HostingError::Unauthorized { setting, said }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, code: u32, message: &str) -> Meaning {
        let error = wire::Fault {
            code,
            message: message.to_owned(),
            fields: None,
        };
        meaning(StatusCode::from_u16(status).unwrap(), &[error])
    }

    // reference §4.1, §4.2; §6.2 GCS #140, CSI #132
    #[test]
    fn every_row_of_the_table_holds() {
        let lock = "could not obtain lock: another conflicting transaction may be in progress";
        for (status, code, message, expected) in [
            (200, 0, "", Meaning::Done),
            (204, 0, "", Meaning::Done),
            (401, 1, "invalid qsh claim in token", Meaning::Unauthorized),
            (404, 1, "volume not found", Meaning::Absent),
            (404, 1, "peer not found", Meaning::Foreign),
            (409, 1, lock, Meaning::Locked),
            (500, 1, lock, Meaning::Locked),
            (500, 2, lock, Meaning::Failed),
            (500, 1, "node 1 is probably down", Meaning::PeerDown),
            (
                500,
                1,
                "probably some of the nodes are down",
                Meaning::PeerDown,
            ),
            (
                500,
                1,
                "no devices registered or available for allocating bricks",
                Meaning::NoSpace,
            ),
            (
                500,
                1,
                "no space available or all the devices are not registered",
                Meaning::NoSpace,
            ),
            (400, 1, "volume already started", Meaning::Already),
            (400, 1, "volume already exists", Meaning::Already),
            (500, 1, "timeout in synchronizing txn", Meaning::Unsettled),
            (500, 1, "etcdserver: request timed out", Meaning::Unsettled),
            (500, 1, "context deadline exceeded", Meaning::Unsettled),
            (500, 1, "", Meaning::Unsettled),
            (502, 0, "", Meaning::Unsettled),
            (504, 0, "", Meaning::Unsettled),
            (400, 1, "invalid volume name", Meaning::Failed),
            (500, 2, "a txn step failed", Meaning::Failed),
            (403, 0, "", Meaning::Foreign),
            (302, 0, "", Meaning::Foreign),
        ] {
            assert_eq!(of(status, code, message), expected, "{status} {message}");
        }
        assert_eq!(
            meaning(StatusCode::INTERNAL_SERVER_ERROR, &[]),
            Meaning::Unsettled
        );
    }

    fn understood(status: u16, text: &str) -> Understood {
        Understood::from(Answer {
            what: "POST /v1/volumes".to_owned(),
            status: StatusCode::from_u16(status).unwrap(),
            headers: [("x-request-id".parse().unwrap(), "r1".parse().unwrap())]
                .into_iter()
                .collect(),
            text: text.to_owned(),
        })
    }

    #[test]
    fn words_of_failed_steps_are_kept_with_their_peer() {
        let text = r#"{"errors":[{"code":2,"message":"a txn step failed",
            "fields":{"peer-id":"p1","step":"vol-create.PrepareBricks","error":"lvcreate failed"}}]}"#;
        let error = understood(500, text).refusal().to_string();
        for part in ["a txn step failed", "lvcreate failed", "p1", "request r1"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_token_problem_names_the_secret_or_the_clocks() {
        let text = |said: &str| unauthorized(said.to_owned()).to_string();
        assert!(text("signature is invalid").contains("--gd2-secret-file"));
        assert!(text("Token is expired").contains("clocks"));
    }

    #[test]
    fn another_server_is_told_by_its_words() {
        let error = understood(404, "404 page not found").refusal().to_string();
        assert!(error.contains("--gd2-url"), "{error}");
    }
}
