//! The gd2 simulator beside a lab: in its network at 10.77.1.1, with the lab's storage guests as peers, wanting tokens.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jsonwebtoken::{EncodingKey, Header, encode};
use reqwest::{Client, Method};
use serde_json::{Value, json};

use crate::lab::process::{Background, ProcessError};
use crate::lab::{Forward, Lab};
use crate::sim::gd2::model::now;
use crate::sim::heketi::auth::request_hash;

/// The machine's own address in the lab's network.
const HERE: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 1);
/// How long it may take until it answers.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How long one request may take: a volume of a busy lab takes a minute.
const REQUEST_LIMIT: Duration = Duration::from_mins(5);
const GLANCE: Duration = Duration::from_millis(100);

/// Why gd2 is not to be had.
#[derive(Debug, thiserror::Error)]
pub enum Gd2Error {
    /// The program cannot be started.
    #[error("gd2 could not be started")]
    Program(#[source] ProcessError),
    /// It ended, or does not answer.
    #[error("gd2 does not answer; its log ends with: {0}")]
    Silent(String),
    /// A file or socket of this machine.
    #[error("gd2: {path}")]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A request was lost.
    #[error("gd2: a request was not answered")]
    Lost(#[source] reqwest::Error),
    /// A request was refused.
    #[error("gd2: {method} {path}: {status}: {text}")]
    Refused {
        /// Its method.
        method: String,
        /// Its path.
        path: String,
        /// HTTP status.
        status: u16,
        /// gd2's words.
        text: String,
    },
    /// A token could not be signed.
    #[error("gd2: no token could be signed")]
    Token(#[source] jsonwebtoken::errors::Error),
}

fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Gd2Error {
    move |source| Gd2Error::File {
        path: path.into(),
        source,
    }
}

/// A running gd2.
#[derive(Debug)]
pub struct Gd2 {
    process: Background,
    folder: PathBuf,
    port: u16,
    secret: String,
    forward: Forward,
    client: Client,
}

impl Gd2 {
    /// Starts gd2 in the lab's network on that port, with no volumes if `name` is new to the lab.
    ///
    /// # Errors
    /// When it cannot be started or does not answer.
    pub async fn start(lab: &Lab, name: &str, port: u16) -> Result<Self, Gd2Error> {
        let folder = lab.run_dir().join(name);
        fs::create_dir_all(&folder).map_err(at(&folder))?;
        let secret = secret(&folder.join("secret"))?;
        let process = launch(lab, &folder, port)?;
        let inside = SocketAddr::from((HERE, port));
        let forward = lab.forward(inside).await.map_err(at(inside.to_string()))?;
        let client = Client::builder().timeout(REQUEST_LIMIT).build();
        let mut gd2 = Self {
            process,
            folder,
            port,
            secret,
            forward,
            client: client.map_err(Gd2Error::Lost)?,
        };
        gd2.wait_until_it_answers().await?;
        Ok(gd2)
    }

    /// Where it is, for programs in the lab's network.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{HERE}:{}", self.port)
    }

    /// The secret of the issuer `glustercli`.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// The simulator's switch file.
    #[must_use]
    pub fn switch_file(&self) -> PathBuf {
        self.folder.join("faults")
    }

    /// Sends one signed request that must succeed. `Null` sends no body.
    ///
    /// # Errors
    /// When it is not answered, or refused.
    pub async fn done(&self, method: &str, path: &str, body: &Value) -> Result<Value, Gd2Error> {
        let near = self.forward.address();
        let near = near.map(|address| address.to_string()).unwrap_or_default();
        let verb = Method::from_bytes(method.as_bytes()).unwrap_or(Method::GET);
        let token = token(&self.secret, method, path).map_err(Gd2Error::Token)?;
        let mut request = self
            .client
            .request(verb, format!("http://{near}{path}"))
            .bearer_auth(token);
        if !body.is_null() {
            request = request.body(body.to_string());
        }
        let response = request.send().await.map_err(Gd2Error::Lost)?;
        let status = response.status();
        let text = response.text().await.map_err(Gd2Error::Lost)?;
        if !status.is_success() {
            return Err(Gd2Error::Refused {
                method: method.to_owned(),
                path: path.to_owned(),
                status: status.as_u16(),
                text: text.trim().to_owned(),
            });
        }
        Ok(serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    async fn wait_until_it_answers(&mut self) -> Result<(), Gd2Error> {
        let start = Instant::now();
        while self.done("GET", "/v1/peers", &Value::Null).await.is_err() {
            if self.process.has_ended() || start.elapsed() > START_LIMIT {
                return Err(Gd2Error::Silent(self.process.log()));
            }
            tokio::time::sleep(GLANCE).await;
        }
        Ok(())
    }
}

/// The daemon's secret, made once for each folder.
fn secret(path: &Path) -> Result<String, Gd2Error> {
    match fs::read_to_string(path) {
        Ok(secret) => Ok(secret),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let secret = uuid::Uuid::new_v4().simple().to_string();
            fs::write(path, &secret).map_err(at(path))?;
            Ok(secret)
        }
        Err(error) => Err(at(path)(error)),
    }
}

fn launch(lab: &Lab, folder: &Path, port: u16) -> Result<Background, Gd2Error> {
    let hosts = lab.storage().map(|guest| guest.address().to_string());
    let hosts: Vec<String> = hosts.collect();
    let listen = SocketAddr::from((HERE, port)).to_string();
    let program = lab
        .program(lab.record().bin_dir.join("sim-gd2"))
        .args(["--listen", &listen, "--peers", &hosts.join(",")])
        .args(["--device-gib", "8"])
        .args(["--state-dir".as_ref(), folder.as_os_str()])
        .args(["--secret-file".as_ref(), folder.join("secret").as_os_str()])
        .args(["--faults".as_ref(), folder.join("faults").as_os_str()])
        .args(["--ssh-key".as_ref(), lab.ssh_key().as_os_str()])
        .args(["--ssh-known-hosts".as_ref(), lab.known_hosts().as_os_str()]);
    program
        .background(&folder.join("gd2.log"))
        .map_err(Gd2Error::Program)
}

/// A token of gd2's own client for one request.
///
/// # Errors
/// When it cannot be signed.
pub fn token(secret: &str, method: &str, path: &str) -> jsonwebtoken::errors::Result<String> {
    let (exp, qsh) = (now().saturating_add(120), request_hash(method, path));
    let claims = json!({"iss": "glustercli", "exp": exp, "qsh": qsh});
    let key = EncodingKey::from_secret(secret.as_bytes())?;
    encode(&Header::default(), &claims, &key)
}
