//! What an operation sees of one volume on this host.

use std::path::Path;

use blockd_client::vocabulary::{Iqn, Portal, Wwid};
use tokio::task::JoinSet;

use crate::host::{Host, HostError, Identity, Map, MountEntry, PathDevice, Session};

/// Everything of one volume that sysfs and the mount table show at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// The portals with a node record.
    pub records: Vec<Portal>,
    /// The sessions to the target.
    pub sessions: Vec<Session>,
    /// The disks of these sessions.
    pub paths: Vec<PathDevice>,
    /// The map.
    pub map: Option<Map>,
    /// The disks under the map, whosever session they belong to.
    pub slaves: Vec<PathDevice>,
    /// The whole mount table.
    pub mounts: Vec<MountEntry>,
}

impl Seen {
    /// Looks at the target and the map.
    ///
    /// # Errors
    ///
    /// An observation failed.
    pub async fn observe<H: Host>(
        host: &H,
        iqn: Option<&Iqn>,
        wwid: &Wwid,
    ) -> Result<Self, HostError> {
        let (records, sessions) = match iqn {
            Some(iqn) => (host.records(iqn).await?, host.sessions(iqn).await?),
            None => (Vec::new(), Vec::new()),
        };
        let paths = host.paths(&sessions).await?;
        let map = host.map(wwid).await?;
        let slaves = match &map {
            Some(map) => host.slaves(map).await?,
            None => Vec::new(),
        };
        let mounts = host.mounts().await?;
        Ok(Self {
            records,
            sessions,
            paths,
            map,
            slaves,
            mounts,
        })
    }

    /// The mounts on one path, the topmost last.
    #[must_use]
    pub fn mounts_at(&self, target: &Path) -> impl DoubleEndedIterator<Item = &MountEntry> {
        self.mounts
            .iter()
            .filter(move |entry| entry.mountpoint == target)
    }

    /// Every mount of a map, as a file system or as a device node.
    pub fn mounts_of(&self, map: &Map) -> impl Iterator<Item = &MountEntry> {
        let dev = map.dev;
        self.mounts
            .iter()
            .filter(move |entry| entry.dev == dev || entry.node == Some(dev))
    }

    /// The session a path belongs to.
    #[must_use]
    pub fn session_of(&self, path: &PathDevice) -> Option<&Session> {
        self.sessions
            .iter()
            .find(|session| session.host == path.host)
    }

    /// Whether I/O can go through this path's session.
    #[must_use]
    pub fn is_reachable(&self, path: &PathDevice) -> bool {
        self.session_of(path)
            .is_some_and(|session| session.state.is_usable())
    }
}

/// Asks several paths at once who they are; a question without an answer is asked again, `tries` times in all.
pub(super) async fn identify_all<H: Host>(
    host: &H,
    paths: &[PathDevice],
    tries: u32,
) -> Vec<(PathDevice, Result<Identity, HostError>)> {
    let mut questions = JoinSet::new();
    for path in paths {
        let (host, path) = (host.clone(), path.clone());
        questions.spawn(async move {
            let mut answer = host.identify(&path).await;
            for _ in 1..tries {
                if answer.is_ok() {
                    break;
                }
                answer = host.identify(&path).await;
            }
            (path, answer)
        });
    }
    let mut answers: Vec<(PathDevice, _)> = Vec::new();
    while let Some(answer) = questions.join_next().await {
        match answer {
            Ok(answer) => answers.push(answer),
            // A question that panicked has no answer; the path counts as not recognised (S17).
            Err(error) => tracing::error!(%error, "a question to a path was lost"),
        }
    }
    answers.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    answers
}
