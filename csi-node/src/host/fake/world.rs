//! The state of the modelled host.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use blockd_client::vocabulary::{Capacity, FsType, Initiator, Iqn, Portal, Wwid};

use crate::host::{BootId, DevNumber, HostError, MountEntry, SessionState, TargetKind};

/// A disk on the storage side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DiskId(pub(super) usize);

/// What a disk carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskContent {
    /// Zeros.
    Blank,
    /// Bytes that are no signature: data, or half a file system.
    Scraps,
    /// A file system of this many bytes.
    Filesystem {
        /// Which.
        fs: FsType,
        /// Its size, which may be smaller than the disk.
        size: Capacity,
    },
    /// Something else.
    Foreign(String),
}

#[derive(Debug)]
pub(super) struct Disk {
    pub(super) id: DiskId,
    pub(super) wwid: Wwid,
    pub(super) size: Capacity,
    pub(super) content: DiskContent,
    pub(super) damaged: bool,
    pub(super) formats: u32,
}

#[derive(Debug, Default)]
pub(super) struct Target {
    pub(super) endpoints: BTreeMap<Portal, Endpoint>,
    /// User and password.
    pub(super) chap: Option<(String, String)>,
}

#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) up: bool,
    /// What LUN 0 is; `None` is the null LUN.
    pub(super) lun: Option<DiskId>,
}

#[derive(Debug, Clone)]
pub(super) struct LiveSession {
    pub(super) iqn: Iqn,
    pub(super) portal: Portal,
    pub(super) state: SessionState,
}

#[derive(Debug, Clone)]
pub(super) struct LivePath {
    pub(super) sid: u32,
    pub(super) dev: DevNumber,
    /// What the kernel remembers of it.
    pub(super) wwid: Wwid,
    pub(super) size: Capacity,
    pub(super) read_only: bool,
    /// How many observations pass before it shows.
    pub(super) hidden_for: u32,
}

#[derive(Debug, Clone)]
pub(super) struct LiveMap {
    pub(super) name: String,
    pub(super) dev: DevNumber,
    pub(super) size: Capacity,
    pub(super) slaves: BTreeSet<String>,
    pub(super) suspended: bool,
    pub(super) queueing: bool,
    pub(super) read_only: bool,
    pub(super) holders: Vec<String>,
    pub(super) hidden_for: u32,
}

/// Everything there is.
#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) disks: Vec<Disk>,
    pub(super) targets: BTreeMap<Iqn, Target>,
    pub(super) records: BTreeMap<(Iqn, Portal), Option<(String, String)>>,
    pub(super) sessions: BTreeMap<u32, LiveSession>,
    pub(super) paths: BTreeMap<String, LivePath>,
    /// The paths multipathd lists.
    pub(super) known: BTreeSet<String>,
    pub(super) maps: BTreeMap<Wwid, LiveMap>,
    pub(super) mounts: Vec<MountEntry>,
    pub(super) targets_on_disk: BTreeMap<PathBuf, TargetKind>,
    pub(super) violations: Vec<String>,
    pub(super) boots: u32,
    pub(super) next_sid: u32,
    /// How long new paths and maps stay hidden.
    pub(super) path_delay: u32,
    pub(super) map_delay: u32,
    /// Whether multipathd makes no maps.
    pub(super) mapless: bool,
}

impl World {
    pub(super) fn boot_id(&self) -> Result<BootId, HostError> {
        format!("00000000-0000-4000-8000-{:012}", self.boots)
            .parse()
            .map_err(unreadable)
    }

    #[expect(
        clippy::unused_self,
        reason = "reads like the other facts of the world"
    )]
    pub(super) fn initiator(&self) -> Result<Initiator, HostError> {
        "iqn.1993-08.org.debian:01:fake".parse().map_err(unreadable)
    }

    pub(super) fn disk(&self, id: DiskId) -> Option<&Disk> {
        self.disks.get(id.0)
    }

    /// The disk behind a path, if its portal answers and has one.
    pub(super) fn disk_behind(&self, path: &LivePath) -> Option<&Disk> {
        let session = self.sessions.get(&path.sid)?;
        let endpoint = self
            .targets
            .get(&session.iqn)?
            .endpoints
            .get(&session.portal)?;
        self.disk(endpoint.lun.filter(|_| endpoint.up)?)
    }

    /// The disk a map's I/O reaches.
    pub(super) fn disk_under(&self, wwid: &Wwid) -> Option<DiskId> {
        let map = self.maps.get(wwid)?;
        map.slaves
            .iter()
            .filter_map(|name| self.paths.get(name))
            .find_map(|path| self.disk_behind(path))
            .map(|disk| disk.id)
    }

    pub(super) fn disk_mut(&mut self, id: DiskId) -> Option<&mut Disk> {
        self.disks.get_mut(id.0)
    }

    pub(super) fn violation(&mut self, text: impl Into<String>) {
        self.violations.push(text.into());
    }
}

fn unreadable(error: impl std::error::Error) -> HostError {
    HostError::Unreadable {
        what: "the model".to_owned(),
        detail: error.to_string(),
    }
}
