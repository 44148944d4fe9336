//! From CSI messages to typed input. What passes here is never looked at for form again.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use blockd_client::vocabulary::{
    Capacity, ContextError, FsType, Invalid, PublishContext, VolumeContext, VolumeId,
};
use proto::csi;
use proto::csi::volume_capability::AccessType;
use proto::csi::volume_capability::access_mode::Mode;
use proto::error::{Classify, ErrorKind};

use crate::ops::attach::Target;
use crate::ops::expand::ExpandVolume;
use crate::ops::publish::PublishVolume;
use crate::ops::stage::StageVolume;
use crate::ops::stats::VolumeAt;
use crate::ops::unstage::UnstageVolume;
use crate::record::Access;

#[cfg(test)]
mod tests;

/// A request that is not understood, or that no volume of ours can satisfy.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ParseError {
    /// A required field is empty.
    #[error("{field} is missing")]
    Missing {
        /// The field.
        field: &'static str,
    },
    /// The id is none of ours, so there is no such volume.
    #[error("there is no volume {id:?}")]
    UnknownVolume {
        /// The id.
        id: String,
        /// Why it is none of ours.
        #[source]
        source: Invalid,
    },
    /// A field has a value that it cannot have.
    #[error("{field} {value:?} is not valid: {rule}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
        /// What is allowed.
        rule: &'static str,
    },
    /// A file system that we do not make.
    #[error("volume_capability.mount.fs_type is not one this driver makes")]
    FsType {
        /// Why not.
        #[source]
        source: Invalid,
    },
    /// A context that the controller did not make.
    #[error("{field} was not made by this driver's controller")]
    Context {
        /// The field.
        field: &'static str,
        /// Why not.
        #[source]
        source: ContextError,
    },
    /// The contexts and the id are not of one volume.
    #[error("volume_id {id}, volume_context and publish_context do not belong together")]
    Mismatch {
        /// The id.
        id: VolumeId,
    },
    /// The staging path is missing although this driver stages.
    #[error("staging_target_path is missing; this driver publishes only what is staged")]
    NotStaged,
    /// An access mode that these volumes cannot give safely.
    #[error(
        "access mode {mode} is not supported: a gluster-block volume has one writing node at a time"
    )]
    Mode {
        /// The mode.
        mode: &'static str,
    },
}

impl Classify for ParseError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::UnknownVolume { .. } => ErrorKind::NotFound,
            Self::NotStaged | Self::Mode { .. } => ErrorKind::FailedPrecondition,
            Self::Missing { .. }
            | Self::Invalid { .. }
            | Self::FsType { .. }
            | Self::Context { .. }
            | Self::Mismatch { .. } => ErrorKind::InvalidArgument,
        }
    }
}

pub(super) fn stage(request: csi::NodeStageVolumeRequest) -> Result<StageVolume, ParseError> {
    let id = required(request.volume_id, "volume_id")?;
    let staging_path = path(&request.staging_target_path, "staging_target_path")?;
    let capability = request.volume_capability.ok_or(ParseError::Missing {
        field: "volume_capability",
    })?;
    let id = volume_id(id)?;
    let volume = volume_context(&request.volume_context)?;
    let publish = publish_context(&request.publish_context)?;
    if volume.volume_id() != id || volume.gbid != publish.iqn.gbid() {
        return Err(ParseError::Mismatch { id });
    }
    let usage = usage(capability, Some(volume.fs.fs_type))?;
    let target = Target {
        iqn: publish.iqn,
        wwid: publish.wwid,
        portals: publish.portals,
        expected: publish.capacity,
        read_only: usage.read_only,
    };
    Ok(StageVolume {
        id,
        target,
        chap: publish.chap,
        staging_path,
        access: usage.access,
    })
}

pub(super) fn unstage(request: csi::NodeUnstageVolumeRequest) -> Result<UnstageVolume, ParseError> {
    let id = required(request.volume_id, "volume_id")?;
    let staging_path = path(&request.staging_target_path, "staging_target_path")?;
    Ok(UnstageVolume {
        id: volume_id(id)?,
        staging_path,
    })
}

pub(super) fn publish(request: csi::NodePublishVolumeRequest) -> Result<PublishVolume, ParseError> {
    let id = required(request.volume_id, "volume_id")?;
    let target_path = path(&request.target_path, "target_path")?;
    let capability = request.volume_capability.ok_or(ParseError::Missing {
        field: "volume_capability",
    })?;
    if request.staging_target_path.is_empty() {
        return Err(ParseError::NotStaged);
    }
    let staging_path = path(&request.staging_target_path, "staging_target_path")?;
    let id = volume_id(id)?;
    let volume = given(&request.volume_context)
        .map(volume_context)
        .transpose()?;
    let publish = given(&request.publish_context)
        .map(publish_context)
        .transpose()?;
    let wwid = publish.map(|context| context.wwid);
    let default = volume.map(|context| context.fs.fs_type);
    let usage = usage(capability, default)?;
    Ok(PublishVolume {
        id,
        wwid,
        staging_path,
        target_path,
        access: usage.access,
        read_only: request.readonly || usage.read_only,
        shared: usage.shared,
    })
}

/// Needs the id for the lock only: an unpublish must work whatever became of the volume (T02).
pub(super) fn unpublish(
    request: csi::NodeUnpublishVolumeRequest,
) -> Result<(String, PathBuf), ParseError> {
    let id = required(request.volume_id, "volume_id")?;
    Ok((id, path(&request.target_path, "target_path")?))
}

/// A path that is not absolute is no mount point, and so not found; no need to refuse it.
pub(super) fn stats(request: csi::NodeGetVolumeStatsRequest) -> Result<VolumeAt, ParseError> {
    let id = required(request.volume_id, "volume_id")?;
    let path = required(request.volume_path, "volume_path")?;
    Ok(VolumeAt {
        id: volume_id(id)?,
        path: tidy(Path::new(&path)),
    })
}

pub(super) fn expand(request: csi::NodeExpandVolumeRequest) -> Result<ExpandVolume, ParseError> {
    let id = required(request.volume_id, "volume_id")?;
    let path = required(request.volume_path, "volume_path")?;
    let range = request.capacity_range.unwrap_or_default();
    let required_bytes = bytes(range.required_bytes, "capacity_range.required_bytes")?;
    let limit = bytes(range.limit_bytes, "capacity_range.limit_bytes")?;
    if limit > 0 && limit < required_bytes {
        return Err(ParseError::Invalid {
            field: "capacity_range.limit_bytes",
            value: limit.to_string(),
            rule: "it must not be below required_bytes",
        });
    }
    Ok(ExpandVolume {
        id: volume_id(id)?,
        volume_path: tidy(Path::new(&path)),
        required: Capacity::from_bytes(required_bytes),
    })
}

/// A capability, understood.
struct Usage {
    access: Access,
    read_only: bool,
    shared: bool,
}

/// | access mode                   | readers only | several pods of a node |
/// |-------------------------------|--------------|------------------------|
/// | `SINGLE_NODE_WRITER`          | no           | no                     |
/// | `SINGLE_NODE_SINGLE_WRITER`   | no           | no                     |
/// | `SINGLE_NODE_MULTI_WRITER`    | no           | yes                    |
/// | `SINGLE_NODE_READER_ONLY`     | yes          | no                     |
/// | `MULTI_NODE_READER_ONLY`      | yes          | yes                    |
/// | `MULTI_NODE_*_WRITER`         | refused      |                        |
fn usage(capability: csi::VolumeCapability, default: Option<FsType>) -> Result<Usage, ParseError> {
    let mode = capability
        .access_mode
        .ok_or(ParseError::Missing {
            field: "volume_capability.access_mode",
        })?
        .mode();
    let (mut read_only, shared) = match mode {
        Mode::SingleNodeWriter | Mode::SingleNodeSingleWriter => (false, false),
        Mode::SingleNodeMultiWriter => (false, true),
        Mode::SingleNodeReaderOnly => (true, false),
        Mode::MultiNodeReaderOnly => (true, true),
        Mode::MultiNodeSingleWriter | Mode::MultiNodeMultiWriter => {
            return Err(ParseError::Mode {
                mode: mode.as_str_name(),
            });
        }
        Mode::Unknown => {
            return Err(ParseError::Invalid {
                field: "volume_capability.access_mode",
                value: mode.as_str_name().to_owned(),
                rule: "it must be one of the modes of CSI",
            });
        }
    };
    let access = match capability.access_type.ok_or(ParseError::Missing {
        field: "volume_capability.access_type",
    })? {
        AccessType::Block(_) => Access::Block,
        AccessType::Mount(mount) => {
            read_only |= mount.mount_flags.iter().any(|flag| flag == "ro");
            filesystem(mount, default)?
        }
    };
    Ok(Usage {
        access,
        read_only,
        shared,
    })
}

fn filesystem(
    mount: csi::volume_capability::MountVolume,
    default: Option<FsType>,
) -> Result<Access, ParseError> {
    if !mount.volume_mount_group.is_empty() {
        return Err(ParseError::Invalid {
            field: "volume_capability.mount.volume_mount_group",
            value: mount.volume_mount_group,
            rule: "the capability VOLUME_MOUNT_GROUP is not advertised; leave ownership to fsGroup",
        });
    }
    let fs = if mount.fs_type.is_empty() {
        default.unwrap_or_default()
    } else {
        mount
            .fs_type
            .parse()
            .map_err(|source| ParseError::FsType { source })?
    };
    let illegal = |flag: &&String| flag.is_empty() || flag.contains('\0');
    if let Some(flag) = mount.mount_flags.iter().find(illegal) {
        return Err(ParseError::Invalid {
            field: "volume_capability.mount.mount_flags",
            value: flag.clone(),
            rule: "a flag must have text, and no NUL",
        });
    }
    // How the mount is made read-only is our affair.
    let flags = mount
        .mount_flags
        .into_iter()
        .filter(|flag| flag != "ro" && flag != "rw")
        .collect();
    Ok(Access::Filesystem { fs, flags })
}

fn required(value: String, field: &'static str) -> Result<String, ParseError> {
    if value.is_empty() {
        Err(ParseError::Missing { field })
    } else {
        Ok(value)
    }
}

fn volume_id(id: String) -> Result<VolumeId, ParseError> {
    id.parse()
        .map_err(|source| ParseError::UnknownVolume { id, source })
}

/// A context that a caller may leave out.
fn given(map: &HashMap<String, String>) -> Option<&HashMap<String, String>> {
    Some(map).filter(|map| !map.is_empty())
}

fn volume_context(map: &HashMap<String, String>) -> Result<VolumeContext, ParseError> {
    VolumeContext::try_from(map).map_err(|source| ParseError::Context {
        field: "volume_context",
        source,
    })
}

fn publish_context(map: &HashMap<String, String>) -> Result<PublishContext, ParseError> {
    PublishContext::try_from(map).map_err(|source| ParseError::Context {
        field: "publish_context",
        source,
    })
}

fn bytes(count: i64, field: &'static str) -> Result<u64, ParseError> {
    u64::try_from(count).map_err(|_| ParseError::Invalid {
        field,
        value: count.to_string(),
        rule: "it must not be negative",
    })
}

/// A path that something may be mounted on: absolute, without `..`, and not the root.
fn path(text: &str, field: &'static str) -> Result<PathBuf, ParseError> {
    if text.is_empty() {
        return Err(ParseError::Missing { field });
    }
    let path = Path::new(text);
    let climbs = path
        .components()
        .any(|component| component == Component::ParentDir);
    let legal = path.is_absolute() && !climbs && path.parent().is_some() && !text.contains('\0');
    if legal && text.len() <= PATH_LIMIT {
        return Ok(tidy(path));
    }
    Err(ParseError::Invalid {
        field,
        value: text.chars().take(SHOWN).collect(),
        rule: "it must be an absolute path without .. and not the root",
    })
}

/// As the mount table spells it: no doubled and no final slash.
fn tidy(path: &Path) -> PathBuf {
    path.components().collect()
}

/// What Linux allows for a path.
const PATH_LIMIT: usize = 4095;
/// How much of a wrong path a message repeats.
const SHOWN: usize = 200;
