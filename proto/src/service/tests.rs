//! Conduct of the server, seen by a client.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;
use tonic::{Code, Request, Response, Status};

use super::*;
use crate::csi;
use crate::csi::node_client::NodeClient;
use crate::csi::node_server::{Node, NodeServer};
use crate::error::{Classify, ErrorKind};
use crate::in_flight::{VolumeLocks, run_to_completion};
use crate::service::telemetry::{LogFormat, captured};
use crate::status::into_status;
use crate::testing::{TestServer, connect};

/// A node whose stage ends when the test lets it.
#[derive(Debug, Clone, Default)]
struct SlowNode {
    locks: VolumeLocks,
    staged: Arc<std::sync::Mutex<Vec<String>>>,
    go: Arc<Go>,
}

#[derive(Debug)]
struct Go(Semaphore);

impl Default for Go {
    fn default() -> Self {
        Self(Semaphore::new(0))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("volume {0} does not exist")]
struct NoVolume(String);

impl Classify for NoVolume {
    fn kind(&self) -> ErrorKind {
        ErrorKind::NotFound
    }
}

impl SlowNode {
    fn let_one_stage_end(&self) {
        self.go.0.add_permits(1);
    }

    fn staged(&self) -> Vec<String> {
        self.staged.lock().unwrap().clone()
    }
}

async fn stage(node: SlowNode, id: String) -> Result<(), NoVolume> {
    match id.as_str() {
        "missing" => return Err(NoVolume(id)),
        "cursed" => panic!("a bug"),
        _ => {}
    }
    node.go.0.acquire().await.unwrap().forget();
    node.staged.lock().unwrap().push(id);
    Ok(())
}

#[tonic::async_trait]
impl Node for SlowNode {
    async fn node_stage_volume(
        &self,
        request: Request<csi::NodeStageVolumeRequest>,
    ) -> Result<Response<csi::NodeStageVolumeResponse>, Status> {
        let id = request.into_inner().volume_id;
        let guard = self.locks.try_acquire(&id).map_err(|e| into_status(&e))?;
        run_to_completion(guard, stage(self.clone(), id)).await?;
        Ok(Response::new(csi::NodeStageVolumeResponse {}))
    }

    async fn node_get_info(
        &self,
        _request: Request<csi::NodeGetInfoRequest>,
    ) -> Result<Response<csi::NodeGetInfoResponse>, Status> {
        Ok(Response::new(csi::NodeGetInfoResponse::default()))
    }
}

async fn served(node: &SlowNode, grace: Duration) -> (TestServer, Client) {
    let services = Services::new(NodeServer::new(node.clone()));
    let server = TestServer::start_with_grace(services, grace).await;
    let client = NodeClient::new(server.channel());
    (server, client)
}

type Client = NodeClient<tonic::transport::Channel>;

const LONG: Duration = Duration::from_secs(10);

fn stage_of(id: &str) -> csi::NodeStageVolumeRequest {
    csi::NodeStageVolumeRequest {
        volume_id: id.to_owned(),
        ..csi::NodeStageVolumeRequest::default()
    }
}

fn impatient(id: &str) -> Request<csi::NodeStageVolumeRequest> {
    let mut request = Request::new(stage_of(id));
    request.set_timeout(Duration::from_millis(100));
    request
}

async fn until(mut reached: impl FnMut() -> bool) {
    let wait = async {
        while !reached() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(LONG, wait).await.expect("it comes to that");
}

#[tokio::test]
async fn a_caller_that_gave_up_meets_aborted_until_the_first_attempt_ends() {
    let node = SlowNode::default();
    let (server, mut client) = served(&node, LONG).await;

    let gave_up = client.node_stage_volume(impatient("hv/a")).await;
    let gave_up = gave_up.unwrap_err().code();
    assert!(
        [Code::Cancelled, Code::DeadlineExceeded].contains(&gave_up),
        "{gave_up:?}"
    );
    for _ in 0..3 {
        let repeat = client.node_stage_volume(stage_of("hv/a")).await;
        assert_eq!(repeat.unwrap_err().code(), Code::Aborted);
    }
    assert!(node.staged().is_empty());

    node.let_one_stage_end();
    node.locks.idle().await;
    assert_eq!(node.staged(), ["hv/a"]);

    node.let_one_stage_end();
    client.node_stage_volume(stage_of("hv/a")).await.unwrap();
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_caller_whose_connection_broke_meets_aborted_too() {
    let node = SlowNode::default();
    let (server, mut client) = served(&node, LONG).await;
    let lost = NodeClient::new(connect(server.path()).await.unwrap());
    let call = tokio::spawn({
        let mut lost = lost.clone();
        async move { lost.node_stage_volume(stage_of("hv/a")).await }
    });
    until(|| node.locks.in_flight() == 1).await;
    call.abort();
    drop(lost);

    let repeat = client.node_stage_volume(stage_of("hv/a")).await;

    assert_eq!(repeat.unwrap_err().code(), Code::Aborted);
    node.let_one_stage_end();
    node.locks.idle().await;
    assert_eq!(node.staged(), ["hv/a"]);
}

#[tokio::test]
async fn a_panicking_operation_answers_internal_and_the_server_goes_on() {
    let node = SlowNode::default();
    let (server, mut client) = served(&node, LONG).await;

    for _ in 0..2 {
        let outcome = client.node_stage_volume(stage_of("cursed")).await;
        assert_eq!(outcome.unwrap_err().code(), Code::Internal);
    }

    client
        .node_get_info(csi::NodeGetInfoRequest {})
        .await
        .unwrap();
    server.stop().await.unwrap();
}

#[tokio::test]
async fn what_a_service_leaves_out_is_unimplemented() {
    let (_server, mut client) = served(&SlowNode::default(), LONG).await;

    let outcome = client.node_get_capabilities(csi::NodeGetCapabilitiesRequest {});

    assert_eq!(outcome.await.unwrap_err().code(), Code::Unimplemented);
}

#[tokio::test]
async fn a_graceful_stop_waits_for_the_running_call_and_takes_no_new_one() {
    let node = SlowNode::default();
    let (server, client) = served(&node, LONG).await;
    let path = server.path().to_owned();
    let call = tokio::spawn({
        let mut client = client.clone();
        async move { client.node_stage_volume(stage_of("hv/a")).await }
    });
    until(|| node.locks.in_flight() == 1).await;

    let mut stop = tokio::spawn(server.stop());
    assert!(
        timeout(Duration::from_millis(100), &mut stop)
            .await
            .is_err(),
        "it stopped under a running call"
    );
    assert!(connect(&path).await.is_err(), "it took a new connection");
    node.let_one_stage_end();

    call.await.unwrap().unwrap();
    timeout(LONG, stop).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn a_stop_does_not_wait_longer_than_the_grace_period() {
    let node = SlowNode::default();
    let (server, client) = served(&node, Duration::from_millis(50)).await;
    let _call = tokio::spawn({
        let mut client = client.clone();
        async move { client.node_stage_volume(stage_of("hv/a")).await }
    });
    until(|| node.locks.in_flight() == 1).await;

    let outcome = timeout(LONG, server.stop()).await.unwrap();

    assert!(matches!(outcome, Err(ServeError::Unfinished { .. })));
}

#[tokio::test]
async fn an_idle_connection_does_not_delay_the_stop() {
    let (server, mut client) = served(&SlowNode::default(), LONG).await;
    client
        .node_get_info(csi::NodeGetInfoRequest {})
        .await
        .unwrap();

    timeout(Duration::from_secs(2), server.stop())
        .await
        .expect("before the grace period")
        .unwrap();
}

#[tokio::test]
async fn calls_are_counted_by_method_and_code() {
    let node = SlowNode::default();
    let (server, mut client) = served(&node, LONG).await;
    node.let_one_stage_end();
    client.node_stage_volume(stage_of("hv/a")).await.unwrap();
    let errors = [
        client.node_stage_volume(stage_of("missing")).await,
        client.node_stage_volume(stage_of("cursed")).await,
        client.node_stage_volume(impatient("hv/b")).await,
        client.node_stage_volume(stage_of("hv/b")).await,
    ];
    assert!(errors.iter().all(Result::is_err));
    let left_out = client.node_get_capabilities(csi::NodeGetCapabilitiesRequest {});
    assert!(left_out.await.is_err());

    // The answer can be with the caller a moment before it is measured.
    until(|| {
        server
            .metrics()
            .encode()
            .unwrap()
            .contains("test_rpc_in_flight 0")
    })
    .await;

    let text = server.metrics().encode().unwrap();
    for (method, code) in [
        ("NodeStageVolume", "OK"),
        ("NodeStageVolume", "NOT_FOUND"),
        ("NodeStageVolume", "INTERNAL"),
        ("NodeStageVolume", "CANCELLED"),
        ("NodeStageVolume", "ABORTED"),
    ] {
        let line = format!(
            "test_rpc_duration_seconds_count{{service=\"csi.v1.Node\",method=\"{method}\",code=\"{code}\"}} 1"
        );
        assert!(text.contains(&line), "{line}\nin\n{text}");
    }
    let line = "{service=\"other\",method=\"other\",code=\"UNIMPLEMENTED\"} 1";
    assert!(text.contains(line), "{line}\nin\n{text}");
}

#[tokio::test]
async fn a_running_call_is_in_flight() {
    let node = SlowNode::default();
    let (server, client) = served(&node, LONG).await;
    let call = tokio::spawn({
        let mut client = client.clone();
        async move { client.node_stage_volume(stage_of("hv/a")).await }
    });
    until(|| node.locks.in_flight() == 1).await;

    let text = server.metrics().encode().unwrap();
    assert!(text.contains("test_rpc_in_flight 1"), "{text}");

    node.let_one_stage_end();
    call.await.unwrap().unwrap();
    until(|| {
        server
            .metrics()
            .encode()
            .unwrap()
            .contains("test_rpc_in_flight 0")
    })
    .await;
}

#[tokio::test]
async fn what_an_operation_logs_names_the_call_and_the_volume() {
    // One thread runs the test, the server and the operation, so one subscriber hears all of them.
    let (subscriber, control, lines) = captured::subscriber(LogFormat::Json, "proto=debug");
    let _heard = tracing::subscriber::set_default(subscriber);
    let (_server, mut client) = served(&SlowNode::default(), LONG).await;

    let heard = async {
        while !["refused", "answered"]
            .iter()
            .all(|line| lines.text().contains(line))
        {
            // Tracing remembers which lines nobody hears, and a test on another thread can make it remember that of these
            // lines in the moment before the subscriber is there. Setting the filter makes it ask again.
            control.set_filter("proto=debug").unwrap();
            let outcome = client.node_stage_volume(stage_of("missing")).await;
            assert_eq!(outcome.unwrap_err().code(), Code::NotFound);
        }
        lines.text()
    };

    let text = timeout(LONG, heard).await.unwrap();
    let call = r#""rpc":"NodeStageVolume","volume.id":"missing""#;
    let last = |what: &str| text.lines().rfind(|line| line.contains(what));
    let (refused, answered) = (last("request refused"), last("answered"));
    assert!(refused.unwrap().contains(call), "{text}");
    assert!(
        refused.unwrap().contains("volume missing does not exist"),
        "{text}"
    );
    assert!(answered.unwrap().contains(call), "{text}");
    assert!(
        answered.unwrap().contains(r#""code":"NOT_FOUND""#),
        "{text}"
    );
}
