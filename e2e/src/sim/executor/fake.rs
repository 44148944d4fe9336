//! A model of storage hosts that understands exactly the commands this simulator sends.
//!
//! It keeps brick directories by host and the volumes of the pool, and refuses what glusterd refuses. Its state is a file,
//! so that it outlives the simulator as real hosts would, and so that tests can look at what is really there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ExecError, Executor, Output};
use crate::sim::store::replace;

/// What the hosts hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hosts {
    /// Directories by host.
    pub directories: BTreeMap<String, BTreeSet<String>>,
    /// Volumes of the pool by name.
    pub volumes: BTreeMap<String, FakeVolume>,
    /// Peers that were probed.
    pub peers: BTreeSet<String>,
    /// Every command that changed something, oldest first.
    pub history: Vec<String>,
}

/// One volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FakeVolume {
    /// Words between the name and the first brick, for instance `replica 3`.
    pub kind: String,
    /// `host:path`, in order.
    pub bricks: Vec<String>,
    /// Options in the order in which they were set.
    pub options: Vec<String>,
    /// Options that had been set when the volume was started.
    pub options_at_start: Vec<String>,
    /// Whether it is started.
    pub started: bool,
}

/// The model and its file.
#[derive(Debug)]
pub struct Fake {
    path: PathBuf,
    /// Free space that `df` reports, KiB.
    device_kib: u64,
    /// Held for one command, never across an await.
    hosts: Mutex<Hosts>,
}

impl Fake {
    /// Opens the model in `path`, or begins with empty hosts.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or understood.
    pub fn open(path: PathBuf, device_kib: u64) -> io::Result<Self> {
        let hosts = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Hosts::default(),
            Err(error) => return Err(error),
        };
        Ok(Self {
            path,
            device_kib,
            hosts: Mutex::new(hosts),
        })
    }
}

impl Executor for Fake {
    async fn run(&self, host: &str, command: &str, _limit: Duration) -> Result<Output, ExecError> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = hosts.perform(host, command, self.device_kib);
        let bytes = serde_json::to_vec_pretty(&*hosts).map_err(io::Error::from);
        bytes
            .and_then(|bytes| replace(&self.path, &bytes))
            .map_err(|error| ExecError::Unreachable {
                host: host.to_owned(),
                reason: error.to_string(),
            })?;
        outcome.map_err(|stderr| ExecError::Failed {
            exit: Some(1),
            stderr,
        })
    }
}

impl Hosts {
    fn perform(&mut self, host: &str, line: &str, device_kib: u64) -> Result<Output, String> {
        let mut output = String::new();
        for command in line.split(" && ") {
            let words: Vec<&str> = command.split_whitespace().collect();
            output = self.one(host, &words, device_kib)?;
            if !matches!(words.as_slice(), ["pidof" | "df", ..]) {
                self.history.push(format!("{host}: {command}"));
            }
        }
        Ok(output)
    }

    fn one(&mut self, host: &str, words: &[&str], device_kib: u64) -> Result<Output, String> {
        let directories = self.directories.entry(host.to_owned()).or_default();
        match words {
            ["mkdir", "-p", path] => {
                directories.insert((*path).to_owned());
            }
            ["chown" | "chmod", _, path] if directories.contains(*path) => {}
            ["rm", "-rf", "--", path] => directories.retain(|known| !known.starts_with(*path)),
            ["test", "!", "-e", _, "||", "rmdir", path, _] => {
                return self.remove_unused(host, path);
            }
            ["pidof", "glusterd"] => return Ok("1\n".to_owned()),
            ["df", ..] => return Ok(format!("Avail\n{device_kib}\n")),
            ["gluster", "--mode=script", _, rest @ ..] => return self.gluster(rest),
            _ => return Err(format!("bash: {}: command not found", words.join(" "))),
        }
        Ok(String::new())
    }

    fn remove_unused(&mut self, host: &str, path: &str) -> Result<Output, String> {
        let brick = format!("{host}:{path}");
        if self
            .volumes
            .values()
            .any(|volume| volume.bricks.contains(&brick))
        {
            return Err(format!(
                "rmdir: failed to remove '{path}': Directory not empty"
            ));
        }
        self.directories
            .entry(host.to_owned())
            .or_default()
            .remove(path);
        Ok(String::new())
    }

    fn gluster(&mut self, words: &[&str]) -> Result<Output, String> {
        match words {
            ["peer", "probe", peer] => {
                self.peers.insert((*peer).to_owned());
            }
            ["peer", "detach", peer] => {
                self.peers.remove(*peer);
            }
            ["volume", "create", name, rest @ ..] => self.create(name, rest)?,
            ["volume", verb, name, rest @ ..] => self.change(verb, name, rest)?,
            _ => return Err(format!("unrecognized command: {}", words.join(" "))),
        }
        Ok("success\n".to_owned())
    }

    fn create(&mut self, name: &str, rest: &[&str]) -> Result<(), String> {
        let failed = |why: &str| format!("volume create: {name}: failed: {why}");
        if self.volumes.contains_key(name) {
            return Err(failed(&format!("Volume {name} already exists")));
        }
        let first = rest
            .iter()
            .position(|word| word.contains(':'))
            .unwrap_or(rest.len());
        let (kind, bricks) = rest.split_at(first);
        for brick in bricks {
            self.must_be_there(brick).map_err(|why| failed(&why))?;
        }
        let bricks = bricks.iter().map(|&brick| brick.to_owned()).collect();
        let volume = FakeVolume {
            kind: kind.join(" "),
            bricks,
            ..FakeVolume::default()
        };
        self.volumes.insert(name.to_owned(), volume);
        Ok(())
    }

    fn must_be_there(&self, brick: &str) -> Result<(), String> {
        let (host, path) = brick.split_once(':').unwrap_or_default();
        if self
            .directories
            .get(host)
            .is_some_and(|known| known.contains(path))
        {
            Ok(())
        } else {
            Err(format!(
                "Failed to create brick directory for brick {brick}. Reason : No such file"
            ))
        }
    }

    fn change(&mut self, verb: &str, name: &str, rest: &[&str]) -> Result<(), String> {
        let failed = |why: &str| format!("volume {verb}: {name}: failed: {why}");
        if verb == "add-brick" {
            for brick in rest {
                self.must_be_there(brick).map_err(|why| failed(&why))?;
            }
        }
        let Some(volume) = self.volumes.get_mut(name) else {
            return Err(failed(&format!("Volume {name} does not exist")));
        };
        match (verb, rest) {
            ("set", ["group", group]) if *group != "gluster-block" => {
                return Err(format!(
                    "Unable to open file '/var/lib/glusterd/groups/{group}'."
                ));
            }
            ("set", [key, ..]) if *key != "group" && !key.contains('.') => {
                return Err(failed(&format!("option : {key} does not exist")));
            }
            ("set", [_, _, ..]) => volume.options.push(rest.join(" ")),
            ("start", []) if volume.started => {
                return Err(failed(&format!("Volume {name} already started")));
            }
            ("start", []) => {
                volume.started = true;
                volume.options_at_start.clone_from(&volume.options);
            }
            ("stop", ["force"]) => volume.started = false,
            ("delete", []) if volume.started => {
                return Err(failed(&format!(
                    "Volume {name} has been started.Volume needs to be stopped before deletion."
                )));
            }
            ("delete", []) => {
                self.volumes.remove(name);
            }
            ("add-brick", bricks) => volume.bricks.extend(bricks.iter().map(|&b| b.to_owned())),
            ("rebalance", ["start"]) => {}
            _ => return Err(failed("wrong usage")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gluster(hosts: &mut Hosts, words: &str) -> Result<Output, String> {
        hosts.perform(
            "a",
            &format!("gluster --mode=script --timeout=600 {words}"),
            0,
        )
    }

    #[test]
    fn a_brick_needs_its_directory() {
        let mut hosts = Hosts::default();
        assert!(gluster(&mut hosts, "volume create v replica 3 a:/b").is_err());
        hosts.perform("a", "mkdir -p /b", 0).expect("mkdir");
        gluster(&mut hosts, "volume create v replica 3 a:/b").expect("create");
        assert_eq!(hosts.volumes["v"].kind, "replica 3");
    }

    #[test]
    fn a_started_volume_cannot_be_deleted() {
        let mut hosts = Hosts::default();
        hosts.perform("a", "mkdir -p /b", 0).expect("mkdir");
        for step in ["volume create v a:/b", "volume start v"] {
            gluster(&mut hosts, step).expect(step);
        }
        assert!(gluster(&mut hosts, "volume delete v").is_err());
        for step in ["volume stop v force", "volume delete v"] {
            gluster(&mut hosts, step).expect(step);
        }
    }
}
