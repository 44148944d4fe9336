//! kubelet on one node.

use std::time::Duration;

use proto::csi;
use proto::csi::node_client::NodeClient;
use tonic::Status;
use tonic::transport::Channel;

use super::{PublishContext, Volume, settle, settle_any, text, within_limit};

/// kubelet on one node.
#[derive(Debug, Clone)]
pub struct Kubelet {
    node: NodeClient<Channel>,
}

impl Kubelet {
    /// Speaks to the node plugin behind `channel`.
    #[must_use]
    pub fn new(channel: Channel) -> Self {
        Self {
            node: NodeClient::new(channel),
        }
    }

    /// The bare client.
    #[must_use]
    pub fn client(&self) -> NodeClient<Channel> {
        self.node.clone()
    }

    /// NodeGetInfo: the node id under which the controller knows this node.
    ///
    /// # Errors
    /// The plugin's answer, or the last one when `patience` ran out.
    pub async fn node_id(&self, patience: Duration) -> Result<String, Status> {
        settle(patience, || async {
            let answer = self
                .client()
                .node_get_info(within_limit(csi::NodeGetInfoRequest {}))
                .await?;
            Ok(answer.into_inner().node_id)
        })
        .await
    }

    /// NodeStageVolume, once.
    ///
    /// # Errors
    /// The plugin's answer.
    pub async fn try_stage(&self, volume: &Volume, context: &PublishContext) -> Result<(), Status> {
        let request = csi::NodeStageVolumeRequest {
            volume_id: volume.id.clone(),
            publish_context: context.clone(),
            staging_target_path: text(&volume.staging_path()),
            volume_capability: Some(volume.capability()),
            volume_context: volume.context.clone(),
            ..Default::default()
        };
        self.client()
            .node_stage_volume(within_limit(request))
            .await
            .map(drop)
    }

    /// NodeStageVolume, repeated as kubelet does: after every failure.
    ///
    /// # Errors
    /// The last answer when `patience` ran out.
    pub async fn stage(
        &self,
        volume: &Volume,
        context: &PublishContext,
        patience: Duration,
    ) -> Result<(), Status> {
        settle_any(patience, || self.try_stage(volume, context)).await
    }

    /// NodePublishVolume for the pod.
    ///
    /// # Errors
    /// The plugin's answer.
    pub async fn publish(
        &self,
        volume: &Volume,
        context: &PublishContext,
        pod: &str,
        read_only: bool,
    ) -> Result<(), Status> {
        let request = csi::NodePublishVolumeRequest {
            volume_id: volume.id.clone(),
            publish_context: context.clone(),
            staging_target_path: text(&volume.staging_path()),
            target_path: text(&volume.target_path(pod)),
            volume_capability: Some(volume.capability()),
            readonly: read_only,
            volume_context: volume.context.clone(),
            ..Default::default()
        };
        self.client()
            .node_publish_volume(within_limit(request))
            .await
            .map(drop)
    }

    /// NodeUnpublishVolume for the pod, repeated after every failure.
    ///
    /// # Errors
    /// The last answer when `patience` ran out.
    pub async fn unpublish(
        &self,
        volume: &Volume,
        pod: &str,
        patience: Duration,
    ) -> Result<(), Status> {
        settle_any(patience, || async {
            let request = csi::NodeUnpublishVolumeRequest {
                volume_id: volume.id.clone(),
                target_path: text(&volume.target_path(pod)),
            };
            self.client()
                .node_unpublish_volume(within_limit(request))
                .await
                .map(drop)
        })
        .await
    }

    /// NodeUnstageVolume, once.
    ///
    /// # Errors
    /// The plugin's answer.
    pub async fn try_unstage(&self, volume: &Volume) -> Result<(), Status> {
        let request = csi::NodeUnstageVolumeRequest {
            volume_id: volume.id.clone(),
            staging_target_path: text(&volume.staging_path()),
        };
        self.client()
            .node_unstage_volume(within_limit(request))
            .await
            .map(drop)
    }

    /// NodeUnstageVolume, repeated after every failure.
    ///
    /// # Errors
    /// The last answer when `patience` ran out.
    pub async fn unstage(&self, volume: &Volume, patience: Duration) -> Result<(), Status> {
        settle_any(patience, || self.try_unstage(volume)).await
    }

    /// NodeGetVolumeStats of the pod's path.
    ///
    /// # Errors
    /// The plugin's answer.
    pub async fn stats(
        &self,
        volume: &Volume,
        pod: &str,
    ) -> Result<csi::NodeGetVolumeStatsResponse, Status> {
        let request = csi::NodeGetVolumeStatsRequest {
            volume_id: volume.id.clone(),
            volume_path: text(&volume.target_path(pod)),
            staging_target_path: text(&volume.staging_path()),
        };
        let answer = self
            .client()
            .node_get_volume_stats(within_limit(request))
            .await?;
        Ok(answer.into_inner())
    }

    /// NodeExpandVolume on the pod's path.
    ///
    /// # Errors
    /// The plugin's answer, or the last one when `patience` ran out.
    pub async fn expand(
        &self,
        volume: &Volume,
        pod: &str,
        bytes: i64,
        patience: Duration,
    ) -> Result<i64, Status> {
        settle(patience, || async {
            let request = csi::NodeExpandVolumeRequest {
                volume_id: volume.id.clone(),
                volume_path: text(&volume.target_path(pod)),
                capacity_range: Some(csi::CapacityRange {
                    required_bytes: bytes,
                    limit_bytes: 0,
                }),
                staging_target_path: text(&volume.staging_path()),
                volume_capability: Some(volume.capability()),
                ..Default::default()
            };
            let answer = self
                .client()
                .node_expand_volume(within_limit(request))
                .await?;
            Ok(answer.into_inner().capacity_bytes)
        })
        .await
    }
}
