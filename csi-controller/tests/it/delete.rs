//! `DeleteVolume`: gone is a success, in use is left alone, and what cannot be done now is done later.

use csi_controller::blocks::fake::Fault;
use tonic::Code;

use crate::fixture::{Cluster, hosts, id, is_final, node, request};

#[tokio::test]
async fn a_deleted_volume_is_gone_and_its_room_is_free_again() {
    let cluster = Cluster::start().await;
    for round in 0..5 {
        let volume = cluster
            .create(request(&format!("pvc-{round}"), 9))
            .await
            .unwrap();
        cluster.delete(&volume.volume_id).await.unwrap();
        cluster.delete(&volume.volume_id).await.unwrap();
    }
    assert!(cluster.blocks.blocks().is_empty());
    assert_eq!(cluster.hosting.volumes().len(), 1);
}

#[tokio::test]
async fn ids_that_mean_nothing_are_gone_already() {
    let cluster = Cluster::start().await;
    for unknown in ["x", "no/such", "a/b/c", "ünknown/ü", "fake_1/none"] {
        cluster.delete(unknown).await.unwrap();
    }
}

#[tokio::test]
async fn a_block_on_somebody_elses_hosting_volume_is_never_touched() {
    let cluster = Cluster::start().await;
    let volume = cluster.create(request("pvc-1", 1)).await.unwrap();
    let foreign = "theirs/pvc-1".parse().unwrap();
    cluster.blocks.copy(&id(&volume), &foreign);
    cluster.delete("theirs/pvc-1").await.unwrap();
    assert!(cluster.blocks.blocks().contains(&foreign));
}

#[tokio::test]
async fn a_published_volume_is_in_use_until_it_is_unpublished() {
    let cluster = Cluster::start().await;
    let volume = cluster.create(request("pvc-1", 1)).await.unwrap();
    let node = node(1);
    cluster.publish(&volume.volume_id, &node).await.unwrap();
    let status = cluster.delete(&volume.volume_id).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().contains("node n1"), "{status:?}");
    cluster
        .unpublish(&volume.volume_id, &node.to_string())
        .await
        .unwrap();
    cluster.delete(&volume.volume_id).await.unwrap();
}

#[tokio::test]
async fn a_session_keeps_a_volume_also_from_a_controller_that_knows_nothing() {
    let cluster = Cluster::start().await;
    let volume = cluster.create(request("pvc-1", 1)).await.unwrap();
    cluster.blocks.log_in(&id(&volume), node(1).initiator());
    let after = cluster.restart().await;
    let status = after.delete(&volume.volume_id).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().contains("debian:01:1"), "{status:?}");
    cluster.blocks.log_out();
    after.delete(&volume.volume_id).await.unwrap();
}

#[tokio::test]
async fn a_delete_that_reached_some_hosts_only_is_finished_by_the_repeat() {
    for fault in [
        Fault::Half,
        Fault::LostAnswer,
        Fault::Silence,
        Fault::HostDown,
    ] {
        let cluster = Cluster::start().await;
        let volume = cluster.create(request("pvc-1", 1)).await.unwrap();
        cluster.blocks.fail("delete", fault);
        let status = cluster.delete(&volume.volume_id).await.unwrap_err();
        assert!(!is_final(&status), "{fault:?}: {status:?}");
        let after = cluster.restart().await;
        after.delete(&volume.volume_id).await.unwrap();
        assert!(cluster.blocks.blocks().is_empty(), "{fault:?}");
    }
}

#[tokio::test]
async fn with_a_host_down_nothing_is_forced() {
    let cluster = Cluster::start().await;
    let volume = cluster.create(request("pvc-1", 1)).await.unwrap();
    cluster.blocks.set_down(hosts()[2], true);
    let status = cluster.delete(&volume.volume_id).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    assert_eq!(cluster.blocks.blocks().len(), 1);
    cluster.blocks.set_down(hosts()[2], false);
    cluster.delete(&volume.volume_id).await.unwrap();
}
