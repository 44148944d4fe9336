//! Every field rule: what is missing or wrong is named.

use proptest::prelude::*;
use proto::csi::volume_capability::{AccessMode as Wire, BlockVolume, MountVolume};
use proto::error::Chain;

use super::*;

fn capability(mode: Mode) -> csi::VolumeCapability {
    csi::VolumeCapability {
        access_mode: Some(Wire { mode: mode.into() }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    }
}

fn request() -> csi::CreateVolumeRequest {
    csi::CreateVolumeRequest {
        name: "pvc-1".to_owned(),
        volume_capabilities: vec![capability(Mode::SingleNodeWriter)],
        ..csi::CreateVolumeRequest::default()
    }
}

fn refused(change: impl FnOnce(&mut csi::CreateVolumeRequest), kind: ErrorKind, text: &str) {
    let mut request = request();
    change(&mut request);
    let error = create(request).unwrap_err();
    let message = Chain(&error).to_string();
    assert_eq!(error.kind(), kind, "{message}");
    assert!(message.contains(text), "{message}");
}

fn capacity_range(required_bytes: i64, limit_bytes: i64) -> csi::CapacityRange {
    csi::CapacityRange {
        required_bytes,
        limit_bytes,
    }
}

#[test]
fn a_bare_request_is_one_gibibyte_of_ext4_for_three_hosts() {
    let volume = create(request()).unwrap();
    assert_eq!(volume.block.as_str(), "pvc-1");
    assert_eq!(volume.size.bytes(), 1 << 30);
    assert_eq!(volume.parameters, Parameters::default());
    assert_eq!(volume.fs.fs_type, FsType::Ext4);
}

#[test]
fn every_wrong_field_of_a_create_is_named() {
    use ErrorKind::{InvalidArgument, OutOfRange};
    refused(|r| r.name.clear(), InvalidArgument, "name is missing");
    refused(|r| r.name = "x".repeat(129), InvalidArgument, "128 bytes");
    refused(|r| r.name = "a\u{7}b".into(), InvalidArgument, "control");
    refused(
        |r| r.volume_capabilities.clear(),
        InvalidArgument,
        "volume_capabilities is missing",
    );
    refused(
        |r| r.volume_capabilities[0].access_mode = None,
        InvalidArgument,
        "access_mode",
    );
    refused(
        |r| r.volume_capabilities[0].access_type = None,
        InvalidArgument,
        "access_type",
    );
    refused(
        |r| r.capacity_range = Some(capacity_range(-1, 0)),
        InvalidArgument,
        "required_bytes",
    );
    refused(
        |r| r.capacity_range = Some(capacity_range(1, -1)),
        InvalidArgument,
        "limit_bytes",
    );
    refused(
        |r| r.capacity_range = Some(capacity_range(1024, 512)),
        InvalidArgument,
        "limit_bytes",
    );
    refused(
        |r| r.capacity_range = Some(capacity_range(1, 100)),
        OutOfRange,
        "multiple of 512",
    );
    refused(
        |r| r.capacity_range = Some(capacity_range(i64::MAX, 0)),
        OutOfRange,
        "capacity_range",
    );
    refused(
        |r| drop(r.parameters.insert("hacuont".into(), "2".into())),
        InvalidArgument,
        "hacount",
    );
    refused(
        |r| drop(r.parameters.insert("hacount".into(), "x".repeat(5000))),
        InvalidArgument,
        "4 KiB",
    );
    refused(
        |r| drop(r.mutable_parameters.insert("a".into(), "b".into())),
        InvalidArgument,
        "mutable_parameters",
    );
    refused(
        |r| r.volume_content_source = Some(csi::VolumeContentSource::default()),
        InvalidArgument,
        "volume_content_source",
    );
}

#[test]
fn writers_on_several_nodes_are_refused_and_readers_are_not() {
    for mode in [Mode::MultiNodeMultiWriter, Mode::MultiNodeSingleWriter] {
        let change = |r: &mut csi::CreateVolumeRequest| r.volume_capabilities[0] = capability(mode);
        refused(change, ErrorKind::InvalidArgument, mode.as_str_name());
    }
    for mode in [
        Mode::SingleNodeWriter,
        Mode::SingleNodeReaderOnly,
        Mode::MultiNodeReaderOnly,
        Mode::SingleNodeSingleWriter,
        Mode::SingleNodeMultiWriter,
    ] {
        assert!(usage(&capability(mode)).is_ok(), "{mode:?}");
    }
    assert!(usage(&capability(Mode::Unknown)).is_err());
}

#[test]
fn a_file_system_that_we_do_not_make_is_refused() {
    let with = |fs_type: &str| csi::VolumeCapability {
        access_type: Some(AccessType::Mount(MountVolume {
            fs_type: fs_type.to_owned(),
            ..MountVolume::default()
        })),
        ..capability(Mode::SingleNodeWriter)
    };
    assert_eq!(usage(&with("xfs")).ok().unwrap().fs, Some(FsType::Xfs));
    let error = usage(&with("ntfs")).err().unwrap().to_string();
    assert!(error.contains("ntfs") && error.contains("ext4"), "{error}");
}

#[test]
fn a_raw_device_is_another_access() {
    let raw = csi::VolumeCapability {
        access_type: Some(AccessType::Block(BlockVolume {})),
        ..capability(Mode::SingleNodeWriter)
    };
    assert!(usage(&raw).ok().unwrap().access.raw);
}

#[test]
fn an_unparsable_id_is_gone_for_delete_and_unknown_for_the_rest() {
    let id = || "no/such/id".to_owned();
    let deleted = delete(csi::DeleteVolumeRequest {
        volume_id: id(),
        ..Default::default()
    });
    assert!(deleted.unwrap().is_none());
    let published = publish(csi::ControllerPublishVolumeRequest {
        volume_id: id(),
        node_id: "n1/iqn.1993-08.org.debian:01:1".to_owned(),
        volume_capability: Some(capability(Mode::SingleNodeWriter)),
        ..Default::default()
    });
    assert_eq!(published.unwrap_err().kind(), ErrorKind::NotFound);
    let node = publish(csi::ControllerPublishVolumeRequest {
        volume_id: "hv/b".to_owned(),
        node_id: "some-node".to_owned(),
        volume_capability: Some(capability(Mode::SingleNodeWriter)),
        ..Default::default()
    });
    assert_eq!(node.unwrap_err().kind(), ErrorKind::NotFound);
    let grown = expand(csi::ControllerExpandVolumeRequest {
        volume_id: id(),
        capacity_range: Some(capacity_range(1, 0)),
        ..Default::default()
    });
    assert_eq!(grown.unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn missing_fields_of_the_other_calls_are_named() {
    let missing = |error: ParseError, field: &str| {
        let message = error.to_string();
        assert!(message.contains(field), "{message}");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    };
    missing(
        delete(csi::DeleteVolumeRequest::default()).unwrap_err(),
        "volume_id",
    );
    missing(
        publish(csi::ControllerPublishVolumeRequest::default()).unwrap_err(),
        "volume_id",
    );
    let with_id = csi::ControllerPublishVolumeRequest {
        volume_id: "hv/b".to_owned(),
        ..Default::default()
    };
    missing(publish(with_id.clone()).unwrap_err(), "node_id");
    let with_node = csi::ControllerPublishVolumeRequest {
        node_id: "n/iqn.1993-08.org.debian:01:1".to_owned(),
        ..with_id
    };
    missing(publish(with_node).unwrap_err(), "volume_capability");
    missing(
        unpublish(csi::ControllerUnpublishVolumeRequest::default()).unwrap_err(),
        "volume_id",
    );
    missing(
        validate(&csi::ValidateVolumeCapabilitiesRequest::default()).unwrap_err(),
        "volume_id",
    );
    missing(
        expand(csi::ControllerExpandVolumeRequest::default()).unwrap_err(),
        "volume_id",
    );
    let without_range = csi::ControllerExpandVolumeRequest {
        volume_id: "hv/b".to_owned(),
        ..Default::default()
    };
    missing(expand(without_range).unwrap_err(), "capacity_range");
    missing(
        get(csi::ControllerGetVolumeRequest::default()).unwrap_err(),
        "volume_id",
    );
}

proptest! {
    #[test]
    fn any_legal_name_is_taken(name in "[^\\x00-\\x1f\\x7f-\\u{9f}]{1,32}") {
        let request = csi::CreateVolumeRequest { name, ..request() };
        prop_assert!(create(request).is_ok());
    }
}
