//! The watchdog: a process beside the lab that takes it down when its owner is gone, however the owner went.

use std::time::Duration;

use super::LabError;
use super::process::Program;
use super::state::{Folder, Owner, Record};

/// How often it looks.
const GLANCE: Duration = Duration::from_millis(300);

/// Starts it, in a process group of its own, so that a terminal's Ctrl-C does not reach it.
pub(super) fn start(folder: &Folder, record: &Record) -> Result<(), LabError> {
    Program::new(record.bin_dir.join("lab"))
        .args(["watch", "--id", &record.id])
        .background(&folder.path().join("logs/watchdog"))
        .map_err(LabError::Program)?
        .detach();
    Ok(())
}

/// Looks until the lab is gone, by its own hand or another's, or needs no watching any more.
///
/// # Errors
/// When an abandoned lab cannot be removed.
pub async fn watch(id: &str) -> Result<(), LabError> {
    let folder = Folder::of(id)?;
    let builder = |record: &Record| -> Owner { record.builder };
    let Some(mine) = folder.record()?.as_ref().map(builder) else {
        return Ok(());
    };
    loop {
        match folder.record() {
            // A lab of the same name by another builder has its own watchdog.
            Ok(Some(record)) if record.builder == mine => {
                if folder.is_abandoned() {
                    return super::remove(id).await;
                }
                if folder.is_ready() && record.owner.is_none() {
                    return Ok(());
                }
            }
            _ => return Ok(()),
        }
        tokio::time::sleep(GLANCE).await;
    }
}
