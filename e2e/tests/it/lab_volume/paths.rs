//! Paths that are missing, dead, doubled or lead elsewhere.

use super::*;

// E03
#[tokio::test]
async fn nothing_is_grown_while_a_path_is_missing() {
    let system = system().await;
    let wanted = claim("pvc-missing-path", Access::Mount("xfs"));
    let (volume, _) = in_use(&system, &wanted, "n1").await;
    let iqn = iqn(&system, &volume).await;
    let before = size_of_map(&system, &volume).await;
    let logout = format!("iscsiadm -m node -T {iqn} -p 10.77.1.12:3260 --logout");
    run(&system, "n1", &logout).await;
    let bytes = 512 * MIB;
    system
        .sidecars()
        .expand(&volume, bytes, PATIENCE)
        .await
        .expect("the block grows");
    let kubelet = system.kubelet("n1").expect("node");
    let status = kubelet
        .expand(&volume, POD, bytes, Duration::ZERO)
        .await
        .expect_err("a path is missing");
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert!(status.message().contains("10.77.1.12"), "{status}");
    assert_eq!(size_of_map(&system, &volume).await, before);

    let login = format!(
        "iscsiadm -m node -T {iqn} -p 10.77.1.12:3260 --login && \
         for host in /sys/class/scsi_host/host*; do echo '0 0 0' > $host/scan; done"
    );
    run(&system, "n1", &login).await;
    let grown = kubelet.expand(&volume, POD, bytes, PATIENCE).await;
    assert_eq!(grown.expect("all paths are there"), bytes);
    put_away(system, &volume, "n1").await;
}

// D16, P06, T06
#[tokio::test]
async fn with_all_paths_dead_nothing_hangs_and_what_is_left_goes_when_they_are_back() {
    let system = system().await;
    let wanted = claim("pvc-dead-paths", Access::Mount("ext4"));
    let (volume, context) = in_use(&system, &wanted, "n1").await;
    let target = volume.target_path(POD);
    let target = target.display();
    let write = "dd if=/dev/urandom of=data bs=1M count=4 conv=fsync status=none && sha256sum data > sum && sync -f .";
    run(&system, "n1", &format!("cd {target} && {write}")).await;
    let guest = system.lab().guest("n1").expect("guest").clone();
    guest.cut().await.expect("cut");
    // Past the session's replacement time nothing queues any more.
    tokio::time::sleep(Duration::from_secs(12)).await;

    let kubelet = system.kubelet("n1").expect("node");
    let started = Instant::now();
    if let Err(status) = kubelet.stats(&volume, POD).await {
        let codes = [Code::Internal, Code::Unavailable, Code::DeadlineExceeded];
        assert!(codes.contains(&status.code()), "{status}");
    }
    assert!(started.elapsed() < Duration::from_secs(20), "stats hung");
    let started = Instant::now();
    kubelet
        .unpublish(&volume, POD, Duration::from_mins(1))
        .await
        .expect("a mount goes without its device");
    let unstaged = kubelet.try_unstage(&volume).await;
    // kubelet gives a call two minutes.
    assert!(started.elapsed() < Duration::from_mins(2), "unstage hung");
    if let Err(status) = unstaged {
        let codes = [Code::Internal, Code::Unavailable, Code::DeadlineExceeded];
        assert!(codes.contains(&status.code()), "{status}");
    }

    guest.join().await.expect("join");
    kubelet.unstage(&volume, PATIENCE).await.expect("unstage");
    // What was synced is there.
    kubelet
        .stage(&volume, &context, PATIENCE)
        .await
        .expect("stage");
    kubelet
        .publish(&volume, &context, POD, false)
        .await
        .expect("publish");
    let check = format!("cd {target} && sha256sum --quiet --check sum");
    run(&system, "n1", &check).await;
    put_away(system, &volume, "n1").await;
}

// S10
#[tokio::test]
async fn twenty_stages_at_once_make_one_session_a_portal() {
    let system = system().await;
    let wanted = claim("pvc-parallel", Access::Mount("ext4"));
    let volume = system
        .sidecars()
        .create(&wanted, PATIENCE)
        .await
        .expect("create");
    let context = attach(&system, &volume, "n1").await;
    let kubelet = system.kubelet("n1").expect("node");
    let mut stages = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let (kubelet, volume, context) = (kubelet.clone(), volume.clone(), context.clone());
        stages.spawn(async move { kubelet.try_stage(&volume, &context).await });
    }
    let answers = stages.join_all().await;
    assert!(answers.iter().any(Result::is_ok), "{answers:?}");
    for status in answers.into_iter().filter_map(Result::err) {
        assert_eq!(status.code(), Code::Aborted, "{status}");
    }
    let sessions =
        "cat /sys/class/iscsi_connection/connection*/address | sort | uniq -c | tr -s ' \\n' ' '";
    let sessions = run(&system, "n1", sessions).await;
    assert_eq!(sessions.trim(), "1 10.77.1.11 1 10.77.1.12 1 10.77.1.13");
    put_away(system, &volume, "n1").await;
}

// W01: what the kernel remembers of a device is older than what is behind it.
#[tokio::test]
async fn a_device_of_an_earlier_lun_is_replaced_before_the_volume_is_mounted() {
    let system = system().await;
    let mut wanted = claim("pvc-earlier-lun", Access::Mount("ext4"));
    let no_chap = ("chapAuthEnabled".to_owned(), "false".to_owned());
    wanted.parameters.extend([no_chap]);
    let (volume, context) = in_use(&system, &wanted, "n1").await;
    let target = volume.target_path(POD);
    let mark = format!("echo mine > {0}/mark && sync -f {0}", target.display());
    run(&system, "n1", &mark).await;
    let kubelet = system.kubelet("n1").expect("node");
    kubelet
        .unpublish(&volume, POD, PATIENCE)
        .await
        .expect("unpublish");
    kubelet.unstage(&volume, PATIENCE).await.expect("unstage");

    // Another disk is behind the portal of s1 while a session is made by hand; then the volume's is there again.
    let iqn = iqn(&system, &volume).await;
    run(&system, "s1", &SWAP.replace("@IQN@", &iqn)).await;
    let login = format!(
        "iscsiadm -m node -o new -T {iqn} -p 10.77.1.11:3260 > /dev/null && \
         iscsiadm -m node -T {iqn} -p 10.77.1.11:3260 --op update -n node.session.scan -v auto && \
         iscsiadm -m node -T {iqn} -p 10.77.1.11:3260 --login > /dev/null && \
         for i in $(seq 50); do cat /sys/block/sd*/device/wwid 2>/dev/null && exit; sleep 0.1; done; exit 1"
    );
    let stale = run(&system, "n1", &login).await;
    assert!(stale.starts_with("naa.6001405deadbeef"), "{stale}");
    run(&system, "s1", &SWAP_BACK.replace("@IQN@", &iqn)).await;

    // multipathd has made a map of the other disk, by the identity it remembers. That is not ours to take away.
    let status = kubelet
        .try_stage(&volume, &context)
        .await
        .expect_err("held by a map");
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    assert!(status.message().contains("multipath -f"), "{status}");
    let remedy = "map=36001405deadbeef00004000800000000; echo 1 > /sys/block/sda/device/delete; udevadm settle; \
                  multipath -f $map; ! dmsetup info $map > /dev/null 2>&1";
    run(&system, "n1", remedy).await;
    kubelet
        .stage(&volume, &context, PATIENCE)
        .await
        .expect("stage");
    kubelet
        .publish(&volume, &context, POD, false)
        .await
        .expect("publish");
    let read = format!("cat {}/mark", target.display());
    assert_eq!(run(&system, "n1", &read).await.trim(), "mine");
    let known = run(&system, "n1", "cat /sys/block/sd*/device/wwid | sort -u").await;
    assert!(!known.contains("deadbeef"), "{known}");
    put_away(system, &volume, "n1").await;
}

/// Puts another backstore behind the target's LUN 0.
const SWAP: &str = r"
set -e
core=/sys/kernel/config/target/core/fileio_4040
mkdir -p $core/other
truncate -s 320M /tmp/other.img
echo fd_dev_name=/tmp/other.img,fd_dev_size=335544320 > $core/other/control
echo deadbeef-0000-4000-8000-000000000001 > $core/other/wwn/vpd_unit_serial
echo 1 > $core/other/enable
for tpg in /sys/kernel/config/target/iscsi/@IQN@/tpgt_*; do
    lun=$tpg/lun/lun_0
    [ -d $lun ] || continue
    link=$(find $lun -maxdepth 1 -type l)
    readlink -f $link > /tmp/swapped-${tpg##*/}
    echo ${link##*/} >> /tmp/swapped-${tpg##*/}
    rm $link
    ln -s $core/other $lun/other
done
";
const SWAP_BACK: &str = r"
set -e
for tpg in /sys/kernel/config/target/iscsi/@IQN@/tpgt_*; do
    lun=$tpg/lun/lun_0
    [ -d $lun ] || continue
    rm $lun/other
    { read -r store; read -r name; } < /tmp/swapped-${tpg##*/}
    ln -s $store $lun/$name
done
rmdir /sys/kernel/config/target/core/fileio_4040/other /sys/kernel/config/target/core/fileio_4040
rm -f /tmp/other.img /tmp/swapped-*
";

/// The kernel's target takes a user name that begins with `0b` for base64 (Linux 6.0 and later).
#[tokio::test]
async fn a_chap_user_that_looks_like_base64_can_log_in() {
    let system = system().await;
    if system.lab().record().real_blockd {
        eprintln!(
            "skipped: a_chap_user_that_looks_like_base64_can_log_in needs the simulator's switches"
        );
        return clean(system).await;
    }
    switch(&system, "create start gbid:0b").await;
    let wanted = claim("pvc-base64", Access::Block);
    let (volume, _) = in_use(&system, &wanted, "n1").await;
    switch(&system, "").await;
    assert!(iqn(&system, &volume).await.contains(":0b"));
    put_away(system, &volume, "n1").await;
}

async fn iqn(system: &System, volume: &Volume) -> String {
    let script = format!(
        "gluster-block info {} --json-plain | grep -o '\"GBID\":\"[^\"]*' | cut -d'\"' -f4",
        volume.id
    );
    let gbid = run(system, "s1", &script).await;
    format!("iqn.2016-12.org.gluster-block:{}", gbid.trim())
}

async fn size_of_map(system: &System, volume: &Volume) -> String {
    let script = format!(
        "blockdev --getsize64 $(findmnt -n -o SOURCE {})",
        volume.staging_path().display()
    );
    run(system, "n1", &script).await
}
