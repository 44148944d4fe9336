//! What clients send, and heketi's rules for it, in the order in which it looks at them.
//!
//! Unknown keys are ignored and a `null` counts as left out, as heketi's language reads JSON. Two rules broken at once are not
//! always reported in heketi's words.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::model::{Durability, EntryState, Restriction};
use super::refusal::Refusal;

/// Reads a body that must be a JSON object.
///
/// # Errors
///
/// 422 for anything else.
pub fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    let value: Value = serde_json::from_slice(body).map_err(|_| Refusal::unparsable())?;
    let value = match value {
        Value::Null => Value::Object(serde_json::Map::new()),
        object @ Value::Object(_) => object,
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(Refusal::unparsable());
        }
    };
    serde_json::from_value(without_nulls(value)).map_err(|_| Refusal::unparsable())
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => map
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, without_nulls(value)))
            .collect(),
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)) => other,
    }
}

/// `POST /volumes`, as sent.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct VolumeCreate {
    /// GiB.
    pub size: i64,
    /// Candidates; empty means all.
    pub clusters: Vec<String>,
    /// Name in gluster; empty means `vol_<id>`.
    pub name: String,
    durability: DurabilitySpec,
    /// Group that is to own the bricks.
    pub gid: i64,
    /// Options to set.
    pub glustervolumeoptions: Vec<String>,
    /// Whether it hosts blocks.
    pub block: bool,
    snapshot: SnapshotSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct DurabilitySpec {
    r#type: String,
    replicate: Replicate,
    disperse: Disperse,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Replicate {
    replica: i64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Disperse {
    data: i64,
    redundancy: i64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct SnapshotSpec {
    enable: bool,
    factor: f32,
}

impl VolumeCreate {
    /// Checks everything that needs no look at the database.
    ///
    /// # Errors
    ///
    /// 400 with heketi's text.
    pub fn check(&self) -> Result<(), Refusal> {
        field_rules([
            ("name", name_rule(&self.name)),
            ("size", size_rule(self.size)),
        ])?;
        if self.gid < 0 {
            return Err(Refusal::bad_request("Bad group id less than zero"));
        }
        if self.gid >= i64::from(i32::MAX) {
            return Err(Refusal::bad_request(
                "Bad group id equal or greater than 2**32",
            ));
        }
        self.durability()?;
        if self.snapshot.enable && !(1.0..=100.0).contains(&self.snapshot.factor) {
            return Err(Refusal::bad_request("Invalid snapshot factor"));
        }
        Ok(())
    }

    /// The durability with heketi's defaults filled in: none, 2 copies, 4+2 (which must be sent all the same).
    ///
    /// # Errors
    ///
    /// 400 with heketi's text.
    pub fn durability(&self) -> Result<Durability, Refusal> {
        let DurabilitySpec {
            r#type,
            replicate,
            disperse,
        } = &self.durability;
        match r#type.as_str() {
            "" | "none" => Ok(Durability::None),
            "replicate" => match replicate.replica {
                0 => Ok(Durability::Replicate { replica: 2 }),
                replica @ 1..=3 => Ok(Durability::Replicate {
                    replica: u32::try_from(replica).unwrap_or(3),
                }),
                _ => Err(Refusal::bad_request("Invalid replica value")),
            },
            "disperse" => match (disperse.data, disperse.redundancy) {
                (2, 1) => Ok(Durability::Disperse {
                    data: 2,
                    redundancy: 1,
                }),
                (4, 2) => Ok(Durability::Disperse {
                    data: 4,
                    redundancy: 2,
                }),
                (8, 3) => Ok(Durability::Disperse {
                    data: 8,
                    redundancy: 3,
                }),
                (8, 4) => Ok(Durability::Disperse {
                    data: 8,
                    redundancy: 4,
                }),
                (data, redundancy) => Err(Refusal::bad_request(format!(
                    "Invalid dispersion combination: {data}+{redundancy}"
                ))),
            },
            _ => Err(Refusal::bad_request("Unknown durability type")),
        }
    }

    /// The replica count as sent, zero when it was left out.
    #[must_use]
    pub fn requested_replica(&self) -> u32 {
        u32::try_from(self.durability.replicate.replica).unwrap_or(0)
    }

    /// Whether snapshots are wanted, and the factor they get.
    #[must_use]
    pub fn snapshot(&self) -> (bool, f32) {
        (
            self.snapshot.enable,
            if self.snapshot.enable {
                self.snapshot.factor
            } else {
                1.0
            },
        )
    }
}

/// `POST /volumes/{id}/expand`.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub struct VolumeExpand {
    /// GiB to add.
    pub expand_size: i64,
}

impl VolumeExpand {
    /// Checks the size.
    ///
    /// # Errors
    ///
    /// 400 with heketi's text.
    pub fn check(self) -> Result<(), Refusal> {
        field_rules([("expand_size", size_rule(self.expand_size))])
    }
}

/// `POST /volumes/{id}/block-restriction`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct BlockRestriction {
    restriction: String,
}

impl BlockRestriction {
    /// The restriction; `locked-by-update` cannot be asked for.
    ///
    /// # Errors
    ///
    /// 400 with heketi's text.
    pub fn check(&self) -> Result<Restriction, Refusal> {
        match self.restriction.as_str() {
            "" => Ok(Restriction::None),
            "locked" => Ok(Restriction::Locked),
            _ => Err(Refusal::invalid("restriction: must be a valid value.")),
        }
    }
}

/// `POST /clusters` and `POST /clusters/{id}/flags`: a flag that is missing is false.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub struct ClusterFlags {
    /// Whether volumes without `block` may be made.
    pub file: bool,
    /// Whether hosting volumes may be made.
    pub block: bool,
}

/// `POST /nodes`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct NodeAdd {
    /// Failure domain, from 1.
    pub zone: i64,
    /// Names.
    pub hostnames: Hostnames,
    /// The cluster to join.
    pub cluster: String,
    /// Marks.
    pub tags: BTreeMap<String, String>,
}

/// The names of a node; only the first of each list is used.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Hostnames {
    /// Where commands are run.
    pub manage: Vec<String>,
    /// What gluster uses.
    pub storage: Vec<String>,
}

impl NodeAdd {
    /// Checks the fields.
    ///
    /// # Errors
    ///
    /// 400 with heketi's text.
    pub fn check(&self) -> Result<(), Refusal> {
        let blank = |missing: bool| missing.then(|| "cannot be blank".to_owned());
        let Hostnames { manage, storage } = &self.hostnames;
        let hosts = [("manage", manage), ("storage", storage)]
            .into_iter()
            .filter_map(|(key, names)| {
                if names.is_empty() {
                    return Some(format!("{key}: cannot be blank"));
                }
                let bad = names.iter().any(String::is_empty);
                bad.then(|| format!("{key}: [{}] is not a valid {key} hostname", names.join(" ")))
            })
            .collect::<Vec<_>>()
            .join("; ");
        field_rules([
            (
                "cluster",
                blank(self.cluster.is_empty()).or_else(|| id_rule(&self.cluster)),
            ),
            (
                "hostnames",
                (!hosts.is_empty()).then(|| format!("({hosts}.)")),
            ),
            ("zone", size_rule(self.zone)),
        ])
    }
}

/// `POST /devices`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct DeviceAdd {
    /// The node it is in.
    pub node: String,
    /// Path of the device file.
    pub name: String,
    /// Marks.
    pub tags: BTreeMap<String, String>,
}

impl DeviceAdd {
    /// Checks the fields.
    ///
    /// # Errors
    ///
    /// 400 with heketi's text.
    pub fn check(&self) -> Result<(), Refusal> {
        let blank = |text: &str| text.is_empty().then(|| "cannot be blank".to_owned());
        let path = !self.name.starts_with('/') || self.name.contains(char::is_whitespace);
        field_rules([
            (
                "name",
                blank(&self.name).or_else(|| path.then(|| "must be in a valid format".to_owned())),
            ),
            ("node", blank(&self.node).or_else(|| id_rule(&self.node))),
        ])
    }
}

/// `POST /nodes/{id}/state` and `POST /devices/{id}/state`. heketi takes any `healthcheck`, whatever its rules say.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct StateChange {
    state: String,
}

impl StateChange {
    /// The state that is wanted.
    ///
    /// # Errors
    ///
    /// 400 with heketi's text.
    pub fn check(&self) -> Result<EntryState, Refusal> {
        match self.state.as_str() {
            "online" => Ok(EntryState::Online),
            "offline" => Ok(EntryState::Offline),
            "failed" => Ok(EntryState::Failed),
            "" => Err(Refusal::invalid("state: cannot be blank.")),
            other => Err(Refusal::invalid(format!(
                "state: {other} is not valid state."
            ))),
        }
    }
}

/// `POST /operations/pending/cleanup`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Cleanup {
    /// Operations to clean; empty means all.
    pub operations: Vec<String>,
}

impl Cleanup {
    /// Checks number and form of the ids.
    ///
    /// # Errors
    ///
    /// 400 with heketi's text.
    pub fn check(&self) -> Result<(), Refusal> {
        let count = self.operations.len();
        let many =
            (count > 32).then(|| format!("too many ids specified ({count}), up to 32 supported"));
        let bad = || self.operations.iter().find_map(|id| id_rule(id));
        field_rules([("operations", many.or_else(bad))])
    }
}

/// `POST /admin`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct AdminChange {
    /// The state that is wanted.
    pub state: String,
}

/// All broken rules in one text: `key: text; key: text.`, keys in order.
fn field_rules<const N: usize>(rules: [(&str, Option<String>); N]) -> Result<(), Refusal> {
    let broken: Vec<String> = rules
        .into_iter()
        .filter_map(|(key, text)| text.map(|text| format!("{key}: {text}")))
        .collect();
    if broken.is_empty() {
        Ok(())
    } else {
        Err(Refusal::invalid(format!("{}.", broken.join("; "))))
    }
}

fn size_rule(size: i64) -> Option<String> {
    match size {
        0 => Some("cannot be blank".to_owned()),
        i64::MIN..0 => Some("must be no less than 1".to_owned()),
        1.. => None,
    }
}

fn name_rule(name: &str) -> Option<String> {
    let legal = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    (!legal).then(|| "must be in a valid format".to_owned())
}

fn id_rule(id: &str) -> Option<String> {
    let legal = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    (!legal && !id.is_empty()).then(|| format!("{id} is not a valid UUID"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(body: &str) -> String {
        match parse::<VolumeCreate>(body.as_bytes()).and_then(|request| request.check()) {
            Ok(()) => "ok".to_owned(),
            Err(refusal) => refusal.to_string(),
        }
    }

    #[test]
    fn volume_requests_are_judged_as_heketi_does() {
        let bodies = [
            "",
            "[]",
            r#"{"size": "1"}"#,
            r#"{"size": 1.5}"#,
            "{}",
            r#"{"size": -1, "name": "a b"}"#,
            r#"{"size": 1, "gid": -1}"#,
            r#"{"size": 1, "gid": 2147483647}"#,
            r#"{"size": 1, "durability": {"type": "raid"}}"#,
            r#"{"size": 1, "durability": {"type": "replicate", "replicate": {"replica": 4}}}"#,
            r#"{"size": 1, "durability": {"type": "disperse"}}"#,
            r#"{"size": 1, "snapshot": {"enable": true, "factor": 0.5}}"#,
            r#"{"size": 1, "name": null, "unknown": 7}"#,
        ];
        let verdicts: Vec<String> = bodies.iter().map(|body| verdict(body)).collect();
        insta::assert_snapshot!(verdicts.join("\n"), @r"
    422 Unprocessable Entity: request unable to be parsed
    422 Unprocessable Entity: request unable to be parsed
    422 Unprocessable Entity: request unable to be parsed
    422 Unprocessable Entity: request unable to be parsed
    400 Bad Request: validation failed: size: cannot be blank.
    400 Bad Request: validation failed: name: must be in a valid format; size: must be no less than 1.
    400 Bad Request: Bad group id less than zero
    400 Bad Request: Bad group id equal or greater than 2**32
    400 Bad Request: Unknown durability type
    400 Bad Request: Invalid replica value
    400 Bad Request: Invalid dispersion combination: 0+0
    400 Bad Request: Invalid snapshot factor
    ok
    ");
    }

    #[test]
    fn a_request_without_durability_makes_a_single_copy() {
        let request: VolumeCreate = parse(br#"{"size": 1}"#).expect("parsed");
        assert_eq!(request.durability(), Ok(Durability::None));
    }
}
