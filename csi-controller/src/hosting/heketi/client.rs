//! heketi over HTTP: a fresh token for each request, its one-shot queue, its plain-text errors.
//!
//! Redirects are never followed by the HTTP library, because each request needs a token of its own. Bodies are never logged.

use std::time::{Duration, Instant};

use reqwest::header::{AUTHORIZATION, HeaderMap, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Method, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use url::Url;

use super::HeketiConfig;
use super::auth::Signer;
use crate::hosting::HostingError;

/// Between two looks at the queue, as heketi's own client does.
const POLL: Duration = Duration::from_millis(400);
/// How often a request is sent again after "busy", and the first pause.
const BUSY_TRIES: u32 = 5;
const BUSY_PAUSE: Duration = Duration::from_millis(500);
/// Limit of one HTTP exchange.
const EXCHANGE: Duration = Duration::from_secs(30);
/// Limit of an operation on the queue: heketi's own for gluster's commands, and a little more.
const OPERATION: Duration = Duration::from_secs(690);

#[derive(Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    base: Url,
    signer: Option<Signer>,
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl Client {
    pub(super) fn new(config: &HeketiConfig) -> Result<Self, HostingError> {
        let http = reqwest::Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            .connect_timeout(Duration::from_secs(5))
            .timeout(EXCHANGE)
            .build();
        Ok(Self {
            http: http.map_err(|error| unreachable(&config.url, &error))?,
            base: config.url.clone(),
            signer: config.key.clone().map(|key| Signer::new(&config.user, key)),
        })
    }

    /// Reads an object; `None` when there is none.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<Option<T>, HostingError> {
        let answer = self.exchange(Method::GET, path, None::<&()>).await?;
        match answer.status {
            StatusCode::OK => parse(path, &answer.body).map(Some),
            StatusCode::NOT_FOUND => Ok(None),
            status => Err(refusal(&format!("read {path}"), status, &answer.body)),
        }
    }

    /// Sends a change, waits for its end on the queue, and returns the path of what it made, if it made something.
    ///
    /// | queue answers | meaning |
    /// |---|---|
    /// | 200 with `X-Pending: true` | still running |
    /// | 303 | done; the location is the result |
    /// | 204 | done, no result |
    /// | 500 | done, failed |
    /// | 404 | the answer was lost or heketi was restarted: outcome unknown |
    pub(super) async fn change(
        &self,
        what: &str,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Option<String>, HostingError> {
        let accepted = self.exchange(Method::POST, path, Some(body)).await?;
        if accepted.status != StatusCode::ACCEPTED {
            return Err(refusal(what, accepted.status, &accepted.body));
        }
        let unknown = || HostingError::Unknown {
            what: what.to_owned(),
        };
        let queue = location(&accepted.headers).ok_or_else(unknown)?;
        let start = Instant::now();
        while start.elapsed() < OPERATION {
            tokio::time::sleep(POLL).await;
            // A poll that fails says nothing about the operation.
            let Ok(answer) = self.exchange(Method::GET, &queue, None::<&()>).await else {
                continue;
            };
            match answer.status {
                StatusCode::OK => {}
                StatusCode::SEE_OTHER => return Ok(location(&answer.headers)),
                StatusCode::NO_CONTENT => return Ok(None),
                StatusCode::NOT_FOUND => return Err(unknown()),
                status => return Err(refusal(what, status, &answer.body)),
            }
        }
        Err(unknown())
    }

    /// One request, sent again with a new token while heketi says that it is busy.
    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<&(impl Serialize + ?Sized)>,
    ) -> Result<Answer, HostingError> {
        let mut pause = BUSY_PAUSE;
        for _ in 1..BUSY_TRIES {
            let answer = self.send(method.clone(), path, body).await?;
            let busy = [
                StatusCode::TOO_MANY_REQUESTS,
                StatusCode::SERVICE_UNAVAILABLE,
            ];
            if !busy.contains(&answer.status) {
                return Ok(answer);
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        self.send(method, path, body).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&(impl Serialize + ?Sized)>,
    ) -> Result<Answer, HostingError> {
        let url = self.base.join(path).map_err(|error| HostingError::Failed {
            what: format!("{method} {path}"),
            reason: error.to_string(),
        })?;
        let mut request = self.http.request(method.clone(), url);
        if let Some(signer) = &self.signer {
            let token = signer
                .token(method.as_str(), path)
                .map_err(|_| HostingError::Refused {
                    reason: "the key cannot sign a token".to_owned(),
                })?;
            request = request.header(AUTHORIZATION, format!("bearer {token}"));
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let lost = |error| unreachable(&self.base, &error);
        let answer = request.send().await.map_err(lost)?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        Ok(Answer {
            status,
            headers,
            body: answer.text().await.map_err(lost)?,
        })
    }
}

fn parse<T: DeserializeOwned>(path: &str, body: &str) -> Result<T, HostingError> {
    serde_json::from_str(body).map_err(|error| HostingError::Failed {
        what: format!("read {path}"),
        reason: format!("its answer is not what heketi sends: {error}"),
    })
}

fn location(headers: &HeaderMap) -> Option<String> {
    let location = headers.get(LOCATION)?.to_str().ok()?;
    // heketi sends a path; a proxy in between may have made it a whole URL.
    match Url::parse(location) {
        Ok(url) => Some(url.path().to_owned()),
        Err(_) => Some(location.to_owned()),
    }
}

fn unreachable(url: &Url, error: &reqwest::Error) -> HostingError {
    let reason = if error.is_timeout() {
        "no answer in time"
    } else if error.is_connect() {
        "no connection"
    } else {
        "the connection broke"
    };
    HostingError::Unreachable {
        url: url.to_string(),
        reason: reason.to_owned(),
    }
}

/// What heketi's refusal means. heketi has no distinct codes, so some texts must be known (reference heketi-gd2.md §1.4).
///
/// | status and text | meaning |
/// |---|---|
/// | 401 | key, user or clock |
/// | 429, 503, "conflict" texts of a 500 | busy |
/// | `No space`, volume limit, bricks | no room |
/// | no or too few nodes online | busy, may pass |
/// | else | failed |
fn refusal(what: &str, status: StatusCode, body: &str) -> HostingError {
    let reason = match body.trim() {
        "" => format!("no message (status {})", status.as_u16()),
        text => text.chars().take(300).collect(),
    };
    let has = |texts: &[&str]| texts.iter().any(|text| reason.contains(text));
    if status == StatusCode::UNAUTHORIZED {
        HostingError::Refused { reason }
    } else if status == StatusCode::TOO_MANY_REQUESTS
        || status == StatusCode::SERVICE_UNAVAILABLE
        || has(&[
            "The target exists, contains other items, or is in use",
            "too many operations",
            "No nodes in cluster",
            "No online storage devices",
            "glusterd running",
            "Id not found",
        ])
    {
        HostingError::Busy { reason }
    } else if has(&[
        "No space",
        "Out of space",
        "limit is",
        "Maximum number of bricks",
        "No clusters configured",
        "No eligible cluster",
    ]) {
        HostingError::NoRoom { reason }
    } else {
        HostingError::Failed {
            what: what.to_owned(),
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heketis_refusals_are_told_apart_by_status_and_words() {
        let table = [
            (401, "Invalid JWT token: Token is expired", "Refused"),
            (429, "Server busy. Retry operation later.", "Busy"),
            (503, "Service disabled for maintenance", "Busy"),
            (
                500,
                "The target exists, contains other items, or is in use.",
                "Busy",
            ),
            (500, "Failed to allocate new volume: No space", "NoRoom"),
            (500, "Cluster has 3 volumes and limit is 3", "NoRoom"),
            (500, "", "Failed"),
            (400, "Invalid volume size", "Failed"),
        ];
        for (status, body, wanted) in table {
            let status = StatusCode::from_u16(status).unwrap();
            let error = format!("{:?}", refusal("make a volume", status, body));
            assert!(error.starts_with(wanted), "{status} {body}: {error}");
        }
    }

    #[test]
    fn an_empty_error_still_says_something() {
        let error = refusal("x", StatusCode::INTERNAL_SERVER_ERROR, "\n");
        assert!(error.to_string().contains("500"), "{error}");
    }
}
