//! From a map to a mounted file system, without ever destroying anything.

use blockd_client::vocabulary::FsType;

use super::{StageError, Step, Tried};
use crate::host::{Content, Map, Proof};
use crate::ops::observe::Seen;
use crate::record::FormatMarker;

/// Chooses the next action towards a mount.
///
/// Before anything else: a map that is mounted somewhere else, or that something stands on, is refused; and the content
/// is probed until two probes in a row agree when they would lead to a format (F01).
///
/// | content           | our format marker | next                                                                |
/// |-------------------|-------------------|---------------------------------------------------------------------|
/// | the wanted system | any               | `Check` (not for readers, not when just made), then `Mount`         |
/// | another system    | any               | refuse                                                              |
/// | something foreign | any               | refuse                                                              |
/// | blank             | none              | `MarkFormat`, then `Format`                                         |
/// | blank             | started           | `Format`                                                            |
/// | not blank         | started           | `Format`: it can only be our own unfinished one (F03)               |
/// | not blank         | none              | refuse (F03)                                                        |
/// | blank, not blank  | finished          | refuse: what was there is gone, and a format would hide that        |
/// | blank, not blank  | any, for readers  | refuse: there is nothing to read                                    |
///
/// A format of ours that another node may have finished and used meanwhile shows a file system, and is then mounted.
///
/// # Errors
///
/// The rows that refuse.
pub(super) fn next_step(
    fs: FsType,
    read_only: bool,
    map: &Map,
    seen: &Seen,
    marker: FormatMarker,
    tried: &Tried,
) -> Result<Step, StageError> {
    let elsewhere: Vec<String> = seen
        .mounts_of(map)
        .map(|entry| entry.mountpoint.display().to_string())
        .collect();
    if !elsewhere.is_empty() {
        return Err(StageError::MountedElsewhere {
            map: map.name.clone(),
            paths: elsewhere.join(", "),
        });
    }
    if !map.holders.is_empty() {
        return Err(StageError::Held {
            map: map.name.clone(),
            holders: map.holders.join(", "),
        });
    }
    let Some(content) = &tried.content else {
        return Ok(Step::Probe(map.clone()));
    };
    let proof = match content {
        Content::Filesystem(found) if *found == fs => {
            let check = !(read_only || tried.fresh || tried.checked);
            return Ok(if check {
                Step::Check(map.clone(), fs)
            } else {
                Step::Mount(map.clone(), fs)
            });
        }
        Content::Filesystem(found) => {
            return Err(StageError::OtherFilesystem {
                found: *found,
                wanted: fs,
            });
        }
        Content::Foreign(found) => {
            return Err(StageError::Foreign {
                found: found.clone(),
            });
        }
        Content::Blank | Content::NotBlank if read_only => return Err(StageError::NothingToRead),
        Content::Blank => Proof::Blank,
        Content::NotBlank => Proof::OurUnfinishedFormat,
    };
    match (marker, proof) {
        (FormatMarker::Finished, _) => Err(StageError::Vanished { fs }),
        (FormatMarker::None, Proof::OurUnfinishedFormat) => Err(StageError::NotBlank),
        (FormatMarker::None, Proof::Blank) => Ok(Step::MarkFormat),
        (FormatMarker::Started, _) if tried.probes < PROBES => Ok(Step::Probe(map.clone())),
        (FormatMarker::Started, proof) => Ok(Step::Format(map.clone(), fs, proof)),
    }
}

/// How many probes in a row must agree before a format.
const PROBES: u32 = 2;
