//! The shapes of gluster-block's replies, and how to find them in what was printed.
//!
//! Quirks, all seen with 0.5.1 unless a version is named:
//!
//! - Success goes to stdout and failure to stderr; before 0.4 both go to stdout. Both are read, stdout first.
//! - Text can come before the JSON on stdout (`The size N will align to sector size 512 bytes`).
//! - json-c escapes `/` as `\/`, and `errMsg` often ends with a line feed.
//! - Usage errors and a silent daemon give plain text, never JSON.
//! - Keys drifted: `info` had `BLOCK CONFIG NODE(S)` in 0.2 and `EXPORTED NODE(S)` in 0.3 for today's `EXPORTED ON`, and in
//!   0.2 an integer `SIZE`; `create` had one `ROLLBACK ON` before 0.4.
//! - `info` does not print the exact size, the user name, the target name or whether CHAP is on: an empty
//!   `PASSWORD` says that it is off.
//!
//! Nothing here decides what an answer means.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::transport::Reply;

/// Longest piece of gluster-block's own words that goes into an error.
const EXCERPT_LIMIT: usize = 300;

/// One reply, taken apart.
pub(crate) struct Answer {
    /// The exit code.
    pub(crate) exit: i32,
    /// The JSON object, if one was printed.
    object: Option<Map<String, Value>>,
    /// All that was printed, if there was no JSON.
    text: String,
}

/// The keys that any failure may have.
#[derive(Deserialize)]
pub(crate) struct Failure {
    #[serde(rename = "errCode")]
    pub(crate) code: Option<i64>,
    #[serde(rename = "errMsg")]
    pub(crate) message: Option<String>,
}

/// What `create` prints.
#[derive(Deserialize)]
pub(crate) struct Created {
    #[serde(rename = "IQN")]
    pub(crate) iqn: Option<String>,
    #[serde(rename = "ROLLBACK FAILED ON")]
    pub(crate) rollback_failed_on: Option<Vec<String>>,
    #[serde(rename = "ROLLBACK SUCCESS ON")]
    pub(crate) rollback_success_on: Option<Vec<String>>,
    #[serde(rename = "ROLLBACK ON")]
    pub(crate) rollback_on: Option<Vec<String>>,
}

/// What `list` prints.
#[derive(Deserialize)]
pub(crate) struct Listed {
    pub(crate) blocks: Vec<String>,
}

/// What `info` prints.
#[derive(Deserialize)]
pub(crate) struct Described {
    #[serde(rename = "NAME")]
    pub(crate) name: String,
    #[serde(rename = "VOLUME")]
    pub(crate) volume: String,
    #[serde(rename = "GBID")]
    pub(crate) gbid: String,
    #[serde(rename = "SIZE")]
    pub(crate) size: Size,
    #[serde(rename = "HA")]
    pub(crate) ha: u32,
    #[serde(rename = "PASSWORD", default)]
    pub(crate) password: String,
    #[serde(
        rename = "EXPORTED ON",
        alias = "EXPORTED NODE(S)",
        alias = "BLOCK CONFIG NODE(S)",
        default
    )]
    pub(crate) exported_on: Vec<String>,
    #[serde(rename = "RESIZE FAILED ON", default)]
    pub(crate) resize_failed_on: BTreeMap<String, String>,
    #[serde(rename = "ENCOUNTERED FAILURES ON", default)]
    pub(crate) failures_on: Vec<String>,
}

/// A printed size, or plain bytes from 0.2.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Size {
    Printed(String),
    Bytes(u64),
}

/// What `delete` and `modify size` print about hosts.
#[derive(Deserialize)]
pub(crate) struct Changed {
    #[serde(rename = "FAILED ON")]
    pub(crate) failed: Option<Vec<String>>,
    #[serde(rename = "SUCCESSFUL ON", default)]
    pub(crate) successful: Vec<String>,
    #[serde(rename = "SKIPPED ON", default)]
    pub(crate) skipped: Vec<String>,
}

/// What `RESULT` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    Success,
    Fail,
    /// Nothing: there is no such key, or no JSON.
    Nothing,
    /// Some other word.
    Other,
}

impl Answer {
    /// Finds the JSON in a reply, or keeps its text.
    pub(crate) fn read(reply: &Reply) -> Self {
        let object = first_object(&reply.stdout).or_else(|| first_object(&reply.stderr));
        let text = match &object {
            Some(_) => String::new(),
            None => format!("{}\n{}", reply.stdout, reply.stderr),
        };
        Self {
            exit: reply.exit,
            object,
            text,
        }
    }

    /// Whether there is JSON at all.
    pub(crate) fn is_json(&self) -> bool {
        self.object.is_some()
    }

    /// What `RESULT` says.
    pub(crate) fn result(&self) -> Said {
        match self.object.as_ref().and_then(|object| object.get("RESULT")) {
            None => Said::Nothing,
            Some(word) if word == "SUCCESS" => Said::Success,
            Some(word) if word == "FAIL" => Said::Fail,
            Some(_) => Said::Other,
        }
    }

    /// The object in the shape `T`; none if it has another one.
    pub(crate) fn shaped<T: DeserializeOwned>(&self) -> Option<T> {
        self.object
            .clone()
            .and_then(|object| serde_json::from_value(Value::Object(object)).ok())
    }

    /// `errCode` and `errMsg`; for plain text the exit code and that text.
    pub(crate) fn failure(&self) -> (Option<i64>, String) {
        if !self.is_json() {
            return (Some(i64::from(self.exit)), self.text.clone());
        }
        let failure = self.shaped().unwrap_or(Failure {
            code: None,
            message: None,
        });
        (failure.code, failure.message.unwrap_or_default())
    }
}

/// The first JSON object that begins at a `{` of `text`.
fn first_object(text: &str) -> Option<Map<String, Value>> {
    text.match_indices('{').find_map(|(at, _)| {
        let mut values = serde_json::Deserializer::from_str(text.get(at..)?).into_iter();
        values.next()?.ok()
    })
}

/// gluster-block's own words for an error message: one line, cut short, nothing that may hold a password.
pub(crate) fn excerpt(text: &str) -> String {
    if text.to_ascii_lowercase().contains("passw") {
        return "(its words are withheld: they may hold a password)".to_owned();
    }
    let words = text
        .split('{')
        .next()
        .unwrap_or_default()
        .split_whitespace();
    let line: String = words.collect::<Vec<_>>().join(" ");
    line.chars()
        .filter(|c| !c.is_control())
        .take(EXCERPT_LIMIT)
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reply(stdout: &str, stderr: &str) -> Reply {
        Reply {
            exit: 0,
            stdout: stdout.to_owned(),
            stderr: stderr.to_owned(),
        }
    }

    #[test]
    fn text_before_the_json_is_skipped() {
        let text =
            "The size 1000 will align to sector size 512 bytes\n{ \"RESULT\": \"SUCCESS\" }\n";
        assert_eq!(Answer::read(&reply(text, "")).result(), Said::Success);
        let text = "odd {brace} here { \"RESULT\": \"FAIL\" } and more";
        assert_eq!(Answer::read(&reply(text, "")).result(), Said::Fail);
    }

    #[test]
    fn stdout_is_read_before_stderr() {
        let (yes, no) = ("{ \"RESULT\": \"SUCCESS\" }", "{ \"RESULT\": \"FAIL\" }");
        assert_eq!(Answer::read(&reply(no, yes)).result(), Said::Fail);
        assert_eq!(Answer::read(&reply("", yes)).result(), Said::Success);
        assert_eq!(Answer::read(&reply("no json", yes)).result(), Said::Success);
    }

    #[test]
    fn escaped_slashes_are_slashes() {
        let text = r#"{ "RESULT": "FAIL", "errCode": 2, "errMsg": "block V\/B doesn't exist" }"#;
        let (code, message) = Answer::read(&reply("", text)).failure();
        assert_eq!(
            (code, message.as_str()),
            (Some(2), "block V/B doesn't exist")
        );
    }

    #[test]
    fn a_cut_off_object_is_no_object() {
        let text = r#"{ "NAME": "b1", "PASSWORD": "sec"#;
        let answer = Answer::read(&reply(text, ""));
        assert!(!answer.is_json());
        assert_eq!(
            excerpt(&answer.failure().1),
            "(its words are withheld: they may hold a password)"
        );
    }

    proptest! {
        // C14
        #[test]
        fn no_excerpt_holds_what_follows_a_password(before in ".{0,40}", secret in "[A-Za-z0-9]{12,40}") {
            for key in ["PASSWORD: ", "\"PASSWORD\": \"", "chap password="] {
                let words = excerpt(&format!("{before}{key}{secret}\n"));
                prop_assert!(!words.contains(&secret));
            }
        }

        #[test]
        fn reading_never_panics(stdout in ".*", stderr in ".*") {
            let answer = Answer::read(&reply(&stdout, &stderr));
            let _ = (answer.result(), answer.failure(), answer.shaped::<Described>().is_some());
        }

        #[test]
        fn an_object_is_found_behind_any_text_without_braces(before in "[^{]*") {
            let answer = Answer::read(&reply(&format!("{before}{{\"RESULT\":\"SUCCESS\"}}"), ""));
            prop_assert_eq!(answer.result(), Said::Success);
        }
    }
}
