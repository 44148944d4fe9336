//! Who logs in to a target: initiator names, and the CSI node id that carries one.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Invalid;

/// Longest iSCSI name (RFC 7143 §4.2.7).
const INITIATOR_LIMIT: usize = 223;

/// Longest node id that CSI allows.
const NODE_ID_LIMIT: usize = 256;

/// The iSCSI name of an initiator, in lower case.
///
/// Names are case-insensitive and the kernel's target keeps them in lower case, so this type does too: a name
/// from a node compares equal to the same name in a target's list of sessions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Initiator(String);

impl Initiator {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The CSI id of a node: `<node name>/<initiator name>`.
///
/// It carries the initiator, so that the controller can tell a node's sessions without asking anyone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeId {
    name: String,
    initiator: Initiator,
}

impl NodeId {
    /// Puts a node's name and its initiator together.
    ///
    /// # Errors
    ///
    /// The name is not one of a node, or both together exceed CSI's 256 bytes.
    pub fn new(name: &str, initiator: Initiator) -> Result<Self, Invalid> {
        let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
        if name.is_empty() || !name.bytes().all(legal) {
            let rule = "use the characters A-Z a-z 0-9 . _ -";
            return Err(Invalid::new("node name", name, rule));
        }
        let id = Self {
            name: name.to_owned(),
            initiator,
        };
        if id.to_string().len() > NODE_ID_LIMIT {
            let rule = "node name and initiator name together must not exceed 255 bytes";
            return Err(Invalid::new("node id", &id.to_string(), rule));
        }
        Ok(id)
    }

    /// The node's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The node's initiator.
    #[must_use]
    pub fn initiator(&self) -> &Initiator {
        &self.initiator
    }
}

impl FromStr for Initiator {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let name = text.to_ascii_lowercase();
        if is_iscsi_name(&name) {
            Ok(Self(name))
        } else {
            let rule = "expected iqn.<year>-<month>.<domain>[:<anything>], eui.<16 hex digits> or naa.<16 or 32>";
            Err(Invalid::new("initiator name", text, rule))
        }
    }
}

impl FromStr for NodeId {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let rule = "expected <node name>/<initiator name>";
        let (name, initiator) = text
            .split_once('/')
            .ok_or_else(|| Invalid::new("node id", text, rule))?;
        Self::new(name, initiator.parse()?)
    }
}

/// Checks a lower-case name against RFC 7143 §4.2.7, as far as ASCII goes.
fn is_iscsi_name(name: &str) -> bool {
    if name.len() > INITIATOR_LIMIT {
        return false;
    }
    let all = |text: &str, legal: fn(u8) -> bool| !text.is_empty() && text.bytes().all(legal);
    let hex = |text: &str| all(text, |b| b.is_ascii_hexdigit());
    let digits = |text: Option<&str>| text.is_some_and(|text| all(text, |b| b.is_ascii_digit()));
    if let Some(digits) = name.strip_prefix("eui.") {
        return digits.len() == 16 && hex(digits);
    }
    if let Some(digits) = name.strip_prefix("naa.") {
        return matches!(digits.len(), 16 | 32) && hex(digits);
    }
    let Some(rest) = name.strip_prefix("iqn.") else {
        return false;
    };
    let Some((date, owner)) = rest.split_once('.') else {
        return false;
    };
    date.len() == 7
        && digits(date.get(..4))
        && date.get(4..5) == Some("-")
        && digits(date.get(5..))
        && all(owner, |b| {
            b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b':' | b'_')
        })
}

impl fmt::Display for Initiator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.initiator)
    }
}

impl TryFrom<String> for Initiator {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl TryFrom<String> for NodeId {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<Initiator> for String {
    fn from(initiator: Initiator) -> Self {
        initiator.0
    }
}

impl From<NodeId> for String {
    fn from(id: NodeId) -> Self {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn initiator_names_of_the_known_forms_are_taken() {
        for name in [
            "iqn.1993-08.org.debian:01:5b6e1a2c3d4",
            "iqn.1994-05.com.redhat:node-1",
            "iqn.2005-03.org.open-iscsi",
            "eui.02004567a425678d",
            "naa.52004567ba64678d",
        ] {
            assert_eq!(name.parse::<Initiator>().unwrap().as_str(), name);
        }
    }

    #[test]
    fn case_does_not_matter() {
        let shouted: Initiator = "IQN.1993-08.org.Debian:01:AB".parse().unwrap();
        assert_eq!(shouted, "iqn.1993-08.org.debian:01:ab".parse().unwrap());
    }

    #[test]
    fn other_texts_are_no_initiators() {
        let long = format!("iqn.1993-08.org.debian:{}", "x".repeat(201));
        for bad in [
            "",
            "iqn.",
            "iqn.1993.org",
            "iqn.1993-08",
            "iqn.1993-08.",
            "iqn.93-08.org.debian",
            "iqn.1993-08.org.debian:a b",
            "iqn.1993-08.org.debian:a\n",
            "iqn.1993-08.org/x",
            "eui.1",
            "naa.zz",
            &long,
        ] {
            assert!(bad.parse::<Initiator>().is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn a_node_id_over_256_bytes_is_refused() {
        let initiator: Initiator = "iqn.1993-08.org.debian:01:ab".parse().unwrap();
        assert!(NodeId::new(&"n".repeat(200), initiator.clone()).is_ok());
        let message = NodeId::new(&"n".repeat(253), initiator.clone())
            .unwrap_err()
            .to_string();
        assert!(message.contains("255 bytes"), "{message}");
        assert!(NodeId::new("a/b", initiator.clone()).is_err());
        assert!(NodeId::new("", initiator).is_err());
    }

    proptest! {
        #[test]
        fn every_node_id_comes_back(name in "[a-z0-9][a-z0-9.-]{0,60}", suffix in "[a-z0-9:.-]{1,60}") {
            let initiator: Initiator = format!("iqn.1993-08.org.debian:{suffix}").parse().unwrap();
            let id = NodeId::new(&name, initiator).unwrap();
            prop_assert_eq!(id.to_string().parse::<NodeId>().unwrap(), id);
        }

        #[test]
        fn parsing_never_panics(text in ".*") {
            let _ = text.parse::<NodeId>();
            let _ = format!("iqn.{text}").parse::<Initiator>();
        }
    }
}
