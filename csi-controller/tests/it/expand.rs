//! `ControllerExpandVolume`: grow only, and only where there is room.

use csi_controller::blocks::fake::Fault;
use tonic::Code;

use crate::fixture::{Cluster, GIB, id, is_final, request};

#[tokio::test]
async fn a_volume_grows_and_the_same_again_is_fine() {
    let cluster = Cluster::start().await;
    let volume = cluster.create(request("pvc-1", 1)).await.unwrap();
    let grown = cluster.expand(&volume.volume_id, 2 * GIB, 0).await.unwrap();
    assert_eq!(grown, 2 * GIB);
    assert_eq!(cluster.blocks.size(&id(&volume)).unwrap().bytes(), 2 << 30);
    for _ in 0..2 {
        let same = cluster.expand(&volume.volume_id, 2 * GIB, 0).await.unwrap();
        assert_eq!(same, 2 * GIB);
    }
    let smaller = cluster.expand(&volume.volume_id, GIB, 0).await.unwrap();
    assert_eq!(smaller, 2 * GIB);
}

#[tokio::test]
async fn after_a_restart_the_size_asked_for_is_the_size_answered() {
    let cluster = Cluster::start().await;
    let volume = cluster.create(request("pvc-1", 1)).await.unwrap();
    cluster.expand(&volume.volume_id, 2 * GIB, 0).await.unwrap();
    let after = cluster.restart().await;
    let same = after.expand(&volume.volume_id, 2 * GIB, 0).await.unwrap();
    assert_eq!(same, 2 * GIB);
}

#[tokio::test]
async fn odd_sizes_are_rounded_up_and_limits_are_kept() {
    let cluster = Cluster::start().await;
    let volume = cluster.create(request("pvc-1", 1)).await.unwrap();
    let id = &volume.volume_id;
    let grown = cluster.expand(id, GIB + 1, GIB + 8192).await.unwrap();
    assert_eq!(grown, GIB + 4096);
    let status = cluster
        .expand(id, GIB + 4097, GIB + 4098)
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "{status:?}");
    let status = cluster.expand(id, GIB / 2, GIB / 2).await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "{status:?}");
}

#[tokio::test]
async fn there_must_be_room_on_the_hosting_volume() {
    let cluster = Cluster::start().await;
    let volume = cluster.create(request("pvc-1", 1)).await.unwrap();
    cluster.create(request("pvc-2", 8)).await.unwrap();
    let id = &volume.volume_id;
    let status = cluster.expand(id, 2 * GIB, 0).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    let status = cluster.expand(id, 10 * GIB, 0).await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "{status:?}");
    cluster.assert_never_overcommitted();
}

#[tokio::test]
async fn a_host_that_lags_is_not_final_and_the_repeat_makes_it_follow() {
    for fault in [Fault::Half, Fault::LostAnswer, Fault::Silence] {
        let cluster = Cluster::start().await;
        let volume = cluster.create(request("pvc-1", 1)).await.unwrap();
        cluster.blocks.fail("resize", fault);
        let status = cluster
            .expand(&volume.volume_id, 2 * GIB, 0)
            .await
            .unwrap_err();
        assert!(!is_final(&status), "{fault:?}: {status:?}");
        let after = cluster.restart().await;
        let grown = after.expand(&volume.volume_id, 2 * GIB, 0).await.unwrap();
        assert_eq!(grown, 2 * GIB, "{fault:?}");
        let again = cluster.restart().await;
        cluster.blocks.lag(&id(&volume));
        again.expand(&volume.volume_id, 2 * GIB, 0).await.unwrap();
    }
}

#[tokio::test]
async fn an_unknown_volume_is_not_found() {
    let cluster = Cluster::start().await;
    let status = cluster.expand("fake_1/x", GIB, 0).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
}
