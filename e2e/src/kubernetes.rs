//! Plays Kubernetes: calls the two services as external-provisioner, external-attacher, external-resizer and kubelet do.
//!
//! The calls carry the deadlines of the real callers and are repeated as the real callers repeat them: a code that
//! says "may still be running" is tried again, any other is final. Paths are kubelet's.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aws_lc_rs::digest;
use proto::csi;
use tonic::{Code, Request, Status};

pub mod kubelet;
pub mod sidecars;

/// How long one call may take: kubelet's limit for CSI calls.
const CALL_LIMIT: Duration = Duration::from_mins(2);

/// The name under which kubelet files the driver's volumes.
pub const DRIVER: &str = "gluster-block.csi.gluster.org";

/// What a PersistentVolumeClaim and its StorageClass ask for.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The name external-provisioner gives the volume, such as `pvc-<uuid>`.
    pub name: String,
    /// Requested size in bytes.
    pub bytes: i64,
    /// The StorageClass's parameters.
    pub parameters: BTreeMap<String, String>,
    /// `Filesystem` or `Block`, as in `volumeMode`.
    pub access: Access,
}

/// The claim's `volumeMode`, with the file system type for `Filesystem`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// A mounted file system of this type (`csi.storage.k8s.io/fstype`).
    Mount(&'static str),
    /// A raw block device.
    Block,
}

/// A provisioned volume: what Kubernetes keeps in the PersistentVolume.
#[derive(Debug, Clone)]
pub struct Volume {
    /// The volume handle.
    pub id: String,
    /// The volume attributes.
    pub context: HashMap<String, String>,
    /// The capacity the driver answered, in bytes.
    pub bytes: i64,
    /// How it is used.
    pub access: Access,
    name: String,
}

/// What ControllerPublishVolume answered: kept in the VolumeAttachment.
pub type PublishContext = HashMap<String, String>;

impl Volume {
    /// The capability that every call about this volume carries.
    #[must_use]
    pub fn capability(&self) -> csi::VolumeCapability {
        capability(&self.access)
    }

    /// Where kubelet wants it staged.
    #[must_use]
    pub fn staging_path(&self) -> PathBuf {
        let plugins = Path::new("/var/lib/kubelet/plugins/kubernetes.io/csi");
        match self.access {
            Access::Mount(_) => plugins
                .join(DRIVER)
                .join(hex_sha256(&self.id))
                .join("globalmount"),
            Access::Block => plugins.join("volumeDevices/staging").join(&self.name),
        }
    }

    /// Where kubelet wants it published for the pod.
    #[must_use]
    pub fn target_path(&self, pod: &str) -> PathBuf {
        match self.access {
            Access::Mount(_) => Path::new("/var/lib/kubelet/pods")
                .join(pod)
                .join("volumes/kubernetes.io~csi")
                .join(&self.name)
                .join("mount"),
            Access::Block => {
                Path::new("/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/publish")
                    .join(&self.name)
                    .join(pod)
            }
        }
    }
}

/// True for the codes after which the sidecars try the same call again (csi-and-healing reference §2.2).
#[must_use]
pub fn may_still_be_running(code: Code) -> bool {
    matches!(
        code,
        Code::Aborted | Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled
    )
}

async fn settle<T, F>(patience: Duration, call: impl Fn() -> F) -> Result<T, Status>
where
    F: Future<Output = Result<T, Status>>,
{
    repeat(patience, call, |status| may_still_be_running(status.code())).await
}

/// For calls that Kubernetes repeats after every failure.
async fn settle_any<T, F>(patience: Duration, call: impl Fn() -> F) -> Result<T, Status>
where
    F: Future<Output = Result<T, Status>>,
{
    repeat(patience, call, |_| true).await
}

async fn repeat<T, F>(
    patience: Duration,
    call: impl Fn() -> F,
    again: impl Fn(&Status) -> bool,
) -> Result<T, Status>
where
    F: Future<Output = Result<T, Status>>,
{
    let start = Instant::now();
    let mut pause = Duration::from_millis(250);
    loop {
        match call().await {
            Err(status) if again(&status) && start.elapsed() + pause < patience => {
                tracing::debug!(code = ?status.code(), message = status.message(), "trying again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(2));
            }
            outcome => return outcome,
        }
    }
}

fn within_limit<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(CALL_LIMIT);
    request
}

/// The capability for an access type, for one writer on one node as Kubernetes asks for `ReadWriteOnce`.
#[must_use]
pub fn capability(access: &Access) -> csi::VolumeCapability {
    use csi::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume, access_mode};
    csi::VolumeCapability {
        access_mode: Some(AccessMode {
            mode: access_mode::Mode::SingleNodeMultiWriter.into(),
        }),
        access_type: Some(match access {
            Access::Mount(fs_type) => AccessType::Mount(MountVolume {
                fs_type: (*fs_type).to_owned(),
                ..Default::default()
            }),
            Access::Block => AccessType::Block(BlockVolume {}),
        }),
    }
}

fn hex_sha256(text: &str) -> String {
    let hash = digest::digest(&digest::SHA256, text.as_bytes());
    hash.as_ref().iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
