//! ListVolumes: all blocks of our hosting volumes, in the order of their ids, in pages.
//!
//! The token is the last id of the page before, so pages stay right while volumes come and go between them.

use std::ops::Bound;

use blockd_client::vocabulary::{Capacity, VolumeId};

use super::{OpError, Operations};
use crate::blocks::Blocks;
use crate::hosting::HostingVolumes;
use crate::ledger::Size;

/// A page of volumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Ids, and sizes where they are known to the byte.
    pub volumes: Vec<(VolumeId, Option<Capacity>)>,
    /// The token of the next page, if there is one.
    pub next: Option<String>,
}

/// What a token begins with, so that a foreign one is known.
const TOKEN: &str = "after:";

impl<H: HostingVolumes, B: Blocks> Operations<H, B> {
    /// The page after `token`, of `limit` volumes at most; zero is no limit.
    ///
    /// # Errors
    /// `Token` for one that was never given out.
    pub async fn list(&self, token: &str, limit: usize) -> Result<Page, OpError> {
        let start = start(token)?;
        let mut all = std::collections::BTreeSet::new();
        for hosting in self.inner.hosting.list().await.map_err(OpError::Backend)? {
            let host = self.reach(&hosting).await?;
            let _turn = self.turn(&hosting).await?;
            let names = self.inner.blocks.list(host, &hosting.name).await;
            let names = names.map_err(|error| OpError::block("list", error))?;
            all.extend(
                names
                    .into_iter()
                    .map(|name| VolumeId::new(hosting.name.clone(), name)),
            );
        }
        let from = start.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = all.range((from, Bound::Unbounded)).cloned();
        let page: Vec<_> = rest
            .by_ref()
            .take(if limit == 0 { usize::MAX } else { limit })
            .collect();
        let next = rest
            .next()
            .and(page.last())
            .map(|last| format!("{TOKEN}{last}"));
        let volumes = page.into_iter().map(|id| {
            let exact = match self.inner.ledger.size(&id) {
                Some(Size::Exact(size)) => Some(size),
                _ => None,
            };
            (id, exact)
        });
        Ok(Page {
            volumes: volumes.collect(),
            next,
        })
    }
}

fn start(token: &str) -> Result<Option<VolumeId>, OpError> {
    if token.is_empty() {
        return Ok(None);
    }
    let id = token.strip_prefix(TOKEN).and_then(|id| id.parse().ok());
    id.map(Some).ok_or_else(|| OpError::Token {
        token: token.to_owned(),
    })
}
