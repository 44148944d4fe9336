//! The unstage's loop and its effects.

use blockd_client::vocabulary::FsType;

use super::{Known, Step, Tried, UnstageError, UnstageVolume, next_step};
use crate::host::{Host, HostError, Map, MountEntry};
use crate::ops::observe::Seen;
use crate::ops::{Operations, STEP_LIMIT};
use crate::record::{Access, FormatMarker, JournalError, Marker, Record};

impl<H: Host> Operations<H> {
    /// Unstages a volume; not staged is success.
    ///
    /// # Errors
    ///
    /// See [`UnstageError`]. The journal stays, for a retry to go on from.
    pub async fn unstage(&self, wanted: &UnstageVolume) -> Result<(), UnstageError> {
        let staging_path = self.host.resolve(&wanted.staging_path).await;
        let wanted = &UnstageVolume {
            staging_path,
            id: wanted.id.clone(),
        };
        let (known, mut record) = match self.journal.load(&wanted.id).await.map_err(journal)? {
            Some(record) => (known(wanted, &record), Some(record)),
            None => match self.without_journal(wanted).await? {
                Some(found) => found,
                None => return Ok(()),
            },
        };
        let mut tried = Tried::default();
        for _ in 0..STEP_LIMIT {
            let seen = Seen::observe(&self.host, known.iqn.as_ref(), &known.wwid)
                .await
                .map_err(observe)?;
            let step = next_step(&known, &seen, &tried, self.waiting.patience())?;
            tracing::debug!(?step, "unstage");
            if step == Step::DropJournal {
                tracing::info!(volume.id = %wanted.id, "unstaged");
                return self.journal.remove(&wanted.id).await.map_err(journal);
            }
            if let Some(marker) = self.detach(step, &mut tried).await? {
                self.note(&mut record, marker).await?;
            }
        }
        Err(UnstageError::Unsettled { limit: STEP_LIMIT })
    }

    /// What is known of a volume whose journal is lost: nothing is staged, or the mount at the staging path says what.
    ///
    /// The record is written anew where the target is known, so that a crash from here on is like any other.
    async fn without_journal(
        &self,
        wanted: &UnstageVolume,
    ) -> Result<Option<(Known, Option<Record>)>, UnstageError> {
        let mounts = self.host.mounts().await.map_err(observe)?;
        let layers: Vec<&MountEntry> = mounts
            .iter()
            .filter(|entry| entry.mountpoint == wanted.staging_path)
            .collect();
        let Some(top) = layers.last() else {
            return Ok(None);
        };
        let maps = self.host.all_maps().await.map_err(observe)?;
        let map = maps
            .iter()
            .find(|map| layers.iter().all(|layer| layer.dev == map.dev));
        let map = map.ok_or_else(|| UnstageError::NotOurs {
            volume: wanted.id.clone(),
            path: wanted.staging_path.clone(),
            source_name: top.source.clone(),
        })?;
        let sessions = self.host.all_sessions().await.map_err(observe)?;
        let iqn = sessions
            .iter()
            .map(|session| session.iqn)
            .find(|iqn| iqn.gbid().wwid() == map.wwid);
        tracing::warn!(volume = %wanted.id, wwid = %map.wwid, "staged without a journal");
        let record = match iqn {
            Some(iqn) => {
                let portals = sessions
                    .iter()
                    .filter(|session| session.iqn == iqn)
                    .map(|session| session.portal)
                    .collect();
                let fs = if top.fs_type == FsType::Xfs.as_str() {
                    FsType::Xfs
                } else {
                    FsType::Ext4
                };
                let record = Record {
                    volume: wanted.id.clone(),
                    iqn,
                    wwid: map.wwid.clone(),
                    portals,
                    expected_bytes: map.size,
                    access: Access::Filesystem {
                        fs,
                        flags: Vec::new(),
                    },
                    read_only: top.super_read_only,
                    staging_path: wanted.staging_path.clone(),
                    step: Marker::Mounted,
                    format: FormatMarker::None,
                    boot_id: self.host.boot_id().await.map_err(observe)?,
                };
                self.journal.save(&record).await.map_err(journal)?;
                Some(record)
            }
            None => None,
        };
        let known = Known {
            iqn,
            wwid: map.wwid.clone(),
            staging_path: wanted.staging_path.clone(),
            also_at: None,
        };
        Ok(Some((known, record)))
    }

    /// Performs one step; the answer is the marker it earned.
    async fn detach(&self, step: Step, tried: &mut Tried) -> Result<Option<Marker>, UnstageError> {
        let failed = |step| move |source| UnstageError::Step { step, source };
        match step {
            Step::Unmount(path) => {
                self.host.unmount(&path).await.map_err(failed("unmount"))?;
                Ok(Some(Marker::Unmounted))
            }
            Step::StopQueueing(map) => {
                tried.unqueued = true;
                self.host
                    .stop_queueing(&map)
                    .await
                    .map_err(failed("stop queueing"))?;
                Ok(None)
            }
            Step::Flush(map, slaves) => {
                if tried.flushes > 0 {
                    self.pause().await;
                }
                tried.flushes += 1;
                tried.slaves.extend(slaves);
                self.host
                    .flush_map(&map)
                    .await
                    .map_err(|source| unflushed(&map, source))?;
                Ok(Some(Marker::Flushed))
            }
            Step::Forget(paths) => {
                self.host
                    .forget_paths(&paths)
                    .await
                    .map_err(failed("forget paths"))?;
                tried
                    .forgotten
                    .extend(paths.into_iter().map(|path| path.name));
                Ok(Some(Marker::Forgotten))
            }
            Step::DeletePaths(paths) => {
                tried.deletions += 1;
                tried.waits = if tried.deletions == 1 { 0 } else { tried.waits };
                for path in &paths {
                    self.host
                        .delete_path(path)
                        .await
                        .map_err(failed("delete path"))?;
                }
                Ok(Some(Marker::PathsDeleted))
            }
            Step::Logout(sessions) => {
                tried.logouts += 1;
                tried.waits = if tried.logouts == 1 { 0 } else { tried.waits };
                for session in &sessions {
                    self.host.logout(session).await.map_err(failed("logout"))?;
                }
                Ok(Some(Marker::LoggedOut))
            }
            Step::DeleteRecords(iqn, portals) => {
                tried.record_deletions += 1;
                for portal in &portals {
                    self.host
                        .delete_record(&iqn, portal)
                        .await
                        .map_err(failed("delete record"))?;
                }
                Ok(None)
            }
            Step::Await => {
                tried.waits += 1;
                self.pause().await;
                Ok(None)
            }
            Step::DropJournal => Ok(None),
        }
    }

    async fn note(&self, record: &mut Option<Record>, step: Marker) -> Result<(), UnstageError> {
        let Some(record) = record.as_mut().filter(|record| record.step != step) else {
            return Ok(());
        };
        record.step = step;
        self.journal.save(record).await.map_err(journal)
    }
}

/// The caller's staging path may differ from the journal's, for instance after an upgrade of kubelet.
fn known(wanted: &UnstageVolume, record: &Record) -> Known {
    let differs = wanted.staging_path != record.staging_path;
    Known {
        iqn: Some(record.iqn),
        wwid: record.wwid.clone(),
        staging_path: record.staging_path.clone(),
        also_at: differs.then(|| wanted.staging_path.clone()),
    }
}

fn unflushed(map: &Map, source: HostError) -> UnstageError {
    if map.holders.is_empty() {
        UnstageError::Step {
            step: "flush map",
            source,
        }
    } else {
        let holders = map.holders.join(", ");
        UnstageError::Held {
            map: map.name.clone(),
            holders,
            source,
        }
    }
}

fn observe(source: HostError) -> UnstageError {
    UnstageError::Observe { source }
}

fn journal(source: JournalError) -> UnstageError {
    UnstageError::Journal { source }
}
