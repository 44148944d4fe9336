//! The operations: what each RPC means, decided over the two ports. No CSI message and no socket is seen here.
//!
//! | operation | finds what an earlier attempt left by | ends when |
//! |---|---|---|
//! | create | the block's derived name on every hosting volume of ours | `info` shows it complete |
//! | delete | `info` | `info` says it is gone |
//! | publish | live sessions on the targets, and this run's memory | the context is made |
//! | expand | `info` | no host lags |

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use blockd_client::vocabulary::{Capacity, HostAddress, SealingKeys, VolumeId};
use blockd_client::{BlockInfo, Error as BlockError};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::task::JoinSet;

use crate::blocks::{Blocks, Turns};
use crate::hosting::{Hosting, HostingVolumes, Ownership};
use crate::ledger::{Ledger, Size};

pub mod capacity;
pub mod create;
pub mod delete;
mod error;
pub mod expand;
pub mod list;
pub mod publish;

pub use error::OpError;

/// How long an operation waits for its turn at a hosting volume before it says "try again".
const TURN: Duration = Duration::from_mins(2);

/// What the operator decided.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Size of a new hosting volume in GiB.
    pub hosting_gib: u64,
}

/// The operations over a backend and gluster-block; clones share everything.
#[derive(Debug)]
pub struct Operations<H, B> {
    inner: Arc<Inner<H, B>>,
}

#[derive(Debug)]
struct Inner<H, B> {
    hosting: H,
    blocks: B,
    ledger: Ledger,
    turns: Turns,
    /// One placement decision at a time, the making of a hosting volume included.
    placing: Mutex<()>,
    keys: Option<SealingKeys>,
    policy: Policy,
}

impl<H, B> Clone for Operations<H, B> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

/// A block that was looked up.
struct Located {
    host: HostAddress,
    info: BlockInfo,
    // Held until the operation on the block has ended.
    _turn: OwnedMutexGuard<()>,
}

impl<H: HostingVolumes, B: Blocks> Operations<H, B> {
    /// Operations with nothing remembered yet.
    #[must_use]
    pub fn new(hosting: H, blocks: B, keys: Option<SealingKeys>, policy: Policy) -> Self {
        let inner = Inner {
            hosting,
            blocks,
            ledger: Ledger::default(),
            turns: Turns::default(),
            placing: Mutex::default(),
            keys,
            policy,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The hosts of a hosting volume whose gluster-blockd listens, asked all at once.
    async fn alive(&self, hosts: &[HostAddress]) -> Result<Vec<HostAddress>, BlockError> {
        let mut pings = JoinSet::new();
        for host in hosts.iter().copied() {
            let this = self.clone();
            pings.spawn(async move { (host, this.inner.blocks.ping(host).await) });
        }
        let (mut alive, mut last) = (Vec::new(), None);
        while let Some(Ok((host, answer))) = pings.join_next().await {
            match answer {
                Ok(()) => alive.push(host),
                Err(error) => last = Some(error),
            }
        }
        alive.sort_unstable();
        match last {
            Some(error) if alive.is_empty() => Err(error),
            _ => Ok(alive),
        }
    }

    /// One living host of a hosting volume, to speak through.
    async fn reach(&self, hosting: &Hosting) -> Result<HostAddress, OpError> {
        let no_host = |source: Option<BlockError>| OpError::NoHost {
            hosting_volume: hosting.name.clone(),
            source: source.map(Box::new),
        };
        let alive = self
            .alive(&hosting.hosts)
            .await
            .map_err(|error| no_host(Some(error)))?;
        alive.first().copied().ok_or_else(|| no_host(None))
    }

    async fn turn(&self, hosting: &Hosting) -> Result<OwnedMutexGuard<()>, OpError> {
        let turn = self.inner.turns.take(&hosting.name, TURN).await;
        turn.ok_or_else(|| OpError::Queue {
            hosting_volume: hosting.name.clone(),
        })
    }

    /// Finds a volume by its id, with its turn taken.
    ///
    /// | hosting volume | block | answer |
    /// |---|---|---|
    /// | ours | there | the block |
    /// | ours | not there | `None` |
    /// | absent | | `None` |
    /// | somebody else's | | an error: its blocks are not ours to touch |
    async fn locate(&self, id: &VolumeId) -> Result<Option<Located>, OpError> {
        let found = self
            .inner
            .hosting
            .find(&id.hosting_volume)
            .await
            .map_err(OpError::Backend)?;
        let hosting = match found {
            Ownership::Ours(hosting) => hosting,
            Ownership::Foreign => return Err(OpError::Foreign { id: id.clone() }),
            Ownership::Absent => return Ok(None),
        };
        let host = self.reach(&hosting).await?;
        let turn = self.turn(&hosting).await?;
        match self.inner.blocks.info(host, id).await {
            Ok(info) => {
                self.inner.ledger.record(id, bound(&info));
                Ok(Some(Located {
                    host,
                    info,
                    _turn: turn,
                }))
            }
            Err(BlockError::BlockMissing { .. } | BlockError::VolumeMissing { .. }) => {
                self.inner.ledger.forget(id);
                Ok(None)
            }
            Err(error) => Err(OpError::block("look up", error)),
        }
    }

    async fn existing(&self, id: &VolumeId) -> Result<Located, OpError> {
        self.locate(id)
            .await?
            .ok_or_else(|| OpError::NotFound { id: id.clone() })
    }

    /// The blocks of a hosting volume; the ledger knows a size for each afterwards. Needs the turn.
    async fn refresh(
        &self,
        hosting: &Hosting,
        host: HostAddress,
    ) -> Result<BTreeSet<VolumeId>, OpError> {
        let failed = |error| OpError::block("list", error);
        let names = self
            .inner
            .blocks
            .list(host, &hosting.name)
            .await
            .map_err(failed)?;
        let ids = names
            .into_iter()
            .map(|name| VolumeId::new(hosting.name.clone(), name));
        let ids: BTreeSet<_> = ids.collect();
        self.inner.ledger.retain(&hosting.name, &ids);
        for id in ids.iter().filter(|id| self.inner.ledger.size(id).is_none()) {
            match self.inner.blocks.info(host, id).await {
                Ok(info) => self.inner.ledger.record(id, bound(&info)),
                Err(BlockError::BlockMissing { .. }) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(ids)
    }
}

/// The size to count a block with when all that is known is what gluster-block prints.
fn bound(info: &BlockInfo) -> Size {
    Size::AtMost(Capacity::largest_printed_as(&info.printed_size).unwrap_or(Capacity::ZERO))
}
