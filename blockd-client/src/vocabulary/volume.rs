//! Names of hosting volumes and blocks, and the volume id made of both.
//!
//! The rules are gluster-block's, tightened: it takes `[A-Za-z0-9_-]` up to 254 bytes, but a block name also
//! becomes the name of a kernel storage object and part of a kernel configuration string with a limit
//! of its own, and the volume id must fit CSI's 128 bytes. Hence 63 bytes for each. A leading dash is
//! refused so that no name can be taken for an option.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Invalid;

const NAME_LIMIT: usize = 63;
const NAME_RULE: &str =
    "use 1 to 63 of the characters A-Z a-z 0-9 _ - and do not begin with a dash";

/// Prefix of block names that were derived, because the CSI name is not a legal block name.
const DERIVED: &str = "csi-";

/// Namespace of derived block names. Never change it: a retried create would not find its block.
const NAMESPACE: Uuid = Uuid::from_u128(0x6f2c_0a51_94b7_4f0e_9d3b_5e8a_71c4_2d96);

/// A `GlusterFS` volume that holds blocks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostingVolume(String);

impl HostingVolume {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The name of one block. Unique per storage host over all hosting volumes, and never used twice.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BlockName(String);

impl BlockName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The block name for a CSI volume name: the same on every retry, different for different names.
    ///
    /// | CSI name                                         | block name           |
    /// |--------------------------------------------------|----------------------|
    /// | legal, at most 63 bytes, not beginning with `csi-` | the name itself    |
    /// | anything else                                    | `csi-` + UUID v5 of it |
    ///
    /// The two rows cannot meet, so distinct CSI names never share a block.
    #[must_use]
    pub fn derive(csi_name: &str) -> Self {
        if is_name(csi_name) && !csi_name.starts_with(DERIVED) {
            return Self(csi_name.to_owned());
        }
        let digest = Uuid::new_v5(&NAMESPACE, csi_name.as_bytes());
        Self(format!("{DERIVED}{}", digest.hyphenated()))
    }
}

/// One block: its hosting volume and its name. Displayed as `<hosting volume>/<block>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VolumeId {
    /// Where the block lives.
    pub hosting_volume: HostingVolume,
    /// The block.
    pub block: BlockName,
}

impl VolumeId {
    /// Puts the two names together.
    #[must_use]
    pub fn new(hosting_volume: HostingVolume, block: BlockName) -> Self {
        Self {
            hosting_volume,
            block,
        }
    }
}

fn is_name(text: &str) -> bool {
    (1..=NAME_LIMIT).contains(&text.len())
        && !text.starts_with('-')
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

impl FromStr for HostingVolume {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        if is_name(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(Invalid::new("hosting volume name", text, NAME_RULE))
        }
    }
}

impl FromStr for BlockName {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        if is_name(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(Invalid::new("block name", text, NAME_RULE))
        }
    }
}

impl FromStr for VolumeId {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let Some((hosting_volume, block)) = text.split_once('/') else {
            return Err(Invalid::new(
                "volume id",
                text,
                "expected <hosting volume>/<block>",
            ));
        };
        Ok(Self {
            hosting_volume: hosting_volume.parse()?,
            block: block.parse()?,
        })
    }
}

impl fmt::Display for HostingVolume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for BlockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.hosting_volume, self.block)
    }
}

impl TryFrom<String> for HostingVolume {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl TryFrom<String> for BlockName {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl TryFrom<String> for VolumeId {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<HostingVolume> for String {
    fn from(name: HostingVolume) -> Self {
        name.0
    }
}

impl From<BlockName> for String {
    fn from(name: BlockName) -> Self {
        name.0
    }
}

impl From<VolumeId> for String {
    fn from(id: VolumeId) -> Self {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_legal_csi_name_is_the_block_name() {
        let name = "pvc-0b3c5f7e-8f0e-4c55-9a41-0f4f6e5a1b2c";
        assert_eq!(BlockName::derive(name).as_str(), name);
    }

    #[test]
    fn other_csi_names_become_a_fixed_uuid() {
        for name in [
            "",
            "a.b",
            "-dash",
            "csi-mine",
            "ü",
            "a/b",
            &"x".repeat(64),
            &"ü".repeat(128),
        ] {
            let derived = BlockName::derive(name);
            assert!(
                derived.as_str().starts_with("csi-"),
                "{name:?} gave {derived}"
            );
            assert_eq!(derived.as_str().len(), 40);
        }
        // Written down so that a change of the namespace, which would orphan blocks, fails here.
        assert_eq!(
            BlockName::derive("a.b").as_str(),
            "csi-2bb5d2a9-03bd-5402-8d30-2f476f7c78b5"
        );
    }

    #[test]
    fn a_volume_id_is_two_names_and_one_slash() {
        for bad in [
            "", "/", "hv", "hv/", "/b", "hv/b/c", "hv//b", "h v/b", "hv/b.c", "-hv/b", "hv/-b",
        ] {
            assert!(bad.parse::<VolumeId>().is_err(), "{bad:?} was taken");
        }
        let message = "hv/b.c".parse::<VolumeId>().unwrap_err().to_string();
        assert!(
            message.contains("b.c") && message.contains("A-Z a-z 0-9 _ -"),
            "{message}"
        );
    }

    #[test]
    fn names_over_63_bytes_are_refused() {
        assert!("x".repeat(63).parse::<HostingVolume>().is_ok());
        assert!("x".repeat(64).parse::<HostingVolume>().is_err());
        assert!("x".repeat(64).parse::<BlockName>().is_err());
    }

    proptest! {
        #[test]
        fn every_volume_id_comes_back_and_fits_128_bytes(text in "[A-Za-z0-9_][A-Za-z0-9_-]{0,62}/[A-Za-z0-9_][A-Za-z0-9_-]{0,62}") {
            let id: VolumeId = text.parse().unwrap();
            prop_assert_eq!(id.to_string(), text.clone());
            prop_assert!(text.len() <= 128);
            let json = serde_json::to_string(&id).unwrap();
            prop_assert_eq!(serde_json::from_str::<VolumeId>(&json).unwrap(), id);
        }

        #[test]
        fn any_csi_name_derives_to_a_legal_name(name in ".{0,128}") {
            let derived = BlockName::derive(&name);
            prop_assert_eq!(derived.as_str().parse::<BlockName>().unwrap(), derived.clone());
            prop_assert_eq!(BlockName::derive(&name), derived);
        }

        #[test]
        fn distinct_csi_names_derive_to_distinct_names(a in ".{0,40}", b in ".{0,40}") {
            prop_assume!(a != b);
            prop_assert_ne!(BlockName::derive(&a), BlockName::derive(&b));
        }

        #[test]
        fn parsing_never_panics(text in ".*") {
            let _ = text.parse::<VolumeId>();
        }
    }
}
