//! Stats know what is published, and nothing else.

use super::*;
use crate::ops::fixture::{Bench, GIB, POD, STAGING, ext4, volume};
use crate::record::Access;

fn at(path: &str) -> VolumeAt {
    VolumeAt {
        id: volume(),
        path: path.into(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_system_says_bytes_and_inodes_at_both_its_paths() {
    let bench = Bench::new();
    bench.stage().await.unwrap();
    bench
        .operations()
        .publish(&bench.published(ext4()))
        .await
        .unwrap();
    for path in [STAGING, POD] {
        let usage = bench.operations().stats(&at(path)).await.unwrap();
        assert!(matches!(usage, VolumeUsage::Filesystem(usage) if usage.total_bytes == GIB));
    }
}

#[tokio::test(start_paused = true)]
async fn a_block_device_says_its_size() {
    let bench = Bench::new();
    bench
        .operations()
        .stage(&bench.wanted_as(Access::Block))
        .await
        .unwrap();
    bench
        .operations()
        .publish(&bench.published(Access::Block))
        .await
        .unwrap();
    let usage = bench.operations().stats(&at(POD)).await.unwrap();
    assert_eq!(usage, VolumeUsage::Block(Capacity::from_bytes(GIB)));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_volume_or_path_is_not_found() {
    let bench = Bench::new();
    assert_eq!(
        bench.operations().stats(&at(POD)).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    bench.stage().await.unwrap();
    assert_eq!(
        bench.operations().stats(&at(POD)).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[tokio::test(start_paused = true)]
async fn a_file_system_that_does_not_answer_is_an_error_in_time() {
    // P06
    let bench = Bench::new();
    bench.stage().await.unwrap();
    bench.host.fail("usage", 1, || HostError::Deadline {
        what: "statvfs".to_owned(),
        limit: std::time::Duration::from_secs(10),
    });
    let error = bench.operations().stats(&at(STAGING)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
}
