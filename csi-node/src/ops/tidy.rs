//! What a new process does with the journals it finds.
//!
//! After a reboot the kernel knows nothing of a volume; the journal still says what was wanted, and a stage or unstage
//! to come needs that. Only the step it had reached is void. Nothing is undone here: whether the volume is wanted, kubelet
//! says.

use proto::error::Chain;

use super::Operations;
use super::observe::Seen;
use crate::host::{BootId, Host, HostError};
use crate::record::{JournalError, Marker, Record};

impl<H: Host> Operations<H> {
    /// Goes through all journals; answers with how many there are.
    ///
    /// A journal that cannot be read is reported and left: its volume is refused when it is asked for.
    ///
    /// # Errors
    ///
    /// The state directory or this boot's identity cannot be read.
    pub async fn tidy(&self) -> Result<usize, TidyError> {
        let boot = self
            .host
            .boot_id()
            .await
            .map_err(|source| TidyError::Boot { source })?;
        let records = self
            .journal
            .all()
            .await
            .map_err(|source| TidyError::Journal { source })?;
        let count = records.len();
        for record in records {
            let outcome = match record {
                Ok(record) => self.tidy_one(record, &boot).await,
                Err(source) => Err(TidyError::Journal { source }),
            };
            if let Err(error) = outcome {
                tracing::warn!(error = %Chain(&error), "a journal is left as it is");
            }
        }
        Ok(count)
    }

    async fn tidy_one(&self, record: Record, boot: &BootId) -> Result<(), TidyError> {
        let seen = Seen::observe(&self.host, Some(&record.iqn), &record.wwid)
            .await
            .map_err(|source| TidyError::Observe { source })?;
        let Some(record) = reset(record, boot, &seen) else {
            return Ok(());
        };
        tracing::info!(volume.id = %record.volume, "journal of an earlier boot, nothing is live");
        self.journal
            .save(&record)
            .await
            .map_err(|source| TidyError::Journal { source })
    }
}

/// The record as it should be, when it should be another.
///
/// | boot    | session, map or mount | then                          |
/// |---------|-----------------------|-------------------------------|
/// | this    |                       | as it is                      |
/// | earlier | some                  | as it is; stage and unstage observe for themselves |
/// | earlier | none                  | step back to the beginning    |
fn reset(record: Record, boot: &BootId, seen: &Seen) -> Option<Record> {
    let live = !seen.sessions.is_empty()
        || seen.map.is_some()
        || seen.mounts_at(&record.staging_path).next().is_some();
    let stale = record.boot_id != *boot && !live;
    stale.then(|| Record {
        step: Marker::Begun,
        boot_id: boot.clone(),
        ..record
    })
}

/// The journals cannot be gone through.
#[derive(Debug, thiserror::Error)]
pub enum TidyError {
    /// This boot's identity cannot be read.
    #[error("cannot tell which boot of this host it is")]
    Boot {
        /// Why.
        #[source]
        source: HostError,
    },
    /// The journal cannot be read or written.
    #[error("cannot go through the journals")]
    Journal {
        /// Why.
        #[source]
        source: JournalError,
    },
    /// The host cannot be observed.
    #[error("cannot see the state of this host")]
    Observe {
        /// Why.
        #[source]
        source: HostError,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::fixture::Bench;

    #[tokio::test(start_paused = true)]
    async fn a_journal_of_an_earlier_boot_keeps_its_identity_and_loses_its_step() {
        // T14
        let bench = Bench::new();
        bench.stage().await.unwrap();
        let before = bench.record().await.unwrap();
        bench.host.reboot();
        assert_eq!(bench.operations().tidy().await.unwrap(), 1);
        let after = bench.record().await.unwrap();
        assert_eq!(after.step, Marker::Begun);
        assert_ne!(after.boot_id, before.boot_id);
        assert_eq!((after.iqn, after.format), (before.iqn, before.format));
    }

    #[tokio::test(start_paused = true)]
    async fn a_restart_of_the_plugin_changes_nothing() {
        // T09
        let bench = Bench::new();
        bench.stage().await.unwrap();
        let before = bench.record().await.unwrap();
        for _ in 0..10 {
            bench.operations().tidy().await.unwrap();
        }
        assert_eq!(bench.record().await.unwrap(), before);
    }

    #[tokio::test(start_paused = true)]
    async fn a_journal_that_cannot_be_read_does_not_stop_the_others() {
        let bench = Bench::new();
        bench.stage().await.unwrap();
        std::fs::write(bench.state.path().join("hv0.broken.json"), "{").unwrap();
        bench.host.reboot();
        assert_eq!(bench.operations().tidy().await.unwrap(), 2);
        assert_eq!(bench.record().await.unwrap().step, Marker::Begun);
    }
}
