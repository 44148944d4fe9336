//! The body of a volume create, and gd2's rules about it in their order (`reference/heketi-gd2.md` §4.2).

use std::collections::BTreeMap;

use axum::http::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::refusal::Refusal;

/// The least that a volume may have.
const LEAST: u64 = 20 << 20;
/// The most that its metadata may have, keys that begin with `_` not counted.
const METADATA: usize = 4096;

/// A volume as it is asked for.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(super) struct Create {
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) replica: usize,
    pub(super) arbiter: u32,
    pub(super) distribute: u32,
    pub(super) disperse: u32,
    pub(super) provisioner: String,
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) options: BTreeMap<String, String>,
    pub(super) flags: BTreeMap<String, bool>,
    pub(super) allow_advanced_options: bool,
    pub(super) subvols: Vec<Value>,
    pub(super) limit_peers: Vec<String>,
    pub(super) limit_zones: Vec<String>,
    pub(super) snapshot: bool,
}

/// A change of metadata.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(super) struct Edit {
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) delete_metadata: bool,
}

/// The body of a request.
pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    let unparsable = |_| Refusal::bad_request("unable to parse the request");
    serde_json::from_slice(body).map_err(unparsable)
}

impl Create {
    /// Checks what can be checked before anything is planned.
    pub(super) fn check(&mut self) -> Result<(), Refusal> {
        let legal = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if self.name.is_empty() || !self.name.bytes().all(legal) {
            return Err(Refusal::bad_request("invalid volume name"));
        }
        if self.size > 0 && self.size < LEAST {
            let text = format!("invalid Volume Size, Minimum size required is {LEAST}");
            return Err(Refusal::bad_request(text));
        }
        if self.size == 0 && self.subvols.is_empty() {
            return Err(Refusal::bad_request("brick list is empty"));
        }
        must_fit(&self.metadata)?;
        let known = [
            "reuse-bricks",
            "allow-root-dir",
            "allow-mount-as-brick",
            "create-brick-dir",
        ];
        if let Some(flag) = self
            .flags
            .keys()
            .find(|flag| !known.contains(&flag.as_str()))
        {
            return Err(Refusal::bad_request(format!(
                "volume flag not supported {flag}"
            )));
        }
        if self
            .options
            .keys()
            .any(|key| key.starts_with("profile.default."))
        {
            return Err(Refusal::bad_request("reserved group profile"));
        }
        if self.provisioner.is_empty() {
            "lvm".clone_into(&mut self.provisioner);
        }
        if self.replica > 3 {
            return Err(Refusal::internal("invalid Replica Count"));
        }
        self.must_be_simulated()
    }

    /// What this simulator leaves out says so, with a status that gd2 never sends.
    fn must_be_simulated(&self) -> Result<(), Refusal> {
        let left_out = self.size == 0
            || self.replica < 2
            || self.arbiter > 0
            || self.distribute > 1
            || self.disperse > 0
            || self.snapshot
            || !self.limit_peers.is_empty()
            || !self.limit_zones.is_empty();
        if left_out {
            return Err(Refusal::new(StatusCode::NOT_IMPLEMENTED, "not simulated"));
        }
        Ok(())
    }
}

/// That metadata fit.
pub(super) fn must_fit(metadata: &BTreeMap<String, String>) -> Result<(), Refusal> {
    let counted = metadata.iter().filter(|(key, _)| !key.starts_with('_'));
    let size: usize = counted.map(|(key, value)| key.len() + value.len()).sum();
    if size > METADATA {
        let text = "metadata size exceeds max allowed size of 4KB";
        return Err(Refusal::bad_request(text));
    }
    Ok(())
}

impl Edit {
    /// The metadata after this change.
    pub(super) fn apply(
        &self,
        mut metadata: BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>, Refusal> {
        must_fit(&self.metadata)?;
        if self.metadata.keys().any(|key| key.starts_with('_')) {
            let text = "key names starting with '_' are restricted in metadata field";
            return Err(Refusal::bad_request(text));
        }
        for (key, value) in &self.metadata {
            if self.delete_metadata {
                metadata.remove(key);
            } else {
                metadata.insert(key.clone(), value.clone());
            }
        }
        must_fit(&metadata)?;
        Ok(metadata)
    }
}
