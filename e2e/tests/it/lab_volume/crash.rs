//! Programs killed at chosen points: the retry ends right and nothing is left.

use super::*;

/// Where the node plugin is killed while it stages.
const STAGE: [(Moment, &str, &str); 5] = [
    // First, because only the first stage of a volume formats it.
    (Moment::Before, "mkfs.xfs", "*"),
    (Moment::Before, "iscsiadm", "*new*"),
    (Moment::Before, "iscsiadm", "*--login*"),
    (Moment::After, "iscsiadm", "*--login*"),
    (Moment::After, "multipath", "-a*"),
];

/// Where it is killed while it unstages.
const UNSTAGE: [(Moment, &str, &str); 4] = [
    (Moment::Before, "multipath", "-f*"),
    (Moment::After, "multipath", "-f*"),
    (Moment::Before, "iscsiadm", "*--logout*"),
    (Moment::After, "iscsiadm", "*delete*"),
];

fn hold((moment, tool, pattern): (Moment, &'static str, &'static str)) -> Hold {
    Hold {
        moment,
        tool,
        pattern,
    }
}

// T01, D17
#[tokio::test]
async fn the_plugin_killed_at_five_points_of_stage_ends_right_at_the_retry() {
    let mut system = system().await;
    let volume = system
        .sidecars()
        .create(&claim("pvc-crash-stage", Access::Mount("xfs")), PATIENCE)
        .await
        .expect("create");
    let context = attach(&system, &volume, "n1").await;
    for point in STAGE {
        killed_while(&mut system, point, |kubelet| {
            let (volume, context) = (volume.clone(), context.clone());
            async move { kubelet.try_stage(&volume, &context).await }
        })
        .await;
        let kubelet = system.kubelet("n1").expect("node");
        kubelet
            .stage(&volume, &context, PATIENCE)
            .await
            .unwrap_or_else(|status| panic!("{point:?}: {status}"));
        // Made at the first stage and there at every later one: nothing is formatted twice (F20).
        let path = volume.staging_path();
        let (path, mark) = (
            path.display(),
            if point.1 == "mkfs.xfs" {
                "touch"
            } else {
                "test -e"
            },
        );
        run(
            &system,
            "n1",
            &format!("{mark} {path}/mark && sync -f {path}"),
        )
        .await;
        kubelet.unstage(&volume, PATIENCE).await.expect("unstage");
        let left = system.residue().await.expect("guests answer");
        let left: Vec<_> = left.iter().filter(|line| line.starts_with('n')).collect();
        assert!(left.is_empty(), "{point:?} left {left:?}");
    }
    put_away(system, &volume, "n1").await;
}

// T01, D17, D06
#[tokio::test]
async fn the_plugin_killed_at_four_points_of_unstage_ends_right_at_the_retry() {
    let mut system = system().await;
    let volume = system
        .sidecars()
        .create(&claim("pvc-crash-unstage", Access::Mount("xfs")), PATIENCE)
        .await
        .expect("create");
    let context = attach(&system, &volume, "n1").await;
    for point in UNSTAGE {
        let kubelet = system.kubelet("n1").expect("node");
        kubelet
            .stage(&volume, &context, PATIENCE)
            .await
            .unwrap_or_else(|status| panic!("{point:?}: {status}"));
        killed_while(&mut system, point, |kubelet| {
            let volume = volume.clone();
            async move { kubelet.try_unstage(&volume).await }
        })
        .await;
        let kubelet = system.kubelet("n1").expect("node");
        kubelet
            .unstage(&volume, PATIENCE)
            .await
            .unwrap_or_else(|status| panic!("{point:?}: {status}"));
        let left = system.residue().await.expect("guests answer");
        let left: Vec<_> = left.iter().filter(|line| line.starts_with('n')).collect();
        assert!(left.is_empty(), "{point:?} left {left:?}");
    }
    put_away(system, &volume, "n1").await;
}

/// Starts a call, kills the plugin and the held tool where the tool stands, and starts the plugin again.
async fn killed_while<F>(
    system: &mut System,
    point: (Moment, &'static str, &'static str),
    call: impl FnOnce(e2e::kubernetes::kubelet::Kubelet) -> F,
) where
    F: Future<Output = Result<(), tonic::Status>> + Send + 'static,
{
    let guest = system.lab().guest("n1").expect("guest").clone();
    guest.hold(&[hold(point)]).await.expect("hold");
    let call = tokio::spawn(call(system.kubelet("n1").expect("node").clone()));
    guest
        .held(Duration::from_mins(1))
        .await
        .unwrap_or_else(|error| panic!("{point:?}: {error}"));
    system.kill_plugin("n1").await.expect("kill");
    guest.kill_held().await.expect("kill the tool");
    assert!(
        call.await.expect("the call's task").is_err(),
        "{point:?}: the call was cut off"
    );
    system
        .start_plugin("n1")
        .await
        .expect("the plugin starts again");
}

/// Where the controller is killed: a point of gluster-block's simulator, and the call.
const CREATE: [(&str, &str); 3] = [
    ("create start hang", "before"),
    ("create file hang", "half way"),
    ("create end hang", "after"),
];

#[tokio::test]
async fn the_controller_killed_at_three_points_of_create_makes_one_block() {
    let mut system = system().await;
    if system.lab().record().real_blockd {
        eprintln!(
            "skipped: the_controller_killed_at_three_points_of_create_makes_one_block needs the simulator's switches"
        );
        return clean(system).await;
    }
    for (number, (fault, when)) in CREATE.iter().enumerate() {
        let claim = claim(&format!("pvc-crash-create-{number}"), Access::Block);
        switch(&system, fault).await;
        let sidecars = system.sidecars().clone();
        let wanted = claim.clone();
        let call = tokio::spawn(async move { sidecars.try_create(&wanted).await });
        held(&system, "create").await;
        system.kill_controller().await;
        assert!(call.await.expect("the call's task").is_err());
        switch(&system, "").await;
        system
            .start_controller()
            .await
            .expect("the controller starts again");
        let volume = system
            .sidecars()
            .create(&claim, PATIENCE)
            .await
            .unwrap_or_else(|status| panic!("{when}: {status}"));
        assert_eq!(
            system.blocks().await.expect("list"),
            std::slice::from_ref(&volume.id),
            "{when}"
        );
        system
            .sidecars()
            .delete(&volume.id, PATIENCE)
            .await
            .expect("delete");
    }
    clean(system).await;
}

async fn held(system: &System, verb: &str) {
    for _ in 0..300 {
        for guest in system.lab().storage() {
            let script =
                format!("ls /run/gluster-block-sim/held 2>/dev/null | grep -c ^{verb}- || true");
            if guest.run(&script).await.expect("guest") != "0" {
                return;
            }
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("nothing was held");
}
