//! What is understood, what is refused, and with which code.

use blockd_client::vocabulary::{FsDefaults, Gbid, Portal};
use csi::volume_capability::{AccessMode, BlockVolume, MountVolume};

use super::*;

const GBID: &str = "6f3c2a10-1111-4222-8333-abcdefabcdef";

fn capability(mode: Mode, access: AccessType) -> csi::VolumeCapability {
    csi::VolumeCapability {
        access_mode: Some(AccessMode { mode: mode.into() }),
        access_type: Some(access),
    }
}

fn mount(fs_type: &str, flags: &[&str]) -> AccessType {
    AccessType::Mount(MountVolume {
        fs_type: fs_type.to_owned(),
        mount_flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
        volume_mount_group: String::new(),
    })
}

fn contexts(gbid: &str) -> (HashMap<String, String>, HashMap<String, String>) {
    let gbid: Gbid = gbid.parse().unwrap();
    let volume = VolumeContext {
        gbid,
        hosting_volume: "hv1".parse().unwrap(),
        block: "pvc-1".parse().unwrap(),
        fs: FsDefaults {
            fs_type: FsType::Xfs,
        },
    };
    let portals: Vec<Portal> = vec!["10.77.1.11:3260".parse().unwrap()];
    let publish = PublishContext {
        iqn: gbid.iqn(),
        portals,
        wwid: gbid.wwid(),
        capacity: Capacity::from_bytes(1 << 30),
        chap: None,
    };
    (volume.into(), publish.into())
}

fn stage_request() -> csi::NodeStageVolumeRequest {
    let (volume_context, publish_context) = contexts(GBID);
    csi::NodeStageVolumeRequest {
        volume_id: "hv1/pvc-1".to_owned(),
        publish_context,
        staging_target_path: "/staging//1/".to_owned(),
        volume_capability: Some(capability(Mode::SingleNodeWriter, mount("", &["noatime"]))),
        secrets: HashMap::new(),
        volume_context,
    }
}

fn publish_request() -> csi::NodePublishVolumeRequest {
    let (volume_context, publish_context) = contexts(GBID);
    csi::NodePublishVolumeRequest {
        volume_id: "hv1/pvc-1".to_owned(),
        publish_context,
        staging_target_path: "/staging/1".to_owned(),
        target_path: "/pods/1".to_owned(),
        volume_capability: Some(capability(Mode::SingleNodeMultiWriter, mount("ext4", &[]))),
        readonly: false,
        secrets: HashMap::new(),
        volume_context,
    }
}

#[test]
fn a_whole_stage_request_is_understood() {
    let wanted = stage(stage_request()).unwrap();
    assert_eq!(wanted.staging_path, PathBuf::from("/staging/1"));
    let access = Access::Filesystem {
        fs: FsType::Xfs,
        flags: vec!["noatime".to_owned()],
    };
    assert_eq!(
        wanted.access, access,
        "the class decides where the request is silent"
    );
    assert_eq!(wanted.target.expected.bytes(), 1 << 30);
}

#[test]
fn every_missing_field_is_named() {
    type Damage = fn(&mut csi::NodeStageVolumeRequest);
    let breaks: [(Damage, &str); 4] = [
        (|request| request.volume_id.clear(), "volume_id"),
        (
            |request| request.staging_target_path.clear(),
            "staging_target_path",
        ),
        (
            |request| request.volume_capability = None,
            "volume_capability",
        ),
        (|request| request.publish_context.clear(), "publish_context"),
    ];
    for (damage, field) in breaks {
        let mut request = stage_request();
        damage(&mut request);
        let error = stage(request).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{field}");
        assert!(error.to_string().contains(field), "{error}");
    }
}

#[test]
fn an_id_that_is_none_of_ours_is_not_found() {
    let request = csi::NodeGetVolumeStatsRequest {
        volume_id: "fake-volume".to_owned(),
        volume_path: "some/path".to_owned(),
        staging_target_path: String::new(),
    };
    assert_eq!(stats(request).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn contexts_of_another_volume_are_refused() {
    let mut request = stage_request();
    request.publish_context = contexts("00000000-2222-4222-8333-abcdefabcdef").1;
    assert!(matches!(
        stage(request).unwrap_err(),
        ParseError::Mismatch { .. }
    ));
    let mut request = stage_request();
    request.volume_id = "hv1/pvc-2".to_owned();
    assert!(matches!(
        stage(request).unwrap_err(),
        ParseError::Mismatch { .. }
    ));
}

#[test]
fn paths_that_are_relative_or_climb_are_refused() {
    for text in ["relative", "/a/../b", "/", "/nul\0"] {
        let mut request = stage_request();
        text.clone_into(&mut request.staging_target_path);
        let error = stage(request).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text:?}");
    }
}

#[test]
fn each_access_mode_has_its_meaning() {
    let expected = [
        (Mode::SingleNodeWriter, Ok((false, false))),
        (Mode::SingleNodeSingleWriter, Ok((false, false))),
        (Mode::SingleNodeMultiWriter, Ok((false, true))),
        (Mode::SingleNodeReaderOnly, Ok((true, false))),
        (Mode::MultiNodeReaderOnly, Ok((true, true))),
        (
            Mode::MultiNodeSingleWriter,
            Err(ErrorKind::FailedPrecondition),
        ),
        (
            Mode::MultiNodeMultiWriter,
            Err(ErrorKind::FailedPrecondition),
        ),
        (Mode::Unknown, Err(ErrorKind::InvalidArgument)),
    ];
    for (mode, outcome) in expected {
        let mut request = publish_request();
        request.volume_capability = Some(capability(mode, AccessType::Block(BlockVolume {})));
        let parsed = publish(request);
        let seen = parsed.map(|wanted| (wanted.read_only, wanted.shared));
        assert_eq!(seen.map_err(|error| error.kind()), outcome, "{mode:?}");
    }
}

#[test]
fn a_read_only_flag_makes_the_volume_read_only_and_is_not_passed_on() {
    let mut request = stage_request();
    request.volume_capability = Some(capability(
        Mode::SingleNodeWriter,
        mount("ext4", &["ro", "noatime"]),
    ));
    let wanted = stage(request).unwrap();
    assert!(wanted.target.read_only);
    let access = Access::Filesystem {
        fs: FsType::Ext4,
        flags: vec!["noatime".to_owned()],
    };
    assert_eq!(wanted.access, access);
}

#[test]
fn a_file_system_we_do_not_make_and_a_mount_group_are_refused() {
    // K01
    let mut request = stage_request();
    request.volume_capability = Some(capability(Mode::SingleNodeWriter, mount("btrfs", &[])));
    assert_eq!(
        stage(request).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );

    let mut request = stage_request();
    let grouped = AccessType::Mount(MountVolume {
        volume_mount_group: "1000".to_owned(),
        ..MountVolume::default()
    });
    request.volume_capability = Some(capability(Mode::SingleNodeWriter, grouped));
    assert_eq!(
        stage(request).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
}

#[test]
fn publishing_without_a_staging_path_is_a_failed_precondition() {
    let mut request = publish_request();
    request.staging_target_path.clear();
    assert_eq!(
        publish(request).unwrap_err().kind(),
        ErrorKind::FailedPrecondition
    );
}

#[test]
fn unpublish_takes_any_id_and_expand_any_size_that_makes_sense() {
    let request = csi::NodeUnpublishVolumeRequest {
        volume_id: "somebody else's".to_owned(),
        target_path: "/pods/1".to_owned(),
    };
    assert!(unpublish(request).is_ok());
    let expanded = |required_bytes, limit_bytes| {
        expand(csi::NodeExpandVolumeRequest {
            volume_id: "hv1/pvc-1".to_owned(),
            volume_path: "/pods/1".to_owned(),
            capacity_range: Some(csi::CapacityRange {
                required_bytes,
                limit_bytes,
            }),
            ..csi::NodeExpandVolumeRequest::default()
        })
    };
    assert!(expanded(0, 0).is_ok());
    assert!(expanded(2, 1).is_err());
    assert!(expanded(-1, 0).is_err());
}
