//! What the switch file can do, and what the command line shows of it.

use std::time::{Duration, Instant};

use super::{Cluster, wait_until};

const NO_RESPONSE: &str = "Did not receive any response from gluster-block daemon. Please check log files to find \
                           the reason\n";

#[test]
fn a_host_that_fails_is_rolled_back_and_named() {
    let cluster = Cluster::start(3);
    cluster.set_faults(1, "create host fail\n");
    let said = cluster.create("hostvol/b1", 3);
    assert_eq!(said.exit, 255);
    let line = format!(
        "failed to configure on {} configure failed",
        cluster.address(1)
    );
    assert_eq!(said.text("errMsg"), line);
    assert!(cluster.stored("hostvol").is_empty());
    assert_eq!(cluster.journal("hostvol", "b1"), "");
    assert!((0..3).all(|host| cluster.exports(host).is_empty()));
}

#[test]
fn a_failed_rollback_reports_success() {
    // §0.2
    let cluster = Cluster::start(3);
    cluster.set_faults(1, "create host-end fail\ndelete host fail\n");
    let said = cluster.create("hostvol/b1", 3).succeeded();
    assert_eq!(said.text("RESULT"), "SUCCESS");
    assert_eq!(said.texts("PORTAL(S)").len(), 3);
    assert_eq!(said.texts("ROLLBACK FAILED ON"), cluster.addresses([1]));
    assert_eq!(said.texts("ROLLBACK SUCCESS ON"), cluster.addresses([0, 2]));
    let info = cluster.run(0, "info hostvol/b1 --json").succeeded();
    assert!(info.texts("EXPORTED ON").is_empty());
    assert_eq!(
        info.texts("ENCOUNTERED FAILURES ON"),
        cluster.addresses([1])
    );
    cluster.set_faults(1, "");
    cluster.run(0, "delete hostvol/b1 --json").succeeded();
    assert!((0..3).all(|host| cluster.exports(host).is_empty()));
}

#[test]
fn a_block_half_made_exists_by_name_only() {
    // §0.5
    let cluster = Cluster::start(2);
    for (point, has_file) in [("metadata", false), ("file", true), ("hosts:1", true)] {
        cluster.set_faults(0, &format!("create {point} abandon\n"));
        let said = cluster.create("hostvol/b1", 2);
        assert_eq!(
            (said.exit, said.err.as_str()),
            (255, NO_RESPONSE),
            "{point}"
        );
        cluster.set_faults(0, "");
        assert_eq!(cluster.create("hostvol/b1", 2).exit, 17);
        let info = cluster.run(0, "info hostvol/b1 --json").succeeded();
        let exported = usize::from(point == "hosts:1");
        assert_eq!(info.texts("EXPORTED ON").len(), exported, "{point}");
        assert_eq!(
            cluster.stored("hostvol").len(),
            usize::from(has_file),
            "{point}"
        );
        cluster.run(0, "delete hostvol/b1 --json").succeeded();
        assert!(cluster.stored("hostvol").is_empty());
        assert!((0..2).all(|host| cluster.exports(host).is_empty()));
    }
}

#[test]
fn a_daemon_that_dies_in_the_middle_frees_the_volume_and_finishes_nothing() {
    // reference §3.5
    let mut cluster = Cluster::start(2);
    cluster.set_faults(0, "create file die 1\n");
    assert_eq!(cluster.create("hostvol/b1", 2).err, NO_RESPONSE);
    cluster.wait_for_end(0);
    assert_eq!(
        cluster.run(1, "list hostvol --json").texts("blocks"),
        ["b1"]
    );
    cluster.boot(0, &[]);
    assert_eq!(
        cluster
            .run(0, "info hostvol/b1 --json")
            .texts("EXPORTED ON")
            .len(),
        0
    );
    cluster.run(0, "delete hostvol/b1 --json").succeeded();
    cluster.create("hostvol/b1", 2).succeeded();
}

#[test]
fn a_lost_answer_leaves_a_complete_block() {
    let cluster = Cluster::start(2);
    cluster.set_faults(0, "create end lose 1\n");
    let said = cluster.create("hostvol/b1", 2);
    assert_eq!((said.exit, said.err.as_str()), (255, NO_RESPONSE));
    let info = cluster.run(0, "info hostvol/b1 --json").succeeded();
    assert_eq!(info.texts("EXPORTED ON").len(), 2);
}

#[test]
fn a_command_line_that_gives_up_leaves_the_work_running() {
    // §0.6
    let cluster = Cluster::start(1);
    cluster.set_faults(0, "create metadata hang\n");
    let words = cluster.create_words("hostvol/b1", 1, "");
    let said = cluster.run(0, &format!("timeout 1 {words}"));
    assert_eq!((said.exit, said.err.as_str()), (255, NO_RESPONSE));
    cluster.wait_held(0, "create-metadata");
    assert_eq!(cluster.run(0, "timeout 1 list hostvol").err, NO_RESPONSE);
    cluster.set_faults(0, "");
    assert_eq!(
        cluster
            .run(0, "info hostvol/b1 --json")
            .succeeded()
            .texts("EXPORTED ON")
            .len(),
        1
    );
}

#[test]
fn one_daemon_serves_one_request_and_one_volume_one_command() {
    // §0.7
    let cluster = Cluster::start(2);
    cluster.set_faults(0, "list locked hang\n");
    std::thread::scope(|scope| {
        let held = scope.spawn(|| cluster.run(0, "list hostvol"));
        cluster.wait_held(0, "list-locked");
        // the same daemon, another volume
        assert_eq!(cluster.run(0, "timeout 1 list other").err, NO_RESPONSE);
        // another daemon, another volume
        let started = Instant::now();
        cluster.run(1, "list other").succeeded();
        assert!(started.elapsed() < Duration::from_secs(1));
        // another daemon, the same volume; its loop between hosts goes on (reference §3.5)
        assert_eq!(cluster.run(1, "timeout 1 info hostvol/b").err, NO_RESPONSE);
        let busy = super::outages::version_answers(&cluster.address(1));
        assert!(busy, "the loop between hosts is another one");
        cluster.set_faults(0, "");
        held.join().expect("no panic").succeeded();
    });
    wait_until("the queued requests are served", || {
        cluster.run(1, "timeout 2 list hostvol").exit == 0
    });
}

#[test]
fn a_slow_step_takes_its_time() {
    let cluster = Cluster::start(1);
    cluster.set_faults(0, "info start slow:0.3\n");
    let started = Instant::now();
    cluster.run(0, "info hostvol/nix");
    assert!(started.elapsed() >= Duration::from_millis(300));
}

#[test]
fn a_rounded_create_makes_a_smaller_file_than_it_says() {
    let cluster = Cluster::start(1);
    cluster.set_faults(0, "create size round:1000000\n");
    cluster.create("hostvol/b1", 1).succeeded();
    let path = cluster
        .path("volumes/hostvol/block-store")
        .join(cluster.stored("hostvol").remove(0));
    assert_eq!(std::fs::metadata(path).expect("the file").len(), 1_000_000);
    assert!(cluster.journal("hostvol", "b1").contains("SIZE: 1048576\n"));
}
