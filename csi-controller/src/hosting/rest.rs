//! One HTTP request to a backend: signed anew, to that server only, no redirects followed, and bounded in time.
//!
//! What the answers mean is for each backend to say. Bodies are never logged: those about blocks hold CHAP passwords.

use std::time::{Duration, SystemTime};

use reqwest::header::{AUTHORIZATION, HeaderMap};
use reqwest::{Certificate, Method, StatusCode};
use secrecy::ExposeSecret;
use serde::Serialize;
use serde::de::DeserializeOwned;
use url::Url;

use super::HostingError;
use super::token::Signer;

/// The settings to name when something is wrong.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flags {
    pub(super) backend: &'static str,
    pub(super) url: &'static str,
    pub(super) ca: &'static str,
}

impl Flags {
    /// The setting to look at after a connection failed so.
    fn of(self, why: &str) -> &'static str {
        // rustls tells every fault of a certificate in these words.
        if why.contains("peer certificate") {
            self.ca
        } else {
            self.url
        }
    }
}

/// Sends requests to one server.
#[derive(Debug)]
pub(super) struct Rest {
    http: reqwest::Client,
    url: Url,
    signer: Signer,
    flags: Flags,
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
#[error("cannot make an HTTP client for {backend}; see {setting}")]
pub struct ClientError {
    backend: &'static str,
    setting: &'static str,
    #[source]
    source: reqwest::Error,
}

impl Rest {
    /// Connects to nobody yet.
    pub(super) fn new(
        url: Url,
        ca: Option<&[u8]>,
        timeout: Duration,
        signer: Signer,
        flags: Flags,
    ) -> Result<Self, ClientError> {
        let wrong = |source| ClientError {
            backend: flags.backend,
            setting: flags.ca,
            source,
        };
        let mut builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            // The backend is near; a proxy from the environment would only see our tokens.
            .no_proxy()
            .connect_timeout(timeout.min(Duration::from_secs(10)))
            .timeout(timeout);
        if let Some(pem) = ca {
            builder = builder.add_root_certificate(Certificate::from_pem(pem).map_err(wrong)?);
        }
        Ok(Self {
            http: builder.build().map_err(wrong)?,
            url,
            signer,
            flags,
        })
    }

    /// Sends one request, once, and brings back whatever the server says.
    ///
    /// # Errors
    ///
    /// [`HostingError::Unreachable`] if nothing can have come of it; [`HostingError::Unknown`] if the answer is lost.
    pub(super) async fn send(
        &self,
        method: &Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<Answer, HostingError> {
        let what = format!("{method} {path}");
        let url = self.resolve(path)?;
        let token = self
            .signer
            .authorization(method.as_str(), url.path(), SystemTime::now())
            .map_err(|error| HostingError::Protocol {
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
            .map_err(|error| self.lost(method, &what, error))?;
        tracing::debug!(
            what,
            status = status.as_u16(),
            "{} answered",
            self.flags.backend
        );
        Ok(Answer {
            what,
            status,
            headers,
            text,
        })
    }

    /// Places are named by their path, with or without a query.
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
                setting: self.flags.of(&proto::error::Chain(&error).to_string()),
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_is_not_trusted_names_the_authority_and_not_the_address() {
        let flags = Flags {
            backend: "b",
            url: "--b-url",
            ca: "--b-ca-file",
        };
        let certificate = "error sending request: client error (Connect): invalid peer certificate: UnknownIssuer";
        assert_eq!(flags.of(certificate), "--b-ca-file");
        let refused = "error sending request: client error (Connect): tcp connect error";
        assert_eq!(flags.of(refused), "--b-url");
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
