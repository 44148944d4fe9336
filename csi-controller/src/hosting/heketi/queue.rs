//! heketi's asynchronous operations: accepted with a place in a queue, whose last word can be read only once.
//!
//! | the queue says | meaning |
//! |---|---|
//! | 200 with `X-Pending: true` | still running |
//! | 303 | done; the result is at `Location` |
//! | 204 | done, nothing to read |
//! | 500 | failed, and undone as far as heketi could |
//! | 404 | unknown: read already, or heketi was restarted. Never "failed" |

use reqwest::header::LOCATION;
use reqwest::{Method, StatusCode};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::client::{Client, refusal, said};
use crate::hosting::HostingError;
use crate::hosting::rest::Answer;

/// How an operation ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The result is at that path.
    At(String),
    /// There is nothing to read.
    Nothing,
    /// It failed, in heketi's words.
    Failed(String),
    /// It is not known.
    Lost(&'static str),
}

/// One look at the queue.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    Pending,
    Ended(End),
}

impl Client {
    /// Posts `body` and waits for the end of the operation.
    ///
    /// # Errors
    ///
    /// heketi refused it, or is not to be reached. [`End::Failed`] is an answer, not an error.
    pub(super) async fn run(&self, path: &str, body: &impl Serialize) -> Result<End, HostingError> {
        let answer = self.send(Method::POST, path, Some(body)).await?;
        if answer.status == StatusCode::INTERNAL_SERVER_ERROR {
            return Ok(End::Failed(said(&answer)));
        }
        if answer.status != StatusCode::ACCEPTED {
            return Err(refusal(&answer));
        }
        let queue = location(&answer)?;
        let give_up = Instant::now() + self.patience.operation;
        loop {
            match self.look(&queue).await {
                Ok(Look::Ended(end)) => return Ok(end),
                // The answer is kept for whoever asks next, so a look that failed costs nothing.
                Ok(Look::Pending)
                | Err(HostingError::Unreachable { .. } | HostingError::Busy { .. })
                    if Instant::now() < give_up =>
                {
                    sleep(self.patience.poll).await;
                }
                Ok(Look::Pending) => return Ok(End::Lost("it did not end in time")),
                Err(error) => return Err(error),
            }
        }
    }

    async fn look(&self, queue: &str) -> Result<Look, HostingError> {
        let answer = self.send(Method::GET, queue, None::<&()>).await?;
        Ok(match answer.status {
            StatusCode::OK if answer.headers.contains_key("x-pending") => Look::Pending,
            StatusCode::SEE_OTHER => Look::Ended(End::At(location(&answer)?)),
            StatusCode::OK | StatusCode::NO_CONTENT => Look::Ended(End::Nothing),
            StatusCode::INTERNAL_SERVER_ERROR => Look::Ended(End::Failed(said(&answer))),
            StatusCode::NOT_FOUND => Look::Ended(End::Lost(
                "heketi no longer knows the operation; it may have been restarted",
            )),
            _ => return Err(refusal(&answer)),
        })
    }
}

fn location(answer: &Answer) -> Result<String, HostingError> {
    let location = answer
        .headers
        .get(LOCATION)
        .and_then(|value| value.to_str().ok());
    location
        .map(ToOwned::to_owned)
        .ok_or_else(|| HostingError::Protocol {
            what: answer.what.clone(),
            why: "it has no Location".to_owned(),
        })
}
