//! From CSI messages to typed input. What passes here is never looked at for form again.

use std::collections::HashMap;

use blockd_client::vocabulary::{
    BlockName, Capacity, ContextError, FsDefaults, FsType, Invalid, NodeId, VolumeContext, VolumeId,
};
use proto::csi;
use proto::csi::volume_capability::AccessType;
use proto::csi::volume_capability::access_mode::Mode;
use proto::error::{Classify, ErrorKind};

use crate::ops::create::CreateVolume;
use crate::ops::expand::{self, ExpandVolume};
use crate::ops::list::ListVolumes;
use crate::ops::publish::{Access, AccessMode, PublishVolume};
use crate::ops::validate::ValidateVolume;
use crate::ops::{CapacityRange, NoSuchSize};
use crate::params::{ParameterError, Parameters};

#[cfg(test)]
mod tests;

/// A request that is not understood, or that no volume of ours can satisfy.
#[derive(Debug, thiserror::Error)]
pub(super) enum ParseError {
    /// A required field is empty.
    #[error("{field} is missing")]
    Missing {
        /// The field.
        field: &'static str,
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
    /// The id is none of ours, so there is no such thing.
    #[error("there is no {what} {id:?}")]
    Unknown {
        /// What the id is of.
        what: &'static str,
        /// The id.
        id: String,
        /// Why it is none of ours.
        #[source]
        source: Invalid,
    },
    /// A parameter of the class.
    #[error("parameters are not valid")]
    Parameters(#[source] ParameterError),
    /// A size that cannot be had.
    #[error("capacity_range cannot be met")]
    Size(#[source] NoSuchSize),
    /// A context that this controller did not make.
    #[error("volume_context was not made by this driver")]
    Context(#[source] ContextError),
    /// What a volume cannot be used for.
    #[error("volume_capability is not supported: {why}")]
    Capability {
        /// Why not.
        why: String,
    },
    /// Too small for the file system it is to carry.
    #[error(
        "capacity_range: {} bytes are too small for xfs, which needs 300 MiB; ask for more, or for ext4",
        size.bytes()
    )]
    TooSmallForXfs {
        /// What it would be.
        size: Capacity,
    },
}

impl Classify for ParseError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Unknown { .. } => ErrorKind::NotFound,
            Self::Size(_) | Self::TooSmallForXfs { .. } => ErrorKind::OutOfRange,
            Self::Missing { .. }
            | Self::Invalid { .. }
            | Self::Parameters(_)
            | Self::Context(_)
            | Self::Capability { .. } => ErrorKind::InvalidArgument,
        }
    }
}

pub(super) fn create(request: csi::CreateVolumeRequest) -> Result<CreateVolume, ParseError> {
    let name = volume_name(request.name)?;
    if request.volume_capabilities.is_empty() {
        return Err(ParseError::Missing {
            field: "volume_capabilities",
        });
    }
    let mut fs = None;
    for capability in &request.volume_capabilities {
        fs = usage(capability)?.fs.or(fs);
    }
    within_limit("parameters", &request.parameters)?;
    let parameters = Parameters::try_from(&request.parameters).map_err(ParseError::Parameters)?;
    if request.volume_content_source.is_some() {
        return Err(ParseError::Invalid {
            field: "volume_content_source",
            value: "set".to_owned(),
            rule: "this driver makes empty volumes only; it has neither snapshots nor clones",
        });
    }
    if let Some(key) = request.mutable_parameters.keys().min() {
        return Err(ParseError::Invalid {
            field: "mutable_parameters",
            value: key.chars().take(SHOWN).collect(),
            rule: "nothing of a volume can be modified; leave them out",
        });
    }
    let range = range(request.capacity_range)?;
    let size = range
        .choose(parameters.granularity())
        .map_err(ParseError::Size)?;
    let fs_type = fs.unwrap_or_default();
    let mounted = request
        .volume_capabilities
        .iter()
        .any(|capability| matches!(capability.access_type, Some(AccessType::Mount(_))));
    if mounted && fs_type == FsType::Xfs && size < XFS_LEAST {
        return Err(ParseError::TooSmallForXfs { size });
    }
    Ok(CreateVolume {
        block: BlockName::derive(&name),
        size,
        parameters,
        fs: FsDefaults { fs_type },
    })
}

/// mkfs.xfs makes nothing smaller.
const XFS_LEAST: Capacity = Capacity::from_bytes(300 << 20);

/// None if the id cannot be one of ours: then the volume is gone already.
pub(super) fn delete(request: csi::DeleteVolumeRequest) -> Result<Option<VolumeId>, ParseError> {
    Ok(required(request.volume_id, "volume_id")?.parse().ok())
}

pub(super) fn publish(
    request: csi::ControllerPublishVolumeRequest,
) -> Result<PublishVolume, ParseError> {
    let id = required(request.volume_id, "volume_id")?;
    let node = required(request.node_id, "node_id")?;
    let capability = request.volume_capability.ok_or(ParseError::Missing {
        field: "volume_capability",
    })?;
    let access = usage(&capability)?.access;
    if request.readonly {
        return Err(ParseError::Invalid {
            field: "readonly",
            value: "true".to_owned(),
            rule: "PUBLISH_READONLY is not advertised; use a read-only access mode",
        });
    }
    Ok(PublishVolume {
        id: volume_id(&id)?,
        node: node.parse().map_err(|source| ParseError::Unknown {
            what: "node",
            id: node.chars().take(SHOWN).collect(),
            source,
        })?,
        access,
    })
}

/// None if volume or node cannot be ours: then nothing is published. No node means all of them.
pub(super) fn unpublish(
    request: csi::ControllerUnpublishVolumeRequest,
) -> Result<Option<(VolumeId, Option<NodeId>)>, ParseError> {
    let id = required(request.volume_id, "volume_id")?.parse().ok();
    if request.node_id.is_empty() {
        return Ok(id.map(|id| (id, None)));
    }
    let node = request.node_id.parse().ok();
    Ok(id.zip(node).map(|(id, node)| (id, Some(node))))
}

pub(super) fn validate(
    request: &csi::ValidateVolumeCapabilitiesRequest,
) -> Result<ValidateVolume, ParseError> {
    let id = required(request.volume_id.clone(), "volume_id")?;
    if request.volume_capabilities.is_empty() {
        return Err(ParseError::Missing {
            field: "volume_capabilities",
        });
    }
    let id = volume_id(&id)?;
    let mut refused = None;
    for capability in &request.volume_capabilities {
        match usage(capability) {
            Ok(_) => {}
            Err(error @ ParseError::Capability { .. }) => {
                refused = refused.or(Some(error.to_string()));
            }
            Err(error) => return Err(error),
        }
    }
    let parameters = Some(&request.parameters).filter(|map| !map.is_empty());
    let context = Some(&request.volume_context).filter(|map| !map.is_empty());
    Ok(ValidateVolume {
        id,
        refused,
        parameters: parameters
            .map(Parameters::try_from)
            .transpose()
            .map_err(ParseError::Parameters)?,
        context: context
            .map(VolumeContext::try_from)
            .transpose()
            .map_err(ParseError::Context)?,
    })
}

pub(super) fn list(request: csi::ListVolumesRequest) -> Result<ListVolumes, ParseError> {
    let limit = usize::try_from(request.max_entries).map_err(|_| ParseError::Invalid {
        field: "max_entries",
        value: request.max_entries.to_string(),
        rule: "it must not be negative",
    })?;
    Ok(ListVolumes {
        limit: Some(limit).filter(|limit| *limit > 0),
        token: Some(request.starting_token).filter(|token| !token.is_empty()),
    })
}

pub(super) fn get(request: csi::ControllerGetVolumeRequest) -> Result<VolumeId, ParseError> {
    volume_id(&required(request.volume_id, "volume_id")?)
}

/// None if volumes of these capabilities cannot be made at all.
pub(super) fn capacity(
    request: &csi::GetCapacityRequest,
) -> Result<Option<Parameters>, ParseError> {
    for capability in &request.volume_capabilities {
        match usage(capability) {
            Ok(_) => {}
            Err(ParseError::Capability { .. }) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    let parameters = Parameters::try_from(&request.parameters).map_err(ParseError::Parameters)?;
    Ok(Some(parameters))
}

pub(super) fn expand(
    request: csi::ControllerExpandVolumeRequest,
) -> Result<ExpandVolume, ParseError> {
    let id = required(request.volume_id, "volume_id")?;
    let asked = request.capacity_range.ok_or(ParseError::Missing {
        field: "capacity_range",
    })?;
    if let Some(capability) = &request.volume_capability {
        usage(capability)?;
    }
    let range = range(Some(asked))?;
    if range.required.is_none() {
        return Err(ParseError::Missing {
            field: "capacity_range.required_bytes",
        });
    }
    let size = range
        .choose(expand::GRANULARITY)
        .map_err(ParseError::Size)?;
    Ok(ExpandVolume {
        id: volume_id(&id)?,
        size,
        limit: range.limit,
    })
}

/// A capability, understood.
struct Usage {
    access: Access,
    fs: Option<FsType>,
}

/// | access mode | taken |
/// |---|---|
/// | `SINGLE_NODE_WRITER`, `…_READER_ONLY`, `…_SINGLE_WRITER`, `…_MULTI_WRITER` | yes |
/// | `MULTI_NODE_READER_ONLY` | yes |
/// | `MULTI_NODE_SINGLE_WRITER`, `MULTI_NODE_MULTI_WRITER` | no: two gateways may be active at once, and gluster-block cannot fence |
fn usage(capability: &csi::VolumeCapability) -> Result<Usage, ParseError> {
    let mode = capability.access_mode.as_ref().ok_or(ParseError::Missing {
        field: "volume_capability.access_mode",
    })?;
    let mode = match mode.mode() {
        Mode::SingleNodeWriter => AccessMode::SingleNodeWriter,
        Mode::SingleNodeReaderOnly => AccessMode::SingleNodeReader,
        Mode::SingleNodeSingleWriter => AccessMode::SingleNodeSingleWriter,
        Mode::SingleNodeMultiWriter => AccessMode::SingleNodeMultiWriter,
        Mode::MultiNodeReaderOnly => AccessMode::MultiNodeReader,
        mode @ (Mode::MultiNodeSingleWriter | Mode::MultiNodeMultiWriter) => {
            let name = mode.as_str_name();
            let why = format!(
                "{name}: a gluster-block volume has one writing node at a time; use SINGLE_NODE_* or MULTI_NODE_READER_ONLY"
            );
            return Err(ParseError::Capability { why });
        }
        Mode::Unknown => {
            return Err(ParseError::Invalid {
                field: "volume_capability.access_mode",
                value: mode.mode.to_string(),
                rule: "it must be one of the modes of CSI",
            });
        }
    };
    let access_type = capability.access_type.as_ref();
    match access_type.ok_or(ParseError::Missing {
        field: "volume_capability.access_type",
    })? {
        AccessType::Block(_) => Ok(Usage {
            access: Access { mode, raw: true },
            fs: None,
        }),
        AccessType::Mount(mount) => Ok(Usage {
            access: Access { mode, raw: false },
            fs: filesystem(mount)?,
        }),
    }
}

fn filesystem(mount: &csi::volume_capability::MountVolume) -> Result<Option<FsType>, ParseError> {
    let unsupported = |why: String| ParseError::Capability { why };
    if !mount.volume_mount_group.is_empty() {
        let why = "volume_mount_group: VOLUME_MOUNT_GROUP is not advertised; use fsGroup";
        return Err(unsupported(why.to_owned()));
    }
    let total: usize = mount.mount_flags.iter().map(String::len).sum();
    let odd = |flag: &&String| flag.is_empty() || flag.contains(char::is_control);
    if let Some(flag) = mount.mount_flags.iter().find(odd) {
        return Err(ParseError::Invalid {
            field: "volume_capability.mount.mount_flags",
            value: flag.chars().take(SHOWN).collect(),
            rule: "a flag must have text, and no control characters",
        });
    }
    if total > MAP_LIMIT {
        return Err(too_long("volume_capability.mount.mount_flags"));
    }
    if mount.fs_type.is_empty() {
        return Ok(None);
    }
    let fs = mount.fs_type.parse();
    fs.map(Some)
        .map_err(|error: Invalid| unsupported(error.to_string()))
}

/// Any Unicode but most control characters, as CSI has it.
fn volume_name(name: String) -> Result<String, ParseError> {
    let name = required(name, "name")?;
    let invalid = |rule| ParseError::Invalid {
        field: "name",
        value: name.chars().take(SHOWN).collect(),
        rule,
    };
    if name.len() > NAME_LIMIT {
        return Err(invalid("it must not be longer than 128 bytes"));
    }
    let forbidden = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r');
    if name.contains(forbidden) {
        return Err(invalid("it must not contain control characters"));
    }
    Ok(name)
}

fn range(asked: Option<csi::CapacityRange>) -> Result<CapacityRange, ParseError> {
    let asked = asked.unwrap_or_default();
    let required = bytes(asked.required_bytes, "capacity_range.required_bytes")?;
    let limit = bytes(asked.limit_bytes, "capacity_range.limit_bytes")?;
    if let (Some(required), Some(limit)) = (required, limit)
        && limit < required
    {
        return Err(ParseError::Invalid {
            field: "capacity_range.limit_bytes",
            value: limit.bytes().to_string(),
            rule: "it must not be below required_bytes",
        });
    }
    Ok(CapacityRange { required, limit })
}

/// Zero means that nothing is said.
fn bytes(count: i64, field: &'static str) -> Result<Option<Capacity>, ParseError> {
    let count = u64::try_from(count).map_err(|_| ParseError::Invalid {
        field,
        value: count.to_string(),
        rule: "it must not be negative",
    })?;
    Ok(Some(count)
        .filter(|count| *count > 0)
        .map(Capacity::from_bytes))
}

fn within_limit(field: &'static str, map: &HashMap<String, String>) -> Result<(), ParseError> {
    let size: usize = map.iter().map(|(key, value)| key.len() + value.len()).sum();
    if size > MAP_LIMIT {
        return Err(too_long(field));
    }
    Ok(())
}

fn too_long(field: &'static str) -> ParseError {
    ParseError::Invalid {
        field,
        value: "…".to_owned(),
        rule: "it must not exceed 4 KiB",
    }
}

fn required(value: String, field: &'static str) -> Result<String, ParseError> {
    if value.is_empty() {
        Err(ParseError::Missing { field })
    } else {
        Ok(value)
    }
}

fn volume_id(id: &str) -> Result<VolumeId, ParseError> {
    id.parse().map_err(|source| ParseError::Unknown {
        what: "volume",
        id: id.chars().take(SHOWN).collect(),
        source,
    })
}

/// CSI's limit for strings.
const NAME_LIMIT: usize = 128;
/// CSI's limit for maps and for all mount flags together.
const MAP_LIMIT: usize = 4096;
/// How much of a wrong value a message repeats.
const SHOWN: usize = 140;
