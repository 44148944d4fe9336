//! `ControllerPublishVolume` and its opposite.

use blockd_client::vocabulary::{NodeId, PublishContext, SealingKeys};
use proto::csi;
use proto::csi::volume_capability::access_mode::Mode;
use tonic::Code;

use crate::fixture::{Cluster, capability, hosts, id, node, publish_request, request};

#[tokio::test]
async fn a_node_learns_portals_identity_size_and_sealed_credentials() {
    let cluster = Cluster::start().await;
    let volume = cluster.create(request("pvc-1", 1)).await.unwrap();
    let map = cluster.publish(&volume.volume_id, &node(1)).await.unwrap();
    let context = PublishContext::try_from(&map).unwrap();
    assert_eq!(context.portals.len(), 3);
    assert_eq!(context.wwid, context.iqn.gbid().wwid());
    assert_eq!(context.capacity.bytes(), 1 << 30);
    let keys: SealingKeys = format!("k1:{}=", "A".repeat(43)).parse().unwrap();
    let opened = keys.open(&id(&volume), &context.chap.unwrap()).unwrap();
    let password = cluster.blocks.password(&id(&volume)).unwrap();
    assert_eq!(opened.password.expose(), password);
    assert!(map.values().all(|value| !value.contains(&password)));
}

#[tokio::test]
async fn after_a_restart_the_size_is_told_from_below() {
    let cluster = Cluster::start().await;
    let volume = cluster.create(request("pvc-1", 1)).await.unwrap();
    let after = cluster.restart().await;
    let map = after.publish(&volume.volume_id, &node(1)).await.unwrap();
    let expected = PublishContext::try_from(&map).unwrap().capacity.bytes();
    assert!((1 << 29..=1 << 30).contains(&expected), "{expected}");
}

#[tokio::test]
async fn a_volume_without_chap_has_no_credentials() {
    let cluster = Cluster::start().await;
    let mut plain = request("pvc-1", 1);
    plain
        .parameters
        .insert("chapauthenabled".into(), "false".into());
    let volume = cluster.create(plain).await.unwrap();
    let map = cluster.publish(&volume.volume_id, &node(1)).await.unwrap();
    assert!(!map.contains_key("chap"));
}

// T11
#[tokio::test]
async fn a_second_writer_is_refused_and_the_first_one_is_named() {
    let cluster = Cluster::start().await;
    let volume = cluster.create(request("pvc-1", 1)).await.unwrap();
    cluster.publish(&volume.volume_id, &node(1)).await.unwrap();
    cluster.publish(&volume.volume_id, &node(1)).await.unwrap();
    let status = cluster
        .publish(&volume.volume_id, &node(2))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().contains("node n1"), "{status:?}");
}

// T16
#[tokio::test]
async fn two_nodes_with_one_initiator_name_are_refused_whatever_the_volume() {
    let cluster = Cluster::start().await;
    let first = cluster.create(request("pvc-1", 1)).await.unwrap();
    let second = cluster.create(request("pvc-2", 1)).await.unwrap();
    cluster.publish(&first.volume_id, &node(1)).await.unwrap();
    let clone = NodeId::new("clone", node(1).initiator().clone()).unwrap();
    for volume in [&first, &second] {
        let status = cluster
            .publish(&volume.volume_id, &clone)
            .await
            .unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition);
        let message = status.message();
        assert!(message.contains("nodes clone and n1"), "{message}");
        assert!(message.contains("initiatorname.iscsi"), "{message}");
    }
    // The node that was there first goes on.
    cluster.publish(&second.volume_id, &node(1)).await.unwrap();
}

// T11
#[tokio::test]
async fn after_a_restart_the_sessions_tell_who_writes_even_with_a_host_down() {
    let cluster = Cluster::start().await;
    let volume = cluster.create(request("pvc-1", 1)).await.unwrap();
    cluster.publish(&volume.volume_id, &node(1)).await.unwrap();
    cluster.blocks.log_in(&id(&volume), node(1).initiator());
    cluster.blocks.set_down(hosts()[0], true);
    let after = cluster.restart().await;
    let status = after
        .publish(&volume.volume_id, &node(2))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().contains("debian:01:1"), "{status:?}");
    after.publish(&volume.volume_id, &node(1)).await.unwrap();
    after
        .unpublish(&volume.volume_id, &node(1).to_string())
        .await
        .unwrap();
    cluster.blocks.log_out();
    after.publish(&volume.volume_id, &node(2)).await.unwrap();
}

#[tokio::test]
async fn another_way_on_the_same_node_already_exists() {
    let cluster = Cluster::start().await;
    let volume = cluster.create(request("pvc-1", 1)).await.unwrap();
    cluster.publish(&volume.volume_id, &node(1)).await.unwrap();
    let mut other = publish_request(&volume.volume_id, &node(1));
    other.volume_capability = Some(capability(Mode::SingleNodeReaderOnly));
    let mut client = cluster.client.clone();
    let answer = client.controller_publish_volume(other);
    assert_eq!(answer.await.unwrap_err().code(), Code::AlreadyExists);
}

#[tokio::test]
async fn readers_on_several_nodes_share() {
    let cluster = Cluster::start().await;
    let volume = cluster.create(request("pvc-1", 1)).await.unwrap();
    for n in 1..=3 {
        let mut reader = publish_request(&volume.volume_id, &node(n));
        reader.volume_capability = Some(capability(Mode::MultiNodeReaderOnly));
        let mut client = cluster.client.clone();
        let answer = client.controller_publish_volume(reader);
        answer.await.unwrap();
    }
    cluster.unpublish(&volume.volume_id, "").await.unwrap();
    cluster.publish(&volume.volume_id, &node(4)).await.unwrap();
}

#[tokio::test]
async fn what_is_unknown_is_not_found_for_publish_and_fine_for_unpublish() {
    let cluster = Cluster::start().await;
    let volume = cluster.create(request("pvc-1", 1)).await.unwrap();
    let unknown = format!("{}x", volume.volume_id);
    for missing in ["x", "no/such", unknown.as_str()] {
        let status = cluster.publish(missing, &node(1)).await.unwrap_err();
        assert_eq!(status.code(), Code::NotFound, "{status:?}");
        cluster
            .unpublish(missing, &node(1).to_string())
            .await
            .unwrap();
    }
    let stranger = csi::ControllerPublishVolumeRequest {
        node_id: "some-node".to_owned(),
        ..publish_request(&volume.volume_id, &node(1))
    };
    let mut client = cluster.client.clone();
    let answer = client.controller_publish_volume(stranger);
    assert_eq!(answer.await.unwrap_err().code(), Code::NotFound);
    // T25
    for _ in 0..2 {
        cluster
            .unpublish(&volume.volume_id, "some-node")
            .await
            .unwrap();
    }
}
