//! Daemons and volumes that are down, half-down, old or not what they were.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::Cluster;

/// Whether the port between hosts answers a version call, with a client made of bytes.
pub(super) fn version_answers(address: &str) -> bool {
    let words = |list: &[u32]| {
        list.iter()
            .flat_map(|word| word.to_be_bytes())
            .collect::<Vec<u8>>()
    };
    let Ok(mut stream) = TcpStream::connect((address, 24010)) else {
        return false;
    };
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .expect("set");
    let call = words(&[0x8000_0000 + 40, 7, 0, 2, 21_215_311, 1, 4, 0, 0, 0, 0]);
    stream.write_all(&call).expect("sent");
    let mut reply = [0; 28];
    stream.read_exact(&mut reply).is_ok() && reply[4..28] == words(&[7, 1, 0, 0, 0, 0])
}

#[test]
fn a_host_that_is_down_stops_create_delete_and_resize_but_not_info() {
    let mut cluster = Cluster::start(3);
    cluster.create("hostvol/b1", 3).succeeded();
    let before = cluster.run(0, "info hostvol/b1 --json").out;
    cluster.kill(2);
    let text = format!(
        "Version check failed [host {} returned -107] (Hint: See if all servers are up and running \
         gluster-blockd daemon)",
        cluster.address(2)
    );
    for words in [
        cluster.create_words("hostvol/b2", 3, ""),
        "delete hostvol/b1 --json".to_owned(),
        "modify hostvol/b1 size 2MiB --json".to_owned(),
    ] {
        let said = cluster.run(0, &words);
        assert_eq!(
            (said.exit, said.text("errMsg")),
            (255, text.clone()),
            "{words}"
        );
    }
    assert_eq!(cluster.journal("hostvol", "b2"), "", "nothing was created");
    assert_eq!(cluster.run(0, "info hostvol/b1 --json").out, before);
}

#[test]
fn a_forced_delete_leaves_an_orphan_that_takes_the_name() {
    // §0.11
    let mut cluster = Cluster::start(3);
    cluster.create("hostvol/b1", 3).succeeded();
    cluster.kill(2);
    let said = cluster.run(0, "delete hostvol/b1 force --json").succeeded();
    assert_eq!(said.texts("FAILED ON"), cluster.addresses([2]));
    assert_eq!(said.text("RESULT"), "SUCCESS");
    assert_eq!(cluster.run(0, "info hostvol/b1 --json").exit, 2);
    cluster.boot(2, &[]);
    assert_eq!(cluster.exports(2).len(), 2, "the orphan");
    let again = cluster.create("hostvol/b1", 3);
    assert_eq!(again.exit, 255);
    assert!(
        again.text("errMsg").contains("already exist (Hint:"),
        "{again:?}"
    );
}

#[test]
fn a_host_configured_for_a_coordinator_that_died_keeps_its_lun_over_the_delete() {
    // §0.11, reference §3.6
    let mut cluster = Cluster::start(3);
    cluster.set_faults(2, "create host-end hang\n");
    std::thread::scope(|scope| {
        let held = scope.spawn(|| cluster.create("hostvol/b1", 3));
        cluster.wait_held(2, "create-host-end");
        super::wait_until("the others are configured", || {
            cluster
                .journal("hostvol", "b1")
                .matches("CONFIGSUCCESS")
                .count()
                == 2
        });
        let coordinator = cluster.daemons[0].as_ref().expect("running").id();
        let pid = i32::try_from(coordinator)
            .ok()
            .and_then(rustix::process::Pid::from_raw)
            .expect("a pid");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
        assert_eq!(held.join().expect("no panic").exit, 255);
    });
    cluster.wait_for_end(0);
    cluster.set_faults(2, "");
    cluster.boot(0, &[]);
    assert_eq!(
        cluster
            .run(0, "info hostvol/b1 --json")
            .texts("EXPORTED ON")
            .len(),
        2
    );
    let said = cluster.run(0, "delete hostvol/b1 --json").succeeded();
    let mut cleaned = said.texts("SUCCESSFUL ON");
    cleaned.sort();
    assert_eq!(cleaned, cluster.addresses([0, 1]));
    assert_eq!(cluster.exports(2).len(), 2, "the orphan");
}

#[test]
fn a_peer_that_closes_the_connection_leaks_its_rpc_status() {
    // §0.3
    let cluster = Cluster::start(2);
    cluster.set_faults(1, "version host abandon\n");
    let said = cluster.create("hostvol/b1", 2);
    let text = format!(
        "Version check failed between block servers. (host {} returned 4)",
        cluster.address(1)
    );
    assert_eq!((said.exit, said.text("errMsg")), (4, text));
}

#[test]
fn an_old_peer_is_named_with_what_it_lacks() {
    let mut cluster = Cluster::start(2);
    cluster.kill(1);
    cluster.boot(1, &["--without-capability", "create_io_timeout"]);
    let said = cluster.run(0, &cluster.create_words("hostvol/b1", 2, "io-timeout 44"));
    let text = format!(
        "Version check failed between block servers. (the capability 'create_io_timeout' is not supported \
         on host {} yet, please upgrade.)",
        cluster.address(1)
    );
    assert_eq!((said.exit, said.text("errMsg")), (255, text));
    cluster.create("hostvol/b1", 2).succeeded();
    // a host without load balance silences all other gaps (reference §3.9)
    cluster.kill(1);
    cluster.boot(
        1,
        &[
            "--without-capability",
            "create_io_timeout",
            "--without-capability",
            "create_load_balance",
        ],
    );
    cluster
        .run(0, &cluster.create_words("hostvol/b2", 2, "io-timeout 44"))
        .succeeded();
    assert!(cluster.journal("hostvol", "b2").contains("PRIOPATH: \n"));
}

#[test]
fn a_stopped_volume_and_one_made_again_fail_in_their_own_ways() {
    let mut cluster = Cluster::start(1);
    cluster.create("hostvol/b1", 1).succeeded();
    cluster.note_volume("other", "status=2\nvolume-id=first\n");
    let stopped = cluster.run(0, "list other --json");
    assert_eq!(
        (stopped.exit, stopped.text("errMsg")),
        (5, "Check if volume other is operational".to_owned())
    );
    // §0.9
    cluster.make_volume("hostvol", "second");
    let text = "Not able to create Metadata on volume hostvol[Transport endpoint is not connected]";
    for _again in 0..2 {
        let stale = cluster.run(0, "list hostvol --json");
        assert_eq!((stale.exit, stale.text("errMsg")), (107, text.to_owned()));
    }
    cluster.kill(0);
    cluster.boot(0, &[]);
    cluster.run(0, "list hostvol --json").succeeded();
}

#[test]
fn a_daemon_that_is_killed_leaves_a_stale_socket() {
    let mut cluster = Cluster::start(1);
    cluster.kill(0);
    let said = cluster.run(0, "list hostvol --json");
    assert_eq!(said.exit, 255);
    assert!(
        said.err
            .contains("client create failed: RPC: Remote system error - Connection refused")
    );
    cluster.boot(0, &[]);
    cluster.run(0, "list hostvol --json").succeeded();
}

#[test]
fn half_a_daemon_answers_one_socket_only() {
    // reference §5.3
    let mut cluster = Cluster::start(2);
    cluster.kill(1);
    cluster.boot(1, &["--serve", "local"]);
    cluster.run(1, "list hostvol --json").succeeded();
    assert!(!version_answers(&cluster.address(1)));
    let said = cluster.create("hostvol/b1", 2);
    assert!(said.text("errMsg").contains("returned -107"), "{said:?}");
}
