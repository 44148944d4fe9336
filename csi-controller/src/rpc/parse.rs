//! From CSI messages to typed input. What passes here is never looked at for form again.

use std::collections::HashMap;

use blockd_client::vocabulary::{BlockName, Capacity, FsType, Invalid, NodeId, VolumeId};
use proto::csi;
use proto::csi::volume_capability::AccessType;
use proto::csi::volume_capability::access_mode::Mode;
use proto::error::{Classify, ErrorKind};

use crate::ops::create::CreateVolume;
use crate::ops::expand::Expand;
use crate::ops::publish::Publish;
use crate::params::{ParameterError, Parameters};

/// Sizes are whole multiples of it: the largest block size, so that every file system and page size is content.
pub(super) const UNIT: u64 = 4096;
/// Size of a volume whose claim names none.
const DEFAULT_SIZE: u64 = 1 << 30;
/// The specification's limit for strings.
const NAME_BYTES: usize = 128;

/// A request that is not understood, or that this driver never serves.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ParseError {
    #[error("{field} is missing")]
    Missing { field: &'static str },
    #[error("{field} {value:?} is not valid: {rule}")]
    Invalid {
        field: &'static str,
        value: String,
        rule: &'static str,
    },
    #[error("there is no volume {id:?}")]
    UnknownVolume {
        id: String,
        #[source]
        source: Invalid,
    },
    #[error("there is no node {id:?}")]
    UnknownNode {
        id: String,
        #[source]
        source: Invalid,
    },
    #[error("{why}")]
    Unsupported { why: String },
    #[error("parameters")]
    Parameters(#[source] ParameterError),
    #[error("capacity_range: {why}")]
    Range { why: String },
}

impl Classify for ParseError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::UnknownVolume { .. } | Self::UnknownNode { .. } => ErrorKind::NotFound,
            Self::Range { .. } => ErrorKind::OutOfRange,
            Self::Missing { .. }
            | Self::Invalid { .. }
            | Self::Unsupported { .. }
            | Self::Parameters(_) => ErrorKind::InvalidArgument,
        }
    }
}

pub(super) fn create(request: csi::CreateVolumeRequest) -> Result<CreateVolume, ParseError> {
    let name = name(request.name)?;
    let usage = usages(&request.volume_capabilities)?;
    if request.volume_content_source.is_some() {
        return Err(unsupported(
            "volume_content_source: gluster-block has no snapshots or clones",
        ));
    }
    if !request.mutable_parameters.is_empty() {
        return Err(unsupported(
            "mutable_parameters: a block has none that can be changed",
        ));
    }
    let parameters = Parameters::try_from(&request.parameters).map_err(ParseError::Parameters)?;
    let (size, _) = range(request.capacity_range, DEFAULT_SIZE)?;
    Ok(CreateVolume {
        block: BlockName::derive(&name),
        size,
        parameters,
        fs_type: usage.fs_type.unwrap_or(FsType::Xfs),
    })
}

/// `None` for an id that no volume of ours can have: gone already.
pub(super) fn delete(request: csi::DeleteVolumeRequest) -> Result<Option<VolumeId>, ParseError> {
    Ok(required(request.volume_id, "volume_id")?.parse().ok())
}

pub(super) fn publish(request: csi::ControllerPublishVolumeRequest) -> Result<Publish, ParseError> {
    let id = required(request.volume_id, "volume_id")?;
    let node = required(request.node_id, "node_id")?;
    let capability = request.volume_capability.ok_or(ParseError::Missing {
        field: "volume_capability",
    })?;
    let usage = usage(&capability)?;
    if request.readonly && !usage.read_only {
        return Err(unsupported(
            "readonly: this driver publishes to a node for writing; ask for a reader's access mode, or for a read-only mount in the pod",
        ));
    }
    let id = volume_id(id)?;
    let node = node
        .parse::<NodeId>()
        .map_err(|source| ParseError::UnknownNode { id: node, source })?;
    Ok(Publish {
        id,
        node,
        read_only: usage.read_only,
        shared: usage.shared,
    })
}

/// `None` for an id that no volume of ours can have; no node for "all nodes", and for one that cannot be ours.
pub(super) fn unpublish(
    request: csi::ControllerUnpublishVolumeRequest,
) -> Result<Option<(VolumeId, Option<NodeId>)>, ParseError> {
    let id = required(request.volume_id, "volume_id")?;
    let Ok(id) = id.parse() else { return Ok(None) };
    if request.node_id.is_empty() {
        return Ok(Some((id, None)));
    }
    // A node that we do not know has nothing of ours.
    Ok(request.node_id.parse().ok().map(|node| (id, Some(node))))
}

/// What ValidateVolumeCapabilities asks.
#[derive(Debug)]
pub(super) struct Validate {
    pub(super) id: VolumeId,
    pub(super) capabilities: Vec<csi::VolumeCapability>,
    pub(super) parameters: HashMap<String, String>,
    pub(super) context: HashMap<String, String>,
    /// Why one of the capabilities is not supported.
    pub(super) unsupported: Option<String>,
}

pub(super) fn validate(
    request: csi::ValidateVolumeCapabilitiesRequest,
) -> Result<Validate, ParseError> {
    let id = required(request.volume_id, "volume_id")?;
    if request.volume_capabilities.is_empty() {
        return Err(ParseError::Missing {
            field: "volume_capabilities",
        });
    }
    let parameters = Parameters::try_from(&request.parameters)
        .err()
        .map(|error| error.to_string());
    let unsupported = usages(&request.volume_capabilities)
        .err()
        .map(|error| error.to_string());
    Ok(Validate {
        id: volume_id(id)?,
        unsupported: unsupported.or(parameters),
        capabilities: request.volume_capabilities,
        parameters: request.parameters,
        context: request.volume_context,
    })
}

pub(super) fn list(request: csi::ListVolumesRequest) -> Result<(String, usize), ParseError> {
    let limit = usize::try_from(request.max_entries).map_err(|_| ParseError::Invalid {
        field: "max_entries",
        value: request.max_entries.to_string(),
        rule: "zero for no limit, or a number of entries",
    })?;
    Ok((request.starting_token, limit))
}

/// False when volumes of that kind cannot be had at all.
pub(super) fn capacity(request: &csi::GetCapacityRequest) -> Result<bool, ParseError> {
    Parameters::try_from(&request.parameters).map_err(ParseError::Parameters)?;
    Ok(request.volume_capabilities.is_empty() || usages(&request.volume_capabilities).is_ok())
}

pub(super) fn expand(request: csi::ControllerExpandVolumeRequest) -> Result<Expand, ParseError> {
    let id = required(request.volume_id, "volume_id")?;
    if request.capacity_range.is_none() {
        return Err(ParseError::Missing {
            field: "capacity_range",
        });
    }
    let (size, limit) = range(request.capacity_range, UNIT)?;
    if let Some(capability) = &request.volume_capability {
        usage(capability)?;
    }
    Ok(Expand {
        id: volume_id(id)?,
        size,
        limit,
    })
}

/// The size to make: the required one, else the limit's or the default, rounded up to whole units.
///
/// | required | limit | size |
/// |---|---|---|
/// | negative, or limit negative | | INVALID_ARGUMENT |
/// | 0 | 0 | the default |
/// | 0 | l | the smaller of default and l, rounded down |
/// | r | 0 | r rounded up |
/// | r | l < r rounded up | OUT_OF_RANGE |
/// | r | l | r rounded up |
fn range(
    range: Option<csi::CapacityRange>,
    default: u64,
) -> Result<(Capacity, Option<Capacity>), ParseError> {
    let range = range.unwrap_or_default();
    let bytes = |value: i64, field| {
        u64::try_from(value).map_err(|_| ParseError::Invalid {
            field,
            value: value.to_string(),
            rule: "a number of bytes, zero or above",
        })
    };
    let required = bytes(range.required_bytes, "capacity_range.required_bytes")?;
    let limit = bytes(range.limit_bytes, "capacity_range.limit_bytes")?;
    let wanted = match (required, limit) {
        (0, 0) => default,
        (0, limit) => default.min(limit / UNIT * UNIT),
        (required, _) => required,
    };
    let too_large = || ParseError::Range {
        why: format!("{required} bytes are more than any volume can have"),
    };
    let size = Capacity::from_bytes(wanted)
        .round_up(Capacity::from_bytes(UNIT))
        .ok_or_else(too_large)?;
    if size.bytes() > i64::MAX.unsigned_abs() {
        return Err(too_large());
    }
    if size.bytes() == 0 || (limit > 0 && size.bytes() > limit) {
        let why = format!(
            "no multiple of {UNIT} bytes lies between required_bytes {required} and limit_bytes {limit}"
        );
        return Err(ParseError::Range { why });
    }
    Ok((size, (limit > 0).then(|| Capacity::from_bytes(limit))))
}

/// A capability, understood.
struct Usage {
    fs_type: Option<FsType>,
    read_only: bool,
    shared: bool,
}

/// | access mode | readers only | several nodes |
/// |---|---|---|
/// | `SINGLE_NODE_WRITER`, `SINGLE_NODE_SINGLE_WRITER`, `SINGLE_NODE_MULTI_WRITER` | no | no |
/// | `SINGLE_NODE_READER_ONLY` | yes | no |
/// | `MULTI_NODE_READER_ONLY` | yes | yes |
/// | `MULTI_NODE_SINGLE_WRITER`, `MULTI_NODE_MULTI_WRITER` | refused: gluster-block is active/passive | |
fn usage(capability: &csi::VolumeCapability) -> Result<Usage, ParseError> {
    let mode = capability
        .access_mode
        .ok_or(ParseError::Missing {
            field: "volume_capability.access_mode",
        })?
        .mode();
    let (read_only, shared) = match mode {
        Mode::SingleNodeWriter | Mode::SingleNodeSingleWriter | Mode::SingleNodeMultiWriter => {
            (false, false)
        }
        Mode::SingleNodeReaderOnly => (true, false),
        Mode::MultiNodeReaderOnly => (true, true),
        Mode::MultiNodeSingleWriter | Mode::MultiNodeMultiWriter => {
            let why = format!(
                "access mode {} is not supported: a gluster-block volume has one writing node at a time; allowed are SINGLE_NODE_* and MULTI_NODE_READER_ONLY",
                mode.as_str_name()
            );
            return Err(ParseError::Unsupported { why });
        }
        Mode::Unknown => {
            return Err(ParseError::Invalid {
                field: "volume_capability.access_mode",
                value: mode.as_str_name().to_owned(),
                rule: "one of the modes of CSI",
            });
        }
    };
    let access = capability.access_type.as_ref().ok_or(ParseError::Missing {
        field: "volume_capability.access_type",
    })?;
    let fs_type = match access {
        AccessType::Mount(mount) if !mount.fs_type.is_empty() => {
            Some(mount.fs_type.parse().map_err(|_| ParseError::Invalid {
                field: "volume_capability.mount.fs_type",
                value: mount.fs_type.clone(),
                rule: "xfs or ext4",
            })?)
        }
        AccessType::Mount(_) | AccessType::Block(_) => None,
    };
    Ok(Usage {
        fs_type,
        read_only,
        shared,
    })
}

/// All capabilities of a volume; the file system is the first that is named.
fn usages(capabilities: &[csi::VolumeCapability]) -> Result<Usage, ParseError> {
    let mut all: Option<Usage> = None;
    for capability in capabilities {
        let usage = usage(capability)?;
        all = Some(match all {
            Some(first) => Usage {
                fs_type: first.fs_type.or(usage.fs_type),
                ..first
            },
            None => usage,
        });
    }
    all.ok_or(ParseError::Missing {
        field: "volume_capabilities",
    })
}

/// Any Unicode up to 128 bytes, except the control characters that the specification excludes.
fn name(name: String) -> Result<String, ParseError> {
    let name = required(name, "name")?;
    let excluded = |c: char| matches!(c, '\u{0}'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{7f}'..='\u{9f}');
    if name.len() > NAME_BYTES || name.chars().any(excluded) {
        return Err(ParseError::Invalid {
            field: "name",
            value: name.chars().take(NAME_BYTES).collect(),
            rule: "up to 128 bytes of Unicode without control characters",
        });
    }
    Ok(name)
}

fn volume_id(id: String) -> Result<VolumeId, ParseError> {
    id.parse()
        .map_err(|source| ParseError::UnknownVolume { id, source })
}

fn required(value: String, field: &'static str) -> Result<String, ParseError> {
    if value.is_empty() {
        Err(ParseError::Missing { field })
    } else {
        Ok(value)
    }
}

fn unsupported(why: &str) -> ParseError {
    ParseError::Unsupported {
        why: why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sized(required_bytes: i64, limit_bytes: i64) -> Result<u64, ParseError> {
        range(
            Some(csi::CapacityRange {
                required_bytes,
                limit_bytes,
            }),
            DEFAULT_SIZE,
        )
        .map(|(size, _)| size.bytes())
    }

    #[test]
    fn sizes_are_rounded_up_to_whole_units_and_never_above_the_limit() {
        assert_eq!(sized(0, 0), Ok(DEFAULT_SIZE));
        assert_eq!(sized(1, 0), Ok(4096));
        assert_eq!(sized(4097, 0), Ok(8192));
        assert_eq!(sized(0, 10_000), Ok(8192));
        assert_eq!(sized(5000, 9000), Ok(8192));
    }

    #[test]
    fn impossible_sizes_are_out_of_range_and_wrong_ones_invalid() {
        for (required, limit, kind) in [
            (5000, 6000, ErrorKind::OutOfRange),
            (0, 4000, ErrorKind::OutOfRange),
            (i64::MAX, 0, ErrorKind::OutOfRange),
            (-1, 0, ErrorKind::InvalidArgument),
            (0, -1, ErrorKind::InvalidArgument),
        ] {
            assert_eq!(
                sized(required, limit).unwrap_err().kind(),
                kind,
                "{required} {limit}"
            );
        }
    }

    #[test]
    fn names_of_any_script_are_taken_and_control_characters_refused() {
        assert!(name("データベース-é".to_owned()).is_ok());
        assert!(name("a".repeat(128)).is_ok());
        assert!(name("a".repeat(129)).is_err());
        assert!(name("a\u{7}b".to_owned()).is_err());
        assert!(name("tab\tis fine".to_owned()).is_ok());
    }
}
