//! Publish and its repeat matrix.

use std::path::Path;

use blockd_client::vocabulary::{Capacity, FsType};

use super::*;
use crate::host::DevNumber;
use crate::host::fake::DiskContent;
use crate::ops::fixture::{Bench, GIB, POD, STAGING, ext4, iqn};

async fn staged() -> Bench {
    let bench = Bench::new();
    bench.stage().await.unwrap();
    bench
}

async fn publish(bench: &Bench, wanted: &PublishVolume) -> Result<(), ErrorKind> {
    bench
        .operations()
        .publish(wanted)
        .await
        .map_err(|error| error.kind())
}

#[tokio::test(start_paused = true)]
async fn publishing_five_times_leaves_one_mount() {
    // T13, T03
    let bench = staged().await;
    for _ in 0..5 {
        publish(&bench, &bench.published(ext4())).await.unwrap();
    }
    assert_eq!(bench.host.mounts_on(Path::new(POD)).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_repeat_matrix_of_the_specification_holds() {
    // same target and arguments OK; same target, other arguments ALREADY_EXISTS; another target by access mode
    for shared in [true, false] {
        let bench = staged().await;
        let first = PublishVolume {
            shared,
            ..bench.published(ext4())
        };
        publish(&bench, &first).await.unwrap();
        publish(&bench, &first).await.unwrap();
        let otherwise = PublishVolume {
            read_only: true,
            ..first.clone()
        };
        assert_eq!(
            publish(&bench, &otherwise).await,
            Err(ErrorKind::AlreadyExists)
        );
        let elsewhere = PublishVolume {
            target_path: "/pods/2/mount".into(),
            ..first.clone()
        };
        let expected = if shared {
            Ok(())
        } else {
            Err(ErrorKind::FailedPrecondition)
        };
        assert_eq!(
            publish(&bench, &elsewhere).await,
            expected,
            "shared: {shared}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_and_a_writer_on_one_node_each_get_what_they_asked_for() {
    // R02, R08
    let bench = staged().await;
    publish(&bench, &bench.published(ext4())).await.unwrap();
    let reader = PublishVolume {
        target_path: "/pods/2/mount".into(),
        read_only: true,
        ..bench.published(ext4())
    };
    publish(&bench, &reader).await.unwrap();
    assert!(!bench.host.mounts_on(Path::new(POD))[0].read_only);
    assert!(bench.host.mounts_on(Path::new("/pods/2/mount"))[0].read_only);
}

#[tokio::test(start_paused = true)]
async fn a_staging_directory_without_its_mount_is_refused_and_no_target_is_made() {
    // T21, T26
    let never = Bench::new();
    let rebooted = staged().await;
    rebooted.host.reboot();
    let shadowed = staged().await;
    shadowed
        .host
        .mount_foreign(Path::new(STAGING), DevNumber { major: 8, minor: 1 });
    for bench in [never, rebooted, shadowed] {
        let outcome = publish(&bench, &bench.published(ext4())).await;
        assert_eq!(outcome, Err(ErrorKind::FailedPrecondition));
        assert!(!bench.host.is_made(Path::new(POD)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lun_that_was_swapped_under_the_map_is_noticed() {
    // C8
    let bench = staged().await;
    let other = iqn("00000000-2222-4222-8333-abcdefabcdef");
    let foreign = bench.host.add_disk(&other, Capacity::from_bytes(GIB));
    bench
        .host
        .set_lun(&bench.iqn, &bench.portals[0], Some(foreign));
    assert_eq!(
        publish(&bench, &bench.published(ext4())).await,
        Err(ErrorKind::Internal)
    );
    bench.host.set_lun(&bench.iqn, &bench.portals[0], None);
    assert_eq!(
        publish(&bench, &bench.published(ext4())).await,
        Err(ErrorKind::Internal)
    );
}

#[tokio::test(start_paused = true)]
async fn one_path_that_answers_is_enough_and_none_is_unavailable() {
    let bench = staged().await;
    bench.host.set_portal(&bench.iqn, &bench.portals[0], false);
    publish(&bench, &bench.published(ext4())).await.unwrap();
    bench.host.set_portal(&bench.iqn, &bench.portals[1], false);
    assert_eq!(
        publish(&bench, &bench.published(ext4())).await,
        Err(ErrorKind::Unavailable)
    );
}

#[tokio::test(start_paused = true)]
async fn another_kind_of_use_than_staged_is_a_failed_precondition() {
    // R09
    let bench = staged().await;
    let xfs = Access::Filesystem {
        fs: FsType::Xfs,
        flags: vec![],
    };
    for access in [Access::Block, xfs] {
        let outcome = publish(&bench, &bench.published(access)).await;
        assert_eq!(outcome, Err(ErrorKind::FailedPrecondition));
    }

    let bench = Bench::new();
    let content = DiskContent::Filesystem {
        fs: FsType::Ext4,
        size: Capacity::from_bytes(GIB),
    };
    bench.host.set_content(bench.disk, content);
    let mut readers = bench.wanted();
    readers.target.read_only = true;
    bench.operations().stage(&readers).await.unwrap();
    let writer = publish(&bench, &bench.published(ext4())).await;
    assert_eq!(writer, Err(ErrorKind::FailedPrecondition));
}

#[tokio::test(start_paused = true)]
async fn a_block_volume_is_published_as_its_device_node() {
    let bench = Bench::new();
    bench
        .operations()
        .stage(&bench.wanted_as(Access::Block))
        .await
        .unwrap();
    publish(&bench, &bench.published(Access::Block))
        .await
        .unwrap();
    publish(&bench, &bench.published(Access::Block))
        .await
        .unwrap();
    let mounts = bench.host.mounts_on(Path::new(POD));
    assert_eq!(mounts.len(), 1);
    assert_eq!(mounts[0].node.map(|node| node.major), Some(253));
}

#[tokio::test(start_paused = true)]
async fn a_failed_bind_leaves_no_stray_target_and_a_retry_succeeds() {
    // F24
    let bench = staged().await;
    bench.host.fail("bind", 1, || HostError::NotReady {
        what: "injected".to_owned(),
    });
    assert!(publish(&bench, &bench.published(ext4())).await.is_err());
    assert!(!bench.host.is_made(Path::new(POD)));
    publish(&bench, &bench.published(ext4())).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_bind_of_a_part_of_the_volume_is_no_publication() {
    let bench = staged().await;
    let single = PublishVolume {
        shared: false,
        ..bench.published(ext4())
    };
    let seen = {
        let mut seen = Seen::observe(&bench.host, Some(&bench.iqn), &bench.iqn.gbid().wwid())
            .await
            .unwrap();
        let staged = seen.mounts[0].clone();
        seen.mounts.push(MountEntry {
            root: "/data".into(),
            mountpoint: "/pods/1/volume-subpaths/0".into(),
            ..staged
        });
        seen
    };
    let map = seen.map.clone().unwrap();
    assert_eq!(next_step(&single, &map, &seen).unwrap(), Step::Bind);
}
