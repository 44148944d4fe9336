//! The sidecars beside the controller: external-provisioner, external-attacher and external-resizer.

use std::time::Duration;

use proto::csi;
use proto::csi::controller_client::ControllerClient;
use tonic::Status;
use tonic::transport::Channel;

use super::{Claim, PublishContext, Volume, capability, settle, settle_any, within_limit};

/// The sidecars beside the controller.
#[derive(Debug, Clone)]
pub struct Sidecars {
    controller: ControllerClient<Channel>,
}

impl Sidecars {
    /// Speaks to the controller behind `channel`.
    #[must_use]
    pub fn new(channel: Channel) -> Self {
        Self {
            controller: ControllerClient::new(channel),
        }
    }

    /// The bare client, for calls that no sidecar makes.
    #[must_use]
    pub fn client(&self) -> ControllerClient<Channel> {
        self.controller.clone()
    }

    /// external-provisioner's CreateVolume, once.
    ///
    /// # Errors
    /// The controller's answer when it is not a volume.
    pub async fn try_create(&self, claim: &Claim) -> Result<Volume, Status> {
        let request = csi::CreateVolumeRequest {
            name: claim.name.clone(),
            capacity_range: Some(csi::CapacityRange {
                required_bytes: claim.bytes,
                limit_bytes: 0,
            }),
            volume_capabilities: vec![capability(&claim.access)],
            parameters: claim.parameters.clone().into_iter().collect(),
            ..Default::default()
        };
        let answer = self
            .client()
            .create_volume(within_limit(request))
            .await?
            .into_inner();
        let volume = answer
            .volume
            .ok_or_else(|| Status::internal("no volume in the answer"))?;
        Ok(Volume {
            id: volume.volume_id,
            context: volume.volume_context,
            bytes: volume.capacity_bytes,
            access: claim.access.clone(),
            name: claim.name.clone(),
        })
    }

    /// external-provisioner's CreateVolume, repeated until the answer is final.
    ///
    /// # Errors
    /// The final answer when it is not a volume, or the last one when `patience` ran out.
    pub async fn create(&self, claim: &Claim, patience: Duration) -> Result<Volume, Status> {
        settle(patience, || self.try_create(claim)).await
    }

    /// external-provisioner's DeleteVolume, repeated until it succeeds.
    ///
    /// # Errors
    /// The last answer when `patience` ran out.
    pub async fn delete(&self, id: &str, patience: Duration) -> Result<(), Status> {
        settle_any(patience, || async {
            let request = csi::DeleteVolumeRequest {
                volume_id: id.to_owned(),
                ..Default::default()
            };
            self.client()
                .delete_volume(within_limit(request))
                .await
                .map(drop)
        })
        .await
    }

    /// external-attacher's ControllerPublishVolume.
    ///
    /// # Errors
    /// The controller's answer, or the last one when `patience` ran out.
    pub async fn attach(
        &self,
        volume: &Volume,
        node_id: &str,
        patience: Duration,
    ) -> Result<PublishContext, Status> {
        settle(patience, || async {
            let request = csi::ControllerPublishVolumeRequest {
                volume_id: volume.id.clone(),
                node_id: node_id.to_owned(),
                volume_capability: Some(volume.capability()),
                volume_context: volume.context.clone(),
                ..Default::default()
            };
            let answer = self
                .client()
                .controller_publish_volume(within_limit(request))
                .await?;
            Ok(answer.into_inner().publish_context)
        })
        .await
    }

    /// external-attacher's ControllerUnpublishVolume.
    ///
    /// # Errors
    /// The last answer when `patience` ran out.
    pub async fn detach(&self, id: &str, node_id: &str, patience: Duration) -> Result<(), Status> {
        settle_any(patience, || async {
            let request = csi::ControllerUnpublishVolumeRequest {
                volume_id: id.to_owned(),
                node_id: node_id.to_owned(),
                ..Default::default()
            };
            self.client()
                .controller_unpublish_volume(within_limit(request))
                .await
                .map(drop)
        })
        .await
    }

    /// external-resizer's ControllerExpandVolume: the new size, and whether the node has to act.
    ///
    /// # Errors
    /// The controller's answer, or the last one when `patience` ran out.
    pub async fn expand(
        &self,
        volume: &Volume,
        bytes: i64,
        patience: Duration,
    ) -> Result<(i64, bool), Status> {
        settle(patience, || async {
            let request = csi::ControllerExpandVolumeRequest {
                volume_id: volume.id.clone(),
                capacity_range: Some(csi::CapacityRange {
                    required_bytes: bytes,
                    limit_bytes: 0,
                }),
                volume_capability: Some(volume.capability()),
                ..Default::default()
            };
            let answer = self
                .client()
                .controller_expand_volume(within_limit(request))
                .await?;
            let answer = answer.into_inner();
            Ok((answer.capacity_bytes, answer.node_expansion_required))
        })
        .await
    }
}
