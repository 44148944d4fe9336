//! The gluster-block simulator on the lab's storage guests: a real hosting volume, real targets, a real initiator.
//!
//! One test, because every test process boots a lab of its own unless `LAB_ID` names one that is up.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use blockd_client::vocabulary::Gbid;
use e2e::lab::{FAST_GLUSTER_OPTIONS, Guest, Lab, LabOptions};
use e2e::settings;

/// The hosting volume; no other test's.
const VOLUME: &str = "gbsim";
const SIZE: u64 = 64 << 20;

async fn wait_for(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !holds().await {
        assert!(
            start.elapsed() < Duration::from_mins(1),
            "waited for too long: {what}"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Runs a script that may take as long as a busy machine makes it.
async fn run(guest: &Guest, script: &str) -> String {
    let done = guest.run_within(Duration::from_secs(100), script).await;
    done.unwrap_or_else(|error| panic!("{}: {script}: {error}", guest.name()))
}

async fn code(guest: &Guest, script: &str) -> i32 {
    guest.exec(["sh", "-c", script]).await.expect("it ran").code
}

async fn json(guest: &Guest, command: &str) -> serde_json::Value {
    let text = run(guest, &format!("gluster-block {command} --json")).await;
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn addresses(lab: &Lab) -> Vec<String> {
    lab.storage()
        .take(3)
        .map(|guest| guest.address().to_string())
        .collect()
}

async fn lab() -> Lab {
    if let Some(id) = settings::lab_id() {
        return Lab::attach(&id).expect("the lab is up");
    }
    let mut options = LabOptions::new(format!("gb-{}", std::process::id())).expect("options");
    options.nodes = 1;
    Lab::up(options).await.expect("a lab")
}

async fn make_volume(lab: &Lab, first: &Guest) {
    let bricks: Vec<String> = addresses(lab)
        .iter()
        .map(|host| format!("{host}:/bricks/{VOLUME}"))
        .collect();
    let mut script = format!(
        "g() {{ gluster --mode=script volume \"$@\" >&2; }}; set -e\n\
         g create {VOLUME} replica 3 {} force; g set {VOLUME} group gluster-block\n",
        bricks.join(" ")
    );
    for (key, value) in FAST_GLUSTER_OPTIONS {
        writeln!(script, "g set {VOLUME} {key} {value}").expect("text");
    }
    run(first, &script).await;
    run(
        first,
        &format!("gluster --mode=script volume start {VOLUME}"),
    )
    .await;
}

async fn remove_volume(lab: &Lab, first: &Guest) {
    let script = format!(
        "gluster --mode=script volume stop {VOLUME} force; gluster --mode=script volume delete {VOLUME}"
    );
    run(first, &script).await;
    for guest in lab.storage() {
        run(
            guest,
            &format!("umount -l /run/gluster-block-sim/volumes/{VOLUME} || true"),
        )
        .await;
        run(guest, &format!("rm -rf /bricks/{VOLUME}")).await;
    }
}

/// Logs in to one portal with a password and returns what iscsiadm says.
async fn login(node: &Guest, iqn: &str, host: &str, user: &str, password: &str) -> i32 {
    let record = format!("iscsiadm -m node -T {iqn} -p {host}:3260");
    let settings = [
        ("authmethod", "CHAP"),
        ("username", user),
        ("password", password),
    ];
    let settings: Vec<String> = settings
        .iter()
        .map(|(key, value)| format!("-n node.session.auth.{key} -v {value}"))
        .collect();
    let script = format!(
        "{record},-1 -o new >/dev/null && {record} -o update {} && {record} --login",
        settings.join(" ")
    );
    code(node, &script).await
}

#[tokio::test]
async fn a_simulated_block_is_a_real_multipath_device_and_goes_without_a_trace() {
    let lab = lab().await;
    let guest = |name: &str| lab.guest(name).expect("a guest");
    let (first, second, third, node) = (guest("s1"), guest("s2"), guest("s3"), guest("n1"));
    let hosts = addresses(&lab);
    make_volume(&lab, &first).await;

    let words = format!("{} {SIZE}", hosts.join(","));
    let made = json(
        &second,
        &format!("create {VOLUME}/b1 ha 3 auth enable prealloc no {words}"),
    )
    .await;
    let text = |key: &str| made[key].as_str().expect(key).to_owned();
    let (iqn, user, password) = (text("IQN"), text("USERNAME"), text("PASSWORD"));
    let gbid: Gbid = user.parse().expect("a GBID");
    let wwid = gbid.wwid().to_string();

    // C15: the 36 characters of a password that gluster-block makes log in; others do not
    assert_eq!(
        login(&node, &iqn, &hosts[0], &user, "not-the-password").await,
        24
    );
    for host in &hosts {
        assert_eq!(
            login(&node, &iqn, host, &user, &password).await,
            0,
            "{host}"
        );
    }
    // Sent by any portal: all three (reference §3.3)
    let found = run(
        &node,
        &format!(
            "iscsiadm -m discovery -t st -p {} -o nonpersistent",
            hosts[2]
        ),
    )
    .await;
    assert_eq!(found.matches(&iqn).count(), 3, "{found}");

    wait_for("the map has three paths", async || {
        let map = node
            .run(&format!("multipath -ll {wwid}"))
            .await
            .unwrap_or_default();
        map.matches("active ready").count() == 3
    })
    .await;
    // reference §3.3: one path 50, the others 10; §9: what INQUIRY says
    let paths = run(&node, "multipathd show paths raw format '%w|%p|%s'").await;
    let mut priorities: Vec<&str> = paths
        .lines()
        .filter(|line| line.starts_with(&wwid))
        .filter_map(|line| line.split('|').nth(1))
        .map(str::trim)
        .collect();
    priorities.sort_unstable();
    assert_eq!(priorities, ["10", "10", "50"], "{paths}");
    assert!(paths.contains("LIO-ORG,TCMU device"), "{paths}");

    let device = format!("/dev/mapper/{wwid}");
    let wrote = format!(
        "dd if=/dev/urandom of=/tmp/data bs=1M count=4 2>/dev/null; \
         dd if=/tmp/data of={device} bs=1M oflag=direct 2>/dev/null; \
         dd if={device} bs=1M count=4 iflag=direct 2>/dev/null | cmp - /tmp/data && echo same"
    );
    assert_eq!(run(&node, &wrote).await, "same");

    json(&third, &format!("modify {VOLUME}/b1 size {}", 2 * SIZE)).await;
    run(
        &node,
        &format!("iscsiadm -m node -T {iqn} -R >/dev/null; multipathd resize map {wwid}"),
    )
    .await;
    let sizes = run(
        &node,
        &format!("cat /sys/block/$(basename $(readlink -f {device}))/slaves/*/size"),
    )
    .await;
    let sectors = (2 * SIZE / 512).to_string();
    assert_eq!(sizes.lines().collect::<Vec<_>>(), [sectors.as_str(); 3]);

    if lab.record().real_blockd {
        eprintln!("skipped with a real gluster-blockd: a volume lock held by a fault switch");
    } else {
        one_command_holds_the_volume_everywhere(&first, &second).await;
    }

    let logout = format!(
        "multipath -f {wwid}; iscsiadm -m node -T {iqn} -u >/dev/null; iscsiadm -m node -T {iqn} -o delete"
    );
    run(&node, &logout).await;
    assert_eq!(
        json(&first, &format!("delete {VOLUME}/b1")).await["RESULT"],
        "SUCCESS"
    );
    for guest in lab.storage().take(3) {
        let left = run(guest, "find /sys/kernel/config/target -maxdepth 3").await;
        assert!(
            !left.contains(&iqn) && !left.contains("/b1\n"),
            "{}: {left}",
            guest.name()
        );
        let saved = run(guest, "cat /etc/target/saveconfig.json").await;
        assert!(!saved.contains(&user), "{}", guest.name());
    }
    let blocks = json(&second, &format!("list {VOLUME}")).await;
    assert_eq!(blocks["blocks"], serde_json::json!([]));
    remove_volume(&lab, &first).await;
}

/// reference §3.5: the lock is cluster-wide and held by `list` too.
async fn one_command_holds_the_volume_everywhere(first: &Guest, second: &Guest) {
    let faults = "/run/gluster-block-sim/faults";
    run(first, &format!("echo 'list locked hang' > {faults}")).await;
    run(
        first,
        &format!("(gluster-block list {VOLUME} >/tmp/list 2>&1 &) >/dev/null 2>&1"),
    )
    .await;
    wait_for("the lock is held", async || {
        code(first, "test -e /run/gluster-block-sim/held/list-locked").await == 0
    })
    .await;
    let waits = format!("timeout 2 gluster-block info {VOLUME}/b1");
    assert_eq!(
        code(second, &waits).await,
        124,
        "another host waits for the lock"
    );
    run(first, &format!("rm {faults}")).await;
    assert_eq!(
        code(second, &format!("gluster-block info {VOLUME}/b1")).await,
        0
    );
    wait_for("the first is answered", async || {
        run(first, "cat /tmp/list").await == "b1"
    })
    .await;
}
