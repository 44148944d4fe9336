//! gluster-block on whichever of several hosts can serve, each request scheduled and measured, dead hosts left alone.
//!
//! | the host | `ask`, `begin` | `sessions`, `ping` |
//! |---|---|---|
//! | is well | waits for its turn | go |
//! | did not answer a while ago | only if no host is well; `ping` comes first | go |
//! | did not answer just now | not asked | refused at once |
//!
//! `sessions` and `ping` look at the kernel, not at gluster-blockd, and wait for nobody.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use blockd_client::vocabulary::{HostAddress, HostingVolume, Initiator, Iqn};
use blockd_client::{BlockInfo, CreateBlock, Error};
use tokio::time::Instant;

use super::Blocks;
use super::health::{Health, Standing};
use super::schedule::{Schedule, Turn};
use crate::metrics::{BackendMetrics, HostMetrics};

/// The daemons of all storage hosts. Clones share everything.
#[derive(Debug)]
pub struct Daemons<B> {
    blocks: Arc<B>,
    schedule: Schedule,
    health: Health,
    metrics: BackendMetrics,
}

impl<B> Clone for Daemons<B> {
    fn clone(&self) -> Self {
        Self {
            blocks: Arc::clone(&self.blocks),
            schedule: self.schedule.clone(),
            health: self.health.clone(),
            metrics: self.metrics.clone(),
        }
    }
}

/// A host whose turn it is to make a block; nothing was sent yet.
#[derive(Debug)]
pub struct Coordinator<B> {
    daemons: Daemons<B>,
    turn: Turn,
}

impl<B: Blocks> Daemons<B> {
    /// All hosts are well and idle; nobody waits for a turn longer than `limit`.
    pub fn new(blocks: B, limit: Duration, metrics: BackendMetrics, hosts: HostMetrics) -> Self {
        Self {
            blocks: Arc::new(blocks),
            schedule: Schedule::new(limit),
            health: Health::new(hosts),
            metrics,
        }
    }

    /// Asks one of these hosts, and another only if that one cannot serve at all. A host that is merely at work for too long
    /// is not passed over: it may be at the very block that is asked about.
    ///
    /// # Errors
    ///
    /// What the last host said; [`Error::Busy`] and [`Error::Unavailable`] also where none was asked.
    pub async fn ask<T, F>(
        &self,
        verb: &'static str,
        volume: &HostingVolume,
        hosts: &[HostAddress],
        question: impl Fn(Arc<B>, HostAddress) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>> + Send,
    {
        let mut left = hosts.to_vec();
        loop {
            let turn = self.turn(verb, volume, &left).await?;
            let host = turn.host();
            let request = question(Arc::clone(&self.blocks), host);
            let outcome = self.measured(verb, host, request).await;
            left.retain(|other| *other != host);
            match outcome {
                Err(error) if cannot_serve(&error) && !left.is_empty() => {
                    tracing::debug!(verb, %host, %error, "asking another host");
                }
                outcome => return outcome,
            }
        }
    }

    /// Waits until one of these hosts can make a block on that volume.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] if none could in time, [`Error::Unavailable`] if none answers.
    pub async fn begin(
        &self,
        volume: &HostingVolume,
        hosts: &[HostAddress],
    ) -> Result<Coordinator<B>, Error> {
        let daemons = self.clone();
        let turn = self.turn("create", volume, hosts).await?;
        Ok(Coordinator { daemons, turn })
    }

    /// Who is logged in to a target on one host.
    ///
    /// # Errors
    ///
    /// As [`Blocks::sessions`].
    pub async fn sessions(&self, host: HostAddress, iqn: &Iqn) -> Result<Vec<Initiator>, Error> {
        let request = self.blocks.sessions(host, iqn);
        self.unless_out("sessions", host, request).await
    }

    /// Whether gluster-blockd on a host takes requests.
    ///
    /// # Errors
    ///
    /// As [`Blocks::ping`].
    pub async fn ping(&self, host: HostAddress) -> Result<(), Error> {
        self.unless_out("ping", host, self.blocks.ping(host)).await
    }

    async fn unless_out<T>(
        &self,
        verb: &'static str,
        host: HostAddress,
        request: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        match self.health.refusal(host) {
            Some(refusal) => Err(refusal),
            None => self.measured(verb, host, request).await,
        }
    }

    /// A turn at a host that answers, as far as that can be known.
    async fn turn(
        &self,
        verb: &'static str,
        volume: &HostingVolume,
        hosts: &[HostAddress],
    ) -> Result<Turn, Error> {
        let mut left = hosts.to_vec();
        loop {
            let worth = self.worth_asking(verb, &left)?;
            let start = Instant::now();
            let turn = self.schedule.turn(volume, worth.clone()).await;
            self.metrics.waited(verb, start.elapsed());
            let Some(turn) = turn else {
                self.metrics.not_begun(verb, "no_turn");
                let first = worth.first().or(hosts.first());
                return Err(first.map_or_else(no_hosts, |host| Error::Busy { host: *host }));
            };
            if self.answers(turn.host()).await {
                return Ok(turn);
            }
            // Out, or it says why not; the last one is asked in earnest, for that.
            if left.len() > 1 {
                left.retain(|host| *host != turn.host());
            }
        }
    }

    /// The hosts that are well, else those that may be; else what is known of the first.
    fn worth_asking(
        &self,
        verb: &'static str,
        hosts: &[HostAddress],
    ) -> Result<Vec<HostAddress>, Error> {
        let of = |wanted| {
            let hosts = hosts.iter().copied();
            hosts.filter(move |host| self.health.standing(*host) == wanted)
        };
        let mut worth: Vec<_> = of(Standing::Well).collect();
        if worth.is_empty() {
            worth.extend(of(Standing::Suspect));
        }
        if worth.is_empty() {
            self.metrics.not_begun(verb, "out_of_reach");
            let refusal = hosts.iter().find_map(|host| self.health.refusal(*host));
            return Err(refusal.unwrap_or_else(no_hosts));
        }
        Ok(worth)
    }

    /// Looks again at what may have changed while the turn was waited for.
    async fn answers(&self, host: HostAddress) -> bool {
        match self.health.standing(host) {
            Standing::Well => true,
            Standing::Suspect => self.ping(host).await.is_ok(),
            Standing::Out => false,
        }
    }

    async fn measured<T>(
        &self,
        verb: &'static str,
        host: HostAddress,
        request: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        let start = Instant::now();
        let outcome = request.await;
        self.metrics
            .observe(verb, outcome.as_ref().err(), start.elapsed());
        self.health.learn(host, &outcome);
        outcome
    }
}

impl<B: Blocks> Coordinator<B> {
    /// Which host it is.
    #[must_use]
    pub fn host(&self) -> HostAddress {
        self.turn.host()
    }

    /// Makes the block.
    ///
    /// # Errors
    ///
    /// As [`Blocks::create`].
    pub async fn create(self, wanted: &CreateBlock) -> Result<BlockInfo, Error> {
        let (daemons, host) = (&self.daemons, self.turn.host());
        let request = daemons.blocks.create(host, wanted);
        daemons.measured("create", host, request).await
    }
}

fn no_hosts() -> Error {
    let reason = "no storage host is named".to_owned();
    Error::InvalidRequest { reason }
}

/// Whether another host may do better. Not after `Busy`: that host may be at the very block that is asked about.
pub(crate) fn cannot_serve(error: &Error) -> bool {
    match error {
        Error::Unavailable { .. } => true,
        Error::Transport(error) => !error.may_have_started(),
        Error::BlockMissing { .. }
        | Error::VolumeMissing { .. }
        | Error::Exists { .. }
        | Error::Conflict { .. }
        | Error::Incomplete { .. }
        | Error::NotMade { .. }
        | Error::Unproved { .. }
        | Error::NameTaken { .. }
        | Error::NoSpace { .. }
        | Error::HostDown { .. }
        | Error::Partial { .. }
        | Error::Lagging { .. }
        | Error::Shrink { .. }
        | Error::Unsupported { .. }
        | Error::Busy { .. }
        | Error::InvalidRequest { .. }
        | Error::Protocol { .. } => false,
    }
}
