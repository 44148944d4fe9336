//! One simulator process with its folder, and a client that signs each request as a heketi client does.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use e2e::sim::heketi::auth::request_hash;
use e2e::sim::heketi::model::now;
use jsonwebtoken::{EncodingKey, Header, encode};
use reqwest::redirect::Policy;
use reqwest::{Client, Method};
use serde_json::{Value, json};

use super::PATIENCE;

pub(super) const ADMIN_KEY: &str = "the key of admin";
pub(super) const USER_KEY: &str = "the key of user";

/// HTTP status as a number.
pub(super) type Status = u16;

/// What came back.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) status: Status,
    pub(super) location: String,
    pub(super) pending: bool,
    pub(super) body: String,
}

impl Said {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A token with those claims.
pub(super) fn sign(claims: &Value, key: &str) -> String {
    let key = EncodingKey::from_secret(key.as_bytes()).expect("key");
    encode(&Header::default(), claims, &key).expect("token")
}

/// An administrator's token for one request.
pub(super) fn token(method: &str, path: &str) -> String {
    let now = now();
    let qsh = request_hash(method, path);
    sign(
        &json!({"iss": "admin", "iat": now, "exp": now + 300, "qsh": qsh}),
        ADMIN_KEY,
    )
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
        let client = Client::builder()
            .redirect(Policy::none())
            .timeout(PATIENCE)
            .build()
            .expect("client");
        let mut server = Self {
            folder: tempfile::tempdir().expect("folder"),
            flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
            process: None,
            address: String::new(),
            client,
        };
        server.begin().await;
        server
    }

    /// Starts the process on the state that is there.
    #[expect(
        clippy::disallowed_methods,
        reason = "the process is killed when the server is dropped"
    )]
    pub(super) async fn begin(&mut self) {
        let path = |name: &str| self.folder.path().join(name);
        let address = path("address");
        let _ = fs::remove_file(&address);
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sim-heketi"));
        command.args([
            "--listen",
            "127.0.0.1:0",
            "--executor",
            "mock",
            "--log",
            "warn",
            "--create-retries",
            "0",
        ]);
        command.args(["--admin-key", ADMIN_KEY, "--user-key", USER_KEY]);
        command
            .arg("--state-dir")
            .arg(path("state"))
            .arg("--faults")
            .arg(path("faults"));
        command
            .arg("--address-file")
            .arg(&address)
            .args(&self.flags)
            .stdin(Stdio::null());
        self.process = Some(command.spawn().expect("sim-heketi"));
        self.address = waited("an address", || fs::read_to_string(&address).ok())
            .await
            .trim()
            .to_owned();
    }

    /// The same server with other flags from its next start on.
    pub(super) fn with_flags(mut self, flags: &[&str]) -> Self {
        self.flags = flags.iter().map(|&flag| flag.to_owned()).collect();
        self
    }

    /// Waits until that holds.
    pub(super) async fn until(&self, holds: impl Fn(&Self) -> bool) {
        waited("a condition", || holds(self).then_some(())).await;
    }

    /// Kills the process as a power cut would.
    pub(super) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Waits until the process has died by itself.
    pub(super) async fn died(&mut self) {
        let mut process = self.process.take().expect("a process");
        waited("the end", || process.try_wait().expect("wait")).await;
    }

    /// A signed request. `Null` sends no body.
    pub(super) async fn send(&self, method: &str, path: &str, body: &Value) -> Said {
        let token = format!("bearer {}", token(method, path));
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
        let mut request = self
            .client
            .request(method, format!("http://{}{path}", self.address));
        if let Some(token) = token {
            request = request.header("Authorization", token);
        }
        if !body.is_null() {
            request = request.body(body.to_string());
        }
        let response = request.send().await?;
        let header = |name: &str| {
            response
                .headers()
                .get(name)
                .and_then(|v| v.to_str().ok())
                .map(str::to_owned)
        };
        let (status, location) = (
            response.status().as_u16(),
            header("location").unwrap_or_default(),
        );
        let pending = header("x-pending").as_deref() == Some("true");
        Ok(Said {
            status,
            location,
            pending,
            body: response.text().await?,
        })
    }

    pub(super) async fn get(&self, path: &str) -> Said {
        self.send("GET", path, &Value::Null).await
    }

    /// Sends a request that must be accepted, and answers with its place in the queue.
    pub(super) async fn accepted(&self, method: &str, path: &str, body: &Value) -> String {
        let said = self.send(method, path, body).await;
        assert_eq!(said.status, 202, "{said:?}");
        said.location
    }

    /// Polls the queue until it says something else than that it waits.
    pub(super) async fn ended(&self, location: &str) -> Said {
        let start = Instant::now();
        loop {
            let said = self.get(location).await;
            if !said.pending {
                return said;
            }
            assert!(start.elapsed() < PATIENCE, "still pending: {location}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn switch_file(&self) -> PathBuf {
        self.folder.path().join("faults")
    }

    pub(super) fn faults(&self, faults: &Value) {
        let fresh = self.folder.path().join("faults.next");
        fs::write(&fresh, faults.to_string()).expect("write");
        fs::rename(fresh, self.switch_file()).expect("rename");
    }

    /// Waits until something hangs at that point.
    pub(super) async fn holding(&self, point: &str) {
        let marker = e2e::sim::faults::marker(&self.switch_file());
        waited(point, || {
            fs::read_to_string(&marker)
                .ok()
                .filter(|held| held.contains(point))
        })
        .await;
    }

    /// What is really on the storage hosts.
    pub(super) fn hosts(&self) -> Value {
        let bytes = fs::read(self.folder.path().join("state/hosts.json")).expect("hosts");
        serde_json::from_slice(&bytes).expect("hosts")
    }

    pub(super) fn database(&self) -> Value {
        let bytes = fs::read(self.folder.path().join("state/heketi.json")).expect("state");
        serde_json::from_slice(&bytes).expect("state")
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
