//! Reboots, lost targets, `replace`, `reload` and `genconfig`.

use super::Cluster;

#[test]
fn targets_come_back_after_a_reboot() {
    let mut cluster = Cluster::start(2);
    let iqn = cluster
        .run(0, &cluster.create_words("hostvol/b1", 2, "auth enable"))
        .succeeded()
        .text("IQN");
    cluster
        .run(0, "modify hostvol/b1 size 2MiB --json")
        .succeeded();
    cluster.reboot(1);
    assert_eq!(cluster.exports(1), ["b1".to_owned(), iqn]);
    let path = cluster.host_path(1, "configfs/core/fileio_0/b1/control");
    let control = std::fs::read_to_string(path).expect("the backstore");
    assert!(control.contains("fd_dev_size=2097152"), "{control}");
    // a restart without a reboot changes nothing
    cluster.kill(1);
    cluster.boot(1, &[]);
    assert_eq!(cluster.exports(1).len(), 2);
    cluster.run(0, "delete hostvol/b1 --json").succeeded();
    assert!(cluster.exports(1).is_empty());
}

#[test]
fn a_host_that_lost_its_target_is_reported_as_deleted_and_keeps_its_entry() {
    // §0.12
    let mut cluster = Cluster::start(2);
    cluster.create("hostvol/b1", 2).succeeded();
    cluster.set_faults(1, "restore host fail\n");
    cluster.reboot(1);
    assert!(cluster.exports(1).is_empty());
    let said = cluster.run(0, "delete hostvol/b1 --json").succeeded();
    assert_eq!(said.texts("SUCCESSFUL ON").len(), 2);
    assert!(
        cluster.saved(1).contains("\"name\": \"b1\""),
        "the stale entry"
    );
    let again = cluster.create("hostvol/b1", 2);
    assert_eq!(again.exit, 255);
    assert!(
        again.text("errMsg").contains(&cluster.address(1)),
        "{again:?}"
    );
}

#[test]
fn a_lost_target_is_loaded_again_by_reload() {
    let mut cluster = Cluster::start(2);
    cluster.create("hostvol/b1", 2).succeeded();
    cluster.set_faults(1, "restore host fail\n");
    cluster.reboot(1);
    let said = cluster.run(0, "reload hostvol/b1 --json").succeeded();
    assert_eq!(said.text("RESULT"), "SUCCESS");
    assert_eq!(cluster.exports(1).len(), 2);
    // "With `force`, failures are ignored" (reference §2.9)
    cluster.set_faults(1, "reload host fail\n");
    assert_eq!(cluster.run(0, "reload hostvol/b1 --json").exit, 255);
    let forced = cluster.run(0, "reload hostvol/b1 force --json").succeeded();
    assert_eq!(forced.texts("FAILED ON"), cluster.addresses([1]));
}

#[test]
fn genconfig_prints_a_host_and_nothing_for_a_stranger() {
    let cluster = Cluster::start(2);
    let made = cluster
        .run(0, &cluster.create_words("hostvol/b1", 2, "auth enable"))
        .succeeded();
    let said = cluster.run(
        0,
        &format!("genconfig hostvol,other enable-tpg {}", cluster.address(1)),
    );
    let document = said.succeeded().json();
    let saved: serde_json::Value = serde_json::from_str(&cluster.saved(1)).expect("saved");
    assert_eq!(document["storage_objects"], saved["storage_objects"]);
    assert_eq!(document["targets"][0]["wwn"], made.text("IQN").as_str());
    let stranger = cluster
        .run(0, "genconfig hostvol enable-tpg 10.9.9.9")
        .succeeded();
    assert_eq!(
        stranger.out,
        "{\n  \"storage_objects\":[\n  ],\n  \"targets\":[\n  ]\n}\n"
    );
    assert_eq!(
        cluster.run(0, "genconfig nix enable-tpg 10.9.9.9").exit,
        255
    );
}

#[test]
fn a_host_is_replaced_by_another() {
    // reference §2.8, §3.8
    let cluster = Cluster::start(4);
    let iqn = cluster.create("hostvol/b1", 3).succeeded().text("IQN");
    let words = format!(
        "replace hostvol/b1 {} {} --json",
        cluster.address(0),
        cluster.address(3)
    );
    let said = cluster.run(1, &words).succeeded();
    assert_eq!(said.text("CREATE SUCCESS"), cluster.address(3));
    assert_eq!(said.text("DELETE SUCCESS"), cluster.address(0));
    // The hosts answer in any order.
    let mut swapped = said.texts("REPLACE PORTAL SUCCESS ON");
    swapped.sort_unstable();
    assert_eq!(swapped, cluster.addresses([1, 2]));
    assert_eq!(said.text("RESULT"), "SUCCESS");
    assert!(cluster.exports(0).is_empty());
    assert_eq!(cluster.exports(3).len(), 2);
    let portal = format!("tpgt_1/np/{}:3260", cluster.address(3));
    let path = cluster
        .host_path(1, "configfs/iscsi")
        .join(&iqn)
        .join(portal);
    assert!(
        path.try_exists().expect("readable"),
        "the survivors show the new portal"
    );
    let mut exported = cluster
        .run(1, "info hostvol/b1 --json")
        .succeeded()
        .texts("EXPORTED ON");
    exported.sort();
    assert_eq!(exported, cluster.addresses([1, 2, 3]));
    let again = cluster.run(1, &words).succeeded();
    assert_eq!(again.out, "{ \"NAME\": \"b1\", \"RESULT\": \"SKIPPED\" }\n");
}

#[test]
fn a_failed_replace_exits_with_success_and_is_completed_by_a_repeat() {
    // §0.1, reference §3.8
    let cluster = Cluster::start(3);
    cluster.create("hostvol/b1", 2).succeeded();
    cluster.set_faults(2, "create host fail\n");
    let words = format!(
        "replace hostvol/b1 {} {} --json",
        cluster.address(0),
        cluster.address(2)
    );
    let said = cluster.run(1, &words).succeeded();
    assert_eq!(said.text("CREATE FAILED"), cluster.address(2));
    assert_eq!(
        (said.text("DELETE SUCCESS"), said.text("RESULT")),
        (cluster.address(0), "FAIL".to_owned())
    );
    assert_eq!(
        cluster
            .run(1, "info hostvol/b1 --json")
            .texts("EXPORTED ON"),
        cluster.addresses([1])
    );
    cluster.set_faults(2, "");
    let said = cluster.run(1, &words).succeeded();
    assert_eq!(said.text("CREATE SUCCESS"), cluster.address(2));
    assert_eq!(said.text("DELETE SKIPPED"), cluster.address(0));
    assert_eq!(
        said.texts("REPLACE PORTAL SKIPPED ON"),
        cluster.addresses([1])
    );
}

#[test]
fn a_replace_that_makes_no_sense_has_codes_of_its_own() {
    let cluster = Cluster::start(2);
    cluster.create("hostvol/b1", 2).succeeded();
    let stranger = cluster.run(
        0,
        &format!("replace hostvol/b1 10.9.9.9 {} --json", cluster.address(1)),
    );
    assert_eq!(
        (stranger.exit, stranger.text("errMsg")),
        (
            223,
            "block 'b1' is not configured on node '10.9.9.9' for volume 'hostvol'".to_owned()
        )
    );
    let words = format!(
        "replace hostvol/b1 {} {} --json",
        cluster.address(0),
        cluster.address(1)
    );
    assert_eq!(cluster.run(0, &words).exit, 224);
}
