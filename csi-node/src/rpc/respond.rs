//! From outcomes to CSI messages.

use proto::csi;
use proto::csi::node_service_capability::{self, rpc};
use proto::csi::volume_usage::Unit;

use crate::host::Usage;
use crate::ops::stats::VolumeUsage;

/// What the node service can do.
pub(super) fn node_capabilities() -> csi::NodeGetCapabilitiesResponse {
    let capabilities = [
        rpc::Type::StageUnstageVolume,
        rpc::Type::GetVolumeStats,
        rpc::Type::ExpandVolume,
        rpc::Type::SingleNodeMultiWriter,
    ]
    .map(|capability| csi::NodeServiceCapability {
        r#type: Some(node_service_capability::Type::Rpc(
            node_service_capability::Rpc {
                r#type: capability.into(),
            },
        )),
    })
    .to_vec();
    csi::NodeGetCapabilitiesResponse { capabilities }
}

/// How full a volume is.
pub(super) fn stats(usage: VolumeUsage) -> csi::NodeGetVolumeStatsResponse {
    let usage = match usage {
        VolumeUsage::Block(size) => vec![csi::VolumeUsage {
            total: signed(size.bytes()),
            unit: Unit::Bytes.into(),
            ..csi::VolumeUsage::default()
        }],
        VolumeUsage::Filesystem(usage) => filesystem(usage),
    };
    csi::NodeGetVolumeStatsResponse {
        usage,
        ..csi::NodeGetVolumeStatsResponse::default()
    }
}

fn filesystem(usage: Usage) -> Vec<csi::VolumeUsage> {
    vec![
        csi::VolumeUsage {
            available: signed(usage.available_bytes),
            total: signed(usage.total_bytes),
            used: signed(usage.used_bytes),
            unit: Unit::Bytes.into(),
        },
        csi::VolumeUsage {
            available: signed(usage.free_inodes),
            total: signed(usage.total_inodes),
            used: signed(usage.used_inodes),
            unit: Unit::Inodes.into(),
        },
    ]
}

/// CSI counts in signed numbers; nothing we count comes near their end.
pub(super) fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
