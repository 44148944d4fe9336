//! One simulator process with its folder, a client that signs each request as gd2's own does, and the controller's client.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use csi_controller::hosting::Making;
use csi_controller::hosting::gd2::{Connection, Gd2, OPTIONS, Patience};
use e2e::gd2::token;
use reqwest::{Client, Method};
use serde_json::Value;

use super::PATIENCE;

pub(super) const SECRET: &str = "0123456789abcdef";

/// What came back.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) status: u16,
    pub(super) cluster: String,
    pub(super) body: String,
}

impl Said {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The words of its first error.
    pub(super) fn words(&self) -> String {
        let json = self.json();
        json["errors"][0]["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}

/// A simulator process.
pub(super) struct Server {
    folder: tempfile::TempDir,
    flags: Vec<String>,
    process: Option<Child>,
    address: String,
    client: Client,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Server {
    pub(super) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    pub(super) async fn start_with(flags: &[&str]) -> Self {
        let mut server = Self {
            folder: tempfile::tempdir().expect("folder"),
            flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
            process: None,
            address: String::new(),
            client: Client::builder().timeout(PATIENCE).build().expect("client"),
        };
        fs::write(server.path("secret"), SECRET).expect("write");
        server.begin().await;
        server
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts the process on the state that is there.
    #[expect(
        clippy::disallowed_methods,
        reason = "the process is killed when the server is dropped"
    )]
    pub(super) async fn begin(&mut self) {
        let address = self.path("address");
        let _ = fs::remove_file(&address);
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sim-gd2"));
        command.args([
            "--listen",
            "127.0.0.1:0",
            "--executor",
            "mock",
            "--log",
            "warn",
        ]);
        for (flag, name) in [
            ("--state-dir", "state"),
            ("--faults", "faults"),
            ("--secret-file", "secret"),
            ("--address-file", "address"),
        ] {
            command.arg(flag).arg(self.path(name));
        }
        command.args(&self.flags).stdin(Stdio::null());
        self.process = Some(command.spawn().expect("sim-gd2"));
        self.address = waited("an address", || fs::read_to_string(&address).ok())
            .await
            .trim()
            .to_owned();
    }

    /// Kills the process as a power cut would.
    pub(super) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// A signed request. `Null` sends no body.
    pub(super) async fn send(&self, method: &str, path: &str, body: &Value) -> Said {
        let bare = path.split('?').next().unwrap_or_default();
        let token = token(SECRET, method, bare).expect("token");
        self.ask(method, path, body, Some(&token))
            .await
            .expect("an answer")
    }

    pub(super) async fn ask(
        &self,
        method: &str,
        path: &str,
        body: &Value,
        token: Option<&str>,
    ) -> reqwest::Result<Said> {
        let method = Method::from_bytes(method.as_bytes()).expect("method");
        let url = format!("http://{}{path}", self.address);
        let mut request = self.client.request(method, url);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if !body.is_null() {
            request = request.body(body.to_string());
        }
        let response = request.send().await?;
        let status = response.status().as_u16();
        let cluster = response.headers().get("x-gluster-cluster-id");
        let cluster = cluster
            .and_then(|id| id.to_str().ok())
            .unwrap_or_default()
            .to_owned();
        let body = response.text().await?;
        Ok(Said {
            status,
            cluster,
            body,
        })
    }

    pub(super) async fn get(&self, path: &str) -> Said {
        self.send("GET", path, &Value::Null).await
    }

    /// The controller's own client.
    pub(super) fn client(&self) -> Gd2 {
        let connection = Connection {
            url: format!("http://{}", self.address).parse().expect("url"),
            secret: SECRET.into(),
            ca: None,
            request_timeout: Duration::from_secs(10),
            patience: Patience {
                repetitions: 2,
                pause: Duration::from_millis(10),
                poll: Duration::from_millis(20),
                operation: Duration::from_secs(5),
            },
        };
        let making = Making {
            prefix: "gbcsi".to_owned(),
            options: OPTIONS.iter().map(|&option| option.to_owned()).collect(),
        };
        Gd2::new(connection, making).expect("client")
    }

    pub(super) fn faults(&self, faults: &Value) {
        let fresh = self.path("faults.next");
        fs::write(&fresh, faults.to_string()).expect("write");
        fs::rename(fresh, self.path("faults")).expect("rename");
    }

    /// Waits until something hangs at that point.
    pub(super) async fn holding(&self, point: &str) {
        let marker = e2e::sim::faults::marker(&self.path("faults"));
        let held = || {
            fs::read_to_string(&marker)
                .ok()
                .filter(|held| held.contains(point))
        };
        waited(point, held).await;
    }

    /// What is really on the storage hosts.
    pub(super) fn hosts(&self) -> Value {
        let bytes = fs::read(self.path("state/hosts.json")).expect("hosts");
        serde_json::from_slice(&bytes).expect("hosts")
    }
}

async fn waited<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
