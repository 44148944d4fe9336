//! Which daemon is asked: an idle one that answers. A dead one costs one bounded probe.

use std::time::Duration;

use blockd_client::vocabulary::HostAddress;
use csi_controller::blocks::fake::Fault;
use proto::csi;
use tokio::time::Instant;
use tonic::Code;

use crate::fixture::{Cluster, hosts, id, is_final, request};

fn asked(cluster: &Cluster, verb: &str, since: usize) -> Vec<HostAddress> {
    let all = cluster.blocks.asked().into_iter().skip(since);
    all.filter(|(asked, _)| *asked == verb)
        .map(|(_, host)| host)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn looking_stays_off_a_daemon_that_makes_a_block() {
    const LONG: Duration = Duration::from_secs(2);
    let cluster = Cluster::start().await;
    let a = cluster.create(request("a", 9)).await.unwrap();
    let b = cluster.create(request("b", 8)).await.unwrap();
    assert_ne!(id(&a).hosting_volume, id(&b).hosting_volume);
    let before = cluster.blocks.asked().len();
    cluster.blocks.fail("create", Fault::Slow(LONG));
    let mut client = cluster.client.clone();
    let start = Instant::now();
    let slow = tokio::spawn(async move { client.create_volume(request("c", 1)).await });
    let busy = loop {
        if let Some(host) = asked(&cluster, "create", before).first() {
            break *host;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let before = cluster.blocks.asked().len();
    // Everything there is on the other hosting volume, three times over all daemons that are idle.
    for _ in 0..6 {
        let get = csi::ControllerGetVolumeRequest {
            volume_id: a.volume_id.clone(),
        };
        cluster
            .client
            .clone()
            .controller_get_volume(get)
            .await
            .unwrap();
    }
    assert!(start.elapsed() < LONG);
    let looked = asked(&cluster, "info", before);
    assert!(looked.len() >= 6 && !looked.contains(&busy), "{looked:?}");
    slow.await.unwrap().unwrap();
}

// C12
#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_cut_off_costs_one_probe_and_not_one_per_request() {
    let cluster = Cluster::start().await;
    let volume = cluster.create(request("a", 1)).await.unwrap();
    let gone = hosts()[0];
    cluster.blocks.set_cut_off(gone, true);
    let before = cluster.blocks.asked().len();
    for name in ["b", "c", "d"] {
        let mut two = request(name, 1);
        two.parameters.insert("hacount".into(), "2".into());
        cluster.create(two).await.unwrap();
    }
    cluster.delete(&volume.volume_id).await.unwrap_err();
    let probes = cluster.blocks.asked().into_iter().skip(before);
    assert_eq!(probes.filter(|(_, host)| *host == gone).count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn creates_spread_over_the_daemons() {
    let cluster = Cluster::start().await;
    for name in ["a", "b", "c", "d", "e", "f"] {
        cluster.create(request(name, 1)).await.unwrap();
    }
    let mut makers = asked(&cluster, "create", 0);
    makers.sort();
    makers.dedup();
    assert!(makers.len() > 1, "{makers:?}");
}

// C2
#[tokio::test(flavor = "multi_thread")]
async fn a_create_whose_daemon_went_away_stays_unknown_until_that_daemon_answers() {
    let cluster = Cluster::start().await;
    cluster.create(request("a", 1)).await.unwrap();
    let before = cluster.blocks.asked().len();
    cluster.blocks.fail("create", Fault::Silence);
    let status = cluster.create(request("pvc-1", 1)).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    let maker = asked(&cluster, "create", before)[0];
    cluster.blocks.set_cut_off(maker, true);
    for _ in 0..3 {
        let status = cluster.create(request("pvc-1", 1)).await.unwrap_err();
        assert!(!is_final(&status), "{status:?}");
    }
    assert_eq!(cluster.blocks.blocks().len(), 1);
    let tried = asked(&cluster, "create", before);
    assert!(tried.iter().all(|host| *host == maker), "{tried:?}");
}
