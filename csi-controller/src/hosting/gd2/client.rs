//! Requests to gd2, repeated while a lock is held by somebody else. A lock is taken before anything is begun.

use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use reqwest::Method;
use secrecy::SecretString;
use serde::Serialize;
use serde::de::DeserializeOwned;
use url::Url;

use super::answer::{Meaning, Understood};
use crate::hosting::rest::{ClientError, Flags, Rest};
use crate::hosting::token::Signer;
use crate::hosting::{ClusterId, HostingError};

/// The only issuer that gd2 knows.
pub const USER: &str = "glustercli";
/// Its own client's lifetime of a token.
const LIFETIME: Duration = Duration::from_mins(2);

const FLAGS: Flags = Flags {
    backend: "gd2",
    url: "--gd2-url",
    ca: "--gd2-ca-file",
};

/// What the client needs to know.
#[derive(Debug, Clone)]
pub struct Connection {
    /// Where gd2 is.
    pub url: Url,
    /// The secret of that daemon.
    pub secret: SecretString,
    /// A certificate authority for https, in PEM.
    pub ca: Option<Vec<u8>>,
    /// How long one request may take.
    pub request_timeout: Duration,
    /// How gd2 is waited for.
    pub patience: Patience,
}

/// How gd2 is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Repetitions while somebody else holds the lock; gd2 itself waits five seconds each time.
    pub repetitions: usize,
    /// The first pause between them; later ones double, up to thirty seconds.
    pub pause: Duration,
    /// Between two looks for a volume whose answer was lost.
    pub poll: Duration,
    /// How long a volume may take to be made or started.
    pub operation: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            repetitions: 5,
            pause: Duration::from_secs(2),
            poll: Duration::from_secs(2),
            operation: Duration::from_mins(5),
        }
    }
}

/// Sends requests.
#[derive(Debug)]
pub(super) struct Client {
    rest: Rest,
    pub(super) patience: Patience,
}

impl Client {
    pub(super) fn new(connection: Connection) -> Result<Self, ClientError> {
        let signer = Signer {
            issuer: USER,
            key: connection.secret,
            lifetime: LIFETIME,
            // gd2 does not ask for it, and would allow no leeway.
            dated: false,
        };
        let (ca, timeout) = (connection.ca.as_deref(), connection.request_timeout);
        Ok(Self {
            rest: Rest::new(connection.url, ca, timeout, signer, FLAGS)?,
            patience: connection.patience,
        })
    }

    /// Reads a resource, and in which cluster it is.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<(T, ClusterId), HostingError> {
        let understood = self.send(Method::GET, path, None::<&()>).await?;
        if understood.meaning == Meaning::Done {
            Ok((understood.answer.json()?, cluster(&understood)?))
        } else {
            Err(understood.refusal())
        }
    }

    /// Reads a resource that may be absent.
    pub(super) async fn find<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<Option<T>, HostingError> {
        let understood = self.send(Method::GET, path, None::<&()>).await?;
        if understood.meaning == Meaning::Absent {
            return Ok(None);
        }
        if understood.meaning == Meaning::Done {
            understood.answer.json().map(Some)
        } else {
            Err(understood.refusal())
        }
    }

    /// Sends one request and brings back whatever gd2 says, except that a lock is held or the token is wrong.
    ///
    /// Only what was not begun is repeated; a request whose answer is lost never is.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<Understood, HostingError> {
        let pauses = ExponentialBuilder::new()
            .with_min_delay(self.patience.pause)
            .with_max_delay(Duration::from_secs(30))
            .with_max_times(self.patience.repetitions)
            .with_jitter();
        (|| self.send_once(method.clone(), path, body))
            .retry(pauses)
            .when(|error| matches!(error, HostingError::Busy { .. }))
            .await
    }

    async fn send_once(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<Understood, HostingError> {
        let understood = Understood::from(self.rest.send(&method, path, body).await?);
        if matches!(understood.meaning, Meaning::Locked | Meaning::Unauthorized) {
            return Err(understood.refusal());
        }
        Ok(understood)
    }
}

/// gd2 says with every answer which cluster it is of.
fn cluster(understood: &Understood) -> Result<ClusterId, HostingError> {
    let id = understood.answer.headers.get("x-gluster-cluster-id");
    let id = id.and_then(|id| id.to_str().ok()).unwrap_or_default();
    id.parse().map_err(
        |error: crate::hosting::InvalidClusterId| HostingError::Protocol {
            what: understood.answer.what.clone(),
            why: format!("X-Gluster-Cluster-Id: {error}; is this gd2? see setting --gd2-url"),
        },
    )
}
