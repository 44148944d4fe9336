//! The gluster-block client against the simulator: its classification of answers and the simulator's traps were written
//! apart from one another, and must agree. So were the two halves of the protocol on the daemon's socket, which the client
//! speaks here, too.

use std::path::PathBuf;
use std::time::Duration;

use blockd_client::transport::local::{LocalConfig, LocalTransport};
use blockd_client::vocabulary::{Capacity, HostAddress, VolumeId};
use blockd_client::{
    Blockd, CreateBlock, Error, Persistence, Prealloc, Reply, Request, Timeouts, Transport,
    TransportError,
};

use super::{Cluster, program};

/// How the daemon of a host is asked.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// By the simulator's command line, with the words that ssh would carry.
    CommandLine,
    /// By the client itself, over the daemon's socket.
    Socket,
}

const WAYS: [Way; 2] = [Way::CommandLine, Way::Socket];

/// The hosts of a cluster, all on this machine.
#[derive(Clone)]
struct Hosts {
    way: Way,
    hosts: Vec<(HostAddress, PathBuf)>,
}

impl Transport for Hosts {
    async fn call(
        &self,
        host: HostAddress,
        request: &Request,
        deadline: Duration,
    ) -> Result<Reply, TransportError> {
        let found = self.hosts.iter().find(|(address, _)| *address == host);
        let (_, directory) = found.expect("a host of the cluster");
        if matches!(self.way, Way::Socket) {
            let config = LocalConfig {
                socket: directory.join("socket"),
                daemon: (host.ip(), 24010).into(),
                ..LocalConfig::default()
            };
            return LocalTransport::new(config)
                .call(host, request, deadline)
                .await;
        }
        let mut command = program(env!("CARGO_BIN_EXE_sim-gluster-block"));
        command
            .args(["timeout", &deadline.as_secs().max(1).to_string()])
            .args(words(request))
            .arg("--json")
            .env("GB_SIM_SOCKET", directory.join("socket"))
            .env("GB_SIM_SYSCONFIG", directory.join("sysconfig"));
        let output = tokio::task::spawn_blocking(move || command.output());
        let output = output.await.expect("no panic").expect("it runs");
        Ok(Reply {
            exit: output.status.code().expect("an exit code"),
            stdout: String::from_utf8(output.stdout).expect("text"),
            stderr: String::from_utf8(output.stderr).expect("text"),
        })
    }
}

fn words(request: &Request) -> Vec<String> {
    let line = match request {
        Request::Create(block) => {
            let hosts: Vec<String> = block.hosts.iter().map(ToString::to_string).collect();
            format!(
                "create {} ha {} auth {} prealloc no {} {}",
                block.id,
                hosts.len(),
                if block.auth { "enable" } else { "disable" },
                hosts.join(","),
                block.size.bytes()
            )
        }
        Request::Delete(id) => format!("delete {id}"),
        Request::Info(id) => format!("info {id}"),
        Request::List(volume) => format!("list {volume}"),
        Request::Resize(id, size) => format!("modify {id} size {}", size.bytes()),
        Request::Sessions(_) | Request::Ping => panic!("not asked of the command line"),
    };
    line.split_whitespace().map(str::to_owned).collect()
}

fn host(cluster: &Cluster, host: usize) -> HostAddress {
    cluster.address(host).parse().expect("an address")
}

fn client(cluster: &Cluster, way: Way) -> Blockd<Hosts> {
    let hosts = (0..cluster.daemons.len())
        .map(|index| (host(cluster, index), cluster.host_path(index, "")))
        .collect();
    let quick = Timeouts {
        create_thin: Duration::from_secs(5),
        ..Timeouts::default()
    };
    let persistence = Persistence {
        repetitions: 0,
        pause: Duration::ZERO,
    };
    Blockd::new(Hosts { way, hosts }, quick).with_persistence(persistence)
}

fn id() -> VolumeId {
    "hostvol/b1".parse().expect("an id")
}

fn wanted(cluster: &Cluster, hosts: usize) -> CreateBlock {
    CreateBlock {
        id: id(),
        size: Capacity::from_bytes(1 << 20),
        hosts: (0..hosts).map(|index| host(cluster, index)).collect(),
        auth: true,
        prealloc: Prealloc::No,
        block_size: None,
        io_timeout: None,
        ring_buffer: None,
    }
}

#[tokio::test]
async fn a_block_is_made_grown_listed_and_deleted_with_proof() {
    for way in WAYS {
        let cluster = Cluster::start(3);
        let (client, first) = (client(&cluster, way), host(&cluster, 0));
        let made = client
            .create(first, &wanted(&cluster, 3))
            .await
            .expect("made");
        assert!(made.is_complete() && made.password.is_some());
        assert_eq!(made.portals().len(), 3);
        let grown = client
            .resize(first, &id(), Capacity::from_bytes(2 << 20))
            .await
            .expect("grown");
        assert_eq!(grown.printed_size, "2.0 MiB");
        let again = client
            .resize(first, &id(), Capacity::from_bytes(2 << 20))
            .await;
        again.expect("the same size is a success");
        let shrunk = client
            .resize(first, &id(), Capacity::from_bytes(1 << 20))
            .await;
        assert!(matches!(shrunk, Err(Error::Shrink { .. })), "{shrunk:?}");
        let volume = "hostvol".parse().expect("a name");
        assert_eq!(client.list(first, &volume).await.expect("listed").len(), 1);
        client.delete(first, &id()).await.expect("deleted");
        client
            .delete(first, &id())
            .await
            .expect("absent is a success");
        let info = client.info(first, &id()).await;
        assert!(matches!(info, Err(Error::BlockMissing { .. })), "{info:?}");
        let nowhere = client.info(first, &"nix/b1".parse().expect("an id")).await;
        assert!(
            matches!(nowhere, Err(Error::VolumeMissing { .. })),
            "{nowhere:?}"
        );
    }
}

#[tokio::test]
async fn each_bad_create_gets_the_error_that_says_what_to_do() {
    for way in WAYS {
        let mut cluster = Cluster::start(3);
        let (client, first) = (client(&cluster, way), host(&cluster, 0));
        let wanted = wanted(&cluster, 3);

        cluster.set_faults(1, "create host fail\n");
        let failed = client.create(first, &wanted).await;
        assert!(matches!(failed, Err(Error::NotMade { .. })), "{failed:?}");

        cluster.set_faults(1, "create host-end fail\ndelete host fail\n"); // §0.2
        let lied = client.create(first, &wanted).await;
        assert!(matches!(lied, Err(Error::Incomplete { .. })), "{lied:?}");
        cluster.set_faults(1, "");
        client.delete(first, &id()).await.expect("cleared");

        cluster.set_faults(0, "create metadata abandon\n"); // §0.5
        let half = client.create(first, &wanted).await;
        assert!(matches!(half, Err(Error::Incomplete { .. })), "{half:?}");
        cluster.set_faults(0, "");
        let found = client.create(first, &wanted).await;
        assert!(matches!(found, Err(Error::Incomplete { .. })), "{found:?}");
        client.delete(first, &id()).await.expect("cleared");

        cluster.set_faults(0, "create end lose 1\n");
        let lost = client.create(first, &wanted).await;
        assert!(matches!(lost, Err(Error::Exists { .. })), "{lost:?}");
        let other = CreateBlock {
            auth: false,
            ..wanted.clone()
        };
        let conflict = client.create(first, &other).await;
        assert!(
            matches!(conflict, Err(Error::Conflict { .. })),
            "{conflict:?}"
        );
        client.delete(first, &id()).await.expect("cleared");

        let vast = CreateBlock {
            size: Capacity::from_bytes(7 << 60),
            ..wanted.clone()
        };
        let full = client.create(first, &vast).await.expect_err("no space");
        assert!(matches!(full.cause(), Error::NoSpace { .. }), "{full:?}");

        cluster.kill(2);
        let down = client
            .create(first, &wanted)
            .await
            .expect_err("a host is down");
        assert!(matches!(down.cause(), Error::HostDown { .. }), "{down:?}");
    }
}

#[tokio::test]
async fn each_bad_change_gets_the_error_that_says_what_to_do() {
    for way in WAYS {
        let mut cluster = Cluster::start(3);
        let (client, first) = (client(&cluster, way), host(&cluster, 0));
        client
            .create(first, &wanted(&cluster, 3))
            .await
            .expect("made");
        let double = Capacity::from_bytes(2 << 20);

        cluster.set_faults(1, "resize host fail\n");
        let lagging = client.resize(first, &id(), double).await;
        assert!(
            matches!(lagging, Err(Error::Lagging { .. } | Error::Partial { .. })),
            "{lagging:?}"
        );
        cluster.set_faults(1, "");
        let caught_up = client
            .resize(first, &id(), double)
            .await
            .expect("caught up");
        assert!(caught_up.lagging.is_empty());

        cluster.set_faults(1, "delete host fail\n");
        let partial = client.delete(first, &id()).await;
        assert!(matches!(partial, Err(Error::Partial { .. })), "{partial:?}");
        cluster.set_faults(1, "");

        cluster.kill(1);
        let down = client.delete(first, &id()).await;
        assert!(matches!(down, Err(Error::HostDown { .. })), "{down:?}");
        cluster.boot(1, &[]);
        client.delete(first, &id()).await.expect("deleted");
    }
}

#[tokio::test]
async fn a_leftover_of_the_name_is_told_from_everything_else() {
    for way in WAYS {
        // §0.11, §0.12
        let mut cluster = Cluster::start(3);
        let (client, first) = (client(&cluster, way), host(&cluster, 0));
        client
            .create(first, &wanted(&cluster, 3))
            .await
            .expect("made");
        cluster.kill(2);
        cluster.run(0, "delete hostvol/b1 force --json").succeeded();
        cluster.boot(2, &[]);
        let taken = client
            .create(first, &wanted(&cluster, 3))
            .await
            .expect_err("an orphan");
        assert!(
            matches!(taken.cause(), Error::NameTaken { .. }),
            "{taken:?}"
        );
    }
}

#[tokio::test]
async fn a_volume_made_again_and_a_dead_daemon_are_unavailable() {
    for way in WAYS {
        let mut cluster = Cluster::start(1);
        let (client, first) = (client(&cluster, way), host(&cluster, 0));
        client
            .create(first, &wanted(&cluster, 1))
            .await
            .expect("made");
        cluster.make_volume("hostvol", "second"); // §0.9
        let stale = client.info(first, &id()).await;
        assert!(matches!(stale, Err(Error::Unavailable { .. })), "{stale:?}");
        cluster.kill(0);
        let dead = client.info(first, &id()).await;
        assert!(matches!(dead, Err(Error::Unavailable { .. })), "{dead:?}");
    }
}

#[tokio::test]
async fn a_daemon_that_hangs_leaves_the_outcome_open() {
    for way in WAYS {
        // §0.6
        let cluster = Cluster::start(1);
        let (client, first) = (client(&cluster, way), host(&cluster, 0));
        cluster.set_faults(0, "create file hang\n");
        let quick = Timeouts {
            create_thin: Duration::from_secs(1),
            info: Duration::from_secs(1),
            ..Timeouts::default()
        };
        let hasty = Blockd::new(client.transport().clone(), quick);
        let open = hasty
            .create(first, &wanted(&cluster, 1))
            .await
            .expect_err("no answer");
        assert!(open.outcome_unknown(), "{open:?}");
        cluster.set_faults(0, "");
        let found = client.create(first, &wanted(&cluster, 1)).await;
        assert!(matches!(found, Err(Error::Exists { .. })), "{found:?}");
    }
}
