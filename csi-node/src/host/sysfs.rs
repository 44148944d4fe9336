//! Reading and writing the kernel's attribute files, below a root that tests can choose.
//!
//! Attributes vanish while one reads: a device that goes away answers with `ENOENT`, `ENODEV` or `ENXIO`. That is absence,
//! not an error. Nothing here touches a device; writing can, see [`Sysfs::write`].

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::io::Errno;

use super::HostError;

/// A sysfs tree.
#[derive(Debug, Clone)]
pub struct Sysfs {
    root: PathBuf,
    /// The directories that were listed, for tests of what an observation costs.
    #[cfg(test)]
    pub(super) listed: std::sync::Arc<std::sync::Mutex<Vec<PathBuf>>>,
}

impl Sysfs {
    /// The tree below this root, `/sys` on a host.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            #[cfg(test)]
            listed: std::sync::Arc::default(),
        }
    }

    /// A path in the tree.
    #[must_use]
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join(relative)
    }

    /// The attribute's text without the blanks around it; `None` when there is no such attribute, or it holds nothing.
    ///
    /// # Errors
    ///
    /// It is there and cannot be read.
    pub fn read(&self, relative: impl AsRef<Path>) -> Result<Option<String>, HostError> {
        let path = self.path(relative);
        match fs::read(&path) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes).trim().to_owned();
                Ok((!text.is_empty()).then_some(text))
            }
            Err(error) if is_absence(&error) => Ok(None),
            Err(source) => Err(HostError::Io {
                what: "read",
                path,
                source,
            }),
        }
    }

    /// The attribute's value, if it is there.
    ///
    /// # Errors
    ///
    /// As [`Sysfs::read`], and when the text is not such a value.
    pub fn parse<T: FromStr>(&self, relative: impl AsRef<Path>) -> Result<Option<T>, HostError> {
        let relative = relative.as_ref();
        let Some(text) = self.read(relative)? else {
            return Ok(None);
        };
        match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(HostError::Unreadable {
                what: self.path(relative).display().to_string(),
                detail: format!("{text:?} is no such value"),
            }),
        }
    }

    /// The names in a directory, sorted; none when there is no such directory.
    ///
    /// # Errors
    ///
    /// It is there and cannot be read.
    pub fn names(&self, relative: impl AsRef<Path>) -> Result<Vec<String>, HostError> {
        #[cfg(test)]
        if let Ok(mut listed) = self.listed.lock() {
            listed.push(relative.as_ref().to_owned());
        }
        let path = self.path(relative);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if is_absence(&error) => return Ok(Vec::new()),
            Err(source) => {
                return Err(HostError::Io {
                    what: "list",
                    path,
                    source,
                });
            }
        };
        // An entry that cannot be read while its neighbours can has just gone.
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Where a link in the tree leads; `None` when it leads nowhere.
    #[must_use]
    pub fn resolve(&self, relative: impl AsRef<Path>) -> Option<PathBuf> {
        fs::canonicalize(self.path(relative)).ok()
    }

    /// Writes to an attribute. The kernel acts on it before this returns, and may sleep on a dead device: call it
    /// through [`Stuck::call`](super::bounded::Stuck::call). `Ok(false)` when there is no such attribute.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    pub fn write(&self, relative: impl AsRef<Path>, value: &str) -> Result<bool, HostError> {
        let path = self.path(relative);
        let written = File::options()
            .write(true)
            .open(&path)
            .and_then(|mut file| file.write_all(value.as_bytes()));
        match written {
            Ok(()) => Ok(true),
            Err(error) if is_absence(&error) => Ok(false),
            Err(source) => Err(HostError::Io {
                what: "write to",
                path,
                source,
            }),
        }
    }
}

/// Whether the error says that the thing is not there (any more).
fn is_absence(error: &io::Error) -> bool {
    let gone = [Errno::NOENT, Errno::NODEV, Errno::NXIO, Errno::NOTDIR];
    gone.iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_is_not_an_error_and_empty_is_absent() {
        let tree = tempfile::tempdir().unwrap();
        fs::write(tree.path().join("empty"), "\n").unwrap();
        fs::write(tree.path().join("size"), "2097152\n").unwrap();
        let sysfs = Sysfs::new(tree.path());
        assert_eq!(sysfs.read("nothing").unwrap(), None);
        assert_eq!(sysfs.read("size/below-a-file").unwrap(), None);
        assert_eq!(sysfs.read("empty").unwrap(), None);
        assert_eq!(sysfs.parse::<u64>("size").unwrap(), Some(2_097_152));
        assert_eq!(sysfs.names("nothing").unwrap(), Vec::<String>::new());
        assert!(!sysfs.write("nothing", "1").unwrap());
    }

    #[test]
    fn text_that_is_no_value_is_an_error() {
        let tree = tempfile::tempdir().unwrap();
        fs::write(tree.path().join("size"), "big\n").unwrap();
        let error = Sysfs::new(tree.path()).parse::<u64>("size").unwrap_err();
        assert!(matches!(error, HostError::Unreadable { .. }));
    }
}
