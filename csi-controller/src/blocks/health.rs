//! Which storage hosts are out of reach, so that a dead one costs one bounded probe and not a time-out per request.
//!
//! | what came of the last request | standing |
//! |---|---|
//! | any answer, also a refusal | `Well` |
//! | none: not reached, or nothing said in time | `Out` for [`OUT_FOR`], then `Suspect` |
//! | none yet | `Well` |
//!
//! Nobody asks a host that is out. A suspect one is asked whether it takes requests, by whoever needs it first, before it gets
//! a request that would wait for long.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use blockd_client::Error;
use blockd_client::vocabulary::HostAddress;
use proto::error::Chain;
use tokio::time::Instant;

use crate::metrics::HostMetrics;

/// How long nobody asks a host that did not answer.
pub(super) const OUT_FOR: Duration = Duration::from_secs(15);

/// What is known of the hosts. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Health {
    // A std mutex: taken for single map operations, never across an await.
    out: Arc<Mutex<HashMap<HostAddress, Out>>>,
    metrics: HostMetrics,
}

#[derive(Debug)]
struct Out {
    since: Instant,
    why: String,
}

/// Whether a host is worth asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Yes.
    Well,
    /// It did not answer a while ago.
    Suspect,
    /// It did not answer just now.
    Out,
}

impl Health {
    /// Everybody is well; changes are told to `metrics`.
    pub(super) fn new(metrics: HostMetrics) -> Self {
        Self {
            out: Arc::default(),
            metrics,
        }
    }

    /// Where a host stands.
    pub(super) fn standing(&self, host: HostAddress) -> Standing {
        match self.out().get(&host) {
            None => Standing::Well,
            Some(out) if out.since.elapsed() < OUT_FOR => Standing::Out,
            Some(_) => Standing::Suspect,
        }
    }

    /// What to say instead of asking a host that is out.
    pub(super) fn refusal(&self, host: HostAddress) -> Option<Error> {
        let out = self.out();
        let out = out.get(&host).filter(|out| out.since.elapsed() < OUT_FOR)?;
        let reason = format!(
            "it could not be asked {} s ago, and is asked again after {} s ({})",
            out.since.elapsed().as_secs(),
            OUT_FOR.as_secs(),
            out.why
        );
        Some(Error::Unavailable { host, reason })
    }

    /// Learns from what came of a request to a host.
    pub(super) fn learn<T>(&self, host: HostAddress, outcome: &Result<T, Error>) {
        match outcome {
            Err(error) if is_silence(error) => self.note_out(host, error),
            Ok(_) | Err(_) => self.note_well(host),
        }
    }

    fn note_out(&self, host: HostAddress, error: &Error) {
        let out = Out {
            since: Instant::now(),
            why: Chain(error).to_string(),
        };
        if self.out().insert(host, out).is_none() {
            tracing::warn!(%host, error = %Chain(error), "storage host is out of reach");
        }
        self.metrics.up(host, false);
    }

    fn note_well(&self, host: HostAddress) {
        if self.out().remove(&host).is_some() {
            tracing::info!(%host, "storage host answers again");
        }
        self.metrics.up(host, true);
    }

    fn out(&self) -> MutexGuard<'_, HashMap<HostAddress, Out>> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a host said nothing at all. Not [`Error::Busy`]: that is its own word, that gluster-blockd is at work.
fn is_silence(error: &Error) -> bool {
    matches!(error.cause(), Error::Transport(_))
}

#[cfg(test)]
mod tests {
    use blockd_client::TransportError;

    use super::*;

    fn host() -> HostAddress {
        "10.0.0.1".parse().unwrap()
    }

    fn silence() -> Result<(), Error> {
        Err(Error::Transport(TransportError::Deadline {
            host: host(),
            deadline: Duration::from_secs(1),
            started: false,
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_host_is_out_for_a_while_and_then_suspect() {
        let health = Health::default();
        assert_eq!(health.standing(host()), Standing::Well);
        health.learn(host(), &silence());
        assert_eq!(health.standing(host()), Standing::Out);
        let refusal = health.refusal(host()).unwrap().to_string();
        assert!(
            refusal.contains("10.0.0.1") && refusal.contains("no answer within 1 s"),
            "{refusal}"
        );
        tokio::time::advance(OUT_FOR).await;
        assert_eq!(health.standing(host()), Standing::Suspect);
        assert!(health.refusal(host()).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn any_answer_makes_a_host_well() {
        let health = Health::default();
        health.learn(host(), &silence());
        health.learn::<()>(host(), &Err(Error::HostDown { host: host() }));
        assert_eq!(health.standing(host()), Standing::Well);
    }
}
