//! What the controller hands to the node, as the string maps that CSI carries.
//!
//! The volume context is in the persistent volume: public, immutable, the same for ever. The publish context is made at
//! every attach, because a replaced host moves portals. Both carry `formatVersion`; a reader refuses
//! a version it does not know and every key it does not know, except keys with a slash in them, which the
//! orchestrator's sidecars add for themselves (`storage.kubernetes.io/csiProvisionerIdentity`).

#![expect(
    clippy::implicit_hasher,
    reason = "the maps are the ones of the generated CSI messages"
)]

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{
    BlockName, Capacity, Gbid, HostingVolume, Invalid, Iqn, Portal, SealedChap, VolumeId, Wwid,
};

const FORMAT_VERSION: (&str, &str) = ("formatVersion", "1");

/// The file systems that the node can make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FsType {
    /// What orchestrators assume when nothing is said.
    #[default]
    Ext4,
    /// Grows only, as our volumes do.
    Xfs,
}

impl FsType {
    /// The name that mount(2) and mkfs know.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
        }
    }
}

/// What to do on a node where the request leaves it open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FsDefaults {
    /// The file system, if the capability names none.
    pub fs_type: FsType,
}

/// What the node must know of a volume for as long as it lives.
///
/// | key             | value                 |
/// |-----------------|-----------------------|
/// | `formatVersion` | `1`                   |
/// | `gbid`          | the block's GBID      |
/// | `hostingVolume` | where the block lives |
/// | `block`         | the block's name      |
/// | `fsType`        | `ext4` or `xfs`       |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeContext {
    /// The block's UUID.
    pub gbid: Gbid,
    /// Where the block lives.
    pub hosting_volume: HostingVolume,
    /// The block's name.
    pub block: BlockName,
    /// Defaults of the storage class.
    pub fs: FsDefaults,
}

impl VolumeContext {
    /// The id of the volume this is the context of.
    #[must_use]
    pub fn volume_id(&self) -> VolumeId {
        VolumeId::new(self.hosting_volume.clone(), self.block.clone())
    }
}

/// What the node must know to attach.
///
/// | key             | value                                                              |
/// |-----------------|--------------------------------------------------------------------|
/// | `formatVersion` | `1`                                                                |
/// | `iqn`           | the target's name                                                  |
/// | `portals`       | `ip:port`, separated by commas, at least one                       |
/// | `wwid`          | what every path and the map must show; must be the one of the IQN  |
/// | `capacityBytes` | the size to expect, in bytes                                       |
/// | `chap`          | the sealed CHAP credentials; absent without CHAP                   |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishContext {
    /// The target.
    pub iqn: Iqn,
    /// Where to log in, every one of them.
    pub portals: Vec<Portal>,
    /// What every path and the map must show.
    pub wwid: Wwid,
    /// The size to expect.
    pub capacity: Capacity,
    /// The credentials, if the target asks for them.
    pub chap: Option<SealedChap>,
}

/// Why a context is not one of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContextError {
    /// A key is missing.
    #[error("the {context} context has no {key:?}; it was not made by this driver")]
    Missing {
        /// Which map.
        context: &'static str,
        /// Which key.
        key: &'static str,
    },
    /// There is a key that nobody knows.
    #[error(
        "the {context} context has the unknown key {key:?}; remove it, or use the driver version that wrote it"
    )]
    Unknown {
        /// Which map.
        context: &'static str,
        /// Which key.
        key: String,
    },
    /// The format is another one.
    #[error(
        "the {context} context has format version {found:?} and this driver reads \"1\"; use the driver version that wrote it"
    )]
    Version {
        /// Which map.
        context: &'static str,
        /// The version in it.
        found: String,
    },
    /// A value is wrong.
    #[error("the {context} context has a wrong {key:?}")]
    Value {
        /// Which map.
        context: &'static str,
        /// Which key.
        key: &'static str,
        /// What is wrong.
        #[source]
        source: Invalid,
    },
}

impl From<&VolumeContext> for HashMap<String, String> {
    fn from(context: &VolumeContext) -> Self {
        map([
            FORMAT_VERSION,
            ("gbid", &context.gbid.to_string()),
            ("hostingVolume", context.hosting_volume.as_str()),
            ("block", context.block.as_str()),
            ("fsType", context.fs.fs_type.as_str()),
        ])
    }
}

impl From<VolumeContext> for HashMap<String, String> {
    fn from(context: VolumeContext) -> Self {
        Self::from(&context)
    }
}

impl TryFrom<&HashMap<String, String>> for VolumeContext {
    type Error = ContextError;

    fn try_from(map: &HashMap<String, String>) -> Result<Self, ContextError> {
        let reader = Reader::new("volume", map, &["gbid", "hostingVolume", "block", "fsType"])?;
        Ok(Self {
            gbid: reader.required("gbid")?,
            hosting_volume: reader.required("hostingVolume")?,
            block: reader.required("block")?,
            fs: FsDefaults {
                fs_type: reader.required("fsType")?,
            },
        })
    }
}

impl From<&PublishContext> for HashMap<String, String> {
    fn from(context: &PublishContext) -> Self {
        let portals: Vec<String> = context.portals.iter().map(ToString::to_string).collect();
        let mut map = map([
            FORMAT_VERSION,
            ("iqn", &context.iqn.to_string()),
            ("portals", &portals.join(",")),
            ("wwid", context.wwid.as_str()),
            ("capacityBytes", &context.capacity.bytes().to_string()),
        ]);
        if let Some(chap) = &context.chap {
            map.insert("chap".to_owned(), chap.to_string());
        }
        map
    }
}

impl From<PublishContext> for HashMap<String, String> {
    fn from(context: PublishContext) -> Self {
        Self::from(&context)
    }
}

impl TryFrom<&HashMap<String, String>> for PublishContext {
    type Error = ContextError;

    fn try_from(map: &HashMap<String, String>) -> Result<Self, ContextError> {
        let reader = Reader::new(
            "publish",
            map,
            &["iqn", "portals", "wwid", "capacityBytes", "chap"],
        )?;
        let context = Self {
            iqn: reader.required("iqn")?,
            portals: reader.required::<Portals>("portals")?.0,
            wwid: reader.required("wwid")?,
            capacity: reader.required::<Bytes>("capacityBytes")?.0,
            chap: reader.optional("chap")?,
        };
        if context.wwid != context.iqn.gbid().wwid() {
            let source = Invalid::new(
                "WWID",
                context.wwid.as_str(),
                "it must be the one of the IQN's GBID",
            );
            return Err(ContextError::Value {
                context: "publish",
                key: "wwid",
                source,
            });
        }
        Ok(context)
    }
}

fn map<const N: usize>(entries: [(&str, &str); N]) -> HashMap<String, String> {
    entries
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// Reads one map whose keys are all known.
struct Reader<'a> {
    context: &'static str,
    map: &'a HashMap<String, String>,
}

impl<'a> Reader<'a> {
    fn new(
        context: &'static str,
        map: &'a HashMap<String, String>,
        known: &[&str],
    ) -> Result<Self, ContextError> {
        let (version_key, version) = FORMAT_VERSION;
        match map.get(version_key) {
            Some(found) if found == version => {}
            Some(found) => {
                return Err(ContextError::Version {
                    context,
                    found: found.clone(),
                });
            }
            None => {
                return Err(ContextError::Missing {
                    context,
                    key: version_key,
                });
            }
        }
        // The first in order, so that the message is the same at every retry.
        let unknown = map
            .keys()
            .filter(|key| {
                *key != version_key && !key.contains('/') && !known.contains(&key.as_str())
            })
            .min();
        match unknown {
            Some(key) => Err(ContextError::Unknown {
                context,
                key: key.clone(),
            }),
            None => Ok(Self { context, map }),
        }
    }

    fn required<T: FromStr<Err = Invalid>>(&self, key: &'static str) -> Result<T, ContextError> {
        self.optional(key)?.ok_or(ContextError::Missing {
            context: self.context,
            key,
        })
    }

    fn optional<T: FromStr<Err = Invalid>>(
        &self,
        key: &'static str,
    ) -> Result<Option<T>, ContextError> {
        let parsed = self.map.get(key).map(|text| text.parse()).transpose();
        parsed.map_err(|source| ContextError::Value {
            context: self.context,
            key,
            source,
        })
    }
}

struct Portals(Vec<Portal>);

impl FromStr for Portals {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        text.split(',')
            .map(str::parse)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

struct Bytes(Capacity);

impl FromStr for Bytes {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let refused = || Invalid::new("capacity", text, "expected a number of bytes above zero");
        if !text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(refused());
        }
        match text.parse() {
            Ok(bytes) if bytes > 0 => Ok(Self(Capacity::from_bytes(bytes))),
            Ok(_) | Err(_) => Err(refused()),
        }
    }
}

impl FromStr for FsType {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        match text {
            "ext4" => Ok(Self::Ext4),
            "xfs" => Ok(Self::Xfs),
            other => Err(Invalid::new("file system type", other, "use ext4 or xfs")),
        }
    }
}

impl fmt::Display for FsType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests;
