//! `modify`: sizes that some hosts miss, and passwords that the journal forgets.

use super::Cluster;

fn control(cluster: &Cluster, host: usize) -> String {
    let path = cluster.host_path(host, "configfs/core/fileio_0/b1/control");
    std::fs::read_to_string(path).expect("the backstore")
}

fn authentication(cluster: &Cluster, iqn: &str) -> String {
    let path = cluster
        .host_path(0, "configfs/iscsi")
        .join(iqn)
        .join("tpgt_1/attrib/authentication");
    std::fs::read_to_string(path).expect("the portal group")
}

#[test]
fn a_block_grows_on_every_host() {
    let cluster = Cluster::start(2);
    cluster.create("hostvol/b1", 2).succeeded();
    let said = cluster
        .run(1, "modify hostvol/b1 size 2MiB --json")
        .succeeded();
    assert_eq!(
        (said.text("SIZE"), said.texts("SUCCESSFUL ON").len()),
        ("2.0 MiB".to_owned(), 2)
    );
    for host in 0..2 {
        assert_eq!(control(&cluster, host), "fd_dev_size=2097152");
        assert!(cluster.saved(host).contains("\"size\": 2097152"));
    }
    let path = cluster
        .path("volumes/hostvol/block-store")
        .join(cluster.stored("hostvol").remove(0));
    assert_eq!(std::fs::metadata(path).expect("the file").len(), 2 << 20);
    let same = cluster.run(0, "modify hostvol/b1 size 2MiB --json");
    let text = "request size (2.0 MiB) is same as current size (2.0 MiB) ]";
    assert_eq!((same.exit, same.text("errMsg")), (255, text.to_owned()));
}

#[test]
fn a_host_that_missed_a_resize_is_shown_and_caught_up_alone() {
    // reference §2.7, §3.7
    let cluster = Cluster::start(3);
    cluster.create("hostvol/b1", 3).succeeded();
    cluster.set_faults(1, "resize host fail\n");
    let said = cluster.run(0, "modify hostvol/b1 size 2MiB --json");
    let [first, second, third] = [0, 1, 2].map(|host| cluster.address(host));
    let iqn = said.text("IQN").replace('/', "\\/");
    let expected =
        format!("{{ \"IQN\": \"{iqn}\", \"FAILED ON\": [ \"{second}\" ], \"SUCCESSFUL ON\": ");
    let rest = format!(
        "], \"RESULT\": \"FAIL\", \"errCode\": 255, \"errMsg\": \"block volume resize failed: \
         {second}:[1.0 MiB]\" }}\n"
    );
    assert!(
        said.err.starts_with(&expected) && said.err.ends_with(&rest),
        "{said:?}"
    );
    assert_eq!((said.exit, said.out.as_str()), (255, ""));

    let info = cluster.run(0, "info hostvol/b1 --json").succeeded();
    assert_eq!(info.text("SIZE"), "2.0 MiB");
    assert_eq!(
        info.json()["RESIZE FAILED ON"],
        serde_json::json!({ second.clone(): "1.0 MiB" })
    );
    assert_eq!(info.texts("EXPORTED ON").len(), 3);

    cluster.set_faults(1, "");
    let said = cluster
        .run(2, "modify hostvol/b1 size 2MiB --json")
        .succeeded();
    assert_eq!(said.texts("SUCCESSFUL ON"), [second]);
    let mut skipped = said.texts("SKIPPED ON");
    skipped.sort();
    assert_eq!(skipped, [first, third]);
    assert!(
        cluster
            .run(0, "info hostvol/b1 --json")
            .json()
            .get("RESIZE FAILED ON")
            .is_none()
    );
}

#[test]
fn a_partial_resize_in_plain_text_is_one_line() {
    // reference §2.7
    let cluster = Cluster::start(2);
    cluster.create("hostvol/b1", 2).succeeded();
    cluster.set_faults(0, "resize host fail\n");
    let said = cluster.run(1, "modify hostvol/b1 size 2MiB");
    let text = format!(
        "block volume resize failed: {}:[1.0 MiB]\n",
        cluster.address(0)
    );
    assert_eq!((said.exit, said.err), (255, text));
}

#[test]
fn a_host_that_lost_its_target_fails_a_resize_cleanly() {
    // reference §3.6
    let mut cluster = Cluster::start(2);
    cluster.create("hostvol/b1", 2).succeeded();
    cluster.set_faults(1, "restore host fail\n");
    cluster.reboot(1);
    let said = cluster.run(0, "modify hostvol/b1 size 2MiB --json");
    assert_eq!(
        (said.exit, said.texts("FAILED ON")),
        (255, cluster.addresses([1]))
    );
}

#[test]
fn a_block_half_configured_refuses_changes_with_the_code_of_a_missing_one() {
    // §0.4
    let cluster = Cluster::start(2);
    cluster.set_faults(0, "create hosts:1 abandon\n");
    cluster.create("hostvol/b1", 2);
    for change in ["size 2MiB", "auth enable"] {
        let said = cluster.run(0, &format!("modify hostvol/b1 {change} --json"));
        assert_eq!(said.exit, 2);
        assert!(
            said.text("errMsg")
                .starts_with("Some of the nodes are missing configuration, ")
        );
    }
}

#[test]
fn passwords_come_and_go_with_modify_auth() {
    // reference §3.7
    let cluster = Cluster::start(2);
    let iqn = cluster.create("hostvol/b1", 2).succeeded().text("IQN");
    assert_eq!(authentication(&cluster, &iqn), "0");
    let first = cluster
        .run(0, "modify hostvol/b1 auth enable --json")
        .succeeded();
    assert_eq!(authentication(&cluster, &iqn), "1");
    assert_eq!(first.texts("SUCCESSFUL ON").len(), 2);
    let again = cluster
        .run(0, "modify hostvol/b1 auth enable --json")
        .succeeded();
    assert_eq!(again.text("PASSWORD"), first.text("PASSWORD"));
    assert!(again.json().get("SUCCESSFUL ON").is_none());
    cluster
        .run(0, "modify hostvol/b1 auth disable --json")
        .succeeded();
    assert_eq!(authentication(&cluster, &iqn), "0");
    assert_eq!(
        cluster.run(0, "info hostvol/b1 --json").text("PASSWORD"),
        ""
    );
    let new = cluster
        .run(0, "modify hostvol/b1 auth enable --json")
        .succeeded();
    assert_ne!(new.text("PASSWORD"), first.text("PASSWORD"));
}

#[test]
fn a_disable_after_a_resize_does_nothing_and_says_success() {
    // §0.13
    let cluster = Cluster::start(2);
    let made = cluster
        .run(0, &cluster.create_words("hostvol/b1", 2, "auth enable"))
        .succeeded();
    cluster
        .run(0, "modify hostvol/b1 size 2MiB --json")
        .succeeded();
    let said = cluster
        .run(0, "modify hostvol/b1 auth disable --json")
        .succeeded();
    assert_eq!(said.text("RESULT"), "SUCCESS");
    assert!(said.json().get("SUCCESSFUL ON").is_none());
    assert_eq!(
        cluster.run(0, "info hostvol/b1 --json").text("PASSWORD"),
        ""
    );
    assert_eq!(
        authentication(&cluster, &made.text("IQN")),
        "1",
        "the target still demands it"
    );
}

#[test]
fn a_failed_auth_change_is_rolled_back_without_a_code() {
    let cluster = Cluster::start(2);
    cluster.create("hostvol/b1", 2).succeeded();
    cluster.set_faults(1, "auth host fail\n");
    let said = cluster.run(0, "modify hostvol/b1 auth enable --json");
    assert_eq!(said.exit, 255);
    assert_eq!(said.texts("FAILED ON"), cluster.addresses([1]));
    assert_eq!(said.texts("ROLLBACK SUCCESS ON"), cluster.addresses([0]));
    assert!(said.json().get("errCode").is_none());
    assert_eq!(
        cluster.run(0, "info hostvol/b1 --json").text("PASSWORD"),
        ""
    );
}
