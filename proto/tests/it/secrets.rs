//! What must not be printed is not printed.

use std::collections::HashMap;

use proto::csi;

fn secrets() -> HashMap<String, String> {
    HashMap::from([("password".to_owned(), "hunter2".to_owned())])
}

#[test]
fn a_request_with_secrets_shows_that_it_has_them_and_not_what_they_are() {
    let request = csi::NodeStageVolumeRequest {
        volume_id: "hv/block".to_owned(),
        secrets: secrets(),
        ..csi::NodeStageVolumeRequest::default()
    };

    let shown = format!("{request:?}");

    assert!(shown.contains(r#"volume_id: "hv/block""#), "{shown}");
    assert!(shown.contains("secrets: 1 redacted"), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn secrets_of_an_alpha_field_are_not_shown_either() {
    let request = csi::NodeExpandVolumeRequest {
        secrets: secrets(),
        ..csi::NodeExpandVolumeRequest::default()
    };

    assert!(!format!("{request:#?}").contains("hunter2"));
}
