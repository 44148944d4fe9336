//! Unpublish touches the target and nothing else.

use std::path::Path;

use super::*;
use crate::host::DevNumber;
use crate::ops::fixture::{Bench, POD, STAGING, ext4, volume};
use crate::ops::publish::PublishVolume;

#[tokio::test(start_paused = true)]
async fn the_target_goes_and_the_rest_stays() {
    // D08, T19
    let bench = Bench::new();
    bench.stage().await.unwrap();
    let other = PublishVolume {
        target_path: "/pods/2/mount".into(),
        ..bench.published(ext4())
    };
    bench
        .operations()
        .publish(&bench.published(ext4()))
        .await
        .unwrap();
    bench.operations().publish(&other).await.unwrap();
    bench.operations().unpublish(Path::new(POD)).await.unwrap();
    assert!(!bench.host.is_made(Path::new(POD)));
    assert_eq!(bench.host.mounts_on(Path::new("/pods/2/mount")).len(), 1);
    assert_eq!(bench.host.mounts_on(Path::new(STAGING)).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn absent_is_success_and_needs_no_journal() {
    // T02
    let bench = Bench::new();
    bench.operations().unpublish(Path::new(POD)).await.unwrap();
    bench.stage().await.unwrap();
    bench
        .operations()
        .publish(&bench.published(ext4()))
        .await
        .unwrap();
    bench.journal().remove(&volume()).await.unwrap();
    bench.operations().unpublish(Path::new(POD)).await.unwrap();
    bench.operations().unpublish(Path::new(POD)).await.unwrap();
    bench.assert_lawful("unpublish twice");
}

#[tokio::test(start_paused = true)]
async fn a_failed_unmount_leaves_the_target_alone() {
    // D25, D27
    let bench = Bench::new();
    bench.stage().await.unwrap();
    bench
        .operations()
        .publish(&bench.published(ext4()))
        .await
        .unwrap();
    bench.host.fail("unmount", 1, || HostError::Busy {
        what: POD.to_owned(),
        detail: "target is busy".to_owned(),
    });
    assert!(bench.operations().unpublish(Path::new(POD)).await.is_err());
    assert!(bench.host.is_made(Path::new(POD)));
    assert_eq!(bench.host.mounts_on(Path::new(POD)).len(), 1);
    bench.assert_lawful("busy");
}

#[tokio::test(start_paused = true)]
async fn stacked_mounts_all_go() {
    // T13: what another driver stacked
    let bench = Bench::new();
    for minor in 0..4 {
        bench
            .host
            .mount_foreign(Path::new(POD), DevNumber { major: 8, minor });
    }
    bench.operations().unpublish(Path::new(POD)).await.unwrap();
    assert!(bench.host.mounts_on(Path::new(POD)).is_empty());
}
