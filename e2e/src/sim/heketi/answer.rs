//! What is sent back: JSON with heketi's keys in heketi's order, and the answers of asynchronous work.

use std::collections::BTreeMap;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Serialize, Serializer};

use super::model::{
    Brick, Cluster, Database, Device, Durability, EntryState, Id, Kind, Node, Operation,
    Restriction, Status, Storage, Volume,
};
use super::queue::Outcome;
use super::refusal::Refusal;

/// An answer that is not a refusal.
#[derive(Debug)]
pub enum Answer {
    /// JSON.
    Json(StatusCode, Vec<u8>),
    /// 202: ask the queue.
    Accepted(Id),
    /// 200 with `X-Pending`: ask again.
    Pending,
    /// The queue's last word.
    Ended(Outcome),
    /// A status and nothing else.
    Empty(StatusCode),
}

impl Answer {
    /// 200 with that body.
    ///
    /// # Errors
    ///
    /// A body that cannot be written as JSON.
    pub fn ok(body: &impl Serialize) -> Result<Self, Refusal> {
        Self::json(StatusCode::OK, body)
    }

    /// That status with that body.
    ///
    /// # Errors
    ///
    /// A body that cannot be written as JSON.
    pub fn json(status: StatusCode, body: &impl Serialize) -> Result<Self, Refusal> {
        let mut bytes =
            serde_json::to_vec(body).map_err(|error| Refusal::internal(error.to_string()))?;
        bytes.push(b'\n');
        Ok(Self::Json(status, bytes))
    }
}

const JSON: (header::HeaderName, &str) = (header::CONTENT_TYPE, "application/json; charset=UTF-8");
const HTML: (header::HeaderName, &str) = (header::CONTENT_TYPE, "text/html; charset=utf-8");

fn location(path: &str) -> [(header::HeaderName, HeaderValue); 1] {
    [(
        header::LOCATION,
        HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static("/")),
    )]
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        match self {
            Self::Json(status, body) => (status, [JSON], body).into_response(),
            Self::Accepted(id) => {
                (StatusCode::ACCEPTED, location(&format!("/queue/{id}"))).into_response()
            }
            Self::Pending => (StatusCode::OK, [("X-Pending", "true")]).into_response(),
            Self::Ended(Outcome::SeeOther(path)) => {
                let body = format!("<a href=\"{path}\">See Other</a>.\n\n");
                (StatusCode::SEE_OTHER, location(&path), [HTML], body).into_response()
            }
            Self::Ended(Outcome::NoContent) => StatusCode::NO_CONTENT.into_response(),
            Self::Ended(Outcome::Failed(text)) => Refusal::internal(text).into_response(),
            Self::Empty(status) => status.into_response(),
        }
    }
}

/// A cluster; pending volumes are not shown.
#[derive(Debug, Serialize)]
pub struct ClusterInfo {
    id: Id,
    nodes: Vec<Id>,
    volumes: Vec<Id>,
    block: bool,
    file: bool,
    blockvolumes: Vec<Id>,
}

impl ClusterInfo {
    /// The cluster as clients see it.
    #[must_use]
    pub fn new(database: &Database, cluster: &Cluster) -> Self {
        let visible = |v: &&Volume| v.cluster == cluster.id && v.pending.is_none();
        let mut nodes = cluster.nodes.clone();
        nodes.sort();
        Self {
            id: cluster.id.clone(),
            nodes,
            volumes: database
                .volumes
                .values()
                .filter(visible)
                .map(|v| v.id.clone())
                .collect(),
            block: cluster.block,
            file: cluster.file,
            blockvolumes: Vec::new(),
        }
    }
}

/// Names of a node.
#[derive(Debug, Serialize)]
struct Hostnames {
    manage: Vec<String>,
    storage: Vec<String>,
}

/// A node with its devices.
#[derive(Debug, Serialize)]
pub struct NodeInfo {
    zone: i64,
    hostnames: Hostnames,
    cluster: Id,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tags: BTreeMap<String, String>,
    id: Id,
    state: EntryState,
    devices: Vec<DeviceInfo>,
}

impl NodeInfo {
    /// The node as clients see it.
    #[must_use]
    pub fn new(database: &Database, node: &Node) -> Self {
        let devices = node
            .devices
            .iter()
            .filter_map(|id| database.devices.get(id));
        Self {
            zone: node.zone,
            hostnames: Hostnames {
                manage: node.manage.clone(),
                storage: node.storage.clone(),
            },
            cluster: node.cluster.clone(),
            tags: node.tags.clone(),
            id: node.id.clone(),
            state: node.state,
            devices: devices
                .map(|device| DeviceInfo::new(database, device))
                .collect(),
        }
    }
}

/// A device with its bricks.
#[derive(Debug, Serialize)]
pub struct DeviceInfo {
    name: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tags: BTreeMap<String, String>,
    storage: Storage,
    id: Id,
    paths: Vec<String>,
    state: EntryState,
    bricks: Vec<BrickInfo>,
}

impl DeviceInfo {
    /// The device as clients see it; bricks of unfinished operations are left out.
    #[must_use]
    pub fn new(database: &Database, device: &Device) -> Self {
        let bricks = device
            .bricks
            .iter()
            .filter_map(|id| database.bricks.get(id));
        Self {
            name: device.name.clone(),
            tags: device.tags.clone(),
            storage: device.storage,
            id: device.id.clone(),
            paths: vec![device.name.clone()],
            state: device.state,
            bricks: bricks
                .filter(|b| b.pending.is_none())
                .map(BrickInfo::new)
                .collect(),
        }
    }
}

/// A brick.
#[derive(Debug, Serialize)]
struct BrickInfo {
    id: Id,
    path: String,
    device: Id,
    node: Id,
    volume: Id,
    size: u64,
}

impl BrickInfo {
    fn new(brick: &Brick) -> Self {
        Self {
            id: brick.id.clone(),
            path: brick.path.clone(),
            device: brick.device.clone(),
            node: brick.node.clone(),
            volume: brick.volume.clone(),
            size: brick.size,
        }
    }
}

/// A volume.
#[derive(Debug, Serialize)]
pub struct VolumeInfo {
    size: i64,
    name: String,
    durability: DurabilityInfo,
    #[serde(skip_serializing_if = "is_zero")]
    gid: i64,
    glustervolumeoptions: Vec<String>,
    #[serde(skip_serializing_if = "is_false")]
    block: bool,
    snapshot: SnapshotInfo,
    id: Id,
    cluster: Id,
    mount: Mount,
    blockinfo: BlockInfo,
    bricks: Vec<BrickInfo>,
}

#[derive(Debug, Serialize)]
struct DurabilityInfo {
    r#type: &'static str,
    replicate: ReplicateInfo,
    disperse: DisperseInfo,
}

#[derive(Debug, Default, Serialize)]
struct ReplicateInfo {
    #[serde(skip_serializing_if = "Option::is_none")]
    replica: Option<u32>,
}

#[derive(Debug, Default, Serialize)]
struct DisperseInfo {
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    redundancy: Option<u32>,
}

#[derive(Debug, Serialize)]
struct SnapshotInfo {
    enable: bool,
    #[serde(serialize_with = "shortest")]
    factor: f32,
}

/// Whole numbers without a fraction, as heketi's language writes them.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form serde asks for")]
#[expect(
    clippy::cast_possible_truncation,
    clippy::as_conversions,
    reason = "factors are 1 to 100"
)]
fn shortest<S: Serializer>(factor: &f32, serializer: S) -> Result<S::Ok, S::Error> {
    if factor.fract() == 0.0 {
        serializer.serialize_i32(*factor as i32)
    } else {
        serializer.serialize_f32(*factor)
    }
}

#[derive(Debug, Serialize)]
struct Mount {
    glusterfs: GlusterfsMount,
}

#[derive(Debug, Serialize)]
struct GlusterfsMount {
    hosts: Vec<String>,
    device: String,
    options: BTreeMap<&'static str, String>,
}

#[derive(Debug, Serialize)]
struct BlockInfo {
    #[serde(skip_serializing_if = "is_zero")]
    freesize: i64,
    #[serde(skip_serializing_if = "is_zero")]
    reservedsize: i64,
    #[serde(skip_serializing_if = "Restriction::is_none")]
    restriction: Restriction,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form serde asks for")]
fn is_zero(value: &i64) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form serde asks for")]
fn is_false(value: &bool) -> bool {
    !*value
}

impl VolumeInfo {
    /// The volume as clients see it: hosts are those of every node of the cluster, with bricks or without.
    #[must_use]
    pub fn new(database: &Database, volume: &Volume) -> Self {
        let hosts: Vec<String> = database
            .nodes_of(&volume.cluster)
            .map(|node| node.storage_host().to_owned())
            .collect();
        let (first, others) = hosts
            .split_first()
            .map_or(("", Vec::new()), |(f, o)| (f.as_str(), o.to_vec()));
        let bricks = volume
            .bricks
            .iter()
            .filter_map(|id| database.bricks.get(id));
        Self {
            size: volume.size,
            name: volume.name.clone(),
            durability: DurabilityInfo::new(volume),
            gid: volume.gid,
            glustervolumeoptions: volume.options.clone(),
            block: volume.block,
            snapshot: SnapshotInfo {
                enable: volume.snapshot,
                factor: volume.snapshot_factor,
            },
            id: volume.id.clone(),
            cluster: volume.cluster.clone(),
            mount: Mount {
                glusterfs: GlusterfsMount {
                    device: format!("{first}:{}", volume.name),
                    options: BTreeMap::from([("backup-volfile-servers", others.join(","))]),
                    hosts,
                },
            },
            blockinfo: BlockInfo {
                freesize: volume.free,
                reservedsize: volume.reserved,
                restriction: volume.restriction,
            },
            bricks: bricks.map(BrickInfo::new).collect(),
        }
    }
}

impl DurabilityInfo {
    fn new(volume: &Volume) -> Self {
        let replica = Some(volume.requested_replica).filter(|replica| *replica > 0);
        let (r#type, disperse) = match volume.durability {
            Durability::None => ("none", DisperseInfo::default()),
            Durability::Replicate { .. } => ("replicate", DisperseInfo::default()),
            Durability::Disperse { data, redundancy } => (
                "disperse",
                DisperseInfo {
                    data: Some(data),
                    redundancy: Some(redundancy),
                },
            ),
        };
        Self {
            r#type,
            replicate: ReplicateInfo { replica },
            disperse,
        }
    }
}

/// How many operations there are.
#[derive(Debug, Serialize)]
pub struct OperationCounts {
    /// Recorded.
    pub total: usize,
    /// Running now.
    pub in_flight: usize,
    /// Left over from before a restart.
    pub stale: usize,
    /// Whose undoing failed.
    pub failed: usize,
    /// Neither.
    pub new: usize,
}

/// An unfinished operation in the list.
#[derive(Debug, Serialize)]
pub struct OperationInfo {
    id: Id,
    type_name: Kind,
    status: Status,
    sub_status: &'static str,
}

impl OperationInfo {
    /// The operation as clients see it.
    #[must_use]
    pub fn new(operation: &Operation, runs: bool) -> Self {
        Self {
            id: operation.id.clone(),
            type_name: operation.kind,
            status: operation.status,
            sub_status: if runs { "in-flight" } else { "" },
        }
    }
}

/// An unfinished operation by itself.
#[derive(Debug, Serialize)]
pub struct OperationDetails {
    #[serde(flatten)]
    info: OperationInfo,
    changes: Vec<Change>,
}

#[derive(Debug, Serialize)]
struct Change {
    id: Id,
    description: &'static str,
}

impl OperationDetails {
    /// The operation with what it changes. The `in-flight` mark is left to the list, as in heketi.
    #[must_use]
    pub fn new(operation: &Operation) -> Self {
        let (brick, volume) = match operation.kind {
            Kind::CreateVolume => ("Add brick", "Add volume"),
            Kind::DeleteVolume => ("Delete brick", "Delete volume"),
            Kind::ExpandVolume => ("Add brick", "Expand volume"),
        };
        let bricks = operation.bricks.iter().map(|id| Change {
            id: id.clone(),
            description: brick,
        });
        let volume = Change {
            id: operation.volume.clone(),
            description: volume,
        };
        Self {
            info: OperationInfo::new(operation, false),
            changes: bricks.chain([volume]).collect(),
        }
    }
}
