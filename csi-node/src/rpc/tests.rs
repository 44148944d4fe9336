//! The services as kubelet drives them, on the modelled host.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use blockd_client::vocabulary::{
    Capacity, ChapCredentials, FsDefaults, FsType, Gbid, Portal, PublishContext, SealingKeys,
    VolumeContext, VolumeId,
};
use proto::csi;
use proto::csi::node_server::Node;
use proto::csi::volume_capability::access_mode::Mode;
use proto::csi::volume_capability::{AccessMode, AccessType, MountVolume};
use proto::in_flight::VolumeLocks;
use tempfile::TempDir;
use tonic::{Code, Request};

use super::{NodeService, Presentation};
use crate::host::TargetKind;
use crate::host::fake::FakeHost;
use crate::ops::{Operations, Waiting};
use crate::record::Journal;

const STAGING: &str = "/staging/1";
const PASSWORD: &str = "d9b3a1c2-7a55-4f0c-9a3e-111122223333";
const KEY: &str = "k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

struct Node1 {
    host: FakeHost,
    service: Arc<NodeService<FakeHost>>,
    state: TempDir,
    gbid: Gbid,
    portals: Vec<Portal>,
    keys: Arc<SealingKeys>,
}

impl Node1 {
    fn new() -> Self {
        let host = FakeHost::new();
        let gbid: Gbid = "6f3c2a10-1111-4222-8333-abcdefabcdef".parse().unwrap();
        let portals: Vec<Portal> = vec![
            "10.77.1.11:3260".parse().unwrap(),
            "10.77.1.12:3260".parse().unwrap(),
        ];
        let _ = host.add_volume(&gbid.iqn(), &portals, Capacity::from_bytes(1 << 30));
        host.ask_for_chap(&gbid.iqn(), &gbid.to_string(), PASSWORD);
        host.make(Path::new(STAGING), TargetKind::Directory);
        let state = tempfile::tempdir().unwrap();
        let keys: Arc<SealingKeys> = Arc::new(KEY.parse().unwrap());
        let operations = Operations::new(
            host.clone(),
            Journal::open(state.path()).unwrap(),
            Some(Arc::clone(&keys)),
            Waiting::default(),
        );
        let presentation = Presentation {
            driver_name: "gluster-block.csi.gluster.org".to_owned(),
            node_name: "n1".to_owned(),
            max_volumes: 64,
        };
        let service = NodeService::new(operations, VolumeLocks::default(), presentation);
        Self {
            host,
            service: Arc::new(service),
            state,
            gbid,
            portals,
            keys,
        }
    }

    fn id(&self) -> VolumeId {
        self.volume_context().volume_id()
    }

    fn volume_context(&self) -> VolumeContext {
        VolumeContext {
            gbid: self.gbid,
            hosting_volume: "hv1".parse().unwrap(),
            block: "pvc-1".parse().unwrap(),
            fs: FsDefaults {
                fs_type: FsType::Ext4,
            },
        }
    }

    fn publish_context(&self) -> HashMap<String, String> {
        let chap = ChapCredentials {
            user: self.gbid,
            password: PASSWORD.parse().unwrap(),
        };
        let sealed = self.keys.seal(&self.id(), &chap).unwrap();
        PublishContext {
            iqn: self.gbid.iqn(),
            portals: self.portals.clone(),
            wwid: self.gbid.wwid(),
            capacity: Capacity::from_bytes(1 << 30),
            chap: Some(sealed),
        }
        .into()
    }

    fn stage_request(&self) -> Request<csi::NodeStageVolumeRequest> {
        Request::new(csi::NodeStageVolumeRequest {
            volume_id: self.id().to_string(),
            publish_context: self.publish_context(),
            staging_target_path: STAGING.to_owned(),
            volume_capability: Some(capability()),
            secrets: HashMap::new(),
            volume_context: self.volume_context().into(),
        })
    }

    fn publish_request(&self, target: &str) -> Request<csi::NodePublishVolumeRequest> {
        Request::new(csi::NodePublishVolumeRequest {
            volume_id: self.id().to_string(),
            publish_context: self.publish_context(),
            staging_target_path: STAGING.to_owned(),
            target_path: target.to_owned(),
            volume_capability: Some(capability()),
            readonly: false,
            secrets: HashMap::new(),
            volume_context: self.volume_context().into(),
        })
    }

    fn unpublish_request(&self, target: &str) -> Request<csi::NodeUnpublishVolumeRequest> {
        Request::new(csi::NodeUnpublishVolumeRequest {
            volume_id: self.id().to_string(),
            target_path: target.to_owned(),
        })
    }

    fn unstage_request(&self) -> Request<csi::NodeUnstageVolumeRequest> {
        Request::new(csi::NodeUnstageVolumeRequest {
            volume_id: self.id().to_string(),
            staging_target_path: STAGING.to_owned(),
        })
    }
}

fn capability() -> csi::VolumeCapability {
    csi::VolumeCapability {
        access_mode: Some(AccessMode {
            mode: Mode::SingleNodeMultiWriter.into(),
        }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    }
}

#[tokio::test(start_paused = true)]
async fn a_volume_lives_through_stage_publish_stats_unpublish_unstage() {
    let node = Node1::new();
    node.service
        .node_stage_volume(node.stage_request())
        .await
        .unwrap();
    node.service
        .node_publish_volume(node.publish_request("/pods/1"))
        .await
        .unwrap();
    let stats = csi::NodeGetVolumeStatsRequest {
        volume_id: node.id().to_string(),
        volume_path: "/pods/1".to_owned(),
        staging_target_path: String::new(),
    };
    let stats = node
        .service
        .node_get_volume_stats(Request::new(stats))
        .await
        .unwrap();
    assert_eq!(stats.into_inner().usage.len(), 2);
    node.service
        .node_unpublish_volume(node.unpublish_request("/pods/1"))
        .await
        .unwrap();
    node.service
        .node_unstage_volume(node.unstage_request())
        .await
        .unwrap();
    assert_eq!(node.host.residue(), Vec::<String>::new());
    assert_eq!(node.host.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_gave_up_meets_aborted_until_the_first_attempt_ends() {
    // C3
    let node = Node1::new();
    node.host.delay("format", Duration::from_secs(100));
    let first = node.service.node_stage_volume(node.stage_request());
    let gave_up = tokio::time::timeout(Duration::from_secs(30), first).await;
    assert!(gave_up.is_err());

    let repeat = node
        .service
        .node_stage_volume(node.stage_request())
        .await
        .unwrap_err();
    assert_eq!(repeat.code(), Code::Aborted);
    let other_way = node
        .service
        .node_unstage_volume(node.unstage_request())
        .await
        .unwrap_err();
    assert_eq!(other_way.code(), Code::Aborted);

    tokio::time::sleep(Duration::from_mins(2)).await;
    let _ = node.host.take_effects();
    node.service
        .node_stage_volume(node.stage_request())
        .await
        .unwrap();
    assert!(node.host.take_effects().is_empty());
}

#[tokio::test(start_paused = true)]
async fn forty_pods_of_one_volume_come_and_go_at_once() {
    // P11
    let node = Node1::new();
    node.service
        .node_stage_volume(node.stage_request())
        .await
        .unwrap();
    node.host.delay("bind", Duration::from_millis(50));
    let mut calls = tokio::task::JoinSet::new();
    for pod in 0..40 {
        let service = Arc::clone(&node.service);
        let publish = node.publish_request(&format!("/pods/{pod}"));
        let unpublish = node.unpublish_request(&format!("/pods/{pod}"));
        calls.spawn(async move {
            service.node_publish_volume(publish).await.map(drop)?;
            service.node_unpublish_volume(unpublish).await.map(drop)
        });
    }
    while let Some(call) = calls.join_next().await {
        call.unwrap().unwrap();
    }
    assert_eq!(node.host.mounts_on(Path::new(STAGING)).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_password_is_nowhere_in_the_journal_or_in_errors() {
    // C7, C14
    let node = Node1::new();
    node.service
        .node_stage_volume(node.stage_request())
        .await
        .unwrap();
    for entry in std::fs::read_dir(node.state.path()).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(!text.contains(PASSWORD), "{text}");
    }
    node.host.reboot();
    node.host
        .ask_for_chap(&node.gbid.iqn(), "another", "password");
    let error = node
        .service
        .node_stage_volume(node.stage_request())
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::Unauthenticated);
    assert!(!error.message().contains(PASSWORD), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_node_id_holds_the_name_and_the_initiator() {
    // T24
    let node = Node1::new();
    let info = node
        .service
        .node_get_info(Request::new(csi::NodeGetInfoRequest {}))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(info.node_id, "n1/iqn.1993-08.org.debian:01:fake");
    assert_eq!(info.max_volumes_per_node, 64);
}
