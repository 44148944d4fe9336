//! What a simulated server records, on disk: one JSON file, replaced as a whole, so that a kill leaves the old or the new state.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why the state cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file cannot be read, written or renamed.
    #[error("cannot use the state file {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file is not what this program writes.
    #[error("the state file {} is damaged", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
}

/// The database and its file.
#[derive(Debug)]
pub struct Store<D> {
    path: PathBuf,
    /// Held for a look or a change, never across an await: changes are serialized as in the server's own database.
    database: Mutex<D>,
}

impl<D: Clone + PartialEq + Serialize + DeserializeOwned> Store<D> {
    /// Opens the state in `path`, or begins with `initial`. `wake` is what a restart does to it.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, written or understood.
    pub fn open(
        path: PathBuf,
        initial: impl FnOnce() -> D,
        wake: impl FnOnce(&mut D),
    ) -> Result<Self, StoreError> {
        let mut database = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|source| StoreError::Damaged {
                path: path.clone(),
                source,
            })?,
            Err(source) if source.kind() == io::ErrorKind::NotFound => initial(),
            Err(source) => return Err(StoreError::File { path, source }),
        };
        wake(&mut database);
        save(&path, &database)?;
        Ok(Self {
            path,
            database: Mutex::new(database),
        })
    }

    /// Looks at the database.
    pub fn view<T>(&self, look: impl FnOnce(&D) -> T) -> T {
        look(&self.lock())
    }

    /// Changes the database: all of `change`, written to disk, or nothing of it when it fails.
    ///
    /// # Errors
    ///
    /// The error of `change`, or that of the disk through `From`.
    pub fn update<T, E: From<StoreError>>(
        &self,
        change: impl FnOnce(&mut D) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut current = self.lock();
        let mut next = current.clone();
        let outcome = change(&mut next)?;
        if next != *current {
            save(&self.path, &next)?;
            *current = next;
        }
        Ok(outcome)
    }

    fn lock(&self) -> MutexGuard<'_, D> {
        // A panic inside `change` leaves the shared state as it was: changes are made on a copy.
        self.database.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn save(path: &Path, database: &impl Serialize) -> Result<(), StoreError> {
    let bytes = serde_json::to_vec_pretty(database).map_err(|source| StoreError::Damaged {
        path: path.to_owned(),
        source,
    })?;
    replace(path, &bytes).map_err(|source| StoreError::File {
        path: path.to_owned(),
        source,
    })
}

/// Replaces the contents of a file in one step.
///
/// # Errors
///
/// What the system says to writing or renaming.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let mut file = File::create(&fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&fresh, path)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    type Counts = BTreeMap<String, u32>;

    #[test]
    fn what_was_changed_is_there_after_a_restart_as_the_restart_leaves_it() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("state.json");
        let store = Store::open(path.clone(), Counts::new, |_| ()).expect("open");
        store
            .update::<_, StoreError>(|counts| Ok(counts.insert("a".to_owned(), 1)))
            .expect("update");
        drop(store);

        let wake = |counts: &mut Counts| counts.values_mut().for_each(|count| *count += 1);
        let store = Store::open(path, Counts::new, wake).expect("open again");

        assert_eq!(store.view(|counts| counts["a"]), 2);
    }

    #[test]
    fn a_change_that_fails_changes_nothing() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("state.json");
        let store = Store::open(path, Counts::new, |_| ()).expect("open");

        let outcome = store.update(|counts| {
            counts.insert("a".to_owned(), 1);
            Err::<(), _>(anyhow::anyhow!("no"))
        });

        assert!(outcome.is_err());
        assert!(store.view(BTreeMap::is_empty));
    }
}
