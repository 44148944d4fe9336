//! The stage's loop and its effects.

use blockd_client::vocabulary::{ChapCredentials, FsType, Portal};
use proto::error::{Chain, Classify, ErrorKind};
use tokio::task::JoinSet;

use super::{StageError, StageVolume, Step, Tried, next_step};
use crate::host::{Host, HostError, Map, MountOptions, PathDevice, Proof, Session, TargetKind};
use crate::ops::attach::{AttachStep, Failure, key};
use crate::ops::observe::{Seen, identify_all};
use crate::ops::{Operations, STEP_LIMIT};
use crate::record::{Access, FormatMarker, Marker, Record};

/// One run: the request, its opened credentials, and what is remembered between steps.
struct Run<'a> {
    wanted: &'a StageVolume,
    chap: Option<ChapCredentials>,
    record: Option<Record>,
    tried: Tried,
}

impl<H: Host> Operations<H> {
    /// Stages a volume; staged already is success.
    ///
    /// # Errors
    ///
    /// See [`StageError`]. What was done is in the journal, for a further stage or an unstage to go on from.
    pub async fn stage(&self, wanted: &StageVolume) -> Result<(), StageError> {
        let staging_path = self.host.resolve(&wanted.staging_path).await;
        let wanted = &StageVolume {
            staging_path,
            ..wanted.clone()
        };
        let chap = self.open_credentials(wanted)?;
        let boot = self.host.boot_id().await.map_err(observe)?;
        let record = self.journal.load(&wanted.id).await.map_err(journal)?;
        let mut run = Run {
            wanted,
            chap,
            record,
            tried: Tried::default(),
        };
        for _ in 0..STEP_LIMIT {
            let seen = Seen::observe(&self.host, Some(&wanted.target.iqn), &wanted.target.wwid)
                .await
                .map_err(observe)?;
            let patience = self.waiting.patience();
            let step = next_step(
                wanted,
                &boot,
                &seen,
                run.record.as_ref(),
                &run.tried,
                patience,
            )?;
            if step == Step::Done {
                report(wanted, &seen);
                return Ok(());
            }
            tracing::debug!(?step, "stage");
            self.perform(step, &mut run).await?;
        }
        Err(StageError::Unsettled { limit: STEP_LIMIT })
    }

    fn open_credentials(
        &self,
        wanted: &StageVolume,
    ) -> Result<Option<ChapCredentials>, StageError> {
        let Some(sealed) = &wanted.chap else {
            return Ok(None);
        };
        let volume = || wanted.id.clone();
        let keys = self
            .keys
            .as_ref()
            .ok_or_else(|| StageError::NoKey { volume: volume() })?;
        let credentials = keys
            .open(&wanted.id, sealed)
            .map_err(|source| StageError::Unseal {
                volume: volume(),
                source,
            })?;
        Ok(Some(credentials))
    }

    async fn perform(&self, step: Step, run: &mut Run<'_>) -> Result<(), StageError> {
        let failed = |step| move |source| StageError::Step { step, source };
        match step {
            Step::WriteJournal(record) => self.save(run, *record).await,
            Step::Attach(step) => self.attach(step, run).await,
            Step::Probe(map) => {
                let content = self.host.probe(&map).await.map_err(failed("probe"))?;
                let same = run.tried.content.as_ref() == Some(&content);
                run.tried.probes = if same { run.tried.probes + 1 } else { 1 };
                run.tried.content = Some(content);
                Ok(())
            }
            Step::MarkFormat => self.mark_format(run, FormatMarker::Started).await,
            Step::Format(map, fs, proof) => self.format(&map, fs, proof, run).await,
            Step::Check(map, fs) => {
                self.host.check(&map, fs).await.map_err(failed("check"))?;
                run.tried.checked = true;
                Ok(())
            }
            Step::Mount(map, fs) => {
                self.mount(&map, fs, run.wanted)
                    .await
                    .map_err(failed("mount"))?;
                self.mark(run, Marker::Mounted).await
            }
            Step::Grow(map, fs) => {
                run.tried.grown = true;
                let mountpoint = &run.wanted.staging_path;
                self.host
                    .grow(&map, fs, mountpoint)
                    .await
                    .map_err(failed("grow"))
            }
            Step::Finish => self.mark(run, Marker::Staged).await,
            Step::Done => Ok(()),
        }
    }

    async fn attach(&self, step: AttachStep, run: &mut Run<'_>) -> Result<(), StageError> {
        let failed = |step| move |source| StageError::Step { step, source };
        let target = &run.wanted.target;
        match step {
            AttachStep::WriteRecords(portals) => {
                for portal in &portals {
                    self.host
                        .write_record(&target.iqn, portal, run.chap.as_ref())
                        .await
                        .map_err(failed("write node record"))?;
                }
                run.tried.attach.recorded = true;
                self.mark(run, Marker::Recorded).await
            }
            AttachStep::Login(portals) => {
                self.login(&portals, run).await;
                self.mark(run, Marker::LoggedIn).await
            }
            AttachStep::Scan(sessions) => {
                for session in &sessions {
                    self.scan(session, run).await?;
                }
                self.mark(run, Marker::Scanned).await
            }
            AttachStep::AwaitPaths => {
                run.tried.attach.path_waits += 1;
                self.pause().await;
                Ok(())
            }
            AttachStep::Identify(paths) => {
                self.identify(&paths, run).await;
                Ok(())
            }
            AttachStep::Rescan(paths) => {
                for path in &paths {
                    self.host.rescan(path).await.map_err(failed("rescan"))?;
                    run.tried.attach.rescanned.insert(path.name.clone());
                }
                Ok(())
            }
            AttachStep::Purge(path, session) => self.purge(&path, &session, run).await,
            AttachStep::AddMap(paths) => {
                run.tried.attach.added += 1;
                self.host
                    .add_map(&target.wwid, &paths)
                    .await
                    .map_err(failed("add map"))?;
                self.mark(run, Marker::Mapped).await
            }
            AttachStep::AwaitMap => {
                run.tried.attach.map_waits += 1;
                self.pause().await;
                Ok(())
            }
            AttachStep::ResizeMap(map) => {
                run.tried.attach.resized = true;
                self.host
                    .resize_map(&map)
                    .await
                    .map_err(failed("resize map"))
            }
        }
    }

    /// All portals at once; each outcome is remembered, and so is a task that died (S13, S17).
    async fn login(&self, portals: &[Portal], run: &mut Run<'_>) {
        let iqn = run.wanted.target.iqn;
        let mut logins = JoinSet::new();
        for portal in portals.iter().copied() {
            let host = self.host.clone();
            logins.spawn(async move { (portal, host.login(&iqn, &portal).await) });
        }
        while let Some(outcome) = logins.join_next().await {
            match outcome {
                Ok((portal, outcome)) => {
                    if let Err(error) = &outcome {
                        tracing::warn!(%iqn, %portal, error = %Chain(error), "portal is left out");
                    }
                    run.tried
                        .attach
                        .logins
                        .insert(portal, outcome.map_err(|e| failure(&e)));
                }
                Err(error) => tracing::error!(%iqn, %error, "a login was lost"),
            }
        }
        for portal in portals {
            let lost = Failure {
                kind: ErrorKind::Internal,
                text: "the login was lost".to_owned(),
            };
            run.tried.attach.logins.entry(*portal).or_insert(Err(lost));
        }
    }

    async fn scan(&self, session: &Session, run: &mut Run<'_>) -> Result<(), StageError> {
        *run.tried.attach.scans.entry(session.sid).or_default() += 1;
        self.host
            .scan(session)
            .await
            .map_err(|source| StageError::Step {
                step: "scan",
                source,
            })
    }

    async fn identify(&self, paths: &[PathDevice], run: &mut Run<'_>) {
        for (path, answer) in identify_all(&self.host, paths, QUESTION_TRIES).await {
            let answer = answer.map_err(|error| Chain(&error).to_string());
            tracing::debug!(path = path.name, ?answer, "identified");
            run.tried.attach.identities.insert(key(&path), answer);
        }
        for path in paths {
            let lost = || Err("the question was lost".to_owned());
            run.tried
                .attach
                .identities
                .entry(key(path))
                .or_insert_with(lost);
        }
    }

    async fn purge(
        &self,
        path: &PathDevice,
        session: &Session,
        run: &mut Run<'_>,
    ) -> Result<(), StageError> {
        tracing::warn!(path = path.name, portal = %session.portal, "device is not the volume, deleted");
        run.tried.attach.purged.insert(path.host);
        run.tried.attach.identities.remove(&key(path));
        run.tried.attach.rescanned.remove(&path.name);
        run.tried.attach.path_waits = 0;
        self.host
            .delete_path(path)
            .await
            .map_err(|source| StageError::Step {
                step: "delete path",
                source,
            })?;
        self.scan(session, run).await
    }

    /// Makes the file system between two marks of the journal. A first failure is not the end: the whole proof is made
    /// again, because a fresh map may refuse its first writes (G13).
    async fn format(
        &self,
        map: &Map,
        fs: FsType,
        proof: Proof,
        run: &mut Run<'_>,
    ) -> Result<(), StageError> {
        let outcome = self.host.format(map, fs, proof).await;
        run.tried.content = None;
        run.tried.probes = 0;
        match outcome {
            Ok(()) => {
                run.tried.fresh = true;
                self.mark_format(run, FormatMarker::Finished).await?;
                self.mark(run, Marker::Formatted).await
            }
            Err(error) if run.tried.failed_formats == 0 => {
                tracing::warn!(map = map.name, error = %Chain(&error), "format failed, proving again");
                run.tried.failed_formats += 1;
                Ok(())
            }
            Err(source) => Err(StageError::Step {
                step: "format",
                source,
            }),
        }
    }

    async fn mount(&self, map: &Map, fs: FsType, wanted: &StageVolume) -> Result<(), HostError> {
        let flags: &[String] = match &wanted.access {
            Access::Filesystem { flags, .. } => flags,
            Access::Block => &[],
        };
        self.host
            .make_target(&wanted.staging_path, TargetKind::Directory)
            .await?;
        let options = mount_options(fs, flags, wanted.target.read_only);
        self.host
            .mount(map, fs, &wanted.staging_path, &options)
            .await
    }

    async fn mark(&self, run: &mut Run<'_>, step: Marker) -> Result<(), StageError> {
        match run.record.clone() {
            Some(record) if record.step != step => self.save(run, Record { step, ..record }).await,
            Some(_) | None => Ok(()),
        }
    }

    async fn mark_format(&self, run: &mut Run<'_>, format: FormatMarker) -> Result<(), StageError> {
        match run.record.clone() {
            Some(record) => self.save(run, Record { format, ..record }).await,
            None => Ok(()),
        }
    }

    async fn save(&self, run: &mut Run<'_>, record: Record) -> Result<(), StageError> {
        self.journal.save(&record).await.map_err(journal)?;
        run.record = Some(record);
        Ok(())
    }
}

/// The options of the staging mount.
///
/// xfs refuses a second file system with the same UUID, which every clone has (X01). A reader must not replay the
/// journal: other readers may have the device, and replaying writes (R01).
pub(super) fn mount_options(fs: FsType, flags: &[String], read_only: bool) -> MountOptions {
    let mut flags = flags.to_vec();
    let mut add = |flag: &str| {
        if !flags.iter().any(|given| given == flag) {
            flags.push(flag.to_owned());
        }
    };
    if fs == FsType::Xfs {
        add("nouuid");
    }
    if read_only {
        add(match fs {
            FsType::Ext4 => "noload",
            FsType::Xfs => "norecovery",
        });
    }
    MountOptions { read_only, flags }
}

/// A volume that works with fewer paths than it has portals is a thing to look at (S15).
fn report(wanted: &StageVolume, seen: &Seen) {
    let under_map = |path: &PathDevice| {
        let map = seen.map.as_ref();
        map.is_some_and(|map| map.slaves.contains(&path.name)) && seen.is_reachable(path)
    };
    let paths = seen.paths.iter().filter(|path| under_map(path)).count();
    let portals = wanted.target.portals.len();
    if paths < portals {
        tracing::warn!(volume.id = %wanted.id, paths, portals, "staged, degraded");
    } else {
        tracing::info!(volume.id = %wanted.id, paths, portals, "staged");
    }
}

fn failure(error: &HostError) -> Failure {
    Failure {
        kind: error.kind(),
        text: Chain(error).to_string(),
    }
}

fn observe(source: HostError) -> StageError {
    StageError::Observe { source }
}

fn journal(source: crate::record::JournalError) -> StageError {
    StageError::Journal { source }
}

/// How often a path that does not answer is asked.
const QUESTION_TRIES: u32 = 3;
