//! One request in flight per hosting volume and per storage host, and every request measured.
//!
//! gluster-blockd serves one request at a time, and a hosting volume has one lock for reading and writing alike; a second
//! request would only wait there, into its own deadline, where nobody can tell waiting from working. So it waits
//! here, where nothing has begun yet. The wait has a limit; a request that did not get its turn reports its host busy.
//!
//! `sessions` and `ping` look at the kernel, not at gluster-blockd, and do not queue.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use blockd_client::vocabulary::{
    BlockName, Capacity, HostAddress, HostingVolume, Initiator, Iqn, VolumeId,
};
use blockd_client::{BlockInfo, CreateBlock, Error};
use tokio::sync::{Mutex as Lane, OwnedMutexGuard};
use tokio::time::Instant;

use super::Blocks;
use crate::metrics::BackendMetrics;

/// Queues and measures requests to `B`.
#[derive(Debug)]
pub struct Queue<B> {
    inner: B,
    volumes: Lanes<HostingVolume>,
    hosts: Lanes<HostAddress>,
    limit: Duration,
    metrics: BackendMetrics,
}

/// A lane per key. A std mutex, taken to find a lane; the lanes themselves are held across a request.
#[derive(Debug)]
struct Lanes<K>(Mutex<HashMap<K, Arc<Lane<()>>>>);

impl<K> Default for Lanes<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash + Clone> Lanes<K> {
    async fn enter(&self, key: &K) -> OwnedMutexGuard<()> {
        let lane = {
            let mut lanes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(lanes.entry(key.clone()).or_default())
        };
        lane.lock_owned().await
    }
}

impl<B: Blocks> Queue<B> {
    /// A queue in front of `inner` in which nobody waits longer than `limit`.
    pub fn new(inner: B, limit: Duration, metrics: BackendMetrics) -> Self {
        Self {
            inner,
            volumes: Lanes::default(),
            hosts: Lanes::default(),
            limit,
            metrics,
        }
    }

    /// Runs `request` when volume and host are free, in that order for everybody, so that nobody waits in a circle.
    async fn in_turn<T>(
        &self,
        verb: &'static str,
        host: HostAddress,
        volume: &HostingVolume,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let turn = async {
            let volume = self.volumes.enter(volume).await;
            (volume, self.hosts.enter(&host).await)
        };
        let Ok(_turn) = tokio::time::timeout(self.limit, turn).await else {
            tracing::debug!(verb, %host, "no turn in time");
            self.metrics.count(verb, "no_turn");
            return Err(Error::Busy { host });
        };
        self.measured(verb, request).await
    }

    async fn measured<T>(
        &self,
        verb: &'static str,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let start = Instant::now();
        let outcome = request.await;
        let word = outcome.as_ref().map_or_else(word, |_| "ok");
        self.metrics.observe(verb, word, start.elapsed());
        outcome
    }
}

impl<B: Blocks> Blocks for Queue<B> {
    async fn create(&self, host: HostAddress, wanted: &CreateBlock) -> Result<BlockInfo, Error> {
        let request = self.inner.create(host, wanted);
        let turn = self.in_turn("create", host, &wanted.id.hosting_volume, request);
        turn.await.map_err(|error| {
            // Bare, it is the queue's word: nothing was sent.
            if matches!(error, Error::Busy { .. }) {
                let (id, cause) = (wanted.id.clone(), Box::new(error));
                return Error::NotMade { id, cause };
            }
            error
        })
    }

    async fn delete(&self, host: HostAddress, id: &VolumeId) -> Result<(), Error> {
        let request = self.inner.delete(host, id);
        self.in_turn("delete", host, &id.hosting_volume, request)
            .await
    }

    async fn info(&self, host: HostAddress, id: &VolumeId) -> Result<BlockInfo, Error> {
        let request = self.inner.info(host, id);
        self.in_turn("info", host, &id.hosting_volume, request)
            .await
    }

    async fn list(
        &self,
        host: HostAddress,
        volume: &HostingVolume,
    ) -> Result<Vec<BlockName>, Error> {
        let request = self.inner.list(host, volume);
        self.in_turn("list", host, volume, request).await
    }

    async fn resize(
        &self,
        host: HostAddress,
        id: &VolumeId,
        size: Capacity,
    ) -> Result<BlockInfo, Error> {
        let request = self.inner.resize(host, id, size);
        self.in_turn("resize", host, &id.hosting_volume, request)
            .await
    }

    async fn sessions(&self, host: HostAddress, iqn: &Iqn) -> Result<Vec<Initiator>, Error> {
        self.measured("sessions", self.inner.sessions(host, iqn))
            .await
    }

    async fn ping(&self, host: HostAddress) -> Result<(), Error> {
        self.measured("ping", self.inner.ping(host)).await
    }
}

/// One word per kind of outcome, for the label.
fn word(error: &Error) -> &'static str {
    match error {
        Error::BlockMissing { .. } => "block_missing",
        Error::VolumeMissing { .. } => "volume_missing",
        Error::Exists { .. } => "exists",
        Error::Conflict { .. } => "conflict",
        Error::Incomplete { .. } => "incomplete",
        Error::NotMade { .. } => "not_made",
        Error::Unproved { .. } => "unproved",
        Error::NameTaken { .. } => "name_taken",
        Error::NoSpace { .. } => "no_space",
        Error::HostDown { .. } => "host_down",
        Error::Partial { .. } => "partial",
        Error::Lagging { .. } => "lagging",
        Error::Shrink { .. } => "shrink",
        Error::Unsupported { .. } => "unsupported",
        Error::Busy { .. } => "busy",
        Error::Unavailable { .. } => "unavailable",
        Error::InvalidRequest { .. } => "invalid_request",
        Error::Protocol { .. } => "protocol",
        Error::Transport(_) => "transport",
    }
}
