//! Identity of a block on the wire: UUID, target name, map id, portals.
//!
//! Everything follows from the [`Gbid`]: the target name on every host and the WWID that the kernel and
//! multipath must show. A device with another WWID is not this block.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Invalid;

/// The port of every gluster-block portal.
pub const ISCSI_PORT: u16 = 3260;

const IQN_PREFIX: &str = "iqn.2016-12.org.gluster-block:";

/// NAA type 6 with LIO's company id; the first 25 hex digits of the GBID follow.
const NAA_PREFIX: &str = "6001405";

/// The UUID that gluster-block gave to a block. Also the CHAP user name.
///
/// Parsed only in the form gluster-block prints (lower case, hyphens): target names are compared as
/// text, so another spelling would not be the same target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Gbid(Uuid);

impl Gbid {
    /// Takes a UUID as a GBID.
    #[must_use]
    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// The target name on every host.
    #[must_use]
    pub fn iqn(&self) -> Iqn {
        Iqn(*self)
    }

    /// The id that every path and the map of this block must carry.
    #[must_use]
    pub fn wwid(&self) -> Wwid {
        Wwid(format!("3{}", self.naa_hex()))
    }

    /// The NAA designator of INQUIRY page 0x83 as 32 lower-case hex digits: the WWID without its leading `3`.
    #[must_use]
    pub fn naa_hex(&self) -> String {
        let digits: String = self.0.simple().to_string().chars().take(25).collect();
        format!("{NAA_PREFIX}{digits}")
    }
}

/// The iSCSI name of a gluster-block target. Holds no other target's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Iqn(Gbid);

impl Iqn {
    /// The block behind the target.
    #[must_use]
    pub fn gbid(&self) -> Gbid {
        self.0
    }
}

/// The multipath id of a block's map: `3` + NAA, 33 characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Wwid(String);

impl Wwid {
    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The NAA designator: the id without its leading `3`.
    #[must_use]
    pub fn naa_hex(&self) -> &str {
        self.0.strip_prefix('3').unwrap_or(&self.0)
    }
}

/// The address of a storage host. gluster-block takes IPv4 only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostAddress(Ipv4Addr);

impl HostAddress {
    /// Takes an address as a host's.
    #[must_use]
    pub const fn new(address: Ipv4Addr) -> Self {
        Self(address)
    }

    /// The address.
    #[must_use]
    pub const fn ip(self) -> Ipv4Addr {
        self.0
    }

    /// The host's iSCSI portal.
    #[must_use]
    pub const fn portal(self) -> Portal {
        Portal {
            address: self,
            port: ISCSI_PORT,
        }
    }
}

/// Where to log in: `address:port`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Portal {
    /// The host.
    pub address: HostAddress,
    /// The TCP port, 3260 with gluster-block.
    pub port: u16,
}

impl FromStr for Gbid {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let rule = "expected a lower-case UUID such as 7f9aa1b2-aba7-4c77-9a5b-02a3ed562b15";
        match Uuid::try_parse(text) {
            Ok(uuid) if uuid.hyphenated().to_string() == text => Ok(Self(uuid)),
            Ok(_) | Err(_) => Err(Invalid::new("GBID", text, rule)),
        }
    }
}

impl FromStr for Iqn {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let rule = "expected iqn.2016-12.org.gluster-block:<GBID>";
        let gbid = text
            .strip_prefix(IQN_PREFIX)
            .and_then(|gbid| gbid.parse().ok());
        gbid.map(Self)
            .ok_or_else(|| Invalid::new("target name", text, rule))
    }
}

impl FromStr for Wwid {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        let digits = text
            .strip_prefix('3')
            .and_then(|naa| naa.strip_prefix(NAA_PREFIX));
        match digits {
            Some(digits) if digits.len() == 25 && digits.bytes().all(is_hex) => {
                Ok(Self(text.to_owned()))
            }
            Some(_) | None => Err(Invalid::new(
                "WWID",
                text,
                "expected 36001405 and 25 lower-case hex digits",
            )),
        }
    }
}

impl FromStr for HostAddress {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let rule = "expected an IPv4 address; gluster-block takes neither host names nor IPv6";
        text.parse()
            .map(Self)
            .map_err(|_| Invalid::new("host address", text, rule))
    }
}

impl FromStr for Portal {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let refused = || Invalid::new("portal", text, "expected <IPv4 address>:<port>");
        let (address, port) = text.split_once(':').ok_or_else(refused)?;
        if port.is_empty() || !port.bytes().all(|b| b.is_ascii_digit()) {
            return Err(refused());
        }
        let port = port
            .parse()
            .ok()
            .filter(|port| *port != 0)
            .ok_or_else(refused)?;
        Ok(Self {
            address: address.parse()?,
            port,
        })
    }
}

impl fmt::Display for Gbid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.hyphenated())
    }
}

impl fmt::Display for Iqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{IQN_PREFIX}{}", self.0)
    }
}

impl fmt::Display for Wwid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for HostAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for Portal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.address, self.port)
    }
}

impl TryFrom<String> for Gbid {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl TryFrom<String> for Iqn {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl TryFrom<String> for Wwid {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl TryFrom<String> for HostAddress {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl TryFrom<String> for Portal {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<Gbid> for String {
    fn from(gbid: Gbid) -> Self {
        gbid.to_string()
    }
}

impl From<Iqn> for String {
    fn from(iqn: Iqn) -> Self {
        iqn.to_string()
    }
}

impl From<Wwid> for String {
    fn from(wwid: Wwid) -> Self {
        wwid.0
    }
}

impl From<HostAddress> for String {
    fn from(host: HostAddress) -> Self {
        host.to_string()
    }
}

impl From<Portal> for String {
    fn from(portal: Portal) -> Self {
        portal.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GBID: &str = "7f9aa1b2-aba7-4c77-9a5b-02a3ed562b15";

    #[test]
    fn name_and_wwid_follow_from_the_gbid() {
        let gbid: Gbid = GBID.parse().unwrap();
        assert_eq!(
            gbid.iqn().to_string(),
            format!("iqn.2016-12.org.gluster-block:{GBID}")
        );
        assert_eq!(gbid.wwid().as_str(), "360014057f9aa1b2aba74c779a5b02a3e");
        assert_eq!(gbid.naa_hex(), "60014057f9aa1b2aba74c779a5b02a3e");
        assert_eq!(gbid.wwid().naa_hex(), gbid.naa_hex());
        assert_eq!(gbid.iqn().gbid(), gbid);
    }

    #[test]
    fn another_spelling_of_a_gbid_is_refused() {
        let upper = GBID.to_uppercase();
        let simple = GBID.replace('-', "");
        let braced = format!("{{{GBID}}}");
        for bad in [
            "",
            "x",
            &upper,
            &simple,
            &braced,
            &format!("{GBID} "),
            &format!("urn:uuid:{GBID}"),
        ] {
            assert!(bad.parse::<Gbid>().is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn only_gluster_block_targets_are_targets() {
        for bad in [
            GBID.to_owned(),
            format!("iqn.2016-12.org.gluster-block:{}", GBID.to_uppercase()),
            format!("iqn.2003-01.org.linux-iscsi:{GBID}"),
            format!("iqn.2016-12.org.gluster-block:{GBID},t,0x1"),
        ] {
            assert!(bad.parse::<Iqn>().is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn hosts_are_ipv4_addresses() {
        assert_eq!(
            "10.77.1.11"
                .parse::<HostAddress>()
                .unwrap()
                .portal()
                .to_string(),
            "10.77.1.11:3260"
        );
        for bad in [
            "",
            "localhost",
            "::1",
            "10.77.1",
            "010.0.0.1",
            "10.77.1.11 ",
            "10.77.1.11:3260",
        ] {
            assert!(bad.parse::<HostAddress>().is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn portals_are_address_and_port() {
        for bad in [
            "",
            ":",
            "10.0.0.1",
            "10.0.0.1:",
            "10.0.0.1:0",
            "10.0.0.1:65536",
            "10.0.0.1:+1",
            "x:3260",
        ] {
            assert!(bad.parse::<Portal>().is_err(), "{bad:?} was taken");
        }
        assert_eq!("10.0.0.1:3261".parse::<Portal>().unwrap().port, 3261);
    }

    proptest! {
        #[test]
        fn every_gbid_comes_back_through_each_form(bits in any::<u128>()) {
            let gbid = Gbid::from_uuid(Uuid::from_u128(bits));
            prop_assert_eq!(gbid.to_string().parse::<Gbid>().unwrap(), gbid);
            prop_assert_eq!(gbid.iqn().to_string().parse::<Iqn>().unwrap(), gbid.iqn());
            prop_assert_eq!(gbid.wwid().to_string().parse::<Wwid>().unwrap(), gbid.wwid());
            prop_assert_eq!(gbid.wwid().as_str().len(), 33);
        }

        #[test]
        fn every_portal_comes_back(bits in any::<u32>(), port in 1_u16..) {
            let portal = Portal { address: HostAddress::new(Ipv4Addr::from_bits(bits)), port };
            prop_assert_eq!(portal.to_string().parse::<Portal>().unwrap(), portal);
        }

        #[test]
        fn parsing_never_panics(text in ".*") {
            let _ = text.parse::<Gbid>();
            let _ = text.parse::<Iqn>();
            let _ = text.parse::<Wwid>();
            let _ = text.parse::<Portal>();
        }
    }
}
