//! What the kernel's files say: who is logged in to a target, and which of the daemon's sockets listen.
//!
//! The answers have the form that [`Request`](crate::transport::Request) describes. A file that cannot be read makes an answer a failure: an
//! initiator that is missing in it would be taken for logged out.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::transport::Reply;
use crate::vocabulary::Iqn;

use super::LocalConfig;

const CONFIGFS: &str = "sys/kernel/config";

/// State of a TCP socket that listens, in the kernel's table.
const LISTENING: &str = "0A";

/// Names of the initiators that are logged in to `iqn`, of every portal group, with static entries and without.
///
/// A target that is not there has no sessions; a configfs that is not mounted is an error, for then nothing can be said.
pub(super) fn sessions(root: &Path, iqn: &Iqn) -> Reply {
    let read = || {
        let configfs = root.join(CONFIGFS);
        let targets = configfs.join("target/iscsi");
        if !targets.is_dir() && !is_mounted(root, &configfs)? {
            return Err(io::Error::other("configfs is not mounted"));
        }
        let mut text = String::new();
        for group in children(&targets.join(iqn.to_string()), "tpgt_")? {
            text.push_str(&fs::read_to_string(group.join("dynamic_sessions"))?);
            for entry in children(&group.join("acls"), "")? {
                let info = match fs::read_to_string(entry.join("info")) {
                    Ok(info) => info,
                    Err(gone) if gone.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                };
                let names = info
                    .lines()
                    .filter_map(|line| line.strip_prefix("InitiatorName:"));
                text.extend(names.flat_map(|name| ["\n", name.trim()]));
            }
            text.push('\n');
        }
        Ok(text)
    };
    answer(read())
}

/// `unix` and `tcp`, each if the daemon listens there.
pub(super) fn ping(config: &LocalConfig) -> Reply {
    let read = || {
        let mut text = String::new();
        let network = config.root.join("proc/net");
        let unix = fs::read_to_string(network.join("unix"))?;
        if unix.lines().any(|line| listens(line, &config.socket)) {
            text.push_str("unix\n");
        }
        let tcp = fs::read_to_string(network.join("tcp"))?;
        let port = config.daemon.port();
        if tcp
            .lines()
            .any(|line| state_at(line, port) == Some(LISTENING))
        {
            text.push_str("tcp\n");
        }
        Ok(text)
    };
    answer(read())
}

/// Whether a line of the table of Unix sockets is a listening stream socket at `path`.
///
/// `/var/run` is a link to `/run` on most systems, and the table has the name that was bound.
fn listens(line: &str, path: &Path) -> bool {
    let mut fields = line.split_whitespace();
    let (flags, kind, state) = (fields.nth(3), fields.next(), fields.next());
    let short = |path: &Path| {
        path.strip_prefix("/var")
            .map_or(path.to_owned(), |rest| Path::new("/").join(rest))
    };
    let bound = fields.nth(1).map(|name| short(Path::new(name)));
    (flags, kind, state) == (Some("00010000"), Some("0001"), Some("01"))
        && bound == Some(short(path))
}

/// The state of the socket in a line of the table of TCP sockets, if its local port is this one.
fn state_at(line: &str, port: u16) -> Option<&str> {
    let mut fields = line.split_whitespace();
    let (_, local) = fields.nth(1)?.split_once(':')?;
    let is_there = u16::from_str_radix(local, 16) == Ok(port);
    fields.nth(1).filter(|_| is_there)
}

fn is_mounted(root: &Path, place: &Path) -> io::Result<bool> {
    let mounts = fs::read_to_string(root.join("proc/mounts"))?;
    let wanted = format!(" {} configfs ", place.display());
    Ok(mounts.lines().any(|line| line.contains(&wanted)))
}

/// Directories in `folder` whose names begin so, in order. A folder that is not there has none.
fn children(folder: &Path, prefix: &str) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(gone) if gone.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(prefix) && entry.path().is_dir() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// The text and `end`, or what went wrong.
fn answer(read: io::Result<String>) -> Reply {
    let (exit, stdout, stderr) = match read {
        Ok(text) => (0, format!("{text}\nend\n"), String::new()),
        Err(error) => (1, String::new(), error.to_string()),
    };
    Reply {
        exit,
        stdout,
        stderr,
    }
}
