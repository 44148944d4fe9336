//! The agent on a socket: who is let in, as what, and how it ends.

use std::path::Path;

use clap::Parser as _;
use reqwest::{Certificate, Client, Identity};

use super::*;
use crate::agent::certificates::{Authority, Issued};
use crate::agent::{Args, CONTROLLER_URI, TlsFiles};
use crate::client::tests::fake::Hosts;
use crate::{Blockd, Timeouts};

const HEALTH: &str = "/v1/health";
const LIST: &str = "/v1/volumes/hv/blocks";

struct Running {
    address: SocketAddr,
    folder: tempfile::TempDir,
    shutdown: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

fn settings(flags: &[&str]) -> Settings {
    let words = [&["blockd-agent", "--host-address", "10.0.0.1"], flags].concat();
    Args::try_parse_from(words).unwrap().try_into().unwrap()
}

fn files(folder: &Path, issued: &Issued) -> TlsFiles {
    let [ca, cert, key] = issued.write(folder);
    TlsFiles { ca, cert, key }
}

impl Running {
    async fn start(tls: Option<&Issued>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings {
            tls: tls.map(|issued| files(folder.path(), issued)),
            ..settings(&["--listen", "127.0.0.1:0"])
        };
        let server = Server::bind(&settings).await.unwrap();
        let address = server.local_addr().unwrap();
        let blocks = Blockd::new(Hosts::with_faults(&[]), Timeouts::default());
        let agent = Agent::new(settings.host, folder.path(), blocks);
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(server.serve(agent, shutdown.clone()));
        Self {
            address,
            folder,
            shutdown,
            task,
        }
    }

    /// The status of the answer to a GET with this certificate; none if the caller was not let in.
    async fn status(&self, who: &Issued, path: &str) -> Option<u16> {
        let identity = Identity::from_pem(format!("{}{}", who.key, who.cert).as_bytes()).unwrap();
        let ca = Certificate::from_pem(who.ca.as_bytes()).unwrap();
        let client = Client::builder()
            .tls_certs_only([ca])
            .identity(identity)
            .build()
            .unwrap();
        let answer = client
            .get(format!("https://{}{path}", self.address))
            .send()
            .await;
        answer.ok().map(|answer| answer.status().as_u16())
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap();
    }
}

#[tokio::test]
async fn a_certificate_says_what_its_holder_may_do() {
    let authority = Authority::new();
    let agent = Running::start(Some(&authority.server())).await;
    let controller = authority.client(&[CONTROLLER_URI]);
    let node = authority.client(&["urn:gluster-block:node:iqn.1993-08.org.debian:01:a"]);
    let stranger = authority.client(&["https://example.org"]);
    assert_eq!(agent.status(&controller, LIST).await, Some(200));
    assert_eq!(agent.status(&node, LIST).await, Some(403));
    assert_eq!(agent.status(&node, HEALTH).await, Some(200));
    assert_eq!(agent.status(&stranger, HEALTH).await, Some(403));
    agent.stop().await;
}

#[tokio::test]
async fn nobody_is_let_in_without_a_certificate_of_the_authority() {
    let authority = Authority::new();
    let agent = Running::start(Some(&authority.server())).await;
    let other = Authority::new().client(&[CONTROLLER_URI]);
    let pretender = Issued {
        ca: authority.server().ca,
        ..other
    };
    assert_eq!(agent.status(&pretender, LIST).await, None);
    let ca = Certificate::from_pem(pretender.ca.as_bytes()).unwrap();
    let nobody = Client::builder().tls_certs_only([ca]).build().unwrap();
    assert!(
        nobody
            .get(format!("https://{}{LIST}", agent.address))
            .send()
            .await
            .is_err()
    );
    let plain = Client::new().get(format!("http://{}{LIST}", agent.address));
    assert!(plain.send().await.is_err());
}

#[tokio::test]
async fn exchanged_files_count_from_the_next_request_on() {
    let (old, new) = (Authority::new(), Authority::new());
    let agent = Running::start(Some(&old.server())).await;
    let (before, after) = (old.client(&[CONTROLLER_URI]), new.client(&[CONTROLLER_URI]));
    assert_eq!(agent.status(&before, LIST).await, Some(200));
    assert_eq!(agent.status(&after, LIST).await, None);
    new.server().write(agent.folder.path());
    assert_eq!(agent.status(&after, LIST).await, Some(200));
    assert_eq!(agent.status(&before, LIST).await, None);
}

#[tokio::test]
async fn files_that_cannot_be_used_leave_the_old_ones_in_use() {
    let authority = Authority::new();
    let agent = Running::start(Some(&authority.server())).await;
    let controller = authority.client(&[CONTROLLER_URI]);
    let key = agent.folder.path().join("key.pem");
    for text in ["", "nothing", &Authority::new().server().key] {
        std::fs::write(&key, text).unwrap();
        assert_eq!(agent.status(&controller, LIST).await, Some(200), "{text:?}");
    }
    std::fs::remove_file(&key).unwrap();
    assert_eq!(agent.status(&controller, LIST).await, Some(200));
    authority.server().write(agent.folder.path());
    assert_eq!(agent.status(&controller, LIST).await, Some(200));
}

#[tokio::test]
async fn an_address_that_others_reach_is_refused_without_tls() {
    for address in ["0.0.0.0:0", "192.0.2.1:0", "[::]:0"] {
        let refused = Server::bind(&settings(&["--listen", address]))
            .await
            .unwrap_err();
        assert!(
            matches!(refused, ServerError::Exposed(_)),
            "{address}: {refused:?}"
        );
        assert!(refused.to_string().contains("--ca-file"), "{refused}");
    }
}

#[tokio::test]
async fn files_that_cannot_be_used_at_the_start_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let tls = files(folder.path(), &authority.server());
    let start = async || {
        let settings = Settings {
            tls: Some(tls.clone()),
            ..settings(&["--listen", "127.0.0.1:0"])
        };
        match Server::bind(&settings).await {
            Err(ServerError::Tls(error)) => error.to_string(),
            other => panic!("{other:?}"),
        }
    };
    std::fs::write(&tls.cert, authority.client(&[]).cert).unwrap();
    assert!(start().await.contains("--cert-file"));
    std::fs::write(&tls.key, "x").unwrap();
    assert!(start().await.contains("--key-file"));
    std::fs::remove_file(&tls.ca).unwrap();
    assert!(start().await.contains("--ca-file"));
}

#[tokio::test]
async fn on_loopback_without_tls_everybody_is_the_controller() {
    let agent = Running::start(None).await;
    let answer = reqwest::get(format!("http://{}{LIST}", agent.address))
        .await
        .unwrap();
    assert_eq!(answer.status(), 200);
    agent.stop().await;
}

#[tokio::test]
async fn a_caller_that_says_nothing_does_not_keep_others_waiting() {
    let authority = Authority::new();
    let agent = Running::start(Some(&authority.server())).await;
    let _silent = TcpStream::connect(agent.address).await.unwrap();
    let controller = authority.client(&[CONTROLLER_URI]);
    assert_eq!(agent.status(&controller, LIST).await, Some(200));
}
