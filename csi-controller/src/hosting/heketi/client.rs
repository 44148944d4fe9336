//! Requests to heketi, repeated while it is busy, and its refusals put into words.
//!
//! Errors come as plain text, sometimes empty.

use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use reqwest::{Method, StatusCode};
use secrecy::SecretString;
use serde::Serialize;
use serde::de::DeserializeOwned;
use url::Url;

use crate::hosting::HostingError;
use crate::hosting::rest::{Answer, ClientError, Flags, Rest};
use crate::hosting::token::Signer;

/// The only issuer that may do everything; a `user` token cannot even read the queue.
const ISSUER: &str = "admin";
/// The Go client's lifetime of a token; long enough for clocks that are a little apart.
const LIFETIME: Duration = Duration::from_mins(5);

const FLAGS: Flags = Flags {
    backend: "heketi",
    url: "--heketi-url",
    ca: "--heketi-ca-file",
};

/// What the client needs to know.
#[derive(Debug, Clone)]
pub struct Connection {
    /// Where heketi is.
    pub url: Url,
    /// The admin key.
    pub key: SecretString,
    /// A certificate authority for https, in PEM.
    pub ca: Option<Vec<u8>>,
    /// How long one request may take.
    pub request_timeout: Duration,
    /// How heketi is waited for.
    pub patience: Patience,
}

/// How heketi is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Repetitions while it says that it is busy.
    pub repetitions: usize,
    /// The first pause between them; later ones double, up to thirty seconds.
    pub pause: Duration,
    /// Between two looks into the queue.
    pub poll: Duration,
    /// How long an accepted operation may take.
    pub operation: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            repetitions: 5,
            pause: Duration::from_secs(2),
            poll: Duration::from_millis(400),
            operation: Duration::from_mins(15),
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
            issuer: ISSUER,
            key: connection.key,
            lifetime: LIFETIME,
            dated: true,
        };
        let (ca, timeout) = (connection.ca.as_deref(), connection.request_timeout);
        Ok(Self {
            rest: Rest::new(connection.url, ca, timeout, signer, FLAGS)?,
            patience: connection.patience,
        })
    }

    /// Reads a resource; none if heketi does not know it (or hides it, while it is pending).
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<Option<T>, HostingError> {
        let answer = self.send(Method::GET, path, None::<&()>).await?;
        match answer.status {
            StatusCode::OK => answer.json().map(Some),
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(refusal(&answer)),
        }
    }

    /// Sends one request and brings back whatever heketi says, except that it is busy.
    ///
    /// A request that is repeated was refused before: heketi does nothing when it says 429 or 503.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<Answer, HostingError> {
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
    ) -> Result<Answer, HostingError> {
        let answer = self.rest.send(&method, path, body).await?;
        match answer.status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                Err(HostingError::Busy {
                    said: said(&answer),
                })
            }
            StatusCode::UNAUTHORIZED => Err(unauthorized(said(&answer))),
            _ => Ok(answer),
        }
    }
}

/// heketi's own words; it sometimes has none.
pub(super) fn said(answer: &Answer) -> String {
    let text = answer.text.trim();
    if text.is_empty() {
        return format!("status {} and no message", answer.status.as_u16());
    }
    text.chars().take(500).collect()
}

pub(super) fn refusal(answer: &Answer) -> HostingError {
    let said = said(answer);
    match answer.status {
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => HostingError::Protocol {
            what: answer.what.clone(),
            why: format!("{said}; is this heketi? see setting --heketi-url"),
        },
        status if status.is_redirection() || status.is_success() => HostingError::Protocol {
            what: answer.what.clone(),
            why: format!("status {} was not expected here", status.as_u16()),
        },
        _ => HostingError::Refused { said },
    }
}

/// heketi tells apart what is wrong with a token in words only.
fn unauthorized(said: String) -> HostingError {
    let clocks =
        said.contains("expired") || said.contains("before issued") || said.contains("clocks");
    let setting = if clocks {
        "the clocks of this host and of heketi's; they are too far apart"
    } else {
        "--heketi-key-file: it must hold heketi's admin key"
    };
    HostingError::Unauthorized { setting, said }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_problem_names_the_key_or_the_clocks() {
        let text = |said: &str| unauthorized(said.to_owned()).to_string();
        let key = text(
            "Invalid JWT token: signature is invalid (client and server secrets may not match)",
        );
        assert!(key.contains("--heketi-key-file"), "{key}");
        for said in [
            "Invalid JWT token: Token used before issued (client and server clocks may differ)",
            "Invalid JWT token: Token is expired by 3m",
        ] {
            assert!(text(said).contains("clocks"), "{}", text(said));
        }
    }
}
