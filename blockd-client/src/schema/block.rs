//! A block in the agent's API: as wanted, and as seen.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::block::{BlockInfo, CreateBlock, Prealloc};
use crate::vocabulary::{
    BlockName, Capacity, ChapPassword, Gbid, HostAddress, HostingVolume, Iqn, VolumeId, Wwid,
};

/// A block to make. Its name is in the path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewBlock {
    /// Its size: whole sectors of 512 bytes and of `blockSize`.
    pub size_bytes: u64,
    /// The hosts that export it, each once.
    pub hosts: Vec<HostAddress>,
    /// Whether initiators must log in with CHAP.
    pub auth: bool,
    /// Whether its file is filled at once.
    pub prealloc: Preallocation,
    /// Bytes of a logical block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_size: Option<u32>,
    /// How long the target waits for the hosting volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_timeout_seconds: Option<u64>,
    /// Megabytes of the ring between kernel and tcmu-runner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring_buffer_megabytes: Option<u32>,
}

/// See [`Prealloc`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preallocation {
    /// Filled with zeros before the block is ready.
    Full,
    /// Space is taken as it is written.
    No,
}

/// The size that a block is to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewSize {
    /// Whole bytes.
    pub size_bytes: u64,
}

/// A block as the agent sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Block {
    /// The hosting volume.
    pub hosting_volume: HostingVolume,
    /// Its name.
    pub name: BlockName,
    /// Its UUID, also the CHAP user.
    pub gbid: Gbid,
    /// Its target.
    pub iqn: Iqn,
    /// The id of its multipath map.
    pub wwid: Wwid,
    /// Its size as gluster-block prints it, with one decimal.
    pub printed_size: String,
    /// Its size in bytes, if this host exports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// How many hosts should export it.
    pub ha: u32,
    /// The hosts that export it.
    pub exported_on: Vec<HostAddress>,
    /// The hosts on which configuration or clean-up failed.
    #[serde(default)]
    pub failing: Vec<HostAddress>,
    /// The hosts that still show an old size, and which.
    #[serde(default)]
    pub lagging: BTreeMap<HostAddress, String>,
    /// Whether initiators must log in with CHAP.
    pub auth: bool,
    /// The CHAP password; for the controller only.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "password")]
    pub password: Option<ChapPassword>,
}

impl NewBlock {
    /// The block under the name it gets.
    #[must_use]
    pub fn named(self, id: VolumeId) -> CreateBlock {
        CreateBlock {
            id,
            size: Capacity::from_bytes(self.size_bytes),
            hosts: self.hosts,
            auth: self.auth,
            prealloc: match self.prealloc {
                Preallocation::Full => Prealloc::Full,
                Preallocation::No => Prealloc::No,
            },
            block_size: self.block_size,
            io_timeout: self.io_timeout_seconds.map(Duration::from_secs),
            ring_buffer: self.ring_buffer_megabytes,
        }
    }
}

impl From<&CreateBlock> for NewBlock {
    fn from(wanted: &CreateBlock) -> Self {
        Self {
            size_bytes: wanted.size.bytes(),
            hosts: wanted.hosts.clone(),
            auth: wanted.auth,
            prealloc: match wanted.prealloc {
                Prealloc::Full => Preallocation::Full,
                Prealloc::No => Preallocation::No,
            },
            block_size: wanted.block_size,
            io_timeout_seconds: wanted.io_timeout.map(|timeout| timeout.as_secs()),
            ring_buffer_megabytes: wanted.ring_buffer,
        }
    }
}

impl Block {
    /// The same without its password.
    #[must_use]
    pub fn without_password(self) -> Self {
        Self {
            password: None,
            ..self
        }
    }
}

impl From<BlockInfo> for Block {
    fn from(info: BlockInfo) -> Self {
        Self {
            hosting_volume: info.id.hosting_volume,
            name: info.id.block,
            gbid: info.gbid,
            iqn: info.gbid.iqn(),
            wwid: info.gbid.wwid(),
            printed_size: info.printed_size,
            size_bytes: None,
            ha: info.ha,
            exported_on: info.exported_on,
            failing: info.failing,
            lagging: info.lagging,
            auth: info.password.is_some(),
            password: info.password,
        }
    }
}

impl From<Block> for BlockInfo {
    fn from(block: Block) -> Self {
        Self {
            id: VolumeId::new(block.hosting_volume, block.name),
            gbid: block.gbid,
            printed_size: block.printed_size,
            ha: block.ha,
            exported_on: block.exported_on,
            failing: block.failing,
            lagging: block.lagging,
            password: block.password,
        }
    }
}

/// The one place where a password becomes text.
mod password {
    use serde::{Deserialize as _, Deserializer, Serializer};

    use crate::vocabulary::ChapPassword;

    #[expect(clippy::ref_option, reason = "this is how serde calls it")]
    pub(super) fn serialize<S: Serializer>(
        password: &Option<ChapPassword>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match password {
            Some(password) => serializer.serialize_some(password.expose()),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<ChapPassword>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        let password = text.map(|text| text.parse()).transpose();
        password.map_err(|_| serde::de::Error::custom("the password has characters it cannot have"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> BlockInfo {
        BlockInfo {
            id: "hv/b1".parse().unwrap(),
            gbid: "7f9aa1b2-aba7-4c77-9a5b-02a3ed562b15".parse().unwrap(),
            printed_size: "1.0 GiB".to_owned(),
            ha: 2,
            exported_on: vec!["10.0.0.1".parse().unwrap()],
            failing: vec!["10.0.0.2".parse().unwrap()],
            lagging: BTreeMap::from([("10.0.0.1".parse().unwrap(), "1.0 MiB".to_owned())]),
            password: Some("c0b3b4d6".parse().unwrap()),
        }
    }

    #[test]
    fn a_block_comes_back_from_its_json() {
        let block = Block::from(info());
        let text = serde_json::to_string(&block).unwrap();
        insta::assert_snapshot!(text, @r#"{"hostingVolume":"hv","name":"b1","gbid":"7f9aa1b2-aba7-4c77-9a5b-02a3ed562b15","iqn":"iqn.2016-12.org.gluster-block:7f9aa1b2-aba7-4c77-9a5b-02a3ed562b15","wwid":"360014057f9aa1b2aba74c779a5b02a3e","printedSize":"1.0 GiB","ha":2,"exportedOn":["10.0.0.1"],"failing":["10.0.0.2"],"lagging":{"10.0.0.1":"1.0 MiB"},"auth":true,"password":"c0b3b4d6"}"#);
        let read: Block = serde_json::from_str(&text).unwrap();
        assert_eq!(BlockInfo::from(read), info());
    }

    // C7
    #[test]
    fn a_password_is_in_the_json_only_on_purpose() {
        let block = Block::from(info());
        assert!(!format!("{block:?}").contains("c0b3b4d6"));
        let open = serde_json::to_string(&block.without_password()).unwrap();
        assert!(
            !open.contains("c0b3b4d6") && open.contains("\"auth\":true"),
            "{open}"
        );
    }

    #[test]
    fn a_password_that_cannot_be_one_is_refused_without_being_repeated() {
        let mut value = serde_json::to_value(Block::from(info())).unwrap();
        value["password"] = "has spaces".into();
        let error = serde_json::from_value::<Block>(value)
            .unwrap_err()
            .to_string();
        assert!(!error.contains("has spaces"), "{error}");
    }

    #[test]
    fn a_request_comes_back_and_unknown_members_are_refused() {
        let wanted = CreateBlock {
            id: info().id,
            size: Capacity::from_bytes(1 << 30),
            hosts: info().exported_on,
            auth: true,
            prealloc: Prealloc::No,
            block_size: Some(4096),
            io_timeout: Some(Duration::from_secs(44)),
            ring_buffer: None,
        };
        let text = serde_json::to_string(&NewBlock::from(&wanted)).unwrap();
        let read: NewBlock = serde_json::from_str(&text).unwrap();
        assert_eq!(read.named(info().id), wanted);
        let more = text.replace("\"auth\"", "\"force\":true,\"auth\"");
        assert!(serde_json::from_str::<NewBlock>(&more).is_err());
        let name = text.replace("10.0.0.1", "host; reboot");
        assert!(serde_json::from_str::<NewBlock>(&name).is_err());
    }
}
