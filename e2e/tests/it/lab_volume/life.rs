//! From creation to deletion, with data that has to survive.

use super::*;

async fn lives(name: &str, fs: &'static str) {
    let system = system().await;
    let (volume, context) = in_use(&system, &claim(name, Access::Mount(fs)), "n1").await;
    let target = volume.target_path(POD);
    let target = target.display();
    run(&system, "n1", &format!("cd {target} && dd if=/dev/urandom of=data bs=1M count=8 conv=fsync status=none && sha256sum data > sum")).await;

    let kubelet = system.kubelet("n1").expect("node");
    // T13, T03: again and again is one mount.
    kubelet
        .stage(&volume, &context, PATIENCE)
        .await
        .expect("stage again");
    for _ in 0..4 {
        kubelet
            .publish(&volume, &context, POD, false)
            .await
            .expect("publish again");
    }
    let mounts = run(
        &system,
        "n1",
        &format!("grep -c ' {target} ' /proc/self/mountinfo"),
    )
    .await;
    assert_eq!(mounts, "1");

    // E01: grown while mounted, in every layer.
    let bytes = 512 * MIB;
    let (grown, on_node) = system
        .sidecars()
        .expand(&volume, bytes, PATIENCE)
        .await
        .expect("expand");
    assert!(grown == bytes && on_node);
    assert_eq!(
        kubelet
            .expand(&volume, POD, bytes, PATIENCE)
            .await
            .expect("node expand"),
        bytes
    );
    let size: i64 = run(
        &system,
        "n1",
        &format!("df --output=size -B1 {target} | tail -1"),
    )
    .await
    .trim()
    .parse()
    .expect("bytes");
    assert!(size > 400 * MIB, "{size}");

    // F20: on another node the data is there and nothing was formatted again.
    kubelet
        .unpublish(&volume, POD, PATIENCE)
        .await
        .expect("unpublish");
    kubelet.unstage(&volume, PATIENCE).await.expect("unstage");
    let id = system.node_id("n1").expect("node").to_owned();
    system
        .sidecars()
        .detach(&volume.id, &id, PATIENCE)
        .await
        .expect("detach");
    let context = attach(&system, &volume, "n2").await;
    let kubelet = system.kubelet("n2").expect("node");
    kubelet
        .stage(&volume, &context, PATIENCE)
        .await
        .expect("stage on n2");
    kubelet
        .publish(&volume, &context, POD, false)
        .await
        .expect("publish on n2");
    run(
        &system,
        "n2",
        &format!("cd {target} && sha256sum --quiet --check sum"),
    )
    .await;
    put_away(system, &volume, "n2").await;
}

#[tokio::test]
async fn an_xfs_volume_lives_grows_and_moves_with_its_data() {
    lives("pvc-life-xfs", "xfs").await;
}

#[tokio::test]
async fn an_ext4_volume_lives_grows_and_moves_with_its_data() {
    lives("pvc-life-ext4", "ext4").await;
}

// F21
#[tokio::test]
async fn a_raw_block_volume_is_handed_over_byte_for_byte() {
    let system = system().await;
    let (volume, _) = in_use(&system, &claim("pvc-life-block", Access::Block), "n1").await;
    let device = volume.target_path(POD);
    let device = device.display();
    let zero = run(
        &system,
        "n1",
        &format!("test -b {device} && cmp -n 67108864 {device} /dev/zero && echo blank"),
    )
    .await;
    assert_eq!(zero, "blank");
    run(&system, "n1", &format!("dd if=/dev/urandom of={device} bs=1M count=4 oflag=direct status=none; dd if={device} bs=1M count=4 iflag=direct status=none | sha256sum > /tmp/sum")).await;
    let kubelet = system.kubelet("n1").expect("node");
    kubelet
        .unpublish(&volume, POD, PATIENCE)
        .await
        .expect("unpublish");
    kubelet.unstage(&volume, PATIENCE).await.expect("unstage");
    let context = attach(&system, &volume, "n1").await;
    kubelet
        .stage(&volume, &context, PATIENCE)
        .await
        .expect("stage");
    kubelet
        .publish(&volume, &context, POD, false)
        .await
        .expect("publish");
    run(
        &system,
        "n1",
        &format!(
            "dd if={device} bs=1M count=4 iflag=direct status=none | sha256sum | cmp - /tmp/sum"
        ),
    )
    .await;
    put_away(system, &volume, "n1").await;
}

// C14
#[tokio::test]
async fn no_secret_reaches_a_log_a_journal_or_a_context() {
    let system = system().await;
    let (volume, context) =
        in_use(&system, &claim("pvc-secrets", Access::Mount("xfs")), "n1").await;
    let info = run(
        &system,
        "s1",
        &format!("gluster-block info {} --json-plain", volume.id),
    )
    .await;
    let password = info
        .split("\"PASSWORD\":\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .expect("a password");
    assert!(password.len() > 20, "CHAP is on by default");
    let key =
        std::fs::read_to_string(system.lab().share().join("sealing.key")).expect("the sealing key");
    let key = key.trim().rsplit(':').next().expect("its secret part");
    let journal = run(&system, "n1", &format!("cat {STATE_DIR}/*; true")).await;
    assert!(
        journal.contains("iqn.2016-12.org.gluster-block"),
        "the journal was looked at: {journal}"
    );
    let contexts = format!("{context:?} {:?}", volume.context);
    let logs = system.logs().await.expect("logs");
    for (place, text) in [
        ("logs", &logs),
        ("journal", &journal),
        ("contexts", &contexts),
    ] {
        for secret in [password, key, system.heketi().admin_key()] {
            assert!(!text.contains(secret), "a secret is in the {place}");
        }
    }
    put_away(system, &volume, "n1").await;
}
