//! Stage on the modelled host: what it reaches, what it refuses, and that a second run does nothing.

use std::path::Path;

use blockd_client::vocabulary::{Capacity, FsType};
use proto::error::{Classify, ErrorKind};

use super::*;
use crate::host::fake::DiskContent;
use crate::host::{DevNumber, HostError};
use crate::ops::attach::AttachError;
use crate::ops::fixture::{Bench, GIB, STAGING, iqn};

fn refusal(outcome: Result<(), StageError>) -> AttachError {
    match outcome {
        Err(StageError::Attach { source }) => source,
        other => panic!("expected a refusal to attach, got {other:?}"),
    }
}

fn input_output() -> HostError {
    HostError::ReadFailed {
        device: "dm-0".to_owned(),
        detail: "input/output error".to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_blank_volume_is_formatted_once_and_mounted_from_its_map() {
    let bench = Bench::new();
    bench.stage().await.unwrap();

    let mounts = bench.host.mounts_on(Path::new(STAGING));
    assert_eq!(mounts.len(), 1);
    assert_eq!(mounts[0].dev.major, 253, "W04: never a bare sd");
    assert_eq!(bench.host.formats(bench.disk), 1);
    let record = bench.record().await.unwrap();
    assert_eq!(record.step, Marker::Staged);
    assert_eq!(record.format, FormatMarker::Finished);
    bench.assert_lawful("stage");
}

#[tokio::test(start_paused = true)]
async fn a_second_stage_does_nothing_at_all() {
    // T03
    let bench = Bench::new();
    bench.stage().await.unwrap();
    bench.effects();
    bench.stage().await.unwrap();
    assert_eq!(bench.effects(), Vec::<&str>::new());
}

#[tokio::test(start_paused = true)]
async fn effects_come_in_the_promised_order() {
    let bench = Bench::new();
    bench.stage().await.unwrap();
    assert_eq!(
        bench.effects(),
        [
            "write_record",
            "write_record",
            "login",
            "login",
            "scan",
            "scan",
            "add_map",
            "format",
            "make_target",
            "mount",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn one_dead_portal_of_two_does_not_hold_the_stage_up() {
    // S13, W05: and one path alone still gets a map
    let bench = Bench::new();
    bench.host.set_portal(&bench.iqn, &bench.portals[1], false);
    bench.stage().await.unwrap();
    assert_eq!(bench.host.session_count(), 1);
    assert_eq!(bench.host.mounts_on(Path::new(STAGING))[0].dev.major, 253);
}

#[tokio::test(start_paused = true)]
async fn with_all_portals_dead_the_stage_is_unavailable_and_says_why_per_portal() {
    // Q07
    let bench = Bench::new();
    for portal in &bench.portals {
        bench.host.set_portal(&bench.iqn, portal, false);
    }
    let error = bench.stage().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let text = proto::error::Chain(&error).to_string();
    assert!(
        text.contains("10.77.1.11:3260") && text.contains("10.77.1.12:3260"),
        "{text}"
    );
    assert_eq!(bench.host.formats(bench.disk), 0);
}

#[tokio::test(start_paused = true)]
async fn a_path_that_is_another_volume_is_deleted_scanned_again_and_then_refused() {
    // W01
    let bench = Bench::new();
    let other = iqn("00000000-2222-4222-8333-abcdefabcdef");
    let foreign = bench.host.add_disk(&other, Capacity::from_bytes(GIB));
    bench
        .host
        .set_lun(&bench.iqn, &bench.portals[0], Some(foreign));

    let error = refusal(bench.stage().await);
    assert!(matches!(error, AttachError::WrongDevice { .. }), "{error}");
    let effects = bench.effects();
    assert_eq!(
        effects
            .iter()
            .filter(|effect| **effect == "delete_path")
            .count(),
        1
    );
    assert!(
        !effects.contains(&"mount") && !effects.contains(&"format"),
        "{effects:?}"
    );
    assert_eq!(bench.host.formats(foreign), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stale_path_of_an_earlier_lun_is_read_again_and_used() {
    // W01: the kernel remembers the old LUN, the device is the volume
    let bench = Bench::new();
    let other = iqn("00000000-2222-4222-8333-abcdefabcdef");
    let foreign = bench.host.add_disk(&other, Capacity::from_bytes(GIB / 2));
    bench
        .host
        .set_lun(&bench.iqn, &bench.portals[0], Some(foreign));
    refusal(bench.stage().await);
    bench
        .host
        .set_lun(&bench.iqn, &bench.portals[0], Some(bench.disk));

    bench.stage().await.unwrap();
    assert!(bench.effects().contains(&"rescan"));
    assert_eq!(bench.host.formats(foreign), 0);
}

#[tokio::test(start_paused = true)]
async fn a_null_lun_is_left_out_and_never_becomes_a_path_of_the_map() {
    let bench = Bench::new();
    bench.stage().await.unwrap();
    bench.unstage().await.unwrap();
    bench.host.set_lun(&bench.iqn, &bench.portals[1], None);
    bench.stage().await.unwrap();
    assert_eq!(bench.host.session_count(), 2);
    bench.assert_lawful("null LUN");
}

#[tokio::test(start_paused = true)]
async fn a_device_of_no_size_or_too_small_is_refused_before_any_format() {
    // G12
    for size in [0, GIB - 4096] {
        let bench = Bench::new();
        bench.host.set_size(bench.disk, Capacity::from_bytes(size));
        let error = refusal(bench.stage().await);
        assert!(matches!(error, AttachError::TooSmall { .. }), "{error}");
        assert_eq!(bench.host.formats(bench.disk), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_device_that_grew_while_detached_is_fine_and_its_file_system_grows_at_every_stage() {
    // X04, E12
    let bench = Bench::new();
    bench.stage().await.unwrap();
    bench.unstage().await.unwrap();
    bench
        .host
        .set_size(bench.disk, Capacity::from_bytes(2 * GIB));
    bench.host.fail("grow", 1, input_output);
    bench.stage().await.unwrap_err();
    bench.stage().await.unwrap();
    let grown = DiskContent::Filesystem {
        fs: FsType::Ext4,
        size: Capacity::from_bytes(2 * GIB),
    };
    assert_eq!(bench.host.content(bench.disk), Some(grown));
}

#[tokio::test(start_paused = true)]
async fn paths_of_unlike_size_are_refused() {
    // W16
    let bench = Bench::new();
    let larger = bench
        .host
        .add_disk(&bench.iqn, Capacity::from_bytes(2 * GIB));
    bench
        .host
        .set_lun(&bench.iqn, &bench.portals[1], Some(larger));
    let error = refusal(bench.stage().await);
    assert!(matches!(error, AttachError::UnlikePaths { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_late_map_is_waited_for_and_a_missing_one_ends_the_stage() {
    // W04
    let bench = Bench::new();
    bench.host.set_latency(3, 6);
    bench.stage().await.unwrap();

    let bench = Bench::new();
    bench.host.set_mapless(true);
    let error = bench.stage().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(bench.host.mounts_on(Path::new(STAGING)).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_device_that_cannot_be_read_is_never_formatted() {
    // F02, F04
    let bench = Bench::new();
    bench.host.fail("probe", 1, input_output);
    bench.stage().await.unwrap_err();
    assert_eq!(bench.host.formats(bench.disk), 0);
    bench.host.fail("probe", 1, || HostError::NoDevice {
        device: "dm-0".to_owned(),
        detail: "not a block device".to_owned(),
    });
    assert_eq!(
        bench.stage().await.unwrap_err().kind(),
        ErrorKind::Unavailable
    );
    assert_eq!(bench.host.formats(bench.disk), 0);
}

#[tokio::test(start_paused = true)]
async fn whatever_is_on_the_device_is_never_formatted_over() {
    // F01, F03, C9
    let contents = [
        DiskContent::Scraps,
        DiskContent::Foreign("LVM2_member".to_owned()),
        DiskContent::Filesystem {
            fs: FsType::Xfs,
            size: Capacity::from_bytes(GIB),
        },
    ];
    for content in contents {
        let bench = Bench::new();
        bench.host.set_content(bench.disk, content.clone());
        let error = bench.stage().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{content:?}");
        assert_eq!(bench.host.content(bench.disk), Some(content));
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_format_is_proved_again_and_tried_once_more() {
    // G13
    let bench = Bench::new();
    bench.host.fail("format", 1, input_output);
    bench.stage().await.unwrap();
    assert_eq!(bench.host.formats(bench.disk), 1);

    let bench = Bench::new();
    bench.host.fail("format", 2, input_output);
    bench.stage().await.unwrap_err();
    assert_eq!(bench.record().await.unwrap().format, FormatMarker::Started);
    bench.stage().await.unwrap();
    bench.assert_lawful("a format resumed");
}

#[tokio::test(start_paused = true)]
async fn a_format_begun_here_and_finished_elsewhere_is_mounted_and_not_repeated() {
    // F03: the volume went to another node and came back
    let bench = Bench::new();
    bench.host.fail("format", 2, input_output);
    bench.stage().await.unwrap_err();
    let theirs = DiskContent::Filesystem {
        fs: FsType::Ext4,
        size: Capacity::from_bytes(GIB),
    };
    bench.host.set_content(bench.disk, theirs);
    bench.stage().await.unwrap();
    assert_eq!(bench.host.formats(bench.disk), 0);
}

#[tokio::test(start_paused = true)]
async fn a_damaged_file_system_is_reported_and_not_mounted() {
    // F15
    let bench = Bench::new();
    let content = DiskContent::Filesystem {
        fs: FsType::Ext4,
        size: Capacity::from_bytes(GIB),
    };
    bench.host.set_content(bench.disk, content);
    bench.host.damage(bench.disk);
    assert_eq!(
        bench.stage().await.unwrap_err().kind(),
        ErrorKind::FailedPrecondition
    );
    assert!(bench.host.mounts_on(Path::new(STAGING)).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_block_volume_gets_its_map_and_keeps_its_bytes() {
    // F21
    for content in [DiskContent::Blank, DiskContent::Scraps] {
        let bench = Bench::new();
        bench.host.set_content(bench.disk, content.clone());
        bench
            .operations()
            .stage(&bench.wanted_as(Access::Block))
            .await
            .unwrap();
        assert_eq!(bench.host.content(bench.disk), Some(content));
        assert!(bench.host.mounts_on(Path::new(STAGING)).is_empty());
        bench.effects();
        bench
            .operations()
            .stage(&bench.wanted_as(Access::Block))
            .await
            .unwrap();
        assert_eq!(bench.effects(), Vec::<&str>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn another_device_on_the_staging_path_is_refused() {
    // D26
    let bench = Bench::new();
    bench
        .host
        .mount_foreign(Path::new(STAGING), DevNumber { major: 8, minor: 1 });
    let error = bench.stage().await.unwrap_err();
    assert!(matches!(error, StageError::ForeignMount { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_same_volume_staged_differently_exists_already() {
    let bench = Bench::new();
    bench.stage().await.unwrap();
    let mut elsewhere = bench.wanted();
    elsewhere.staging_path = "/other".into();
    let mut as_reader = bench.wanted();
    as_reader.target.read_only = true;
    for wanted in [elsewhere, as_reader, bench.wanted_as(Access::Block)] {
        let error = bench.operations().stage(&wanted).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{wanted:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn readers_get_a_read_only_mount_without_replay_and_never_a_format() {
    // R01
    let bench = Bench::new();
    let mut wanted = bench.wanted();
    wanted.target.read_only = true;
    let error = bench.operations().stage(&wanted).await.unwrap_err();
    assert!(matches!(error, StageError::NothingToRead), "{error}");

    let content = DiskContent::Filesystem {
        fs: FsType::Ext4,
        size: Capacity::from_bytes(GIB),
    };
    bench.host.set_content(bench.disk, content);
    bench.operations().stage(&wanted).await.unwrap();
    let mounts = bench.host.mounts_on(Path::new(STAGING));
    assert!(
        mounts[0].super_read_only && mounts[0].options.contains("noload"),
        "{mounts:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_suspended_map_blocks_the_stage() {
    // W19
    let bench = Bench::new();
    bench.host.fail("mount", 1, input_output);
    bench.stage().await.unwrap_err();
    bench.host.set_suspended(true);
    let error = refusal(bench.stage().await);
    assert!(matches!(error, AttachError::Suspended { .. }), "{error}");
    bench.host.set_suspended(false);
    bench.stage().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_target_that_wants_chap_is_unauthenticated_without_it() {
    // C08, C10
    let bench = Bench::new();
    bench.host.ask_for_chap(&bench.iqn, "user", "password");
    assert_eq!(
        bench.stage().await.unwrap_err().kind(),
        ErrorKind::Unauthenticated
    );
}

#[tokio::test(start_paused = true)]
async fn without_a_journal_that_can_be_written_nothing_is_begun() {
    let bench = Bench::new();
    std::fs::create_dir(bench.state.path().join(".hv1.pvc-1.json.tmp")).unwrap();
    let error = bench.stage().await.unwrap_err();
    assert!(matches!(error, StageError::Journal { .. }), "{error}");
    assert_eq!(bench.effects(), Vec::<&str>::new());
}

#[tokio::test(start_paused = true)]
async fn a_reboot_leaves_a_journal_from_which_the_volume_is_staged_again() {
    // T26, F20
    let bench = Bench::new();
    bench.stage().await.unwrap();
    bench.host.reboot();
    bench.stage().await.unwrap();
    assert_eq!(bench.host.formats(bench.disk), 1);
    assert_eq!(bench.host.mounts_on(Path::new(STAGING)).len(), 1);
}

#[test]
fn xfs_is_always_mounted_without_its_uuid_check_and_flags_are_kept_as_given() {
    // X01, X02, K04
    let flags = vec![
        "noatime".to_owned(),
        "context=\"system_u:object_r:t:s0:c1,c2\"".to_owned(),
    ];
    let options = perform::mount_options(FsType::Xfs, &flags, false);
    assert_eq!(
        options.flags,
        [flags[0].as_str(), flags[1].as_str(), "nouuid"]
    );
    let options = perform::mount_options(FsType::Ext4, &flags, false);
    assert_eq!(options.flags, flags);
    let readers = perform::mount_options(FsType::Xfs, &[], true);
    assert_eq!(readers.flags, ["nouuid", "norecovery"]);
}
