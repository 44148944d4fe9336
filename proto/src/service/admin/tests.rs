//! The endpoints, over a real connection.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;
use crate::service::telemetry::{LogFormat, captured};

struct Served {
    address: SocketAddr,
    readiness: Readiness,
    log: LogControl,
    shutdown: CancellationToken,
    serving: JoinHandle<io::Result<()>>,
    // The log control lives as long as what it controls.
    _subscriber: Box<dyn tracing::Subscriber + Send + Sync>,
}

async fn served() -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (subscriber, log, _) = captured::subscriber(LogFormat::Text, "warn");
    let readiness = Readiness::default();
    let shutdown = CancellationToken::new();
    let admin = Admin {
        metrics: Arc::new(Metrics::new("test")),
        readiness: readiness.clone(),
        log: log.clone(),
    };
    Served {
        address,
        readiness,
        log,
        serving: tokio::spawn(serve(listener, admin, shutdown.clone())),
        shutdown,
        _subscriber: Box::new(subscriber),
    }
}

impl Served {
    /// The status line's code, the headers and the body.
    async fn ask(&self, request: &str, body: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let length = body.len();
        let text = format!(
            "{request} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let code = head.split(' ').nth(1).unwrap().parse().unwrap();
        (code, head.to_lowercase(), body.to_owned())
    }
}

#[tokio::test]
async fn a_process_is_ready_when_nobody_objects_and_otherwise_says_why() {
    let served = served().await;
    let latch = served.readiness.latch("reading the journal");
    let iscsid = served.readiness.condition("iscsid");
    iscsid.fail("does not answer");

    let (code, _, body) = served.ask("GET /readyz", "").await;
    assert_eq!(
        (code, body.as_str()),
        (503, "reading the journal\niscsid: does not answer\n")
    );
    latch.release();
    iscsid.ok();
    let (code, _, body) = served.ask("GET /readyz", "").await;

    assert_eq!((code, body.as_str()), (200, "ready\n"));
}

#[tokio::test]
async fn a_process_that_is_not_ready_is_alive() {
    let served = served().await;
    let _latch = served.readiness.latch("starting");

    let (code, _, body) = served.ask("GET /livez", "").await;

    assert_eq!((code, body.as_str()), (200, "alive\n"));
}

#[tokio::test]
async fn metrics_say_what_they_are() {
    let served = served().await;

    let (code, head, body) = served.ask("GET /metrics", "").await;

    assert_eq!(code, 200);
    let kind = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(head.contains(kind), "{head}");
    assert!(body.contains("test_rpc_in_flight 0"), "{body}");
    assert!(body.ends_with("# EOF\n"), "{body}");
}

#[tokio::test]
async fn the_log_filter_is_read_and_replaced() {
    let served = served().await;

    let (code, _, body) = served.ask("GET /log-level", "").await;
    assert_eq!((code, body.as_str()), (200, "warn\n"));
    let (code, _, body) = served.ask("PUT /log-level", "debug\n").await;
    assert_eq!((code, body.as_str()), (200, "debug\n"));

    assert_eq!(served.log.filter().unwrap(), "debug");
}

#[tokio::test]
async fn a_wrong_log_filter_is_refused_with_the_reason() {
    let served = served().await;

    let (code, _, body) = served.ask("PUT /log-level", "proto=loud").await;

    assert_eq!(code, 400);
    assert!(body.contains("\"proto=loud\" is not valid: "), "{body}");
    assert_eq!(served.log.filter().unwrap(), "warn");
}

#[tokio::test]
async fn the_log_filter_is_not_for_other_hosts_to_change() {
    let served = served().await;
    let admin = Admin {
        metrics: Arc::new(Metrics::new("test")),
        readiness: Readiness::default(),
        log: served.log.clone(),
    };
    for peer in ["10.0.0.7:4000", "[::ffff:10.0.0.7]:4000", "[fd00::7]:4000"] {
        let peer = ConnectInfo(peer.parse().unwrap());

        let outcome = set_log_level(State(admin.clone()), peer, "trace".to_owned()).await;

        assert_eq!(outcome.unwrap_err().0, StatusCode::FORBIDDEN);
    }
    assert_eq!(served.log.filter().unwrap(), "warn");
}

#[tokio::test]
async fn too_long_a_body_is_refused() {
    let served = served().await;

    let (code, _, _) = served.ask("PUT /log-level", &"x".repeat(5000)).await;

    assert_eq!(code, 413);
}

#[tokio::test]
async fn a_client_that_says_nothing_does_not_hold_up_the_end() {
    let served = served().await;
    let _silent = TcpStream::connect(served.address).await.unwrap();
    served.ask("GET /livez", "").await;

    served.shutdown.cancel();

    let end = timeout(GRACE * 3, served.serving).await;
    end.unwrap().unwrap().unwrap();
}
