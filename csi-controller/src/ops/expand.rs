//! `ControllerExpandVolume`: grows a block on all its hosts, and says so only when none lags behind.
//!
//! The size is rounded up to 4096 bytes, which suits every logical block size that a class can ask for; which one a block
//! has, `info` does not tell. Room is reserved before, as for a new block.

use std::sync::Arc;

use blockd_client::vocabulary::{Capacity, VolumeId};
use blockd_client::{BlockInfo, Error as BlockError};
use tokio::time::timeout;

use super::Operations;
use super::look::Listed;
use super::room::Inventory;
use crate::blocks::Blocks;
use crate::blocks::daemons::cannot_serve;
use crate::error::OperationError;
use crate::hosting::{Hosting, HostingVolumes};
use crate::placement::{Space, usable};

/// The sizes that a block can grow to are multiples of this.
pub const GRANULARITY: Capacity = Capacity::from_bytes(4096);

/// A volume to grow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpandVolume {
    /// The volume.
    pub id: VolumeId,
    /// To at least this; a multiple of [`GRANULARITY`].
    pub size: Capacity,
    /// And not beyond this.
    pub limit: Option<Capacity>,
}

/// What is known of a block's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// It has at least this.
    pub least: Capacity,
    /// It has at most this.
    pub most: Capacity,
    /// Whether some host shows an older size.
    pub lags: bool,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing; it has at least this.
    Done(Capacity),
    /// Ask for this size.
    Resize(Capacity),
    /// It is larger than the limit.
    AboveLimit(Capacity),
    /// Some hosts lag behind a size that is not known.
    Lags,
}

/// Decides what a request to grow comes to.
///
/// | the block | lags | exact size known | step |
/// |---|---|---|---|
/// | surely above the limit | | | `AboveLimit` |
/// | surely large enough | no | | `Done` |
/// | surely large enough | yes | yes | `Resize` to what it has: the same size again makes hosts follow |
/// | surely large enough | yes | no | `Lags` |
/// | perhaps or surely too small | | | `Resize`; gluster-block says if it is larger already |
#[must_use]
pub fn decide(known: Known, size: Capacity, limit: Option<Capacity>) -> Step {
    if limit.is_some_and(|limit| known.least > limit) {
        return Step::AboveLimit(known.least);
    }
    if known.least < size {
        return Step::Resize(size);
    }
    match (known.lags, known.least == known.most) {
        (false, _) => Step::Done(known.least),
        (true, true) => Step::Resize(known.least),
        (true, false) => Step::Lags,
    }
}

impl<H: HostingVolumes, B: Blocks> Operations<H, B> {
    /// Grows a volume; the answer is the size it has then.
    ///
    /// # Errors
    ///
    /// [`OperationError::NotGrown`] to try again; the errors of room.
    pub async fn expand(self, request: ExpandVolume) -> Result<Capacity, OperationError> {
        let id = request.id.clone();
        let Some((hosting, found)) = self.find(&id).await? else {
            return Err(OperationError::NotFound { id });
        };
        let size = match decide(self.known(&found), request.size, request.limit) {
            Step::Done(size) => return Ok(size),
            Step::Resize(size) => size,
            Step::AboveLimit(current) => {
                let limit = request.limit.unwrap_or(current);
                return Err(OperationError::AboveLimit { id, current, limit });
            }
            Step::Lags => return Err(OperationError::Lags { id }),
        };
        self.reserve_growth(&hosting, &found, size).await?;
        tracing::info!(%id, %size, "growing a block");
        let wanted = &id;
        let question =
            |blocks: Arc<B>, host| async move { blocks.resize(host, wanted, size).await };
        let outcome = self.ask("resize", &hosting, question).await;
        self.settle(id, size, outcome)
    }

    fn settle(
        &self,
        id: VolumeId,
        size: Capacity,
        outcome: Result<BlockInfo, OperationError>,
    ) -> Result<Capacity, OperationError> {
        let ledger = &self.shared.ledger;
        match outcome {
            Ok(found) => {
                ledger.note_exact(&found, size);
                ledger.release(&id);
                Ok(size)
            }
            Err(OperationError::Contents { source, .. }) => {
                if unchanged(&source) {
                    ledger.release(&id);
                }
                // Larger already, so large enough; how large, nobody says.
                if matches!(*source, BlockError::Shrink { .. }) {
                    return Ok(size);
                }
                Err(OperationError::NotGrown { id, source })
            }
            Err(error) => Err(error),
        }
    }

    fn known(&self, found: &BlockInfo) -> Known {
        let lags = !found.lagging.is_empty();
        if let Some(exact) = self.shared.ledger.exact(found) {
            return Known {
                least: exact,
                most: exact,
                lags,
            };
        }
        let (least, most) = (
            Capacity::smallest_printed_as(&found.printed_size),
            Capacity::largest_printed_as(&found.printed_size),
        );
        Known {
            least: least.unwrap_or(Capacity::ZERO),
            most: most.unwrap_or(Capacity::from_bytes(u64::MAX)),
            lags,
        }
    }

    /// Reserves what the block will have at the end; what it has already counts only once.
    async fn reserve_growth(
        &self,
        hosting: &Hosting,
        found: &BlockInfo,
        size: Capacity,
    ) -> Result<(), OperationError> {
        let id = found.id.clone();
        let largest = usable(hosting.size);
        if size > largest {
            return Err(OperationError::TooBigToGrow {
                id,
                wanted: size,
                largest,
            });
        }
        let inventory = self.inventory_of(hosting).await?;
        let turn = timeout(self.shared.policy.turn, self.shared.placing.lock());
        let _placing = turn.await.map_err(|_| OperationError::NoTurn)?;
        let spaces = self.spaces(&inventory).await?;
        let free = spaces.first().map_or(Capacity::ZERO, Space::free);
        // What an earlier attempt reserved counts as taken already.
        let claimed = self.shared.ledger.claimed(&id);
        let more = size.checked_sub(claimed).unwrap_or(Capacity::ZERO);
        if more > free {
            return Err(OperationError::NoRoomToGrow {
                id,
                wanted: size,
                free,
            });
        }
        self.shared.ledger.reserve(&id, size, Vec::new());
        Ok(())
    }

    async fn inventory_of(&self, hosting: &Hosting) -> Result<Inventory, OperationError> {
        let taken = tokio::time::Instant::now();
        let blocks = self.list_one(hosting).await?;
        let hosting = hosting.clone();
        Ok(Inventory {
            taken,
            listings: vec![Listed { hosting, blocks }],
        })
    }
}

/// Whether a failed resize surely left the block as it was.
fn unchanged(error: &BlockError) -> bool {
    matches!(
        error,
        BlockError::NoSpace { .. }
            | BlockError::Shrink { .. }
            | BlockError::BlockMissing { .. }
            | BlockError::VolumeMissing { .. }
            | BlockError::InvalidRequest { .. }
            | BlockError::HostDown { .. }
    ) || cannot_serve(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(least: u64, most: u64, lags: bool) -> Known {
        Known {
            least: Capacity::from_bytes(least),
            most: Capacity::from_bytes(most),
            lags,
        }
    }

    #[test]
    fn a_block_only_ever_grows() {
        let size = Capacity::from_bytes(100);
        let step = |known| decide(known, size, None);
        assert_eq!(step(known(50, 50, false)), Step::Resize(size));
        assert_eq!(step(known(90, 110, false)), Step::Resize(size));
        assert_eq!(step(known(100, 100, false)), Step::Done(size));
        let larger = Capacity::from_bytes(200);
        assert_eq!(step(known(200, 200, false)), Step::Done(larger));
    }

    #[test]
    fn hosts_that_lag_are_made_to_follow_with_the_same_size() {
        let size = Capacity::from_bytes(100);
        let step = |known| decide(known, size, None);
        assert_eq!(step(known(100, 100, true)), Step::Resize(size));
        assert_eq!(
            step(known(200, 200, true)),
            Step::Resize(Capacity::from_bytes(200))
        );
        assert_eq!(step(known(150, 200, true)), Step::Lags);
        assert_eq!(step(known(90, 110, true)), Step::Resize(size));
    }

    #[test]
    fn a_block_above_the_limit_is_out_of_range() {
        let (size, limit) = (Capacity::from_bytes(100), Capacity::from_bytes(150));
        let step = decide(known(200, 200, false), size, Some(limit));
        assert_eq!(step, Step::AboveLimit(Capacity::from_bytes(200)));
    }
}
