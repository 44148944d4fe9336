//! Bad days: the wrong node, a missing stage.

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
