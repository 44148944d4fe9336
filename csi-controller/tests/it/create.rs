//! `CreateVolume`: one block for one name, and what every failure leaves behind.

use blockd_client::vocabulary::{VolumeContext, VolumeId};
use csi_controller::blocks::fake::Fault;
use csi_controller::hosting::fake::{Fault as HostingFault, Verb};
use tonic::Code;

use crate::fixture::{Cluster, GIB, hosts, id, is_final, node, range, request};

#[tokio::test]
async fn a_first_volume_makes_its_hosting_volume_and_a_second_one_joins_it() {
    let cluster = Cluster::start().await;
    let first = cluster.create(request("pvc-1", 1)).await.unwrap();
    let second = cluster.create(request("pvc-2", 1)).await.unwrap();
    assert_eq!(first.capacity_bytes, GIB);
    assert_eq!(id(&first).hosting_volume, id(&second).hosting_volume);
    assert_eq!(cluster.hosting.volumes().len(), 1);
    let context = VolumeContext::try_from(&first.volume_context).unwrap();
    assert_eq!(context.volume_id(), id(&first));
    assert_eq!(context.block.as_str(), "pvc-1");
}

#[tokio::test]
async fn the_same_request_again_is_the_same_volume_and_a_different_one_already_exists() {
    let cluster = Cluster::start().await;
    let first = cluster.create(request("pvc-1", 1)).await.unwrap();
    assert_eq!(cluster.create(request("pvc-1", 1)).await.unwrap(), first);
    let after = cluster.restart().await;
    assert_eq!(after.create(request("pvc-1", 1)).await.unwrap(), first);
    for (key, value) in [("hacount", "2"), ("chapauthenabled", "false")] {
        let mut other = request("pvc-1", 1);
        other.parameters.insert(key.to_owned(), value.to_owned());
        let status = after.create(other).await.unwrap_err();
        assert_eq!(status.code(), Code::AlreadyExists, "{status:?}");
    }
    let status = after.create(request("pvc-1", 2)).await.unwrap_err();
    assert_eq!(status.code(), Code::AlreadyExists, "{status:?}");
    assert_eq!(cluster.blocks.blocks(), [id(&first)]);
}

#[tokio::test]
async fn any_unicode_name_makes_one_volume() {
    let cluster = Cluster::start().await;
    let name = "größe/雪 🏔".repeat(5);
    let first = cluster.create(request(&name, 1)).await.unwrap();
    assert_eq!(cluster.create(request(&name, 1)).await.unwrap(), first);
    assert_eq!(cluster.blocks.blocks().len(), 1);
}

#[tokio::test]
async fn a_size_is_rounded_up_to_what_blocks_can_have() {
    let cluster = Cluster::start().await;
    let mut odd = request("pvc-1", 1);
    odd.capacity_range = Some(range(GIB + 1, GIB + 5000));
    odd.parameters.insert("blockSize".into(), "4096".into());
    let volume = cluster.create(odd).await.unwrap();
    assert_eq!(volume.capacity_bytes, GIB + 4096);
    let size = cluster.blocks.size(&id(&volume)).unwrap();
    assert_eq!(i64::try_from(size.bytes()).unwrap(), GIB + 4096);
}

#[tokio::test]
async fn more_hosts_than_there_are_is_an_invalid_argument_and_makes_nothing() {
    let cluster = Cluster::start().await;
    let mut four = request("pvc-1", 1);
    four.parameters.insert("hacount".into(), "4".into());
    let status = cluster.create(four).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("hacount"), "{status:?}");
    assert!(cluster.hosting.volumes().is_empty());
}

#[tokio::test]
async fn a_volume_that_can_never_fit_is_out_of_range_and_one_that_does_not_now_is_exhausted() {
    let cluster = Cluster::start().await;
    let status = cluster.create(request("pvc-1", 30)).await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "{status:?}");
    for n in 0..4 {
        let name = format!("fill-{n}");
        cluster.create(request(&name, 9)).await.unwrap();
    }
    let status = cluster.create(request("pvc-1", 9)).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    cluster.assert_never_overcommitted();
}

#[tokio::test]
async fn a_lost_answer_is_not_final_and_the_repeat_adopts_the_block() {
    let cluster = Cluster::start().await;
    cluster.blocks.fail("create", Fault::LostAnswer);
    let status = cluster.create(request("pvc-1", 1)).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    let volume = cluster.create(request("pvc-1", 1)).await.unwrap();
    assert_eq!(cluster.blocks.blocks(), [id(&volume)]);
}

#[tokio::test]
async fn a_block_that_comes_late_is_adopted_and_never_made_twice() {
    let cluster = Cluster::start().await;
    cluster.create(request("pvc-0", 8)).await.unwrap();
    cluster.blocks.fail("create", Fault::Late);
    let status = cluster.create(request("pvc-1", 1)).await.unwrap_err();
    assert!(!is_final(&status), "{status:?}");
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    let volume = cluster.create(request("pvc-1", 1)).await.unwrap();
    assert_eq!(cluster.blocks.blocks().len(), 2);
    assert_eq!(volume.capacity_bytes, GIB);
}

#[tokio::test]
async fn after_silence_the_repeat_goes_to_the_same_place_although_another_would_fit_better() {
    let cluster = Cluster::start().await;
    cluster.create(request("a", 5)).await.unwrap();
    cluster.blocks.fail("create", Fault::Silence);
    let status = cluster.create(request("pvc-1", 1)).await.unwrap_err();
    assert!(!is_final(&status), "{status:?}");
    // A fuller hosting volume, which best fit would take.
    cluster.create(request("b", 8)).await.unwrap();
    let volume = cluster.create(request("pvc-1", 1)).await.unwrap();
    assert_eq!(id(&volume).hosting_volume.as_str(), "fake_1");
}

// G14
#[tokio::test]
async fn a_host_that_fails_is_reported_in_its_words_and_half_a_block_is_removed() {
    for fault in [Fault::Half, Fault::RolledBack] {
        let cluster = Cluster::start().await;
        cluster.blocks.fail("create", fault);
        let status = cluster.create(request("pvc-1", 1)).await.unwrap_err();
        assert_eq!(status.code(), Code::Internal, "{status:?}");
        assert!(
            status.message().contains("failed to configure on 10.0.0.3"),
            "{status:?}"
        );
        assert!(cluster.blocks.blocks().is_empty());
        cluster.create(request("pvc-1", 1)).await.unwrap();
    }
}

#[tokio::test]
async fn half_a_block_that_cannot_be_removed_is_not_final_and_the_repeat_makes_a_whole_one() {
    let cluster = Cluster::start().await;
    cluster.blocks.fail("create", Fault::Half);
    cluster.blocks.fail("delete", Fault::HostDown);
    let status = cluster.create(request("pvc-1", 1)).await.unwrap_err();
    assert!(!is_final(&status), "{status:?}");
    assert_eq!(cluster.blocks.blocks().len(), 1);
    let after = cluster.restart().await;
    let volume = after.create(request("pvc-1", 1)).await.unwrap();
    after.publish(&volume.volume_id, &node(1)).await.unwrap();
    assert_eq!(cluster.blocks.blocks(), [id(&volume)]);
}

#[tokio::test]
async fn what_looks_half_made_and_is_in_use_is_left_alone() {
    let cluster = Cluster::start().await;
    let volume = cluster.create(request("pvc-1", 1)).await.unwrap();
    cluster.blocks.log_in(&id(&volume), node(1).initiator());
    cluster.blocks.damage(&id(&volume));
    let status = cluster.create(request("pvc-1", 1)).await.unwrap_err();
    assert_eq!(status.code(), Code::Aborted, "{status:?}");
    assert!(status.message().contains("iqn.1993-08"), "{status:?}");
    assert_eq!(cluster.blocks.blocks(), [id(&volume)]);
}

#[tokio::test]
async fn a_hosting_volume_that_is_full_after_all_gives_way_to_another() {
    let cluster = Cluster::start().await;
    let first = cluster.create(request("a", 1)).await.unwrap();
    cluster.blocks.fail("create", Fault::NoSpace);
    let second = cluster.create(request("pvc-1", 1)).await.unwrap();
    assert_ne!(id(&first).hosting_volume, id(&second).hosting_volume);
}

#[tokio::test]
async fn with_a_host_down_a_volume_for_all_hosts_is_refused_for_good_and_one_for_two_is_made() {
    let cluster = Cluster::start().await;
    cluster.create(request("a", 1)).await.unwrap();
    cluster.blocks.set_down(hosts()[0], true);
    let status = cluster.create(request("pvc-1", 1)).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}");
    assert!(status.message().contains("10.0.0.1"), "{status:?}");
    let mut two = request("pvc-2", 1);
    two.parameters.insert("hacount".into(), "2".into());
    cluster.create(two).await.unwrap();
    cluster.blocks.set_down(hosts()[0], false);
    cluster.create(request("pvc-1", 1)).await.unwrap();
    assert_eq!(cluster.blocks.blocks().len(), 3);
}

#[tokio::test]
async fn while_the_backend_cannot_be_asked_nothing_is_final() {
    let cluster = Cluster::start().await;
    for fault in [HostingFault::Unreachable, HostingFault::Unauthorized] {
        cluster.hosting.fail(Verb::List, fault);
        let status = cluster.create(request("pvc-1", 1)).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable, "{status:?}");
        assert!(status.message().contains("--heketi-"), "{status:?}");
    }
    cluster.create(request("a", 1)).await.unwrap();
    cluster.blocks.fail("list", Fault::Silence);
    let status = cluster.create(request("pvc-1", 1)).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
}

#[tokio::test]
async fn a_hosting_volume_whose_answer_was_lost_is_used_by_the_repeat() {
    let cluster = Cluster::start().await;
    cluster.hosting.fail(Verb::Create, HostingFault::LostAnswer);
    let status = cluster.create(request("pvc-1", 1)).await.unwrap_err();
    assert!(is_final(&status), "no block can come of it: {status:?}");
    cluster.create(request("pvc-1", 1)).await.unwrap();
    assert_eq!(cluster.hosting.volumes().len(), 1);
}

#[tokio::test]
async fn a_name_on_two_hosting_volumes_is_for_a_person_to_sort_out() {
    let cluster = Cluster::start().await;
    let first = cluster.create(request("a", 9)).await.unwrap();
    let second = cluster.create(request("b", 9)).await.unwrap();
    let twin = VolumeId::new(id(&first).hosting_volume, id(&second).block);
    cluster.blocks.copy(&id(&second), &twin);
    let status = cluster.create(request("b", 9)).await.unwrap_err();
    assert_eq!(status.code(), Code::Aborted, "{status:?}");
    assert_eq!(cluster.blocks.blocks().len(), 3);
}
