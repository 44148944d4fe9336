//! The health dialect of CSI before 1.13: the condition of a volume.
//!
//! CSI 1.13 replaced `VolumeCondition` by health RPCs and only reserved its numbers, so a plugin can speak both. The
//! three messages that carried a condition, [`NodeGetVolumeStatsResponse`] and the `VolumeStatus` of
//! [`list_volumes_response`] and [`controller_get_volume_response`], have a `volume_condition` here too, and the two
//! capability enums a `VolumeCondition`. Whoever leaves them alone sends exactly what 1.13 says; whoever sets them sends
//! field 2, as older readers expect.
//!
//! It refuses to decide who gets which dialect: that is the plugin's setting, because csi-sanity rejects capabilities of
//! the dialect that it does not know.
//!
//! [`NodeGetVolumeStatsResponse`]: crate::csi::NodeGetVolumeStatsResponse
//! [`list_volumes_response`]: crate::csi::list_volumes_response
//! [`controller_get_volume_response`]: crate::csi::controller_get_volume_response

pub use generated::VolumeCondition;

/// The most a condition's message may have: no field of CSI is longer unless it says so.
const MESSAGE_BYTES: usize = 128;

impl VolumeCondition {
    /// The condition that sums up `reasons`: abnormal if there is one, with the reasons as the message.
    #[must_use]
    pub fn of<'a>(reasons: impl IntoIterator<Item = &'a str>) -> Self {
        let reasons: Vec<&str> = reasons.into_iter().collect();
        let mut message = reasons.join(", ");
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES));
        Self {
            abnormal: !reasons.is_empty(),
            message,
        }
    }
}

mod generated {
    #![allow(missing_docs, clippy::pedantic, reason = "generated code")]
    tonic::include_proto!("csi.legacy");
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::VolumeCondition;
    use crate::csi::{
        ControllerGetVolumeResponse, ListVolumesResponse, NodeGetVolumeStatsResponse, VolumeUsage,
        controller_get_volume_response, controller_service_capability, list_volumes_response,
        node_service_capability,
    };

    fn condition() -> VolumeCondition {
        VolumeCondition::of(["PathDown"])
    }

    // abnormal=1 true, message=2 "PathDown"
    const CONDITION: [u8; 12] = *b"\x08\x01\x12\x08PathDown";

    #[test]
    fn an_unset_condition_sends_what_1_13_says() {
        let stats = NodeGetVolumeStatsResponse {
            usage: vec![VolumeUsage {
                total: 5,
                ..VolumeUsage::default()
            }],
            volume_condition: None,
        };

        assert_eq!(stats.encode_to_vec(), b"\x0a\x02\x10\x05");
    }

    #[test]
    fn a_set_condition_is_field_2_of_the_stats() {
        let stats = NodeGetVolumeStatsResponse {
            usage: vec![],
            volume_condition: Some(condition()),
        };

        let expected = [b"\x12\x0c".as_slice(), &CONDITION].concat();
        assert_eq!(stats.encode_to_vec(), expected);
    }

    #[test]
    fn a_set_condition_is_field_2_of_each_listed_status() {
        let list = ListVolumesResponse {
            entries: vec![list_volumes_response::Entry {
                volume: None,
                status: Some(list_volumes_response::VolumeStatus {
                    published_node_ids: vec!["n".to_owned()],
                    volume_condition: Some(condition()),
                }),
            }],
            next_token: String::new(),
        };

        // entries=1 { status=2 { published_node_ids=1, volume_condition=2 } }
        let expected = [b"\x0a\x13\x12\x11\x0a\x01n\x12\x0c".as_slice(), &CONDITION].concat();
        assert_eq!(list.encode_to_vec(), expected);
    }

    #[test]
    fn a_set_condition_is_field_2_of_one_volumes_status() {
        let answer = ControllerGetVolumeResponse {
            volume: None,
            status: Some(controller_get_volume_response::VolumeStatus {
                published_node_ids: vec![],
                volume_condition: Some(condition()),
            }),
        };

        let expected = [b"\x12\x0e\x12\x0c".as_slice(), &CONDITION].concat();
        assert_eq!(answer.encode_to_vec(), expected);
    }

    #[test]
    fn the_removed_capabilities_keep_their_numbers() {
        use controller_service_capability::rpc::Type as Controller;
        use node_service_capability::rpc::Type as Node;

        assert_eq!(i32::from(Controller::VolumeCondition), 11);
        assert_eq!(i32::from(Node::VolumeCondition), 4);
    }

    #[test]
    fn a_condition_without_reasons_is_normal() {
        assert!(!VolumeCondition::of([]).abnormal);
    }

    #[test]
    fn a_conditions_message_fits_its_field_and_stays_text() {
        let condition = VolumeCondition::of(["é".repeat(100).as_str()]);

        assert_eq!(condition.message, "é".repeat(64));
    }
}
