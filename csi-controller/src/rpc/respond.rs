//! From outcomes to CSI messages.

use std::collections::HashMap;

use blockd_client::vocabulary::{FsDefaults, VolumeContext};
use proto::csi;
use proto::csi::controller_service_capability as controller;
use proto::csi::plugin_capability as plugin;
use proto::csi::validate_volume_capabilities_response::Confirmed;

use super::parse::Validate;
use crate::ops::capacity::Available;
use crate::ops::create::Created;
use crate::ops::list::Page;

/// What both services of this driver can do; the node plugin says the same.
pub(super) fn plugin_capabilities() -> csi::GetPluginCapabilitiesResponse {
    let service = plugin::service::Type::ControllerService;
    let expansion = plugin::volume_expansion::Type::Online;
    let capability = |kind| csi::PluginCapability { r#type: Some(kind) };
    csi::GetPluginCapabilitiesResponse {
        capabilities: vec![
            capability(plugin::Type::Service(plugin::Service {
                r#type: service.into(),
            })),
            capability(plugin::Type::VolumeExpansion(plugin::VolumeExpansion {
                r#type: expansion.into(),
            })),
        ],
    }
}

/// What the controller can do.
pub(super) fn capabilities() -> csi::ControllerGetCapabilitiesResponse {
    use controller::rpc::Type;
    let capability = |kind: Type| csi::ControllerServiceCapability {
        r#type: Some(controller::Type::Rpc(controller::Rpc {
            r#type: kind.into(),
        })),
    };
    let kinds = [
        Type::CreateDeleteVolume,
        Type::PublishUnpublishVolume,
        Type::ListVolumes,
        Type::GetCapacity,
        Type::ExpandVolume,
        Type::SingleNodeMultiWriter,
    ];
    csi::ControllerGetCapabilitiesResponse {
        capabilities: kinds.map(capability).into(),
    }
}

pub(super) fn created(made: &Created) -> csi::CreateVolumeResponse {
    let context = VolumeContext {
        gbid: made.gbid,
        hosting_volume: made.id.hosting_volume.clone(),
        block: made.id.block.clone(),
        fs: FsDefaults {
            fs_type: made.fs_type,
        },
    };
    csi::CreateVolumeResponse {
        volume: Some(csi::Volume {
            capacity_bytes: signed(made.size.bytes()),
            volume_id: made.id.to_string(),
            volume_context: context.into(),
            ..Default::default()
        }),
    }
}

/// | capabilities | answer |
/// |---|---|
/// | all supported | confirmed, as asked |
/// | one is not | not confirmed, with the reason |
pub(super) fn validated(asked: Validate) -> csi::ValidateVolumeCapabilitiesResponse {
    match asked.unsupported {
        Some(message) => csi::ValidateVolumeCapabilitiesResponse {
            confirmed: None,
            message,
        },
        None => csi::ValidateVolumeCapabilitiesResponse {
            confirmed: Some(Confirmed {
                volume_context: asked.context,
                volume_capabilities: asked.capabilities,
                parameters: asked.parameters,
                mutable_parameters: HashMap::new(),
            }),
            message: String::new(),
        },
    }
}

pub(super) fn page(page: Page) -> csi::ListVolumesResponse {
    let entries = page
        .volumes
        .into_iter()
        .map(|(id, size)| csi::list_volumes_response::Entry {
            volume: Some(csi::Volume {
                volume_id: id.to_string(),
                // Zero means "not known": gluster-block prints sizes rounded.
                capacity_bytes: size.map_or(0, |size| signed(size.bytes())),
                ..Default::default()
            }),
            status: None,
        });
    csi::ListVolumesResponse {
        entries: entries.collect(),
        next_token: page.next.unwrap_or_default(),
    }
}

pub(super) fn capacity(available: Available) -> csi::GetCapacityResponse {
    csi::GetCapacityResponse {
        available_capacity: signed(available.total),
        maximum_volume_size: Some(signed(available.largest)),
        minimum_volume_size: Some(signed(super::parse::UNIT)),
    }
}

pub(super) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
