//! What can be seen of a host: sessions, paths, maps, mounts, as plain values without behaviour.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use blockd_client::vocabulary::{Capacity, FsType, Iqn, Portal, Wwid};
use serde::{Deserialize, Serialize};

/// One iSCSI session as the kernel shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The session's number: `session7` is 7.
    pub sid: u32,
    /// The number of its SCSI host.
    pub host: u32,
    /// The target.
    pub iqn: Iqn,
    /// The portal it was made to.
    pub portal: Portal,
    /// Whether it carries I/O.
    pub state: SessionState,
}

/// The kernel's word for a session's state. Being listed is not being usable (Q19).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionState {
    /// Carries I/O.
    LoggedIn,
    /// Lost its connection and is trying again.
    Failed,
    /// Gave up recovering; I/O fails at once.
    Free,
    /// Any other word.
    Other(String),
}

impl SessionState {
    /// Whether I/O goes through.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        *self == Self::LoggedIn
    }
}

/// A SCSI disk at LUN 0 of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathDevice {
    /// The kernel's name: `sda`.
    pub name: String,
    /// Its device number.
    pub dev: DevNumber,
    /// The number of its SCSI host.
    pub host: u32,
    /// The target its session is to, when it has a session; not every target is gluster-block's (W15).
    pub target: Option<String>,
    /// The portal its session was made to, when it has a session.
    pub portal: Option<Portal>,
    /// The identity sysfs remembers: a hint, it outlives a swap of the LUN (C8). `None` when absent or not one of ours.
    pub wwid: Option<Wwid>,
    /// Its size as the kernel knows it.
    pub size: Capacity,
    /// Whether the kernel refuses writes to it.
    pub read_only: bool,
    /// The SCSI device state: `running`, `blocked`, `offline`, `transport-offline`.
    pub state: String,
    /// The kernel names of what stands on it: `dm-3`.
    pub holders: Vec<String>,
}

/// A multipath map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map {
    /// The kernel's name today: `dm-3`. Reused for other maps; good for messages and for `holders` only.
    pub name: String,
    /// Its device number.
    pub dev: DevNumber,
    /// Its identity.
    pub wwid: Wwid,
    /// Its size.
    pub size: Capacity,
    /// Whether the kernel refuses writes to it.
    pub read_only: bool,
    /// Whether I/O is held back.
    pub suspended: bool,
    /// The kernel names of its paths: `sda`.
    pub slaves: Vec<String>,
    /// The kernel names of the devices that stand on it: partitions, encryption, volume groups.
    pub holders: Vec<String>,
}

/// One line of the mount table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountEntry {
    /// The device of the mounted file system.
    pub dev: DevNumber,
    /// The part of the file system that is mounted: `/` for the whole.
    pub root: PathBuf,
    /// Where.
    pub mountpoint: PathBuf,
    /// The file system's type.
    pub fs_type: String,
    /// What was mounted, as the table names it.
    pub source: String,
    /// Whether this mount is read-only.
    pub read_only: bool,
    /// Whether the whole file system is read-only.
    pub super_read_only: bool,
    /// The options of this mount, comma separated.
    pub options: String,
    /// The options of the file system, comma separated.
    pub super_options: String,
    /// The device whose node is mounted here, when the mount is a file bind out of `/dev` (raw block).
    pub node: Option<DevNumber>,
}

/// A device number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DevNumber {
    /// Which driver.
    pub major: u32,
    /// Which of its devices.
    pub minor: u32,
}

impl fmt::Display for DevNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// The text is not `major:minor`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a device number of the form major:minor")]
pub struct InvalidDevNumber(String);

impl FromStr for DevNumber {
    type Err = InvalidDevNumber;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.trim()
            .split_once(':')
            .and_then(|(major, minor)| {
                Some(Self {
                    major: major.parse().ok()?,
                    minor: minor.parse().ok()?,
                })
            })
            .ok_or_else(|| InvalidDevNumber(text.to_owned()))
    }
}

/// Who a path says it is, asked now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// An NAA designator in the form multipath uses.
    Naa(Wwid),
    /// A designator that no gluster-block volume has.
    Other(String),
    /// The target answers for a LUN it does not have: reads succeed and give zeros (`lab.md` §5).
    NoLun,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Naa(wwid) => write!(f, "{wwid}"),
            Self::Other(text) => write!(f, "{text:?}"),
            Self::NoLun => f.write_str("no LUN"),
        }
    }
}

/// What a device carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A file system we can mount.
    Filesystem(FsType),
    /// A signature of something else.
    Foreign(String),
    /// No signature, and all zero wherever signatures live, every byte of it read.
    Blank,
    /// No signature we know, but not all zero either.
    NotBlank,
}

/// Why a format destroys nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// The device was proved blank, twice.
    Blank,
    /// The device carries nothing but what our own unfinished format left there (F03).
    OurUnfinishedFormat,
}

/// Options of a mount.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MountOptions {
    /// Mount read-only.
    pub read_only: bool,
    /// Everything else, one option each, as given: `noatime`, `context="…"`.
    pub flags: Vec<String>,
}

/// What a mount target is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetKind {
    /// A directory, for a file system.
    Directory,
    /// A file, for a device node.
    File,
}

/// Space and inodes of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Bytes in all.
    pub total_bytes: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Bytes an ordinary user can still write.
    pub available_bytes: u64,
    /// Inodes in all.
    pub total_inodes: u64,
    /// Inodes in use.
    pub used_inodes: u64,
    /// Inodes free.
    pub free_inodes: u64,
}

/// The kernel's name for one boot of this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BootId(String);

/// The text is not a boot id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a boot id: expected hexadecimal digits and dashes")]
pub struct InvalidBootId(String);

impl FromStr for BootId {
    type Err = InvalidBootId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let id = text.trim();
        let legal = !id.is_empty()
            && id.len() <= 64
            && id
                .bytes()
                .all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        if legal {
            Ok(Self(id.to_owned()))
        } else {
            Err(InvalidBootId(text.to_owned()))
        }
    }
}

impl TryFrom<String> for BootId {
    type Error = InvalidBootId;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<BootId> for String {
    fn from(id: BootId) -> Self {
        id.0
    }
}

impl fmt::Display for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_number_reads_back_as_it_prints() {
        let dev: DevNumber = "253:3\n".parse().unwrap();
        assert_eq!(dev.to_string(), "253:3");
        assert!("253".parse::<DevNumber>().is_err());
        assert!("a:b".parse::<DevNumber>().is_err());
    }

    #[test]
    fn a_session_counts_only_when_logged_in() {
        // Q19
        assert!(SessionState::LoggedIn.is_usable());
        for state in [
            SessionState::Failed,
            SessionState::Free,
            SessionState::Other("odd".to_owned()),
        ] {
            assert!(!state.is_usable(), "{state:?}");
        }
    }

    #[test]
    fn a_boot_id_is_hexadecimal() {
        assert!(
            "9d0c8f0e-6a63-4f4b-8c0b-0b5b2e0f7d11\n"
                .parse::<BootId>()
                .is_ok()
        );
        assert!("".parse::<BootId>().is_err());
        assert!("../etc".parse::<BootId>().is_err());
    }
}
