//! From outcomes to CSI messages.

use std::collections::HashMap;

use blockd_client::vocabulary::{Capacity, NodeId, PublishContext};
use proto::csi;
use proto::csi::controller_service_capability::{self, rpc};
use proto::csi::validate_volume_capabilities_response::Confirmed;

use crate::ops::capacity::Available;
use crate::ops::create::Created;
use crate::ops::list::{ListedVolume, Page};

/// What the controller service can do.
pub(super) fn controller_capabilities() -> csi::ControllerGetCapabilitiesResponse {
    let capabilities = [
        rpc::Type::CreateDeleteVolume,
        rpc::Type::PublishUnpublishVolume,
        rpc::Type::ListVolumes,
        rpc::Type::ListVolumesPublishedNodes,
        rpc::Type::GetCapacity,
        rpc::Type::GetVolume,
        rpc::Type::ExpandVolume,
        rpc::Type::SingleNodeMultiWriter,
    ]
    .map(|capability| csi::ControllerServiceCapability {
        r#type: Some(controller_service_capability::Type::Rpc(
            controller_service_capability::Rpc {
                r#type: capability.into(),
            },
        )),
    })
    .to_vec();
    csi::ControllerGetCapabilitiesResponse { capabilities }
}

pub(super) fn created(created: Created) -> csi::CreateVolumeResponse {
    csi::CreateVolumeResponse {
        volume: Some(csi::Volume {
            capacity_bytes: signed(created.size),
            volume_id: created.context.volume_id().to_string(),
            volume_context: created.context.into(),
            ..csi::Volume::default()
        }),
    }
}

pub(super) fn published(context: PublishContext) -> csi::ControllerPublishVolumeResponse {
    csi::ControllerPublishVolumeResponse {
        publish_context: context.into(),
    }
}

/// Everything asked is confirmed, or nothing.
pub(super) fn validated(
    asked: csi::ValidateVolumeCapabilitiesRequest,
    misfit: Option<String>,
) -> csi::ValidateVolumeCapabilitiesResponse {
    match misfit {
        Some(message) => csi::ValidateVolumeCapabilitiesResponse {
            confirmed: None,
            message,
        },
        None => csi::ValidateVolumeCapabilitiesResponse {
            confirmed: Some(Confirmed {
                volume_context: asked.volume_context,
                volume_capabilities: asked.volume_capabilities,
                parameters: asked.parameters,
                mutable_parameters: HashMap::new(),
            }),
            message: String::new(),
        },
    }
}

pub(super) fn listed(page: Page) -> csi::ListVolumesResponse {
    let entry = |volume: ListedVolume| {
        let status = csi::list_volumes_response::VolumeStatus {
            published_node_ids: node_ids(&volume.nodes),
            ..csi::list_volumes_response::VolumeStatus::default()
        };
        csi::list_volumes_response::Entry {
            volume: Some(message(&volume)),
            status: Some(status),
        }
    };
    csi::ListVolumesResponse {
        entries: page.volumes.into_iter().map(entry).collect(),
        next_token: page.next.unwrap_or_default(),
    }
}

pub(super) fn got(volume: &ListedVolume) -> csi::ControllerGetVolumeResponse {
    csi::ControllerGetVolumeResponse {
        volume: Some(message(volume)),
        status: Some(csi::controller_get_volume_response::VolumeStatus {
            published_node_ids: node_ids(&volume.nodes),
            ..csi::controller_get_volume_response::VolumeStatus::default()
        }),
    }
}

pub(super) fn capacity(available: Available) -> csi::GetCapacityResponse {
    csi::GetCapacityResponse {
        available_capacity: signed(available.total),
        maximum_volume_size: Some(signed(available.largest)),
        minimum_volume_size: Some(signed(available.smallest)),
    }
}

pub(super) fn expanded(size: Capacity) -> csi::ControllerExpandVolumeResponse {
    csi::ControllerExpandVolumeResponse {
        capacity_bytes: signed(size),
        // Even raw devices: their paths and their map have to be read anew.
        node_expansion_required: true,
    }
}

/// Without a context: what the class said of file systems is not in gluster-block.
fn message(volume: &ListedVolume) -> csi::Volume {
    csi::Volume {
        capacity_bytes: signed(volume.size),
        volume_id: volume.id.to_string(),
        ..csi::Volume::default()
    }
}

fn node_ids(nodes: &[NodeId]) -> Vec<String> {
    nodes.iter().map(ToString::to_string).collect()
}

/// CSI counts in signed numbers; nothing we count comes near their end.
fn signed(size: Capacity) -> i64 {
    i64::try_from(size.bytes()).unwrap_or(i64::MAX)
}
