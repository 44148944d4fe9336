//! The daemon's open hosting volumes: mounting them, keeping a few, and holding on to dead ones.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::FlockOperation;
use rustix::mount::UnmountFlags;

use super::answer::Failure;
use super::volume::Volume;

/// How volumes come to be directories.
#[derive(Debug, Clone)]
pub(crate) struct VolumeSource {
    /// Directory under which volume V is found at V.
    pub(crate) mounts: PathBuf,
    /// The program and arguments that mount `{volume}` on `{path}`; `None` when the directories are there already.
    pub(crate) mount_command: Option<Vec<String>>,
    /// glusterd's own notes about volumes, `/var/lib/glusterd/vols`.
    pub(crate) glusterd: PathBuf,
    /// How long a stopped volume takes to say so ("3-10 s", reference §3.10).
    pub(crate) stopped_delay: Duration,
    /// How long the eviction of a handle takes ("about 10 s per request", reference §0.10); zero switches it off.
    pub(crate) eviction_delay: Duration,
}

/// What glusterd notes about a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Note {
    id: String,
    is_started: bool,
}

/// The volumes one loop of the daemon has open.
#[derive(Debug)]
pub(crate) struct Volumes {
    source: VolumeSource,
    /// Most recently used last.
    opened: Vec<(String, Note)>,
}

impl Volumes {
    pub(crate) fn new(source: VolumeSource) -> Self {
        Self {
            source,
            opened: Vec::new(),
        }
    }

    /// Opens a volume.
    ///
    /// | volume | answer |
    /// |---|---|
    /// | not known to glusterd | 2, `Volume V does not exist` (reference §2.5) |
    /// | stopped | 5, `Check if volume V is operational`, after a while (reference §2.10, §3.10) |
    /// | cannot be mounted | 107, `Not able to initialize volume` (reference §3.10) |
    /// | opened before, since deleted or re-created | 107 until this daemon restarts (reference §0.9) |
    /// | else | open; beyond `lru_count` an older one is torn down first (reference §0.10) |
    pub(crate) fn open(&mut self, name: &str, lru_count: usize) -> Result<Volume, Failure> {
        let note = self.note(name);
        if let Some(position) = self.opened.iter().position(|(opened, _)| opened == name) {
            let entry = self.opened.remove(position);
            let is_same = note.as_ref().is_some_and(|note| note.id == entry.1.id);
            self.opened.push(entry);
            if !is_same {
                return Err(stale(name));
            }
        }
        let Some(note) = note else {
            return Err(Failure::new(2, format!("Volume {name} does not exist")));
        };
        if !note.is_started {
            sleep(self.source.stopped_delay);
            return Err(Failure::new(
                5,
                format!("Check if volume {name} is operational"),
            ));
        }
        if !self.opened.iter().any(|(opened, _)| opened == name) {
            self.mount(name, &note).map_err(|error| {
                tracing::warn!(volume = name, %error, "cannot mount");
                Failure::new(107, format!("Not able to initialize volume {name}"))
            })?;
            while self.opened.len() >= lru_count.max(1) {
                self.opened.remove(0);
                sleep(self.source.eviction_delay);
            }
            self.opened.push((name.to_owned(), note));
        }
        Ok(Volume::new(name, self.source.mounts.join(name)))
    }

    /// A volume for the host's side, which has tcmu-runner's view: mounted when needed, no memory of its own.
    pub(crate) fn reach(&self, name: &str) -> io::Result<Volume> {
        let note = self.note(name).ok_or(io::ErrorKind::NotFound)?;
        self.mount(name, &note)?;
        Ok(Volume::new(name, self.source.mounts.join(name)))
    }

    fn note(&self, name: &str) -> Option<Note> {
        // The name comes from the wire unchecked, "validation lives in the CLI" (reference §4.3).
        if name.is_empty() || name.contains('/') || name.starts_with('.') {
            return None;
        }
        let text = fs::read_to_string(self.source.glusterd.join(name).join("info")).ok()?;
        let value = |key: &str| {
            text.lines()
                .filter_map(|line| line.split_once('='))
                .find(|(name, _)| *name == key)
        };
        Some(Note {
            id: value("volume-id")
                .map(|(_, id)| id.to_owned())
                .unwrap_or_default(),
            is_started: value("status").is_some_and(|(_, status)| status == "1"),
        })
    }

    /// Mounts a volume unless it is; both loops and a restarted daemon may meet here.
    fn mount(&self, name: &str, note: &Note) -> io::Result<()> {
        let path = self.source.mounts.join(name);
        let Some(command) = &self.source.mount_command else {
            return fs::metadata(path).map(|_| ());
        };
        fs::create_dir_all(&self.source.mounts)?;
        let guard = fs::File::create(self.source.mounts.join(".lock"))?;
        rustix::fs::flock(&guard, FlockOperation::LockExclusive)?;
        self.forget_deleted()?;
        let id_file = self.source.mounts.join(format!(".{name}.id"));
        let is_same = fs::read_to_string(&id_file).is_ok_and(|id| id == note.id);
        if is_same && is_fuse(&path) {
            return Ok(());
        }
        // A mount of a volume that is gone, or whose client died, stays until it is taken away.
        while is_mounted_or_dead(&path) {
            rustix::mount::unmount(&path, UnmountFlags::DETACH)?;
        }
        fs::create_dir_all(&path)?;
        run_mount(command, name, &path)?;
        if !is_fuse(&path) {
            return Err(io::Error::other("the mount command left no mount"));
        }
        fs::write(id_file, &note.id)
    }
}

impl Volumes {
    /// Takes away the mounts of volumes that glusterd no longer knows: each holds a client process.
    fn forget_deleted(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.source.mounts)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') || self.note(&name).is_some() {
                continue;
            }
            while rustix::mount::unmount(entry.path(), UnmountFlags::DETACH).is_ok() {}
            let _in_use = fs::remove_dir(entry.path());
        }
        Ok(())
    }
}

/// "Deleting and re-creating a hosting volume under the same name breaks every daemon that had it cached
/// (`errCode 107` until that daemon restarts)" (reference §0.9).
fn stale(name: &str) -> Failure {
    Failure::new(
        107,
        format!(
            "Not able to create Metadata on volume {name}[Transport endpoint is not connected]"
        ),
    )
}

fn is_fuse(path: &Path) -> bool {
    const FUSE_SUPER_MAGIC: i64 = 0x6573_5546;
    rustix::fs::statfs(path).is_ok_and(|numbers| numbers.f_type == FUSE_SUPER_MAGIC)
}

fn is_mounted_or_dead(path: &Path) -> bool {
    match rustix::fs::statfs(path) {
        Ok(_) => is_fuse(path),
        Err(error) => error == rustix::io::Errno::NOTCONN,
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the simulator runs inside a guest, without the lab's runner"
)]
fn run_mount(command: &[String], volume: &str, path: &Path) -> io::Result<()> {
    let path = path.display().to_string();
    let filled = command
        .iter()
        .map(|word| word.replace("{volume}", volume).replace("{path}", &path));
    let mut words = filled.into_iter();
    let program = words.next().ok_or(io::ErrorKind::InvalidInput)?;
    let output = std::process::Command::new(program).args(words).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(
        String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volumes(directory: &Path) -> Volumes {
        Volumes::new(VolumeSource {
            mounts: directory.join("mounts"),
            mount_command: None,
            glusterd: directory.join("vols"),
            stopped_delay: Duration::ZERO,
            eviction_delay: Duration::ZERO,
        })
    }

    fn note(directory: &Path, name: &str, text: &str) {
        fs::create_dir_all(directory.join("mounts").join(name)).expect("mount point");
        fs::create_dir_all(directory.join("vols").join(name)).expect("note");
        fs::write(directory.join("vols").join(name).join("info"), text).expect("note");
    }

    #[test]
    fn missing_stopped_and_started_volumes_are_told_apart() {
        let directory = tempfile::tempdir().expect("temporary directory");
        note(directory.path(), "stopped", "status=2\nvolume-id=a\n");
        note(directory.path(), "started", "status=1\nvolume-id=b\n");
        let mut volumes = volumes(directory.path());
        let missing = volumes.open("none", 5).expect_err("missing");
        assert_eq!(
            (missing.code, missing.message.as_str()),
            (2, "Volume none does not exist")
        );
        assert_eq!(volumes.open("stopped", 5).expect_err("stopped").code, 5);
        assert_eq!(
            volumes.open("started", 5).expect("started").name(),
            "started"
        );
        assert_eq!(volumes.open("../started", 5).expect_err("no path").code, 2);
    }

    #[test]
    fn a_volume_made_again_under_its_name_stays_dead_until_the_daemon_restarts() {
        let directory = tempfile::tempdir().expect("temporary directory");
        note(directory.path(), "v", "status=1\nvolume-id=a\n");
        let mut before = volumes(directory.path());
        before.open("v", 5).expect("first");
        note(directory.path(), "v", "status=1\nvolume-id=b\n");
        assert_eq!(before.open("v", 5).expect_err("stale").code, 107);
        assert_eq!(before.open("v", 5).expect_err("still stale").code, 107);
        volumes(directory.path())
            .open("v", 5)
            .expect("after a restart");
    }

    #[test]
    fn more_volumes_than_kept_open_cost_an_eviction_each() {
        let directory = tempfile::tempdir().expect("temporary directory");
        for name in ["a", "b", "c"] {
            note(directory.path(), name, "status=1\nvolume-id=x\n");
        }
        let mut volumes = volumes(directory.path());
        volumes.source.eviction_delay = Duration::from_millis(50);
        let started = std::time::Instant::now();
        for name in ["a", "b", "c", "a"] {
            volumes.open(name, 2).expect("open");
        }
        assert!(started.elapsed() >= Duration::from_millis(100));
    }
}
