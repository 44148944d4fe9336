//! Where a lab keeps what it is made of, and who owns it: one folder a lab, all of them below [`BASE`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::LabError;
use super::kernel::Kernel;
use super::process;

/// Below this every lab has its folder. Short, because socket paths are.
pub const BASE: &str = "/tmp/gbcsi";

/// Everything that must be known to use, change or remove a lab.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// The lab's name.
    pub id: String,
    /// Who is booting it; the lab goes with them if they end before it is ready.
    pub builder: Owner,
    /// With whom a ready lab goes; `None` keeps it until `lab down`.
    pub owner: Option<Owner>,
    /// Number of storage guests.
    pub storage: u8,
    /// Number of node guests.
    pub nodes: u8,
    /// Programs of the lab's machine that guests see as /lab/bin.
    pub bin_dir: PathBuf,
    /// The kernel of all guests.
    pub kernel: Kernel,
    /// Root image of the storage guests.
    pub storage_image: PathBuf,
    /// Root image of the node guests.
    pub node_image: PathBuf,
    /// True when a storage overlay brought its own gluster-blockd.
    pub real_blockd: bool,
    /// True when timers are shorter than a production cluster's.
    pub fast_timers: bool,
    /// Memory of a guest in MiB.
    pub memory: u32,
}

/// A process, told apart from a later one with the same id by its start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Process id.
    pub pid: u32,
    /// Start time in ticks since boot.
    pub started: u64,
}

impl Owner {
    /// The process with that id, if there is one.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        process::started(pid).map(|started| Self { pid, started })
    }

    /// True while that very process lives.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        process::started(self.pid) == Some(self.started)
    }
}

/// The folder of one lab and the paths in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder(PathBuf);

impl Folder {
    /// The folder of the lab with that name.
    ///
    /// # Errors
    /// When the name is not 1 to 20 of a–z, 0–9 and "-".
    pub fn of(id: &str) -> Result<Self, LabError> {
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if id.is_empty() || id.len() > 20 || id.starts_with('-') || !id.chars().all(legal) {
            return Err(LabError::BadName { id: id.to_owned() });
        }
        Ok(Self(Path::new(BASE).join(id)))
    }

    /// Makes it, with its record, in one step; false when there is one already.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn create(&self, record: &Record) -> Result<bool, LabError> {
        fs::create_dir_all(BASE).map_err(LabError::at(BASE))?;
        let fresh = tempfile::Builder::new()
            .prefix(".new-")
            .tempdir_in(BASE)
            .map_err(LabError::at(BASE))?;
        for name in [
            "conf/keys",
            "conf/share",
            "disks",
            "logs",
            "pids",
            "run",
            "uml",
        ] {
            let path = fresh.path().join(name);
            fs::create_dir_all(&path).map_err(LabError::at(&path))?;
        }
        let path = fresh.path().join("lab.json");
        let text = serde_json::to_vec_pretty(record).map_err(io::Error::from);
        text.and_then(|text| fs::write(&path, text))
            .map_err(LabError::at(&path))?;
        match fs::rename(fresh.path(), &self.0) {
            Ok(()) => {
                let _ = fresh.keep();
                Ok(true)
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists
                ) =>
            {
                Ok(false)
            }
            Err(error) => Err(LabError::at(&self.0)(error)),
        }
    }

    /// What is written down about the lab; `None` when there is no such lab.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn record(&self) -> Result<Option<Record>, LabError> {
        let path = self.0.join("lab.json");
        match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .map(Some)
                .map_err(|error| LabError::at(&path)(error.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(LabError::at(&path)(error)),
        }
    }

    /// Says that everything is up; from now on only the owner's end ends the lab.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn set_ready(&self) -> Result<(), LabError> {
        let path = self.0.join("ready");
        fs::write(&path, "").map_err(LabError::at(&path))
    }

    /// True when everything came up once.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.0.join("ready").is_file()
    }

    /// True when nobody is left who would miss the lab.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        let Ok(Some(record)) = self.record() else {
            return false;
        };
        match record.owner {
            Some(owner) if !owner.is_alive() => true,
            _ => !self.is_ready() && !record.builder.is_alive(),
        }
    }

    /// The folder itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Files the guests see as /lab/conf.
    #[must_use]
    pub fn conf(&self) -> PathBuf {
        self.0.join("conf")
    }

    /// A folder that the lab's machine and all guests share; in guests /lab/share.
    #[must_use]
    pub fn share(&self) -> PathBuf {
        self.0.join("conf/share")
    }

    /// The client's private key; its public key beside it with the ending "pub".
    #[must_use]
    pub fn client_key(&self) -> PathBuf {
        self.0.join("conf/keys/client")
    }

    /// The host keys of all guests, in the format of ssh.
    #[must_use]
    pub fn known_hosts(&self) -> PathBuf {
        self.0.join("known_hosts")
    }

    /// What a guest's console showed.
    #[must_use]
    pub fn console(&self, guest: &str) -> PathBuf {
        self.0.join("logs").join(format!("{guest}.console"))
    }

    /// The process of a guest.
    #[must_use]
    pub fn pid_file(&self, guest: &str) -> PathBuf {
        self.0.join("pids").join(guest)
    }
}

/// All labs there are, the abandoned ones too.
///
/// # Errors
/// When [`BASE`] cannot be read.
pub fn all() -> Result<Vec<(String, Folder)>, LabError> {
    let entries = match fs::read_dir(BASE) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(LabError::at(BASE)(error)),
    };
    let mut labs = Vec::new();
    for entry in entries {
        let name = entry.map_err(LabError::at(BASE))?.file_name();
        let id = name.to_string_lossy();
        if let Ok(folder) = Folder::of(&id) {
            labs.push((id.into_owned(), folder));
        }
    }
    labs.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(labs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_its_own_owner_and_a_recycled_id_is_not() {
        let me = Owner::of(std::process::id()).unwrap();
        assert!(me.is_alive());
        assert!(
            !Owner {
                started: me.started + 1,
                ..me
            }
            .is_alive()
        );
    }

    #[test]
    fn a_name_that_could_leave_the_folder_is_refused() {
        for id in ["", "..", "a/b", "A", "-x", "123456789012345678901"] {
            assert!(Folder::of(id).is_err(), "{id:?}");
        }
        assert!(Folder::of("test-42").is_ok());
    }
}
