//! The transport against daemons on Unix sockets that answer in odd ways, and against small trees of kernel files.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinHandle;

use super::*;
use crate::block::{CreateBlock, Prealloc};
use crate::vocabulary::{Capacity, Initiator, Iqn, VolumeId};
use crate::{Blockd, Error, Timeouts};

const LAST: u32 = 1 << 31;
const LISTED: &str = "{ \"blocks\": [ \"b1\" ], \"RESULT\": \"SUCCESS\" }\n";

/// A daemon on a socket of its own that answers each call as `answer` makes it: the bytes on the wire.
struct Daemon {
    _directory: tempfile::TempDir,
    config: LocalConfig,
    calls: Arc<AtomicUsize>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Daemon {
    async fn start(answer: fn(Vec<u8>) -> Vec<u8>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config = LocalConfig {
            socket: directory.path().join("socket"),
            daemon: tcp.local_addr().unwrap(),
            root: directory.path().to_owned(),
        };
        let unix = UnixListener::bind(&config.socket).unwrap();
        let calls = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&calls);
        let local = tokio::spawn(async move {
            loop {
                let (mut stream, _) = unix.accept().await.unwrap();
                let call = read_call(&mut stream).await;
                count.fetch_add(1, Ordering::Relaxed);
                stream.write_all(&answer(call)).await.unwrap();
                // An empty answer stands for silence.
                tokio::spawn(async move { stream.read_u8().await });
            }
        });
        let hosts = tokio::spawn(async move {
            loop {
                let (mut stream, _) = tcp.accept().await.unwrap();
                let call = read_call(&mut stream).await;
                let records = capability("create", 1)
                    .into_iter()
                    .chain(capability("reload", 0));
                let answer = success(&call, 0, "", &records.collect::<Vec<u8>>());
                stream.write_all(&record(&answer)).await.unwrap();
            }
        });
        Self {
            _directory: directory,
            config,
            calls,
            tasks: vec![local, hosts],
        }
    }

    fn client(&self) -> Blockd<LocalTransport> {
        client(self.config.clone())
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

fn client(config: LocalConfig) -> Blockd<LocalTransport> {
    let timeouts = Timeouts {
        list: Duration::from_millis(300),
        info: Duration::from_millis(300),
        ..Timeouts::default()
    };
    Blockd::new(LocalTransport::new(config), timeouts)
}

async fn read_call(stream: &mut (impl AsyncReadExt + Unpin)) -> Vec<u8> {
    let length = stream.read_u32().await.unwrap() & !LAST;
    let mut call = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut call).await.unwrap();
    call
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn counted(bytes: &[u8]) -> Vec<u8> {
    let mut counted = words(&[u32::try_from(bytes.len()).unwrap()]);
    counted.extend(bytes);
    counted.resize(counted.len().next_multiple_of(4), 0);
    counted
}

fn capability(name: &str, on: u8) -> Vec<u8> {
    let mut record = name.as_bytes().to_vec();
    record.resize(256, 0);
    record.push(on);
    record
}

/// The message that answers `call`.
fn success(call: &[u8], exit: u32, text: &str, data: &[u8]) -> Vec<u8> {
    let header = [&call[..4], &words(&[1, 0, 0, 0, 0])].concat();
    let body = [
        words(&[exit]),
        counted(text.as_bytes()),
        words(&[0, 0]),
        counted(data),
    ]
    .concat();
    [header, body].concat()
}

fn record(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap();
    [&words(&[length | LAST]), message].concat()
}

fn listed(call: &[u8]) -> Vec<u8> {
    success(call, 0, LISTED, b"")
}

fn host() -> HostAddress {
    "10.0.0.1".parse().unwrap()
}

fn id() -> VolumeId {
    "hv/b1".parse().unwrap()
}

fn wanted() -> CreateBlock {
    CreateBlock {
        id: id(),
        size: Capacity::from_bytes(512),
        hosts: vec![host()],
        auth: false,
        prealloc: Prealloc::No,
        block_size: None,
        io_timeout: None,
        ring_buffer: None,
    }
}

async fn list(daemon: &Daemon) -> Result<Vec<String>, Error> {
    let names = daemon.client().list(host(), &id().hosting_volume).await?;
    Ok(names.iter().map(ToString::to_string).collect())
}

/// The error of the transport, and whether the daemon may have acted.
async fn failure(answer: fn(Vec<u8>) -> Vec<u8>) -> (TransportError, bool) {
    let outcome = list(&Daemon::start(answer).await).await;
    let Err(Error::Transport(error)) = outcome else {
        panic!("{outcome:?}");
    };
    let started = error.may_have_started();
    (error, started)
}

#[tokio::test]
async fn an_answer_in_one_piece_is_read() {
    let daemon = Daemon::start(|call| record(&listed(&call))).await;
    assert_eq!(list(&daemon).await.unwrap(), ["b1"]);
}

#[tokio::test]
async fn an_answer_in_fragments_is_read() {
    let daemon = Daemon::start(|call| {
        let message = listed(&call);
        let (first, rest) = message.split_at(5);
        let fragment =
            |bytes: &[u8]| [&words(&[u32::try_from(bytes.len()).unwrap()]), bytes].concat();
        [fragment(first), record(rest)].concat()
    })
    .await;
    assert_eq!(list(&daemon).await.unwrap(), ["b1"]);
}

#[tokio::test]
async fn a_failure_is_read_as_from_the_command_line() {
    let daemon = Daemon::start(|call| {
        let text = r#"{ "RESULT": "FAIL", "errCode": 2, "errMsg": "block hv\/b1 doesn't exist" }"#;
        record(&success(&call, 2, text, b""))
    })
    .await;
    let error = daemon.client().info(host(), &id()).await.unwrap_err();
    assert!(matches!(error, Error::BlockMissing { .. }), "{error:?}");
}

#[tokio::test]
async fn a_short_answer_is_a_lost_one() {
    let (error, started) = failure(|call| {
        let message = listed(&call);
        record(&message[..30])
    })
    .await;
    assert!(
        matches!(error, TransportError::Broken { .. }) && started,
        "{error:?}"
    );
}

#[tokio::test]
async fn an_answer_to_another_call_is_not_taken() {
    let (error, started) = failure(|mut call| {
        call[0] ^= 1;
        record(&listed(&call))
    })
    .await;
    assert!(
        matches!(error, TransportError::Broken { .. }) && started,
        "{error:?}"
    );
}

#[tokio::test]
async fn a_refused_call_never_ran() {
    let denied: fn(Vec<u8>) -> Vec<u8> =
        |call| record(&[&call[..4], &words(&[1, 1, 0, 2, 2])].concat());
    let no_procedure: fn(Vec<u8>) -> Vec<u8> =
        |call| record(&[&call[..4], &words(&[1, 0, 0, 0, 3])].concat());
    for answer in [denied, no_procedure] {
        let (error, started) = failure(answer).await;
        assert!(
            matches!(error, TransportError::NotStarted { .. }) && !started,
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn a_silent_daemon_costs_no_more_than_the_deadline() {
    let start = std::time::Instant::now();
    let (error, started) = failure(|_| Vec::new()).await;
    assert!(
        matches!(error, TransportError::Deadline { .. }) && started,
        "{error:?}"
    );
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn an_endless_answer_is_not_taken() {
    let too_long: fn(Vec<u8>) -> Vec<u8> = |_| words(&[LAST | (64 << 20), 0]);
    let in_pieces: fn(Vec<u8>) -> Vec<u8> = |_| {
        let piece = [words(&[1 << 20]), vec![0; 1 << 20]].concat();
        piece.repeat(5)
    };
    for answer in [too_long, in_pieces] {
        let (error, started) = failure(answer).await;
        assert!(
            matches!(error, TransportError::TooLong { .. }) && started,
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn a_daemon_that_is_not_there_is_said_to_be_down() {
    let directory = tempfile::tempdir().unwrap();
    let config = LocalConfig {
        socket: directory.path().join("socket"),
        ..LocalConfig::default()
    };
    let never_started = client(config.clone())
        .info(host(), &id())
        .await
        .unwrap_err();
    assert!(
        matches!(never_started, Error::Unavailable { .. }),
        "{never_started:?}"
    );
    drop(UnixListener::bind(&config.socket).unwrap());
    let stale = client(config).info(host(), &id()).await.unwrap_err();
    assert!(matches!(stale, Error::Unavailable { .. }), "{stale:?}");
}

#[tokio::test]
async fn a_block_is_asked_of_a_daemon_of_the_release() {
    let daemon =
        Daemon::start(|call| record(&success(&call, 28, "Low space on the volume hv\n", b"")))
            .await;
    let error = daemon.client().create(host(), &wanted()).await.unwrap_err();
    assert!(matches!(error.cause(), Error::NoSpace { .. }), "{error:?}");
    assert_eq!(daemon.calls(), 2, "create and info");
}

#[tokio::test]
async fn a_daemon_of_another_release_is_not_asked_for_a_block() {
    let daemon = Daemon::start(|call| record(&listed(&call))).await;
    let old = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = LocalConfig {
        daemon: old.local_addr().unwrap(),
        ..daemon.config.clone()
    };
    let answering = tokio::spawn(async move {
        let (mut stream, _) = old.accept().await.unwrap();
        let call = read_call(&mut stream).await;
        let answer = success(&call, 0, "", &capability("create", 1));
        stream.write_all(&record(&answer)).await.unwrap();
    });
    let error = client(config).create(host(), &wanted()).await.unwrap_err();
    let cause = format!("{:?}", error.cause());
    assert!(
        cause.contains("NotStarted") && cause.contains("Release"),
        "{cause}"
    );
    assert_eq!(daemon.calls(), 0);
    answering.await.unwrap();
}

fn iqn() -> Iqn {
    "iqn.2016-12.org.gluster-block:7f9aa1b2-aba7-4c77-9a5b-02a3ed562b15"
        .parse()
        .unwrap()
}

fn tree() -> (tempfile::TempDir, Blockd<LocalTransport>) {
    let directory = tempfile::tempdir().unwrap();
    let config = LocalConfig {
        root: directory.path().to_owned(),
        ..LocalConfig::default()
    };
    (directory, client(config))
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[tokio::test]
async fn sessions_of_every_portal_group_are_seen_static_ones_too() {
    let (root, client) = tree();
    let target = format!("sys/kernel/config/target/iscsi/{}", iqn());
    let write = |path: &str, text: &str| write(root.path(), &format!("{target}/{path}"), text);
    write(
        "tpgt_1/dynamic_sessions",
        "iqn.1993-08.org.debian:01:a\n\0iqn.1993-08.org.debian:01:b\n\0",
    );
    write("tpgt_2/dynamic_sessions", "");
    write(
        "tpgt_2/acls/iqn.1993-08.org.debian:01:c/info",
        "InitiatorName: iqn.1993-08.org.debian:01:c\nLIO Session ID: 1\n",
    );
    write(
        "tpgt_2/acls/iqn.1993-08.org.debian:01:d/info",
        "No active iSCSI Session for Initiator Endpoint: x\n",
    );
    let names = client.sessions(host(), &iqn()).await.unwrap();
    let expected: Vec<Initiator> = ["a", "b", "c"]
        .map(|end| format!("iqn.1993-08.org.debian:01:{end}").parse().unwrap())
        .to_vec();
    assert_eq!(names, expected);
}

#[tokio::test]
async fn a_target_that_is_not_there_has_no_sessions_but_without_configfs_nothing_is_known() {
    let (root, client) = tree();
    write(root.path(), "proc/mounts", "proc /proc proc rw 0 0\n");
    let error = client.sessions(host(), &iqn()).await.unwrap_err();
    assert!(
        error.to_string().contains("configfs is not mounted"),
        "{error}"
    );
    let place = root.path().join("sys/kernel/config");
    write(
        root.path(),
        "proc/mounts",
        &format!("configfs {} configfs rw 0 0\n", place.display()),
    );
    assert_eq!(client.sessions(host(), &iqn()).await.unwrap(), []);
}

#[tokio::test]
async fn sessions_that_cannot_be_read_are_an_error() {
    let (root, client) = tree();
    let group = format!("sys/kernel/config/target/iscsi/{}/tpgt_1", iqn());
    fs::create_dir_all(root.path().join(group)).unwrap();
    assert!(matches!(
        client.sessions(host(), &iqn()).await,
        Err(Error::Protocol { .. })
    ));
}

#[tokio::test]
async fn each_half_of_the_daemon_is_looked_for() {
    const UNIX: &str = "Num       RefCount Protocol Flags    Type St Inode Path\nffff: 00000002 00000000 00010000 0001 01 33 /run/gluster-blockd.socket\n";
    const TCP: &str = "  sl  local_address rem_address   st\n   0: 00000000:5DCA 00000000:0000 0A 00000000:00000000 00:00000000\n";
    let (root, client) = tree();
    for (unix, tcp, missing) in [
        (UNIX, TCP, None),
        ("", TCP, Some("half of it is gone")),
        (UNIX, "", Some("rpcbind")),
        ("", "", Some("does not run")),
        (
            &UNIX.replace("00010000", "00000000"),
            TCP,
            Some("half of it is gone"),
        ),
        (UNIX, &TCP.replace(" 0A ", " 01 "), Some("rpcbind")),
        (UNIX, &TCP.replace("5DCA", "5DCB"), Some("rpcbind")),
    ] {
        write(root.path(), "proc/net/unix", unix);
        write(root.path(), "proc/net/tcp", tcp);
        match (client.ping(host()).await, missing) {
            (Ok(()), None) => {}
            (Err(Error::Unavailable { reason, .. }), Some(text)) => {
                assert!(reason.contains(text), "{reason}");
            }
            (outcome, _) => panic!("{outcome:?} with {unix} {tcp}"),
        }
    }
    fs::remove_file(root.path().join("proc/net/tcp")).unwrap();
    assert!(matches!(
        client.ping(host()).await,
        Err(Error::Protocol { .. })
    ));
}
