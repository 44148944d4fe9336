//! Faults by a switch file: what goes wrong, where, and how often.
//!
//! The file is JSON and is read at every point that can go wrong, so writing it takes effect at once:
//!
//! ```json
//! {"rules": [{"at": "before:volume-start", "do": "fail", "text": "volume start: x: failed", "times": 1}],
//!  "down": ["10.77.1.12"]}
//! ```
//!
//! | `do`     | at a step (`before:STEP`, `after:STEP`)       | at a `request`                                   |
//! |----------|-----------------------------------------------|--------------------------------------------------|
//! | `fail`   | the step fails with `text`                    | answers `status` and `text`, nothing is done     |
//! | `hang`   | waits until the rule is gone from the file    | the same, before anything is done                |
//! | `delay`  | waits `millis`                                | the same                                         |
//! | `lose`   | the same as `fail` without a text             | does all of it, then cuts the connection         |
//! | `kill`   | the simulator dies by SIGKILL                 | the same, before anything is done                |
//!
//! `times` (default 1) counts down in the file and a rule that is used up disappears from it; `hang` is not counted. `method`
//! and `path` (a prefix) narrow a `request` rule. While anything hangs, the file `FAULTS.holding` names where. Commands on
//! hosts under `down` fail as if the host were off.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::store::replace;

/// A place where something can go wrong.
#[derive(Debug, Clone, Copy)]
pub enum Point<'a> {
    /// Before a step of an operation.
    Before(&'a str),
    /// After a step of an operation.
    After(&'a str),
    /// A request that passed the token check.
    Request {
        /// Its method.
        method: &'a str,
        /// Its path.
        path: &'a str,
    },
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct File {
    #[serde(default)]
    rules: Vec<Rule>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    down: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    at: String,
    #[serde(rename = "do")]
    action: Action,
    #[serde(default = "once")]
    times: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    millis: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Fail,
    Hang,
    Delay,
    Lose,
    Kill,
}

fn once() -> u64 {
    1
}

/// What the caller has to do about a fault. Waiting and dying are done here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    Proceed,
    /// Fail: with that status (requests) and text.
    Fail {
        /// HTTP status for a request.
        status: u16,
        /// What to say; may be empty.
        text: String,
    },
    /// Do it all, then cut the connection.
    Lose,
}

/// The switch file.
#[derive(Debug)]
pub struct Faults {
    path: Option<PathBuf>,
    /// What hangs now. Also held while the file is rewritten, so that two points never use up the same rule.
    holding: Mutex<Vec<String>>,
}

/// How often a hanging point looks whether its rule is gone.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

impl Faults {
    /// Faults from that file; none without one.
    #[must_use]
    pub fn new(path: Option<PathBuf>) -> Self {
        Self {
            path,
            holding: Mutex::default(),
        }
    }

    /// Whether commands on that host are to fail.
    #[must_use]
    pub fn is_down(&self, host: &str) -> bool {
        self.path
            .as_deref()
            .is_some_and(|path| read(path).down.iter().any(|down| down == host))
    }

    /// Meets the faults of a point, the first that fits; waits or dies if they say so.
    pub async fn meet(&self, point: Point<'_>) -> Verdict {
        let Some(path) = self.path.as_deref() else {
            return Verdict::Proceed;
        };
        let Some(rule) = self.take(path, point) else {
            return Verdict::Proceed;
        };
        tracing::warn!(at = rule.at, action = ?rule.action, "fault");
        match rule.action {
            Action::Hang => self.hang(path, &rule).await,
            Action::Delay => {
                tokio::time::sleep(Duration::from_millis(rule.millis.unwrap_or(0))).await;
            }
            Action::Kill => die(),
            Action::Lose if matches!(point, Point::Request { .. }) => return Verdict::Lose,
            Action::Fail | Action::Lose => {
                let text = rule.text.unwrap_or_default();
                return Verdict::Fail {
                    status: rule.status.unwrap_or(500),
                    text,
                };
            }
        }
        Verdict::Proceed
    }

    fn take(&self, path: &Path, point: Point<'_>) -> Option<Rule> {
        let _one_at_a_time = self.holding.lock().unwrap_or_else(PoisonError::into_inner);
        let mut file = read(path);
        let index = file.rules.iter().position(|rule| rule.fits(point))?;
        let rule = file.rules.get_mut(index)?;
        let found = rule.clone();
        if rule.action != Action::Hang {
            rule.times = rule.times.saturating_sub(1);
            file.rules.retain(|rule| rule.times > 0);
            let written = serde_json::to_vec_pretty(&file).map_err(io::Error::from);
            if let Err(error) = written.and_then(|bytes| replace(path, &bytes)) {
                tracing::error!(%error, "cannot rewrite the switch file");
            }
        }
        Some(found)
    }

    async fn hang(&self, path: &Path, rule: &Rule) {
        self.mark(path, |holding| holding.push(rule.at.clone()));
        while read(path).rules.contains(rule) {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        self.mark(path, |holding| {
            if let Some(index) = holding.iter().position(|at| *at == rule.at) {
                holding.swap_remove(index);
            }
        });
    }

    fn mark(&self, path: &Path, change: impl FnOnce(&mut Vec<String>)) {
        let mut holding = self.holding.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut holding);
        let marker = marker(path);
        let done = if holding.is_empty() {
            fs::remove_file(marker)
        } else {
            fs::write(marker, holding.join("\n"))
        };
        if let Err(error) = done {
            tracing::error!(%error, "cannot keep the marker file");
        }
    }
}

/// The file that names what hangs, while something hangs.
#[must_use]
pub fn marker(faults: &Path) -> PathBuf {
    let mut name = faults.as_os_str().to_owned();
    name.push(".holding");
    PathBuf::from(name)
}

impl Rule {
    fn fits(&self, point: Point<'_>) -> bool {
        match point {
            Point::Before(step) => self.at.strip_prefix("before:") == Some(step),
            Point::After(step) => self.at.strip_prefix("after:") == Some(step),
            Point::Request { method, path } => {
                let wanted = self
                    .method
                    .as_deref()
                    .is_none_or(|m| m.eq_ignore_ascii_case(method));
                self.at == "request"
                    && wanted
                    && path.starts_with(self.path.as_deref().unwrap_or(""))
            }
        }
    }
}

/// A file that is missing has no rules; one that cannot be understood is reported, rule by rule, and the rest counts.
fn read(path: &Path) -> File {
    let Ok(bytes) = fs::read(path) else {
        return File::default();
    };
    match serde_json::from_slice::<Value>(&bytes).map(serde_json::from_value::<File>) {
        Ok(Ok(file)) => file,
        Ok(Err(error)) | Err(error) => {
            tracing::error!(%error, "the switch file is not understood; no faults");
            File::default()
        }
    }
}

/// Dies as a host does that loses its power.
fn die() {
    let this = rustix::process::getpid();
    if let Err(error) = rustix::process::kill_process(this, rustix::process::Signal::KILL) {
        tracing::error!(%error, "cannot die");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> (tempfile::TempDir, PathBuf, Faults) {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("faults");
        fs::write(&path, text).expect("write");
        let faults = Faults::new(Some(path.clone()));
        (folder, path, faults)
    }

    #[tokio::test]
    async fn a_rule_is_used_as_often_as_it_says_and_then_gone() {
        let text =
            r#"{"rules": [{"at": "before:volume-start", "do": "fail", "text": "no", "times": 2}]}"#;
        let (_folder, path, faults) = faults(text);
        let failed = Verdict::Fail {
            status: 500,
            text: "no".to_owned(),
        };

        assert_eq!(
            faults.meet(Point::After("volume-start")).await,
            Verdict::Proceed
        );
        assert_eq!(faults.meet(Point::Before("volume-start")).await, failed);
        assert_eq!(faults.meet(Point::Before("volume-start")).await, failed);
        assert_eq!(
            faults.meet(Point::Before("volume-start")).await,
            Verdict::Proceed
        );
        assert!(read(&path).rules.is_empty());
    }

    #[tokio::test]
    async fn a_hang_lasts_until_the_rule_is_gone_and_is_marked_meanwhile() {
        let (_folder, path, faults) = faults(r#"{"rules": [{"at": "after:build", "do": "hang"}]}"#);
        let release = async {
            while !marker(&path).try_exists().expect("look") {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            fs::write(&path, "{}").expect("write");
        };

        tokio::join!(faults.meet(Point::After("build")), release);

        assert!(!marker(&path).try_exists().expect("look"));
    }

    #[tokio::test]
    async fn a_request_rule_can_be_narrowed_to_a_method_and_a_path() {
        let rule =
            r#"{"rules": [{"at": "request", "do": "lose", "method": "POST", "path": "/volumes"}]}"#;
        let (_folder, _path, faults) = faults(rule);

        let get = Point::Request {
            method: "GET",
            path: "/volumes",
        };
        let post = Point::Request {
            method: "POST",
            path: "/volumes",
        };
        assert_eq!(faults.meet(get).await, Verdict::Proceed);
        assert_eq!(faults.meet(post).await, Verdict::Lose);
    }
}
