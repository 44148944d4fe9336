//! The records on disk: one JSON file per volume in one directory, replaced atomically and durably.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use blockd_client::vocabulary::VolumeId;
use proto::error::{Classify, ErrorKind};
use serde_json::Value;

use super::Record;

/// The directory of records.
///
/// # Guarantees
///
/// - After [`save`](Self::save) the new record survives a power cut; before, the old one does. There is nothing between.
/// - After [`remove`](Self::remove) the record stays removed.
/// - A record that this version does not understand is refused, never guessed at and never overwritten by a reader.
///
/// # Assumptions
///
/// One process writes, and it holds the volume's guard; the directory is on the host, outside every mount it describes
/// (T01).
#[derive(Debug, Clone)]
pub struct Journal {
    directory: Arc<Path>,
}

/// The journal cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The disk under the state directory is full.
    #[error("no space left for the journal {}; free some space there", path.display())]
    Full {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// Reading or writing failed.
    #[error("cannot {what} the journal {}", path.display())]
    Io {
        /// The act, as a verb.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The file is not a record.
    #[error("the journal {} is not readable as a record; move it away after checking by hand what it describes", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: serde_json::Error,
    },
    /// The file was written by another version.
    #[error("the journal {} has format version {found} and this driver reads version 1; use the driver version that wrote it", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version in it, or what stands in its place.
        found: String,
    },
    /// The file describes another volume, or contradicts itself.
    #[error("the journal {} does not describe {volume} as it should", path.display())]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// The volume asked for.
        volume: VolumeId,
    },
    /// The work was lost inside the process.
    #[error("the work on the journal {} was lost", path.display())]
    Lost {
        /// The directory.
        path: PathBuf,
        /// How.
        #[source]
        source: tokio::task::JoinError,
    },
}

impl Classify for JournalError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Full { .. } => ErrorKind::ResourceExhausted,
            Self::Version { .. } => ErrorKind::FailedPrecondition,
            Self::Io { .. } | Self::Corrupt { .. } | Self::Mismatch { .. } | Self::Lost { .. } => {
                ErrorKind::Internal
            }
        }
    }
}

impl Journal {
    /// Opens the directory, making it when it is not there.
    ///
    /// # Errors
    ///
    /// The directory cannot be made or is not one.
    pub fn open(directory: &Path) -> Result<Self, JournalError> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|source| failure("make", directory, source))?;
        Ok(Self {
            directory: directory.into(),
        })
    }

    /// The record of a volume, if there is one.
    ///
    /// # Errors
    ///
    /// The file cannot be read or is not a record of this volume.
    pub async fn load(&self, volume: &VolumeId) -> Result<Option<Record>, JournalError> {
        let (path, volume) = (self.file(volume), volume.clone());
        self.blocking(move || {
            let Some(record) = read(&path)? else {
                return Ok(None);
            };
            let consistent = record.volume == volume && record.wwid == record.iqn.gbid().wwid();
            if consistent {
                Ok(Some(record))
            } else {
                Err(JournalError::Mismatch { path, volume })
            }
        })
        .await
    }

    /// Writes the record of its volume, durably.
    ///
    /// # Errors
    ///
    /// Then the record is what it was before.
    pub async fn save(&self, record: &Record) -> Result<(), JournalError> {
        let (path, record) = (self.file(&record.volume), record.clone());
        self.blocking(move || write(&path, &record)).await
    }

    /// Removes the record of a volume, durably; absent is success.
    ///
    /// # Errors
    ///
    /// The file cannot be removed.
    pub async fn remove(&self, volume: &VolumeId) -> Result<(), JournalError> {
        let path = self.file(volume);
        self.blocking(move || {
            match fs::remove_file(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                other => other.map_err(|source| failure("remove", &path, source))?,
            }
            sync_directory(&path)
        })
        .await
    }

    /// All records, and what is wrong with those that cannot be read.
    ///
    /// # Errors
    ///
    /// The directory cannot be read.
    pub async fn all(&self) -> Result<Vec<Result<Record, JournalError>>, JournalError> {
        let directory = Arc::clone(&self.directory);
        self.blocking(move || {
            let unreadable = |source| failure("read", &directory, source);
            let mut records = Vec::new();
            for entry in fs::read_dir(&directory).map_err(unreadable)? {
                let path = entry.map_err(unreadable)?.path();
                let hidden = path
                    .file_name()
                    .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
                if !hidden
                    && path
                        .extension()
                        .is_some_and(|extension| extension == "json")
                {
                    records.extend(read(&path).transpose());
                }
            }
            Ok(records)
        })
        .await
    }

    /// Volume ids are two names of `[A-Za-z0-9_-]` with a slash between; with a dot in its place they are file names,
    /// and no two are the same.
    fn file(&self, volume: &VolumeId) -> PathBuf {
        self.directory
            .join(format!("{}.{}.json", volume.hosting_volume, volume.block))
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        tokio::task::spawn_blocking(work)
            .await
            .map_err(|source| JournalError::Lost {
                path: self.directory.to_path_buf(),
                source,
            })?
    }
}

fn read(path: &Path) -> Result<Option<Record>, JournalError> {
    let corrupt = |source| JournalError::Corrupt {
        path: path.to_owned(),
        source,
    };
    let text = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|source| failure("read", path, source))?,
    };
    let mut value: Value = serde_json::from_slice(&text).map_err(corrupt)?;
    let version = value
        .as_object_mut()
        .and_then(|object| object.remove(VERSION_KEY));
    if version != Some(VERSION.into()) {
        let found = version.map_or_else(|| "none".to_owned(), |version| version.to_string());
        return Err(JournalError::Version {
            path: path.to_owned(),
            found,
        });
    }
    serde_json::from_value(value).map(Some).map_err(corrupt)
}

fn write(path: &Path, record: &Record) -> Result<(), JournalError> {
    let mut value = serde_json::to_value(record).map_err(|source| JournalError::Corrupt {
        path: path.to_owned(),
        source,
    })?;
    if let Some(object) = value.as_object_mut() {
        object.insert(VERSION_KEY.to_owned(), VERSION.into());
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.tmp"));
    write_durably(&temporary, &format!("{value:#}\n"))
        .map_err(|source| failure("write", &temporary, source))?;
    fs::rename(&temporary, path).map_err(|source| failure("replace", path, source))?;
    sync_directory(path)
}

fn write_durably(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Makes a rename or removal in the file's directory durable.
fn sync_directory(path: &Path) -> Result<(), JournalError> {
    let directory = path.parent().unwrap_or(Path::new("."));
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(|source| failure("make durable", directory, source))
}

fn failure(what: &'static str, path: &Path, source: io::Error) -> JournalError {
    let path = path.to_owned();
    if matches!(
        source.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    ) {
        JournalError::Full { path, source }
    } else {
        JournalError::Io { what, path, source }
    }
}

const VERSION_KEY: &str = "formatVersion";
const VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::tests::record;
    use super::*;

    #[tokio::test]
    async fn a_record_reads_back_as_it_was_saved_and_is_gone_after_removal() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(&directory.path().join("csi/node")).unwrap();
        let record = record();
        assert_eq!(journal.load(&record.volume).await.unwrap(), None);

        journal.save(&record).await.unwrap();
        journal.save(&record).await.unwrap();
        assert_eq!(
            journal.load(&record.volume).await.unwrap(),
            Some(record.clone())
        );
        assert_eq!(journal.all().await.unwrap().len(), 1);

        journal.remove(&record.volume).await.unwrap();
        journal.remove(&record.volume).await.unwrap();
        assert_eq!(journal.load(&record.volume).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_record_of_a_newer_version_is_refused_and_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(directory.path()).unwrap();
        let record = record();
        let path = directory.path().join("hv1.pvc-1.json");
        fs::write(&path, r#"{"formatVersion": 2, "volume": "hv1/pvc-1"}"#).unwrap();

        let error = journal.load(&record.volume).await.unwrap_err();
        assert!(matches!(error, JournalError::Version { .. }), "{error}");
        assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
        assert!(
            fs::read_to_string(&path)
                .unwrap()
                .contains("\"formatVersion\": 2")
        );
    }

    #[tokio::test]
    async fn a_torn_or_empty_file_is_an_error_and_not_an_absent_record() {
        // T02
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(directory.path()).unwrap();
        for text in ["", "{", "[]", r#"{"formatVersion": 1}"#] {
            fs::write(directory.path().join("hv1.pvc-1.json"), text).unwrap();
            assert!(journal.load(&record().volume).await.is_err(), "{text:?}");
        }
    }

    #[tokio::test]
    async fn a_record_under_the_name_of_another_volume_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(directory.path()).unwrap();
        journal.save(&record()).await.unwrap();
        fs::rename(
            directory.path().join("hv1.pvc-1.json"),
            directory.path().join("hv1.pvc-2.json"),
        )
        .unwrap();
        let error = journal
            .load(&"hv1/pvc-2".parse().unwrap())
            .await
            .unwrap_err();
        assert!(matches!(error, JournalError::Mismatch { .. }), "{error}");
    }

    #[tokio::test]
    async fn a_temporary_file_left_by_a_crash_is_no_record() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(directory.path()).unwrap();
        fs::write(directory.path().join(".hv1.pvc-1.json.tmp"), "{").unwrap();
        assert!(journal.all().await.unwrap().is_empty());
        journal.save(&record()).await.unwrap();
        assert_eq!(journal.all().await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_record_is_for_the_owner_only() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(directory.path()).unwrap();
        journal.save(&record()).await.unwrap();
        let mode = fs::metadata(directory.path().join("hv1.pvc-1.json"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[tokio::test]
    async fn a_directory_that_went_away_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(directory.path()).unwrap();
        directory.close().unwrap();
        assert!(journal.save(&record()).await.is_err());
    }
}
