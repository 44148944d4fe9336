//! heketi beside a lab: the simulator, or the real one that `LAB_HEKETI` names, with its ssh executor on the guests.
//!
//! Both listen in the lab's network at 10.77.1.1, know one cluster of the lab's storage guests, and want tokens. The
//! simulator makes bricks on the guests' brick disk, the real one thin volumes on their spare disk.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jsonwebtoken::{EncodingKey, Header, encode};
use reqwest::redirect::Policy;
use reqwest::{Client, Method};
use serde_json::{Value, json};

use crate::lab::process::{Background, ProcessError};
use crate::lab::{Forward, GuestError, Lab};
use crate::settings;
use crate::sim::heketi::auth::request_hash;
use crate::sim::heketi::model::now;

mod real;

/// The machine's own address in the lab's network.
const HERE: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 1);
/// How long it may take until heketi answers.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How long one piece of work may take: a volume of a busy lab takes a minute.
const WORK_LIMIT: Duration = Duration::from_mins(5);
/// How long one request may take.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);
const GLANCE: Duration = Duration::from_millis(100);

/// Why heketi is not to be had.
#[derive(Debug, thiserror::Error)]
pub enum HeketiError {
    /// The program cannot be started.
    #[error("heketi could not be started")]
    Program(#[source] ProcessError),
    /// It ended, or does not answer.
    #[error("heketi does not answer; its log ends with: {log}")]
    Silent {
        /// Last lines of its log.
        log: String,
    },
    /// A file or socket of this machine.
    #[error("heketi: {path}")]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A guest could not be prepared.
    #[error("heketi: a storage guest could not be prepared")]
    Guest(#[source] GuestError),
    /// A request was lost.
    #[error("heketi: {method} {path} was not answered")]
    Lost {
        /// Its method.
        method: String,
        /// Its path.
        path: String,
        /// Why.
        #[source]
        source: reqwest::Error,
    },
    /// A request was refused, or the work it began failed.
    #[error("heketi: {method} {path}: {status}: {text}")]
    Refused {
        /// Its method.
        method: String,
        /// Its path.
        path: String,
        /// HTTP status.
        status: u16,
        /// heketi's words.
        text: String,
    },
    /// A token could not be signed.
    #[error("heketi: no token could be signed")]
    Token(#[source] jsonwebtoken::errors::Error),
}

fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> HeketiError {
    move |source| HeketiError::File {
        path: path.into(),
        source,
    }
}

/// What heketi said to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// HTTP status.
    pub status: u16,
    /// `Location`, empty without one.
    pub location: String,
    /// Whether it says that work is pending.
    pub pending: bool,
    /// The body.
    pub body: String,
}

impl Said {
    /// The body as JSON; null when it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }
}

/// A running heketi.
#[derive(Debug)]
pub struct Heketi {
    process: Background,
    folder: PathBuf,
    port: u16,
    real: Option<PathBuf>,
    key: String,
    forward: Forward,
    client: Client,
}

impl Heketi {
    /// Starts heketi in the lab's network on that port, with an empty database if `name` is new to the lab.
    ///
    /// # Errors
    /// When it cannot be started, does not answer, or does not take the storage guests.
    pub async fn start(lab: &Lab, name: &str, port: u16) -> Result<Self, HeketiError> {
        let real = settings::heketi();
        let folder = lab.run_dir().join(name);
        fs::create_dir_all(&folder).map_err(at(&folder))?;
        let key = key(&folder)?;
        let process = launch(lab, &folder, port, real.as_deref(), &key)?;
        let inside = SocketAddr::from((HERE, port));
        let forward = lab.forward(inside).await.map_err(at(inside.to_string()))?;
        let client = Client::builder()
            .redirect(Policy::none())
            .timeout(REQUEST_LIMIT)
            .build();
        let client = client.map_err(|source| lost("client", "", source))?;
        let mut heketi = Self {
            process,
            folder,
            port,
            real,
            key,
            forward,
            client,
        };
        heketi.wait_until_it_answers().await?;
        if heketi.real.is_some() {
            heketi.load_topology(lab).await?;
        }
        Ok(heketi)
    }

    /// Where it is, for programs in the lab's network.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{HERE}:{}", self.port)
    }

    /// The key of the issuer `admin`.
    #[must_use]
    pub fn admin_key(&self) -> &str {
        &self.key
    }

    /// The simulator's switch file; `None` for the real one, which has no switches.
    #[must_use]
    pub fn switch_file(&self) -> Option<PathBuf> {
        self.real.is_none().then(|| self.folder.join("faults"))
    }

    /// What it wrote.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Takes its power away. Its state stays.
    pub async fn kill(&mut self) {
        self.process.kill().await;
    }

    /// Starts it again on its state.
    ///
    /// # Errors
    /// When it cannot be started or does not answer.
    pub async fn resume(&mut self, lab: &Lab) -> Result<(), HeketiError> {
        self.process = launch(
            lab,
            &self.folder,
            self.port,
            self.real.as_deref(),
            &self.key,
        )?;
        self.wait_until_it_answers().await
    }

    /// Sends one signed request. `Null` sends no body.
    ///
    /// # Errors
    /// When it is not answered.
    pub async fn send(&self, method: &str, path: &str, body: &Value) -> Result<Said, HeketiError> {
        let near = self
            .forward
            .address()
            .map(|address| address.to_string())
            .unwrap_or_default();
        let verb = Method::from_bytes(method.as_bytes()).unwrap_or(Method::GET);
        let token = token(&self.key, method, path).map_err(HeketiError::Token)?;
        let mut request = self
            .client
            .request(verb, format!("http://{near}{path}"))
            .bearer_auth(token);
        if !body.is_null() {
            request = request.body(body.to_string());
        }
        let response = request
            .send()
            .await
            .map_err(|source| lost(method, path, source))?;
        let header = |name: &str| {
            response
                .headers()
                .get(name)
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
                .to_owned()
        };
        let (status, location) = (response.status().as_u16(), header("location"));
        let pending = header("x-pending") == "true";
        let body = response
            .text()
            .await
            .map_err(|source| lost(method, path, source))?;
        Ok(Said {
            status,
            location,
            pending,
            body,
        })
    }

    /// Sends a request, waits for the work it begins, and reads what came of it.
    ///
    /// # Errors
    /// When it is refused, fails, or is still pending after five minutes.
    pub async fn done(&self, method: &str, path: &str, body: &Value) -> Result<Value, HeketiError> {
        let begun = self.send(method, path, body).await?;
        let mut said = begun.clone();
        if begun.status == 202 {
            let start = Instant::now();
            loop {
                said = self.send("GET", &begun.location, &Value::Null).await?;
                if !said.pending || start.elapsed() > WORK_LIMIT {
                    break;
                }
                tokio::time::sleep(GLANCE).await;
            }
        }
        if said.status == 303 {
            said = self.send("GET", &said.location, &Value::Null).await?;
        }
        if said.pending || said.status >= 300 {
            let (method, path) = (method.to_owned(), path.to_owned());
            let text = said.body.trim().to_owned();
            return Err(HeketiError::Refused {
                method,
                path,
                status: said.status,
                text,
            });
        }
        Ok(said.json())
    }

    async fn wait_until_it_answers(&mut self) -> Result<(), HeketiError> {
        let start = Instant::now();
        while !matches!(
            self.send("GET", "/clusters", &Value::Null).await,
            Ok(Said { status: 200, .. })
        ) {
            if self.process.has_ended() || start.elapsed() > START_LIMIT {
                let log = self.process.log();
                let lines: Vec<&str> = log.lines().collect();
                let last = lines
                    .get(lines.len().saturating_sub(5)..)
                    .unwrap_or_default();
                return Err(HeketiError::Silent {
                    log: last.join("\n"),
                });
            }
            tokio::time::sleep(GLANCE).await;
        }
        Ok(())
    }

    /// Tells the real heketi of the storage guests, unless it knows them from before.
    async fn load_topology(&self, lab: &Lab) -> Result<(), HeketiError> {
        let known = self.done("GET", "/clusters", &Value::Null).await?;
        let clusters = known.pointer("/clusters").and_then(Value::as_array);
        if clusters.is_some_and(|clusters| !clusters.is_empty()) {
            return Ok(());
        }
        let cluster = self
            .done("POST", "/clusters", &json!({"file": true, "block": true}))
            .await?;
        for (guest, zone) in lab.storage().zip(1..) {
            real::prepare(guest).await.map_err(HeketiError::Guest)?;
            let address = guest.address().to_string();
            let names = json!({"manage": [address], "storage": [address]});
            let node = json!({"zone": zone, "hostnames": names, "cluster": cluster.pointer("/id")});
            let node = self.done("POST", "/nodes", &node).await?;
            let device = json!({"name": real::DEVICE, "node": node.pointer("/id")});
            self.done("POST", "/devices", &device).await?;
        }
        Ok(())
    }
}

fn lost(method: &str, path: &str, source: reqwest::Error) -> HeketiError {
    HeketiError::Lost {
        method: method.to_owned(),
        path: path.to_owned(),
        source,
    }
}

/// The administrators' key, made once for each folder.
fn key(folder: &Path) -> Result<String, HeketiError> {
    let path = folder.join("admin-key");
    match fs::read_to_string(&path) {
        Ok(key) => Ok(key),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let key = uuid::Uuid::new_v4().simple().to_string();
            fs::write(&path, &key).map_err(at(&path))?;
            Ok(key)
        }
        Err(error) => Err(at(&path)(error)),
    }
}

fn launch(
    lab: &Lab,
    folder: &Path,
    port: u16,
    real: Option<&Path>,
    key: &str,
) -> Result<Background, HeketiError> {
    let program = if let Some(heketi) = real {
        real::program(lab, folder, port, heketi, key).map_err(at(folder))?
    } else {
        let hosts: Vec<String> = lab
            .storage()
            .map(|guest| guest.address().to_string())
            .collect();
        lab.program(lab.record().bin_dir.join("sim-heketi"))
            .args([
                "--listen",
                &SocketAddr::from((HERE, port)).to_string(),
                "--nodes",
                &hosts.join(","),
            ])
            .args([
                "--device-gib",
                "8",
                "--user-key",
                key,
                "--admin-key",
                key,
                "--cleaner-first",
                "0",
            ])
            .args(["--state-dir".as_ref(), folder.as_os_str()])
            .args(["--faults".as_ref(), folder.join("faults").as_os_str()])
            .args(["--ssh-key".as_ref(), lab.ssh_key().as_os_str()])
            .args(["--ssh-known-hosts".as_ref(), lab.known_hosts().as_os_str()])
    };
    program
        .background(&folder.join("heketi.log"))
        .map_err(HeketiError::Program)
}

fn token(key: &str, method: &str, path: &str) -> jsonwebtoken::errors::Result<String> {
    let now = now();
    let qsh = request_hash(method, path);
    let claims = json!({"iss": "admin", "iat": now, "exp": now.saturating_add(300), "qsh": qsh});
    encode(
        &Header::default(),
        &claims,
        &EncodingKey::from_secret(key.as_bytes())?,
    )
}
