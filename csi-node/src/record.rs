//! What the node remembers of a volume it stages, so that a restart at any moment leaves something to finish from (C10).
//!
//! A [`Record`] holds identity and intent, never a secret and never a device name: names are reused by the kernel, the
//! WWID is not (W09). It is written before the first effect of a stage and removed after the last effect of an
//! unstage; [`Journal`] keeps it on disk.

use std::path::PathBuf;

use blockd_client::vocabulary::{Capacity, FsType, Iqn, Portal, VolumeId, Wwid};
use serde::{Deserialize, Serialize};

use crate::host::BootId;

pub use self::journal::{Journal, JournalError};

mod journal;

/// One staged, or half staged, or half unstaged volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Record {
    /// The CSI volume id.
    pub volume: VolumeId,
    /// The target; its GBID is the volume's identity.
    pub iqn: Iqn,
    /// What every path and the map must show.
    pub wwid: Wwid,
    /// Where the sessions go, as of the last stage.
    pub portals: Vec<Portal>,
    /// The size below which a device is not the volume.
    pub expected_bytes: Capacity,
    /// How the volume is used.
    pub access: Access,
    /// Whether the volume was staged for readers only.
    pub read_only: bool,
    /// Where the file system is mounted for the node.
    pub staging_path: PathBuf,
    /// The last effect known to be complete.
    pub step: Marker,
    /// How far our own format of the device got, if we ever began one.
    pub format: FormatMarker,
    /// The boot in which the step was reached; in another boot only the identity holds.
    pub boot_id: BootId,
}

/// How a volume is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Access {
    /// As a block device.
    Block,
    /// As a mounted file system.
    Filesystem {
        /// Which.
        fs: FsType,
        /// The mount flags of the request, as given.
        flags: Vec<String>,
    },
}

/// The last effect that is known to be complete, upwards to `Staged` and down again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Marker {
    /// The record itself is written.
    Begun,
    /// Node records are written.
    Recorded,
    /// Logged in at one portal at least.
    LoggedIn,
    /// The paths are there.
    Scanned,
    /// The map is there.
    Mapped,
    /// The file system is made.
    Formatted,
    /// The file system is mounted.
    Mounted,
    /// The stage is complete.
    Staged,
    /// Unstage: nothing is mounted any more.
    Unmounted,
    /// Unstage: the map is flushed and gone.
    Flushed,
    /// Unstage: multipathd forgot the paths.
    Forgotten,
    /// Unstage: the path devices are gone.
    PathsDeleted,
    /// Unstage: the sessions are gone.
    LoggedOut,
}

/// How far our own format of a device got (F03).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FormatMarker {
    /// We never began one.
    #[default]
    None,
    /// We began one and do not know that it ended.
    Started,
    /// It ended well; the device is never formatted again.
    Finished,
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn record() -> Record {
        let iqn: Iqn = "iqn.2016-12.org.gluster-block:6f3c2a10-1111-4222-8333-abcdefabcdef"
            .parse()
            .unwrap();
        Record {
            volume: "hv1/pvc-1".parse().unwrap(),
            iqn,
            wwid: iqn.gbid().wwid(),
            portals: vec![
                "10.77.1.11:3260".parse().unwrap(),
                "10.77.1.12:3260".parse().unwrap(),
            ],
            expected_bytes: Capacity::from_bytes(1 << 30),
            access: Access::Filesystem {
                fs: FsType::Xfs,
                flags: vec!["noatime".to_owned()],
            },
            read_only: false,
            staging_path: "/var/lib/kubelet/plugins/staging/1".into(),
            step: Marker::Mapped,
            format: FormatMarker::Started,
            boot_id: "9d0c8f0e-6a63-4f4b-8c0b-0b5b2e0f7d11".parse().unwrap(),
        }
    }

    #[test]
    fn the_stored_form_is_the_promised_one() {
        // A change here is a new format version.
        insta::assert_snapshot!(serde_json::to_string_pretty(&record()).unwrap(), @r#"
        {
          "volume": "hv1/pvc-1",
          "iqn": "iqn.2016-12.org.gluster-block:6f3c2a10-1111-4222-8333-abcdefabcdef",
          "wwid": "360014056f3c2a10111142228333abcde",
          "portals": [
            "10.77.1.11:3260",
            "10.77.1.12:3260"
          ],
          "expectedBytes": 1073741824,
          "access": {
            "filesystem": {
              "fs": "xfs",
              "flags": [
                "noatime"
              ]
            }
          },
          "readOnly": false,
          "stagingPath": "/var/lib/kubelet/plugins/staging/1",
          "step": "mapped",
          "format": "started",
          "bootId": "9d0c8f0e-6a63-4f4b-8c0b-0b5b2e0f7d11"
        }
        "#);
    }
}
