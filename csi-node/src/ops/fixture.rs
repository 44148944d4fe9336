//! The scene most operation tests begin with: one volume behind two portals, and a fresh journal.

use std::path::Path;
use std::time::Duration;

use blockd_client::vocabulary::{Capacity, FsType, Iqn, Portal, VolumeId};
use tempfile::TempDir;

use super::attach::Target;
use super::publish::PublishVolume;
use super::stage::{StageError, StageVolume};
use super::unstage::{UnstageError, UnstageVolume};
use super::{Operations, Waiting};
use crate::host::TargetKind;
use crate::host::fake::{DiskId, FakeHost};
use crate::record::{Access, Journal, Record};

pub(super) const STAGING: &str = "/var/lib/kubelet/staging/globalmount";
pub(super) const POD: &str = "/var/lib/kubelet/pods/1/mount";
pub(super) const GIB: u64 = 1 << 30;

pub(super) struct Bench {
    pub(super) host: FakeHost,
    pub(super) state: TempDir,
    pub(super) iqn: Iqn,
    pub(super) portals: Vec<Portal>,
    pub(super) disk: DiskId,
}

impl Bench {
    pub(super) fn new() -> Self {
        let host = FakeHost::new();
        let iqn = iqn("6f3c2a10-1111-4222-8333-abcdefabcdef");
        let portals = vec![portal(11), portal(12)];
        let disk = host.add_volume(&iqn, &portals, Capacity::from_bytes(GIB));
        host.make(Path::new(STAGING), TargetKind::Directory);
        Self {
            host,
            state: memory_directory(),
            iqn,
            portals,
            disk,
        }
    }

    /// Operations as a new process would have them: same host, same files, nothing remembered.
    pub(super) fn operations(&self) -> Operations<FakeHost> {
        let waiting = Waiting {
            poll: Duration::from_millis(250),
            paths: Duration::from_secs(2),
            map: Duration::from_secs(4),
        };
        Operations::new(self.host.clone(), self.journal(), None, waiting)
    }

    pub(super) fn journal(&self) -> Journal {
        Journal::open(self.state.path()).unwrap()
    }

    pub(super) async fn record(&self) -> Option<Record> {
        self.journal().load(&volume()).await.unwrap()
    }

    pub(super) fn wanted(&self) -> StageVolume {
        self.wanted_as(Access::Filesystem {
            fs: FsType::Ext4,
            flags: vec![],
        })
    }

    pub(super) fn wanted_as(&self, access: Access) -> StageVolume {
        StageVolume {
            id: volume(),
            target: Target {
                iqn: self.iqn,
                wwid: self.iqn.gbid().wwid(),
                portals: self.portals.clone(),
                expected: Capacity::from_bytes(GIB),
                read_only: false,
            },
            chap: None,
            staging_path: STAGING.into(),
            access,
        }
    }

    pub(super) fn published(&self, access: Access) -> PublishVolume {
        PublishVolume {
            id: volume(),
            wwid: Some(self.iqn.gbid().wwid()),
            staging_path: STAGING.into(),
            target_path: POD.into(),
            access,
            read_only: false,
            shared: true,
        }
    }

    pub(super) async fn stage(&self) -> Result<(), StageError> {
        self.operations().stage(&self.wanted()).await
    }

    pub(super) async fn unstage(&self) -> Result<(), UnstageError> {
        let wanted = UnstageVolume {
            id: volume(),
            staging_path: STAGING.into(),
        };
        self.operations().unstage(&wanted).await
    }

    /// The methods of the effects since the last call, in order.
    pub(super) fn effects(&self) -> Vec<&'static str> {
        self.host
            .take_effects()
            .iter()
            .map(|effect| effect.method)
            .collect()
    }

    /// Nothing of the volume is left, in the kernel or on disk, and nothing forbidden was done on the way.
    pub(super) async fn assert_clean(&self, after: &str) {
        assert_eq!(self.host.residue(), Vec::<String>::new(), "{after}");
        assert_eq!(self.record().await, None, "{after}");
        self.assert_lawful(after);
    }

    pub(super) fn assert_lawful(&self, after: &str) {
        assert_eq!(self.host.violations(), Vec::<String>::new(), "{after}");
    }
}

/// These tests sync thousands of journals; in memory that costs nothing.
fn memory_directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

pub(super) fn ext4() -> Access {
    Access::Filesystem {
        fs: FsType::Ext4,
        flags: vec![],
    }
}

pub(super) fn volume() -> VolumeId {
    "hv1/pvc-1".parse().unwrap()
}

pub(super) fn iqn(gbid: &str) -> Iqn {
    format!("iqn.2016-12.org.gluster-block:{gbid}")
        .parse()
        .unwrap()
}

pub(super) fn portal(last: u8) -> Portal {
    format!("10.77.1.{last}:3260").parse().unwrap()
}
