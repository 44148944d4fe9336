//! Faults by a switch file, read anew at every point, so that a test can set and lift them while the daemon runs.
//!
//! One fault a line: `VERB POINT ACTION [COUNT] [block=NAME]`; `#` begins a comment. The words:
//!
//! - VERB: `create delete info list resize auth replace reload genconfig` of the coordinator, the same of a host,
//!   `version` of a host, `restore` at start; `*` for any.
//! - POINT of the coordinator: `start` (nothing done), `locked` (volume lock held), `metadata` (metadata written),
//!   `size` (about to make or grow the file), `file` (file made or grown), `hosts:K` (K hosts have answered; they
//!   are then asked one by one), `end` (all done, answer not sent). POINT of a host: `host` (nothing done),
//!   `host-end` (done, answer not sent). `*` for any but `hosts:K`.
//! - ACTION: `hang` (until the line is gone; meanwhile a file `held/VERB-POINT` exists), `slow:SECONDS`, `fail`,
//!   `die` (the process ends), `abandon` (the request ends as if the process had: no roll-back, no answer),
//!   `lose` (the connection closes without an answer; the same as `abandon` at `end` and `host-end`),
//!   `round:BYTES` (at `size`: the file is cut down to a multiple of BYTES), `gbid:XX` (at `start` of create: the
//!   GBID begins with these two hexadecimal digits, as one in 256 does by chance).
//! - COUNT: only the first COUNT passages are hit; every hit is appended to the file `faults.hits`, also across
//!   restarts of the daemon, so a test can see that its fault struck. Remove that file to start counting anew.
//!
//! The file is not part of gluster-block. Everything it can cause has been seen with the real one: reference §0.2,
//! §0.6, §0.11, §0.12, §2.3, §2.7, §3.5 and §3.6.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// What a request meets at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Struck {
    /// The step fails with an error of its own.
    Fail,
    /// The request ends here without an answer and without tidying up.
    Abandon,
}

/// An action of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Hang,
    Slow(Duration),
    Fail,
    Die,
    Abandon,
    Round(u64),
    Gbid(u8),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    text: String,
    verb: String,
    point: String,
    action: Action,
    count: Option<usize>,
    block: Option<String>,
}

/// The switch file of one daemon.
#[derive(Debug, Clone)]
pub(crate) struct Faults {
    directory: PathBuf,
}

impl Faults {
    /// The faults switched by `directory/faults`.
    pub(crate) fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
        }
    }

    /// Passes a point: waits, dies or goes on.
    pub(crate) fn pass(&self, verb: &str, point: &str, block: &str) -> Result<(), Struck> {
        for line in self.matching(verb, point, block) {
            if matches!(line.action, Action::Round(_) | Action::Gbid(_)) || !self.take(&line) {
                continue;
            }
            tracing::info!(verb, point, fault = line.text, "fault strikes");
            match line.action {
                Action::Hang => self.hold(&line, verb, point),
                Action::Slow(time) => sleep(time),
                Action::Fail => return Err(Struck::Fail),
                Action::Abandon => return Err(Struck::Abandon),
                Action::Die => end_process(),
                Action::Round(_) | Action::Gbid(_) => {}
            }
        }
        Ok(())
    }

    /// The size the file really gets at the point `size`.
    pub(crate) fn size(&self, verb: &str, block: &str, asked: u64) -> u64 {
        let mut size = asked;
        for line in self.matching(verb, "size", block) {
            if let Action::Round(step) = line.action
                && self.take(&line)
            {
                size -= size.checked_rem(step).unwrap_or(0);
            }
        }
        size
    }

    /// The GBID of a new block.
    pub(crate) fn gbid(&self, block: &str) -> uuid::Uuid {
        let mut bytes = uuid::Uuid::new_v4().into_bytes();
        for line in self.matching("create", "start", block) {
            if let Action::Gbid(first) = line.action
                && self.take(&line)
            {
                bytes[0] = first;
            }
        }
        uuid::Uuid::from_bytes(bytes)
    }

    /// Whether some line speaks of `hosts:K`, so that the hosts must be asked one by one.
    pub(crate) fn is_stepwise(&self, verb: &str, block: &str) -> bool {
        self.lines().iter().any(|line| {
            line.point.starts_with("hosts:")
                && (line.verb == verb || line.verb == "*")
                && line.concerns(block)
        })
    }

    fn matching(&self, verb: &str, point: &str, block: &str) -> Vec<Line> {
        let mut lines = self.lines();
        lines.retain(|line| {
            (line.verb == verb || line.verb == "*")
                && (line.point == point || (line.point == "*" && !point.starts_with("hosts:")))
                && line.concerns(block)
        });
        lines
    }

    fn lines(&self) -> Vec<Line> {
        let text = fs::read_to_string(self.directory.join("faults")).unwrap_or_default();
        text.lines().filter_map(parse).collect()
    }

    /// Counts a hit, unless the line has had all its hits.
    fn take(&self, line: &Line) -> bool {
        let path = self.directory.join("faults.hits");
        let so_far = fs::read_to_string(&path).unwrap_or_default();
        let hits = so_far.lines().filter(|hit| *hit == line.text).count();
        if line.count.is_some_and(|count| hits >= count) {
            return false;
        }
        let noted = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .and_then(|mut file| file.write_all(format!("{}\n", line.text).as_bytes()));
        if let Err(error) = noted {
            tracing::warn!(%error, "cannot count a fault");
        }
        true
    }

    fn hold(&self, line: &Line, verb: &str, point: &str) {
        let markers = self.directory.join("held");
        let this_one = markers.join(format!("{verb}-{point}"));
        let marked = fs::create_dir_all(markers).and_then(|()| fs::write(&this_one, &line.text));
        if let Err(error) = marked {
            tracing::warn!(%error, "cannot mark a held request");
        }
        while self.lines().contains(line) {
            sleep(Duration::from_millis(20));
        }
        let _already_gone = fs::remove_file(this_one);
    }
}

impl Line {
    fn concerns(&self, block: &str) -> bool {
        self.block.as_deref().is_none_or(|wanted| wanted == block)
    }
}

fn parse(line: &str) -> Option<Line> {
    let text = line.split('#').next()?.trim();
    if text.is_empty() {
        return None;
    }
    let mut words = text.split_whitespace();
    let (verb, point, action) = (words.next()?, words.next()?, words.next()?);
    let Some(action) = parse_action(action) else {
        tracing::warn!(line, "fault line not understood");
        return None;
    };
    let mut read = Line {
        text: text.to_owned(),
        verb: verb.to_owned(),
        point: point.to_owned(),
        action,
        count: None,
        block: None,
    };
    for word in words {
        match word.strip_prefix("block=") {
            Some(name) => read.block = Some(name.to_owned()),
            None => read.count = word.parse().ok(),
        }
    }
    Some(read)
}

fn parse_action(word: &str) -> Option<Action> {
    match word.split_once(':') {
        None => match word {
            "hang" => Some(Action::Hang),
            "fail" => Some(Action::Fail),
            "die" => Some(Action::Die),
            "abandon" | "lose" => Some(Action::Abandon),
            _ => None,
        },
        Some(("slow", seconds)) => Duration::try_from_secs_f64(seconds.parse().ok()?)
            .ok()
            .map(Action::Slow),
        Some(("gbid", digits)) => u8::from_str_radix(digits, 16).ok().map(Action::Gbid),
        Some(("round", bytes)) => bytes.parse().ok().map(Action::Round),
        Some(_) => None,
    }
}

/// "If the coordinator dies the lock is released and nobody finishes or rolls back" (reference §3.5).
#[expect(
    clippy::exit,
    reason = "the fault is that the process ends in the middle of its work"
)]
fn end_process() {
    std::process::exit(3);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> (tempfile::TempDir, Faults) {
        let directory = tempfile::tempdir().expect("temporary directory");
        fs::write(directory.path().join("faults"), text).expect("write");
        let faults = Faults::new(directory.path());
        (directory, faults)
    }

    #[test]
    fn a_fault_strikes_its_verb_point_and_block_only() {
        let (_directory, faults) =
            faults("# comment\ncreate metadata abandon block=b1\ndelete host fail\n");
        assert_eq!(
            faults.pass("create", "metadata", "b1"),
            Err(Struck::Abandon)
        );
        assert_eq!(faults.pass("create", "metadata", "b2"), Ok(()));
        assert_eq!(faults.pass("create", "file", "b1"), Ok(()));
        assert_eq!(faults.pass("delete", "host", "b2"), Err(Struck::Fail));
    }

    #[test]
    fn a_counted_fault_strikes_that_often_and_leaves_its_hits_behind() {
        let (directory, faults) = faults("* end lose 2\n");
        assert_eq!(faults.pass("info", "end", "b"), Err(Struck::Abandon));
        assert_eq!(faults.pass("list", "end", "b"), Err(Struck::Abandon));
        assert_eq!(faults.pass("info", "end", "b"), Ok(()));
        let hits = fs::read_to_string(directory.path().join("faults.hits")).expect("hits");
        assert_eq!(hits, "* end lose 2\n* end lose 2\n");
    }

    #[test]
    fn a_held_request_is_marked_and_goes_on_when_the_line_is_gone() {
        let (directory, faults) = faults("create start hang\n");
        let held = std::thread::spawn(move || faults.pass("create", "start", "b"));
        let marker = directory.path().join("held/create-start");
        while !marker.try_exists().expect("readable") {
            sleep(Duration::from_millis(5));
        }
        assert!(!held.is_finished());
        fs::write(directory.path().join("faults"), "").expect("write");
        assert_eq!(held.join().expect("no panic"), Ok(()));
        assert!(!marker.try_exists().expect("readable"));
    }

    #[test]
    fn rounding_cuts_the_size_and_nothing_else() {
        let (_directory, faults) = faults("create size round:1048576\n");
        assert_eq!(faults.size("create", "b", 1_500_000), 1_048_576);
        assert_eq!(faults.size("resize", "b", 1_500_000), 1_500_000);
        assert_eq!(faults.pass("create", "size", "b"), Ok(()));
    }

    #[test]
    fn a_gbid_can_be_made_to_begin_with_two_digits() {
        let (_directory, faults) = faults("create start gbid:0b 1\n");
        assert!(faults.gbid("b").to_string().starts_with("0b"));
        assert_eq!(faults.pass("create", "start", "b"), Ok(()));
    }

    #[test]
    fn stepwise_work_is_asked_for_by_a_hosts_point() {
        let (_directory, faults) = faults("create hosts:1 abandon\n");
        assert!(faults.is_stepwise("create", "b"));
        assert!(!faults.is_stepwise("delete", "b"));
        assert_eq!(faults.pass("create", "hosts:0", "b"), Ok(()));
        assert_eq!(faults.pass("create", "hosts:1", "b"), Err(Struck::Abandon));
    }
}
