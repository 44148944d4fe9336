//! The database on disk: one JSON file, replaced as a whole, so that a kill leaves the old or the new state.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::model::{Database, Status};

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
pub struct Store {
    path: PathBuf,
    /// Held for a look or a change, never across an await: changes are serialized as in heketi's database.
    database: Mutex<Database>,
}

impl Store {
    /// Opens the state in `path`, or begins with `initial`. What was being worked on is stale from now on.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, written or understood.
    pub fn open(path: PathBuf, initial: impl FnOnce() -> Database) -> Result<Self, StoreError> {
        let mut database = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|source| StoreError::Damaged {
                path: path.clone(),
                source,
            })?,
            Err(source) if source.kind() == io::ErrorKind::NotFound => initial(),
            Err(source) => return Err(StoreError::File { path, source }),
        };
        for operation in database
            .operations
            .values_mut()
            .filter(|op| op.status == Status::New)
        {
            operation.status = Status::Stale;
        }
        save(&path, &database)?;
        Ok(Self {
            path,
            database: Mutex::new(database),
        })
    }

    /// Looks at the database.
    pub fn view<T>(&self, look: impl FnOnce(&Database) -> T) -> T {
        look(&self.lock())
    }

    /// Changes the database: all of `change`, written to disk, or nothing of it when it fails.
    ///
    /// # Errors
    ///
    /// The error of `change`, or that of the disk through `From`.
    pub fn update<T, E: From<StoreError>>(
        &self,
        change: impl FnOnce(&mut Database) -> Result<T, E>,
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

    fn lock(&self) -> MutexGuard<'_, Database> {
        // A panic inside `change` leaves the shared state as it was: changes are made on a copy.
        self.database.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn save(path: &Path, database: &Database) -> Result<(), StoreError> {
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
    use super::super::model::{Id, Kind, Operation, now};
    use super::*;

    fn operation() -> Operation {
        Operation {
            id: Id::random(),
            kind: Kind::CreateVolume,
            status: Status::New,
            begun: now(),
            volume: Id::random(),
            bricks: Vec::new(),
            delta: 0,
        }
    }

    #[test]
    fn operations_are_stale_after_a_restart() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("state.json");
        let store = Store::open(path.clone(), Database::default).expect("open");
        let begun = operation();
        store
            .update::<_, StoreError>(|db| Ok(db.operations.insert(begun.id.clone(), begun.clone())))
            .expect("update");
        drop(store);

        let store = Store::open(path, Database::default).expect("open again");

        assert_eq!(
            store.view(|db| db.operations[&begun.id].status),
            Status::Stale
        );
    }

    #[test]
    fn a_change_that_fails_changes_nothing() {
        let folder = tempfile::tempdir().expect("folder");
        let store = Store::open(folder.path().join("state.json"), Database::default).expect("open");

        let outcome = store.update(|db| {
            let begun = operation();
            db.operations.insert(begun.id.clone(), begun);
            Err::<(), _>(anyhow::anyhow!("no"))
        });

        assert!(outcome.is_err());
        assert_eq!(store.view(|db| db.operations.len()), 0);
    }
}
