//! Create, info, list and delete when nothing goes wrong, and what they refuse.

use super::Cluster;

#[test]
fn a_block_lives_on_three_hosts_and_leaves_nothing_behind() {
    let cluster = Cluster::start(3);
    let hosts = cluster.addresses(0..3);
    let made = cluster
        .run(0, &cluster.create_words("hostvol/b1", 3, "auth enable"))
        .succeeded();
    let (iqn, gbid) = (made.text("IQN"), made.text("USERNAME"));
    assert_eq!(iqn, format!("iqn.2016-12.org.gluster-block:{gbid}"));
    let portals: Vec<String> = hosts.iter().map(|host| format!("{host}:3260")).collect();
    assert_eq!(made.texts("PORTAL(S)"), portals);
    assert_eq!(made.text("RESULT"), "SUCCESS");

    let info = cluster.run(1, "info hostvol/b1 --json").succeeded();
    assert!(info.json().get("RESULT").is_none());
    assert_eq!(info.text("GBID"), gbid);
    assert_eq!(
        (info.text("SIZE"), info.json()["HA"].as_u64()),
        ("1.0 MiB".to_owned(), Some(3))
    );
    assert_eq!(info.text("PASSWORD"), made.text("PASSWORD"));
    let mut exported = info.texts("EXPORTED ON");
    exported.sort();
    assert_eq!(exported, hosts);

    for host in 0..3 {
        assert_eq!(cluster.exports(host), ["b1".to_owned(), iqn.clone()]);
        let tpg = |tag: usize, file: &str| {
            let path = cluster.host_path(host, "configfs/iscsi").join(&iqn);
            std::fs::read_to_string(path.join(format!("tpgt_{tag}/{file}"))).expect("readable")
        };
        for tag in 1..=3 {
            let is_local = tag == host + 1;
            assert_eq!(tpg(tag, "enable") == "1", is_local);
            assert_eq!(tpg(tag, "auth/password"), made.text("PASSWORD"));
            let expected = if tag == 1 {
                "glfs_tg_pt_gp_ao"
            } else {
                "glfs_tg_pt_gp_ano"
            };
            assert_eq!(tpg(tag, "lun/lun_0/alua_tg_pt_gp"), expected);
        }
    }
    assert_eq!(
        cluster
            .run(2, "list hostvol --json")
            .succeeded()
            .texts("blocks"),
        ["b1"]
    );

    let gone = cluster.run(2, "delete hostvol/b1 --json").succeeded();
    assert_eq!(gone.texts("SUCCESSFUL ON").len(), 3);
    for host in 0..3 {
        assert!(cluster.exports(host).is_empty());
        assert!(!cluster.saved(host).contains(&gbid));
    }
    assert!(cluster.stored("hostvol").is_empty());
    assert_eq!(cluster.run(0, "list hostvol").succeeded().out, "*Nil*\n");
}

#[test]
fn a_missing_block_and_a_missing_volume_share_a_code_but_not_a_text() {
    // §0.4
    let cluster = Cluster::start(1);
    for command in ["info", "delete"] {
        let said = cluster.run(0, &format!("{command} hostvol/nix --json"));
        assert_eq!(
            (said.exit, said.out.as_str(), said.err.as_str()),
            (
                2,
                "",
                "{ \"RESULT\": \"FAIL\", \"errCode\": 2, \"errMsg\": \"block hostvol\\/nix doesn't exist\" }\n"
            )
        );
    }
    let said = cluster.run(0, "info nix/b --json");
    assert_eq!(
        (said.exit, said.text("errMsg")),
        (2, "Volume nix does not exist".to_owned())
    );
    assert_eq!(
        cluster.run(0, "info hostvol/nix").err,
        "block hostvol/nix doesn't exist\n"
    );
    assert_eq!(cluster.run(0, "info hostvol/ --json").exit, 255);
}

#[test]
fn a_name_in_use_is_refused_and_so_is_its_twin_in_another_volume() {
    let cluster = Cluster::start(2);
    cluster.create("hostvol/b1", 2).succeeded();
    let again = cluster.create("hostvol/b1", 2);
    assert_eq!(
        (again.exit, again.text("errMsg")),
        (17, "BLOCK with name: 'b1' already EXIST\n".to_owned())
    );
    // reference §1.2: names are unique per node across all hosting volumes
    let twin = cluster.create("other/b1", 2);
    assert_eq!(twin.exit, 255);
    let line = format!(
        "failed to configure on {} block with name 'b1' already exist (Hint: may be hosted on a different \
         block-hosting volume)",
        cluster.address(0)
    );
    assert!(twin.text("errMsg").starts_with(&line), "{twin:?}");
    for host in 0..2 {
        assert_eq!(
            cluster.exports(host).len(),
            2,
            "the first block stays exported"
        );
    }
    assert!(cluster.stored("other").is_empty());
}

#[test]
fn a_block_larger_than_what_is_free_is_refused() {
    let cluster = Cluster::start(1);
    let words = format!(
        "create hostvol/b prealloc no {} 7E --json",
        cluster.address(0)
    );
    let said = cluster.run(0, &words);
    assert_eq!(
        (said.exit, said.text("errMsg")),
        (28, "Low space on the volume hostvol\n".to_owned())
    );
    assert_eq!(cluster.journal("hostvol", "b"), "");
}

#[test]
fn text_may_come_before_the_json() {
    // §0.16
    let cluster = Cluster::start(1);
    let words = format!(
        "create hostvol/b prealloc no {} 1000000 --json",
        cluster.address(0)
    );
    let said = cluster.run(0, &words).succeeded();
    assert!(
        said.out
            .starts_with("The size 1000000 will align to sector size 512 bytes\n{ \"IQN\"")
    );
    assert!(cluster.journal("hostvol", "b").contains("\nSIZE: 999936\n"));
}

#[test]
fn a_bad_size_and_a_bad_option_exit_with_success_and_make_nothing() {
    // §0.1
    let cluster = Cluster::start(1);
    for (options, size, line) in [
        ("", "10GB", "'[size]' is incorrect"),
        ("", "100", "minimum acceptable block size is 512 bytes"),
        (
            "prealloc no block-size 1000",
            "1MiB",
            "'block-size' should be aligned to 512 bytes",
        ),
    ] {
        let host = cluster.address(0);
        let said = cluster.run(
            0,
            &format!("create hostvol/b {options} {host} {size} --json"),
        );
        assert_eq!((said.exit, said.out.as_str()), (0, ""), "{said:?}");
        assert_eq!(said.err.lines().next(), Some(line), "{said:?}");
    }
    assert_eq!(cluster.run(0, "list hostvol").out, "*Nil*\n");
}

#[test]
fn a_kept_file_can_be_adopted_once() {
    // reference §3.6
    let cluster = Cluster::start(1);
    cluster.create("hostvol/b1", 1).succeeded();
    let file = cluster.stored("hostvol").remove(0);
    cluster
        .run(0, "delete hostvol/b1 unlink-storage no --json")
        .succeeded();
    assert_eq!(cluster.stored("hostvol"), [file.as_str()]);
    let adopt = |name: &str| {
        cluster.run(
            0,
            &format!("create {name} storage {file} {} --json", cluster.address(0)),
        )
    };
    adopt("hostvol/b2").succeeded();
    assert_eq!(
        cluster.run(0, "info hostvol/b2 --json").text("SIZE"),
        "1.0 MiB"
    );
    assert_eq!(adopt("hostvol/b3").exit, 16);
    let missing = cluster.run(
        0,
        &format!(
            "create hostvol/b4 storage nix {} --json",
            cluster.address(0)
        ),
    );
    assert_eq!(
        (missing.exit, missing.text("errMsg")),
        (
            2,
            "storage file '/block-store/nix' doesn't exist in volume hostvol\n".to_owned()
        )
    );
}

#[test]
fn a_prefilled_block_has_all_its_space() {
    use std::os::unix::fs::MetadataExt;
    let cluster = Cluster::start(1);
    let words = format!(
        "create hostvol/b prealloc full {} 1MiB --json",
        cluster.address(0)
    );
    cluster.run(0, &words).succeeded();
    let file = cluster
        .path("volumes/hostvol/block-store")
        .join(cluster.stored("hostvol").remove(0));
    assert!(std::fs::metadata(file).expect("the file").blocks() * 512 >= 1 << 20);
}

#[test]
fn failures_without_json_are_two_lines_on_stderr() {
    // reference §2.2
    let cluster = Cluster::start(1);
    let said = cluster.run(0, "delete hostvol/nix");
    assert_eq!(
        (said.exit, said.err.as_str()),
        (2, "block hostvol/nix doesn't exist\nRESULT:FAIL\n")
    );
}
