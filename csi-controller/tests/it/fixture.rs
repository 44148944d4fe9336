//! A controller on modelled backends, behind its real gRPC server; and the requests that sidecars send.

use std::collections::HashMap;
use std::time::Duration;

use blockd_client::vocabulary::{Capacity, HostAddress, NodeId, SealingKeys, VolumeId};
use csi_controller::blocks::daemons::Daemons;
use csi_controller::blocks::fake::{FakeBlocks, Kill};
use csi_controller::hosting::fake::FakeHosting;
use csi_controller::metrics::{BackendMetrics, HostMetrics, SpaceMetrics};
use csi_controller::ops::{Operations, Policy};
use csi_controller::placement::{Preference, Rules, Sizes};
use csi_controller::rpc;
use proto::csi;
use proto::csi::controller_client::ControllerClient;
use proto::csi::volume_capability::{AccessMode, AccessType, MountVolume, access_mode::Mode};
use proto::in_flight::VolumeLocks;
use proto::service::admin::Readiness;
use proto::testing::TestServer;
use tonic::Status;
use tonic::transport::Channel;

pub(crate) const GIB: i64 = 1 << 30;
/// How long a request waits for its turn.
const QUEUE: Duration = Duration::from_secs(30);

/// The backends, and the controller that serves them at the moment.
pub(crate) struct Cluster {
    pub(crate) hosting: FakeHosting,
    pub(crate) blocks: FakeBlocks,
    pub(crate) kill: Kill,
    pub(crate) client: ControllerClient<Channel>,
    _server: TestServer,
}

pub(crate) fn hosts() -> Vec<HostAddress> {
    ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
        .map(|host| host.parse().unwrap())
        .to_vec()
}

impl Cluster {
    /// Three hosts with room for four hosting volumes of 10 GiB.
    pub(crate) async fn start() -> Self {
        Self::start_killed_at(Kill::default()).await
    }

    pub(crate) async fn start_killed_at(kill: Kill) -> Self {
        let room = Capacity::from_bytes(40 << 30);
        let hosting = FakeHosting::new(hosts(), room, kill.clone());
        let blocks = FakeBlocks::new(hosting.clone(), kill.clone());
        Self::serve(hosting, blocks, kill).await
    }

    /// A new process on the same backends.
    pub(crate) async fn restart(&self) -> Self {
        let kill = Kill::default();
        let hosting = self.hosting.restarted(kill.clone());
        let blocks = self.blocks.restarted(hosting.clone(), kill.clone());
        Self::serve(hosting, blocks, kill).await
    }

    async fn serve(hosting: FakeHosting, blocks: FakeBlocks, kill: Kill) -> Self {
        let policy = Policy {
            clusters: Vec::new(),
            rules: Rules {
                sizes: Sizes {
                    usual: Capacity::from_bytes(10 << 30),
                    largest: Capacity::from_bytes(30 << 30),
                },
                prefer: Preference::BestFit,
                most_blocks: None,
            },
            turn: QUEUE,
        };
        let keys: SealingKeys = format!("k1:{}=", "A".repeat(43)).parse().unwrap();
        let daemons = Daemons::new(
            blocks.clone(),
            QUEUE,
            BackendMetrics::default(),
            HostMetrics::default(),
        );
        let operations = Operations::new(
            hosting.clone(),
            daemons,
            Some(keys),
            policy,
            SpaceMetrics::default(),
        );
        let routes = rpc::routes(
            operations,
            VolumeLocks::default(),
            "gluster-block.csi.gluster.org".to_owned(),
            Readiness::default(),
        );
        let server = TestServer::start(routes).await;
        Self {
            hosting,
            blocks,
            kill,
            client: ControllerClient::new(server.channel()),
            _server: server,
        }
    }

    pub(crate) async fn create(
        &self,
        request: csi::CreateVolumeRequest,
    ) -> Result<csi::Volume, Status> {
        let answer = self.client.clone().create_volume(request).await?;
        Ok(answer.into_inner().volume.unwrap())
    }

    pub(crate) async fn delete(&self, id: &str) -> Result<(), Status> {
        let request = csi::DeleteVolumeRequest {
            volume_id: id.to_owned(),
            ..Default::default()
        };
        self.client.clone().delete_volume(request).await.map(drop)
    }

    pub(crate) async fn publish(
        &self,
        id: &str,
        node: &NodeId,
    ) -> Result<HashMap<String, String>, Status> {
        let request = publish_request(id, node);
        let mut client = self.client.clone();
        let answer = client.controller_publish_volume(request);
        Ok(answer.await?.into_inner().publish_context)
    }

    pub(crate) async fn unpublish(&self, id: &str, node: &str) -> Result<(), Status> {
        let request = csi::ControllerUnpublishVolumeRequest {
            volume_id: id.to_owned(),
            node_id: node.to_owned(),
            ..Default::default()
        };
        self.client
            .clone()
            .controller_unpublish_volume(request)
            .await
            .map(drop)
    }

    pub(crate) async fn expand(&self, id: &str, bytes: i64, limit: i64) -> Result<i64, Status> {
        let request = csi::ControllerExpandVolumeRequest {
            volume_id: id.to_owned(),
            capacity_range: Some(range(bytes, limit)),
            ..Default::default()
        };
        let mut client = self.client.clone();
        let answer = client.controller_expand_volume(request);
        let answer = answer.await?.into_inner();
        assert!(answer.node_expansion_required);
        Ok(answer.capacity_bytes)
    }

    pub(crate) async fn capacity(&self) -> csi::GetCapacityResponse {
        let request = csi::GetCapacityRequest::default();
        let answer = self.client.clone().get_capacity(request).await;
        answer.unwrap().into_inner()
    }

    /// What C4 promises, of every hosting volume.
    pub(crate) fn assert_never_overcommitted(&self) {
        for volume in self.hosting.volumes() {
            let used = u128::from(self.blocks.used(&volume.name));
            assert!(used * 100 <= u128::from(volume.size.bytes()) * 98);
        }
    }
}

pub(crate) fn range(required_bytes: i64, limit_bytes: i64) -> csi::CapacityRange {
    csi::CapacityRange {
        required_bytes,
        limit_bytes,
    }
}

pub(crate) fn capability(mode: Mode) -> csi::VolumeCapability {
    csi::VolumeCapability {
        access_mode: Some(AccessMode { mode: mode.into() }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    }
}

pub(crate) fn request(name: &str, gib: i64) -> csi::CreateVolumeRequest {
    csi::CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: Some(range(gib * GIB, 0)),
        volume_capabilities: vec![capability(Mode::SingleNodeWriter)],
        parameters: HashMap::from([("prealloc".to_owned(), "no".to_owned())]),
        ..Default::default()
    }
}

pub(crate) fn publish_request(id: &str, node: &NodeId) -> csi::ControllerPublishVolumeRequest {
    csi::ControllerPublishVolumeRequest {
        volume_id: id.to_owned(),
        node_id: node.to_string(),
        volume_capability: Some(capability(Mode::SingleNodeWriter)),
        ..Default::default()
    }
}

pub(crate) fn node(n: u8) -> NodeId {
    format!("n{n}/iqn.1993-08.org.debian:01:{n}")
        .parse()
        .unwrap()
}

pub(crate) fn id(volume: &csi::Volume) -> VolumeId {
    volume.volume_id.parse().unwrap()
}

/// The codes after which external-provisioner believes that the volume may still come.
pub(crate) fn is_final(status: &Status) -> bool {
    use tonic::Code::{Aborted, Cancelled, DeadlineExceeded, Unavailable};
    ![Aborted, Cancelled, DeadlineExceeded, Unavailable].contains(&status.code())
}
