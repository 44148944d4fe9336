//! The port to this host: everything an operation may see of it or do to it.
//!
//! One trait, two implementations: [`linux`] runs the tools and reads `/sys` and `/proc`, `fake` is a model that can
//! misbehave. Three kinds of methods, and the difference matters:
//!
//! - *observations* read sysfs and the mount table only; they never touch a block device and so cannot hang on one (C12);
//! - *questions* touch the device, in a child process with a deadline, because only the device knows what it is now (C8);
//! - *effects* are idempotent, have a deadline each, and leave deciding to their caller.

use std::path::{Path, PathBuf};

use blockd_client::vocabulary::{ChapCredentials, FsType, Initiator, Iqn, Portal, Wwid};

pub use self::error::HostError;
pub use self::seen::{
    BootId, Content, DevNumber, Identity, InvalidBootId, InvalidDevNumber, Map, MountEntry,
    MountOptions, PathDevice, Proof, Session, SessionState, TargetKind, Usage,
};

pub mod bounded;
pub mod command;
pub mod devices;
mod error;
#[cfg(any(test, feature = "testing"))]
pub mod fake;
pub mod filesystems;
pub mod iscsiadm;
pub mod linux;
pub mod mountinfo;
pub mod mounts;
pub mod multipath;
pub mod paths;
pub mod probe;
pub mod records;
mod seen;
pub mod sysfs;

/// Everything an operation may see of, or do to, this host.
///
/// # Guarantees expected of every implementation
///
/// - Each effect is idempotent: what is already so is success.
/// - Each call ends by itself, at its own deadline at the latest, and leaves no child process behind.
/// - No secret appears in an argument vector, a log line or an error (C7).
pub trait Host: Clone + Send + Sync + 'static {
    // Observations.

    /// The sessions to one target, whatever their state.
    fn sessions(&self, iqn: &Iqn) -> impl Future<Output = Result<Vec<Session>, HostError>> + Send;

    /// The sessions to every gluster-block target this host knows, ours or not.
    fn all_sessions(&self) -> impl Future<Output = Result<Vec<Session>, HostError>> + Send;

    /// The portals of one target for which a node record is on disk.
    fn records(&self, iqn: &Iqn) -> impl Future<Output = Result<Vec<Portal>, HostError>> + Send;

    /// The disk at LUN 0 of each of these sessions' SCSI hosts; sessions without one are simply absent.
    fn paths(
        &self,
        sessions: &[Session],
    ) -> impl Future<Output = Result<Vec<PathDevice>, HostError>> + Send;

    /// The disks a map stands on, whichever session they belong to.
    fn slaves(&self, map: &Map) -> impl Future<Output = Result<Vec<PathDevice>, HostError>> + Send;

    /// The multipath map of this identity, found by its device-mapper uuid, never by its name or number (W09, W17).
    fn map(&self, wwid: &Wwid) -> impl Future<Output = Result<Option<Map>, HostError>> + Send;

    /// Every multipath map whose identity could be a gluster-block volume's.
    fn all_maps(&self) -> impl Future<Output = Result<Vec<Map>, HostError>> + Send;

    /// The mount table, oldest mount first.
    fn mounts(&self) -> impl Future<Output = Result<Vec<MountEntry>, HostError>> + Send;

    /// A path as the mount table would spell it; see [`paths::resolve`].
    fn resolve(&self, path: &Path) -> impl Future<Output = PathBuf> + Send {
        paths::resolve(path)
    }

    /// Which boot of this host it is.
    fn boot_id(&self) -> impl Future<Output = Result<BootId, HostError>> + Send;

    /// The name under which this host logs in.
    fn initiator(&self) -> impl Future<Output = Result<Initiator, HostError>> + Send;

    /// Whether the tools and daemons that operations need are there and answer; the error says which is not.
    fn ready(&self) -> impl Future<Output = Result<(), HostError>> + Send;

    // Questions to the device.

    /// Who this path is now, by INQUIRY page 0x83; what sysfs remembers does not count (C8).
    fn identify(
        &self,
        path: &PathDevice,
    ) -> impl Future<Output = Result<Identity, HostError>> + Send;

    /// What the device carries (C9). Every read must succeed; all reads go through one open file.
    ///
    /// A file system whose making was cut short (xfs with its in-progress flag set) is [`Content::NotBlank`].
    fn probe(&self, map: &Map) -> impl Future<Output = Result<Content, HostError>> + Send;

    /// Space and inodes of a mounted file system; gives up at its deadline when the file system does not answer.
    fn usage(&self, mountpoint: &Path) -> impl Future<Output = Result<Usage, HostError>> + Send;

    // Effects on sessions.

    /// Writes the node record of one portal: manual start-up, manual scan, our timers, and CHAP or none (C06, C08).
    fn write_record(
        &self,
        iqn: &Iqn,
        portal: &Portal,
        chap: Option<&ChapCredentials>,
    ) -> impl Future<Output = Result<(), HostError>> + Send;

    /// Deletes the node record of one portal; absent is success.
    fn delete_record(
        &self,
        iqn: &Iqn,
        portal: &Portal,
    ) -> impl Future<Output = Result<(), HostError>> + Send;

    /// Logs in to one portal; already logged in is success (S11).
    fn login(
        &self,
        iqn: &Iqn,
        portal: &Portal,
    ) -> impl Future<Output = Result<(), HostError>> + Send;

    /// Logs one session out, by its number when its record is gone (S08); gone is success.
    fn logout(&self, session: &Session) -> impl Future<Output = Result<(), HostError>> + Send;

    /// Looks for LUN 0 and nothing else on this session (W02, W03).
    fn scan(&self, session: &Session) -> impl Future<Output = Result<(), HostError>> + Send;

    // Effects on paths and maps.

    /// Has the kernel read the path's size and identity again.
    fn rescan(&self, path: &PathDevice) -> impl Future<Output = Result<(), HostError>> + Send;

    /// Removes the path's device; gone is success.
    fn delete_path(&self, path: &PathDevice) -> impl Future<Output = Result<(), HostError>> + Send;

    /// Has multipathd make or complete the map of these paths, also when there is only one (W05).
    fn add_map(
        &self,
        wwid: &Wwid,
        paths: &[PathDevice],
    ) -> impl Future<Output = Result<(), HostError>> + Send;

    /// Has the map take the size of its paths; an answer of `fail` or `timeout` is an error (E05).
    fn resize_map(&self, map: &Map) -> impl Future<Output = Result<(), HostError>> + Send;

    /// Flushes and removes the map, found by its identity; never by force (D24).
    fn flush_map(&self, map: &Map) -> impl Future<Output = Result<(), HostError>> + Send;

    /// Tells multipathd to drop these paths, whose devices are still there, and waits until it no longer lists them (D09).
    fn forget_paths(
        &self,
        paths: &[PathDevice],
    ) -> impl Future<Output = Result<(), HostError>> + Send;

    /// Lets I/O fail that waits for a path; only for a map that nothing holds (D16).
    fn stop_queueing(&self, map: &Map) -> impl Future<Output = Result<(), HostError>> + Send;

    // Effects on file systems and mounts.

    /// Makes a file system, without discard. `proof` says why that destroys nothing (C9); only
    /// [`Proof::OurUnfinishedFormat`] may overwrite what the tool takes for content.
    fn format(
        &self,
        map: &Map,
        fs: FsType,
        proof: Proof,
    ) -> impl Future<Output = Result<(), HostError>> + Send;

    /// Repairs what is safe to repair unattended, before a mount; [`HostError::Damaged`] for the rest (F15).
    fn check(&self, map: &Map, fs: FsType) -> impl Future<Output = Result<(), HostError>> + Send;

    /// Grows a mounted file system to its device; does nothing when it fills it already (E06, E11).
    fn grow(
        &self,
        map: &Map,
        fs: FsType,
        mountpoint: &Path,
    ) -> impl Future<Output = Result<(), HostError>> + Send;

    /// Mounts the map's file system on an existing directory.
    fn mount(
        &self,
        map: &Map,
        fs: FsType,
        target: &Path,
        options: &MountOptions,
    ) -> impl Future<Output = Result<(), HostError>> + Send;

    /// Binds a directory onto a directory.
    fn bind(
        &self,
        source: &Path,
        target: &Path,
        read_only: bool,
    ) -> impl Future<Output = Result<(), HostError>> + Send;

    /// Binds the map's device node onto a file.
    fn bind_device(
        &self,
        map: &Map,
        target: &Path,
        read_only: bool,
    ) -> impl Future<Output = Result<(), HostError>> + Send;

    /// Takes the topmost mount off this path; not mounted is success.
    fn unmount(&self, target: &Path) -> impl Future<Output = Result<(), HostError>> + Send;

    /// Makes the directory or the empty file to mount on, and the directories above it.
    fn make_target(
        &self,
        target: &Path,
        kind: TargetKind,
    ) -> impl Future<Output = Result<(), HostError>> + Send;

    /// Removes an empty directory or a file, nothing below it (D25); absent is success.
    fn remove_target(&self, target: &Path) -> impl Future<Output = Result<(), HostError>> + Send;
}
