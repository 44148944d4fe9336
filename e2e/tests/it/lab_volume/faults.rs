//! Bad days: the wrong node, a missing stage, a cut path, a swapped LUN, a dead network.

use super::*;

// T11, T04
#[tokio::test]
async fn a_second_node_is_refused_also_by_a_controller_that_remembers_nothing() {
    let mut system = system().await;
    let (volume, _) = in_use(
        &system,
        &claim("pvc-second-node", Access::Mount("xfs")),
        "n1",
    )
    .await;
    let second = system.node_id("n2").expect("node").to_owned();
    let status = system
        .sidecars()
        .attach(&volume, &second, PATIENCE)
        .await
        .expect_err("in use");
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().contains("n1"), "{}", status.message());

    system.kill_controller().await;
    system.start_controller().await.expect("start");
    let status = system
        .sidecars()
        .attach(&volume, &second, PATIENCE)
        .await
        .expect_err("a session is live");
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(
        status.message().contains("iqn.1993-08.org.debian:01:n1"),
        "{}",
        status.message()
    );
    put_away(system, &volume, "n1").await;
}

// T21, T26
#[tokio::test]
async fn a_pod_never_gets_the_bare_staging_directory() {
    let system = system().await;
    let volume = system
        .sidecars()
        .create(&claim("pvc-unstaged", Access::Mount("xfs")), PATIENCE)
        .await
        .expect("create");
    let context = attach(&system, &volume, "n1").await;
    run(
        &system,
        "n1",
        &format!("mkdir -p {}", volume.staging_path().display()),
    )
    .await;
    let kubelet = system.kubelet("n1").expect("node");
    let status = kubelet
        .publish(&volume, &context, POD, false)
        .await
        .expect_err("not staged");
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    put_away(system, &volume, "n1").await;
}

// E03
#[tokio::test]
async fn nothing_is_grown_over_a_missing_path() {
    let system = system().await;
    let (volume, _) = in_use(
        &system,
        &claim("pvc-lagging-path", Access::Mount("xfs")),
        "n1",
    )
    .await;
    let bytes = 384 * MIB;
    system
        .sidecars()
        .expand(&volume, bytes, PATIENCE)
        .await
        .expect("the controller's part");
    run(&system, "n1", "iscsiadm -m session | sed -n 's/.*\\[\\([0-9]*\\)\\] 10.77.1.13.*/\\1/p' | xargs -I% iscsiadm -m session -r % -u").await;
    let kubelet = system.kubelet("n1").expect("node");
    let status = kubelet
        .expand(&volume, POD, bytes, Duration::ZERO)
        .await
        .expect_err("a path is missing");
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    let iqn = "iscsiadm -m node | sed -n 's/^10.77.1.13:3260.* //p' | xargs -I% iscsiadm -m node -T % -p 10.77.1.13:3260 -l";
    run(
        &system,
        "n1",
        &format!(
            "{iqn}; for h in /sys/class/scsi_host/host*/scan; do echo '0 0 0' > $h; done; sleep 3"
        ),
    )
    .await;
    kubelet
        .expand(&volume, POD, bytes, PATIENCE)
        .await
        .expect("all paths are back");
    put_away(system, &volume, "n1").await;
}

// D16, P06, C12
#[tokio::test]
async fn with_every_path_dead_unstage_ends_within_its_deadline_and_later_leaves_nothing() {
    let system = system().await;
    let (volume, _) = in_use(
        &system,
        &claim("pvc-dead-paths", Access::Mount("xfs")),
        "n1",
    )
    .await;
    let kubelet = system.kubelet("n1").expect("node");
    let node = system.lab().guest("n1").expect("guest").clone();
    node.cut().await.expect("cut");
    tokio::time::sleep(Duration::from_secs(15)).await;
    let begun = std::time::Instant::now();
    let request = proto::csi::NodeGetVolumeStatsRequest {
        volume_id: volume.id.clone(),
        volume_path: volume.target_path(POD).display().to_string(),
        ..Default::default()
    };
    let _ = kubelet.client().node_get_volume_stats(request).await;
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "stats took {:?}",
        begun.elapsed()
    );
    kubelet
        .unpublish(&volume, POD, PATIENCE)
        .await
        .expect("unpublish needs no device");
    let _ = kubelet.try_unstage(&volume).await;
    assert!(
        begun.elapsed() < Duration::from_mins(3),
        "unstage took {:?}",
        begun.elapsed()
    );
    node.join().await.expect("join");
    put_away(system, &volume, "n1").await;
}

// S10, S11
#[tokio::test]
async fn parallel_stages_of_one_volume_make_one_session_a_portal() {
    let system = system().await;
    let volume = system
        .sidecars()
        .create(&claim("pvc-parallel", Access::Mount("xfs")), PATIENCE)
        .await
        .expect("create");
    let context = attach(&system, &volume, "n1").await;
    let stages: Vec<_> = (0..20)
        .map(|_| {
            let (kubelet, volume, context) = (
                system.kubelet("n1").expect("node").clone(),
                volume.clone(),
                context.clone(),
            );
            tokio::spawn(async move { kubelet.stage(&volume, &context, PATIENCE).await })
        })
        .collect();
    for stage in stages {
        stage.await.expect("task").expect("stage");
    }
    assert_eq!(run(&system, "n1", "iscsiadm -m session | wc -l").await, "3");
    put_away(system, &volume, "n1").await;
}
