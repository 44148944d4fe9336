//! One request to heketi: signed anew, no redirects followed, repeated while heketi is busy.
//!
//! Errors come as plain text, sometimes empty. Bodies are never logged: those about blocks hold CHAP passwords.

use std::time::{Duration, SystemTime};

use backon::{ExponentialBuilder, Retryable};
use reqwest::header::{AUTHORIZATION, HeaderMap};
use reqwest::{Certificate, Method, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde::de::DeserializeOwned;
use url::Url;

use super::auth::{self, SigningError};
use crate::hosting::HostingError;

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
    http: reqwest::Client,
    url: Url,
    key: SecretString,
    pub(super) patience: Patience,
}

/// What came back. `Debug` leaves the text out.
pub(super) struct Answer {
    pub(super) what: String,
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Answer({} to {})", self.status, self.what)
    }
}

/// Why the client cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make an HTTP client for heketi; see --heketi-ca-file")]
pub struct ClientError(#[source] reqwest::Error);

impl Client {
    pub(super) fn new(connection: Connection) -> Result<Self, ClientError> {
        let mut builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            // heketi is near; a proxy from the environment would only see our tokens.
            .no_proxy()
            .connect_timeout(connection.request_timeout.min(Duration::from_secs(10)))
            .timeout(connection.request_timeout);
        if let Some(pem) = &connection.ca {
            let certificate = Certificate::from_pem(pem).map_err(ClientError)?;
            builder = builder.add_root_certificate(certificate);
        }
        Ok(Self {
            http: builder.build().map_err(ClientError)?,
            url: connection.url,
            key: connection.key,
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
            _ => Err(answer.refusal()),
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
        let what = format!("{method} {path}");
        let url = self.resolve(path)?;
        let token = auth::authorization(&self.key, method.as_str(), url.path(), SystemTime::now())
            .map_err(|SigningError(error)| HostingError::Protocol {
                what: what.clone(),
                why: format!("its token cannot be signed: {error}"),
            })?;
        let mut request = self
            .http
            .request(method.clone(), url)
            .header(AUTHORIZATION, token.expose_secret());
        if let Some(body) = body {
            request = request.json(body);
        }
        let outcome = async {
            let response = request.send().await?;
            let (status, headers) = (response.status(), response.headers().clone());
            Ok::<_, reqwest::Error>((status, headers, response.text().await?))
        };
        let (status, headers, text) = outcome
            .await
            .map_err(|error| self.lost(&method, &what, error))?;
        tracing::debug!(what, status = status.as_u16(), "heketi answered");
        let answer = Answer {
            what,
            status,
            headers,
            text,
        };
        match status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                Err(HostingError::Busy {
                    said: answer.said(),
                })
            }
            StatusCode::UNAUTHORIZED => Err(unauthorized(answer.said())),
            _ => Ok(answer),
        }
    }

    /// heketi names places by their path alone.
    fn resolve(&self, path: &str) -> Result<Url, HostingError> {
        let odd = |why: String| HostingError::Protocol {
            what: path.chars().take(100).collect(),
            why,
        };
        let url = self
            .url
            .join(path)
            .map_err(|error| odd(error.to_string()))?;
        if url.origin() == self.url.origin() {
            Ok(url)
        } else {
            // A token for another host would be a gift.
            Err(odd("it points to another server".to_owned()))
        }
    }

    fn lost(&self, method: &Method, what: &str, error: reqwest::Error) -> HostingError {
        let error = error.without_url();
        if error.is_connect() || *method == Method::GET {
            return HostingError::Unreachable {
                url: self.url.to_string(),
                setting: "--heketi-url",
                source: Box::new(error),
            };
        }
        HostingError::Unknown {
            what: what.to_owned(),
            why: proto::error::Chain(&error).to_string(),
        }
    }
}

impl Answer {
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, HostingError> {
        // serde's message names keys and places, never values of strings.
        serde_json::from_str(&self.text).map_err(|error| HostingError::Protocol {
            what: self.what.clone(),
            why: error.to_string(),
        })
    }

    /// heketi's own words; it sometimes has none.
    pub(super) fn said(&self) -> String {
        let text = self.text.trim();
        if text.is_empty() {
            return format!("status {} and no message", self.status.as_u16());
        }
        text.chars().take(500).collect()
    }

    pub(super) fn refusal(&self) -> HostingError {
        let said = self.said();
        match self.status {
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => HostingError::Protocol {
                what: self.what.clone(),
                why: format!("{said}; is this heketi? see setting --heketi-url"),
            },
            status if status.is_redirection() || status.is_success() => HostingError::Protocol {
                what: self.what.clone(),
                why: format!("status {} was not expected here", status.as_u16()),
            },
            _ => HostingError::Refused { said },
        }
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

    #[test]
    fn an_answer_shows_no_text() {
        let answer = Answer {
            what: "GET /blockvolumes/1".to_owned(),
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            text: "{\"password\":\"hidden\"}".to_owned(),
        };
        assert!(!format!("{answer:?}").contains("hidden"));
    }
}
