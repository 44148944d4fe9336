//! Many calls at once: no volume twice, no room promised twice, one request at a time per hosting volume.

use std::time::Duration;

use csi_controller::blocks::fake::Fault;
use tonic::Code;

use crate::fixture::{Cluster, GIB, request};

#[tokio::test(flavor = "multi_thread")]
async fn two_creates_of_one_name_make_one_block_and_one_of_them_is_aborted() {
    let cluster = Cluster::start().await;
    cluster.create(request("a", 1)).await.unwrap();
    cluster
        .blocks
        .fail("create", Fault::Slow(Duration::from_millis(300)));
    let (one, two) = tokio::join!(
        cluster.create(request("pvc-1", 1)),
        cluster.create(request("pvc-1", 1))
    );
    let aborted = [&one, &two]
        .into_iter()
        .filter_map(|outcome| outcome.as_ref().err())
        .map(tonic::Status::code);
    assert_eq!(aborted.collect::<Vec<_>>(), [Code::Aborted]);
    assert_eq!(cluster.blocks.blocks().len(), 2);
    cluster.create(request("pvc-1", 1)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_gave_up_meets_aborted_until_the_first_attempt_ends() {
    let cluster = Cluster::start().await;
    cluster.create(request("a", 1)).await.unwrap();
    cluster
        .blocks
        .fail("create", Fault::Slow(Duration::from_millis(500)));
    let first = cluster.create(request("pvc-1", 1));
    let gave_up = tokio::time::timeout(Duration::from_millis(200), first).await;
    assert!(gave_up.is_err());
    let status = cluster.create(request("pvc-1", 1)).await.unwrap_err();
    assert_eq!(status.code(), Code::Aborted);
    tokio::time::sleep(Duration::from_millis(600)).await;
    cluster.create(request("pvc-1", 1)).await.unwrap();
    assert_eq!(cluster.blocks.blocks().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_creates_share_one_new_hosting_volume_and_never_overcommit() {
    let cluster = Cluster::start().await;
    cluster.hosting.slow(Duration::from_millis(100));
    let creates = (0..12).map(|n| {
        let client = cluster.client.clone();
        tokio::spawn(async move {
            let mut client = client;
            client.create_volume(request(&format!("pvc-{n}"), 3)).await
        })
    });
    let creates: Vec<_> = creates.collect();
    for create in creates {
        create.await.unwrap().unwrap();
    }
    // Three blocks of 3 GiB fit into the 9.8 GiB of a hosting volume.
    assert_eq!(cluster.hosting.volumes().len(), 4);
    assert_eq!(cluster.blocks.blocks().len(), 12);
    cluster.assert_never_overcommitted();
    let status = cluster.create(request("more", 3)).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
}

#[tokio::test(flavor = "multi_thread")]
async fn at_most_one_request_is_in_flight_per_host() {
    let cluster = Cluster::start().await;
    cluster.create(request("a", 1)).await.unwrap();
    for _ in 0..6 {
        cluster
            .blocks
            .fail("create", Fault::Slow(Duration::from_millis(20)));
    }
    let creates: Vec<_> = (0..6)
        .map(|n| {
            let mut client = cluster.client.clone();
            tokio::spawn(async move { client.create_volume(request(&format!("b{n}"), 1)).await })
        })
        .collect();
    for create in creates {
        create.await.unwrap().unwrap();
    }
    assert_eq!(cluster.blocks.most_in_daemon(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_is_not_lost_with_an_answer() {
    let cluster = Cluster::start().await;
    cluster.create(request("a", 1)).await.unwrap();
    cluster.blocks.fail("create", Fault::Silence);
    cluster.create(request("pvc-1", 8)).await.unwrap_err();
    let before = cluster.hosting.volumes().len();
    cluster.create(request("pvc-2", 8)).await.unwrap();
    assert_eq!(cluster.hosting.volumes().len(), before + 1);
    cluster.create(request("pvc-1", 8)).await.unwrap();
    cluster.assert_never_overcommitted();
}

#[tokio::test]
async fn capacity_is_what_can_really_be_made() {
    let cluster = Cluster::start().await;
    let told = cluster.capacity().await;
    let largest = told.maximum_volume_size.unwrap();
    // 98 % of the largest hosting volume there may be, of 98 % of 40 GiB.
    assert!(largest <= 30 * GIB * 98 / 100 && largest > 29 * GIB);
    cluster.create(request("a", 9)).await.unwrap();
    let told = cluster.capacity().await;
    let mut exact = request("b", 1);
    exact.capacity_range = Some(crate::fixture::range(told.maximum_volume_size.unwrap(), 0));
    cluster.create(exact).await.unwrap();
    cluster.assert_never_overcommitted();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_of_another_size_does_not_get_by_with_the_room_of_the_first() {
    let cluster = Cluster::start().await;
    cluster.create(request("a", 4)).await.unwrap();
    cluster.blocks.fail("create", Fault::Silence);
    cluster.create(request("pvc-1", 1)).await.unwrap_err();
    cluster.create(request("pvc-1", 7)).await.unwrap();
    cluster.assert_never_overcommitted();
    assert_eq!(cluster.hosting.volumes().len(), 2);
}
