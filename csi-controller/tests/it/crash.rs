//! The controller is killed at every step of create and delete; the repeat after the restart ends right, with no residue.

use std::time::Duration;

use csi_controller::blocks::fake::{Fault, Kill};

use crate::fixture::{Cluster, request};

/// The steps of the first create: hosting volume and block, each before and after.
const CREATE_STEPS: usize = 4;

async fn kill_during_create(step: usize, faults: &[Fault]) -> Cluster {
    let cluster = Cluster::start_killed_at(Kill::at(step)).await;
    for fault in faults {
        cluster.blocks.fail("create", *fault);
    }
    tokio::select! {
        _ = cluster.create(request("pvc-1", 1)) => {}
        () = cluster.kill.died() => {}
    }
    cluster
}

#[tokio::test]
async fn a_create_killed_at_any_step_is_finished_by_its_repeat() {
    for step in 1..=CREATE_STEPS {
        let cluster = kill_during_create(step, &[]).await;
        assert_eq!(cluster.kill.count(), step);
        let after = cluster.restart().await;
        let volume = after.create(request("pvc-1", 1)).await.unwrap();
        assert_eq!(cluster.blocks.blocks().len(), 1, "step {step}");
        assert_eq!(cluster.hosting.volumes().len(), 1, "step {step}");
        after.assert_never_overcommitted();
        after.delete(&volume.volume_id).await.unwrap();
        assert!(cluster.blocks.blocks().is_empty(), "step {step}");
    }
}

#[tokio::test]
async fn a_create_killed_after_half_a_block_was_made_starts_over() {
    for step in CREATE_STEPS..=6 {
        let cluster = kill_during_create(step, &[Fault::Half]).await;
        let after = cluster.restart().await;
        let volume = after.create(request("pvc-1", 1)).await.unwrap();
        assert_eq!(cluster.blocks.blocks().len(), 1, "step {step}");
        after.delete(&volume.volume_id).await.unwrap();
        assert!(cluster.blocks.blocks().is_empty(), "step {step}");
    }
}

#[tokio::test]
async fn a_delete_killed_at_any_step_is_finished_by_its_repeat() {
    for step in 1..=2 {
        let cluster = Cluster::start_killed_at(Kill::at(CREATE_STEPS + step)).await;
        let volume = cluster.create(request("pvc-1", 1)).await.unwrap();
        tokio::select! {
            _ = cluster.delete(&volume.volume_id) => panic!("step {step} did not kill"),
            () = cluster.kill.died() => {}
        }
        let after = cluster.restart().await;
        after.delete(&volume.volume_id).await.unwrap();
        assert!(cluster.blocks.blocks().is_empty(), "step {step}");
        let again = after.create(request("pvc-1", 1)).await.unwrap();
        assert_eq!(again.volume_id, volume.volume_id);
    }
}

#[tokio::test]
async fn an_expand_killed_at_any_step_is_finished_by_its_repeat() {
    for step in 1..=2 {
        let cluster = Cluster::start_killed_at(Kill::at(CREATE_STEPS + step)).await;
        let volume = cluster.create(request("pvc-1", 1)).await.unwrap();
        tokio::select! {
            _ = cluster.expand(&volume.volume_id, 2 << 30, 0) => panic!("step {step} did not kill"),
            () = cluster.kill.died() => {}
        }
        let after = cluster.restart().await;
        let grown = after.expand(&volume.volume_id, 2 << 30, 0).await.unwrap();
        assert_eq!(grown, 2 << 30);
    }
}

#[tokio::test]
async fn a_claim_given_up_after_a_crash_leaves_nothing_once_it_is_deleted() {
    // What external-provisioner does: it repeats until a final answer, and deletes what it got.
    let cluster = kill_during_create(CREATE_STEPS, &[]).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    let after = cluster.restart().await;
    let volume = after.create(request("pvc-1", 1)).await.unwrap();
    after.delete(&volume.volume_id).await.unwrap();
    assert!(cluster.blocks.blocks().is_empty());
}
