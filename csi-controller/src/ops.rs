//! The operations: what a volume's life consists of, above the ports and below the messages.
//!
//! | operation | decided by | effects |
//! |---|---|---|
//! | [`create`] | `create::decide`, [`placement::place`](crate::placement::place) | hosting volume, block |
//! | [`delete`] | | block |
//! | [`publish`] | `publish::decide` | none outside this process |
//! | [`expand`] | `expand::decide` | block |
//! | [`list`], [`validate`], [`capacity`] | | none |
//!
//! Each may be killed at any point; repeating it ends the same way. An operation assumes that no other one works on the same
//! block: whoever calls holds the guard of the block's name.

use std::sync::Arc;
use std::time::Duration;

use blockd_client::vocabulary::{Capacity, SealingKeys};
use tokio::sync::Mutex;

use crate::blocks::Blocks;
use crate::blocks::daemons::Daemons;
use crate::error::OperationError;
use crate::hosting::{ClusterId, HostingVolumes};
use crate::ledger::Ledger;
use crate::metrics::SpaceMetrics;
use crate::params::Parameters;
use crate::placement::Rules;

pub mod capacity;
pub mod create;
pub mod delete;
pub mod expand;
pub mod list;
mod look;
pub mod publish;
mod room;
pub mod validate;

/// The operations on these two backends. Clones share everything.
#[derive(Debug)]
pub struct Operations<H, B> {
    pub(crate) hosting: Arc<H>,
    pub(crate) daemons: Daemons<B>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    ledger: Ledger,
    publications: publish::Publications,
    keys: Option<SealingKeys>,
    policy: Policy,
    spaces: SpaceMetrics,
    /// Held from looking at the room there is to reserving some: one decision at a time.
    placing: Mutex<()>,
    /// Held while a hosting volume is made: one at a time, and whoever waited looks for room again first.
    growing: Mutex<()>,
}

/// What the operator decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The clusters to use; none means all.
    pub clusters: Vec<ClusterId>,
    /// How hosting volumes are chosen and made.
    pub rules: Rules,
    /// How long a placement waits for its turn.
    pub turn: Duration,
}

impl<H, B> Clone for Operations<H, B> {
    fn clone(&self) -> Self {
        Self {
            hosting: Arc::clone(&self.hosting),
            daemons: self.daemons.clone(),
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<H: HostingVolumes, B: Blocks> Operations<H, B> {
    /// Operations with an empty ledger, as after every start.
    pub fn new(
        hosting: H,
        daemons: Daemons<B>,
        keys: Option<SealingKeys>,
        policy: Policy,
        spaces: SpaceMetrics,
    ) -> Self {
        let shared = Shared {
            ledger: Ledger::default(),
            publications: publish::Publications::default(),
            keys,
            policy,
            spaces,
            placing: Mutex::default(),
            growing: Mutex::default(),
        };
        Self {
            hosting: Arc::new(hosting),
            daemons,
            shared: Arc::new(shared),
        }
    }

    /// The clusters that a class may use: those it names, or all that the operator allows.
    fn clusters(&self, class: &Parameters) -> Result<Vec<ClusterId>, OperationError> {
        let allowed = &self.shared.policy.clusters;
        let foreign = class.clusters.iter().find(|id| !allowed.contains(id));
        match foreign {
            Some(cluster) if !allowed.is_empty() => Err(OperationError::ClusterNotAllowed {
                cluster: cluster.clone(),
            }),
            _ if class.clusters.is_empty() => Ok(allowed.clone()),
            _ => Ok(class.clusters.clone()),
        }
    }
}

/// What a request says about size; both ends in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapacityRange {
    /// At least that.
    pub required: Option<Capacity>,
    /// At most that.
    pub limit: Option<Capacity>,
}

/// The size of a volume whose request leaves it open.
pub const DEFAULT_SIZE: Capacity = Capacity::from_bytes(1 << 30);

/// A size that cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "no multiple of {granularity} bytes lies within capacity_range: required {required}, limit {limit}"
)]
pub struct NoSuchSize {
    required: Capacity,
    limit: Capacity,
    granularity: u64,
}

impl CapacityRange {
    /// The smallest size in the range that is a multiple of `granularity`; the default, or what the limit leaves of it, where
    /// nothing is required.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn choose(self, granularity: Capacity) -> Result<Capacity, NoSuchSize> {
        let limit = self.limit.unwrap_or(Capacity::from_bytes(u64::MAX));
        let floor = |size: Capacity| {
            let over = size.bytes().checked_rem(granularity.bytes()).unwrap_or(0);
            Capacity::from_bytes(size.bytes() - over)
        };
        let required = self.required.unwrap_or(DEFAULT_SIZE.min(floor(limit)));
        let size = required.round_up(granularity).filter(|size| {
            // CSI counts in signed numbers.
            *size <= limit && *size > Capacity::ZERO && i64::try_from(size.bytes()).is_ok()
        });
        size.ok_or(NoSuchSize {
            required,
            limit,
            granularity: granularity.bytes(),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(required: Option<u64>, limit: Option<u64>) -> CapacityRange {
        CapacityRange {
            required: required.map(Capacity::from_bytes),
            limit: limit.map(Capacity::from_bytes),
        }
    }

    fn chosen(required: Option<u64>, limit: Option<u64>) -> Option<u64> {
        let granularity = Capacity::from_bytes(512);
        range(required, limit)
            .choose(granularity)
            .ok()
            .map(Capacity::bytes)
    }

    #[test]
    fn a_size_is_rounded_up_and_never_above_the_limit() {
        assert_eq!(chosen(Some(1000), None), Some(1024));
        assert_eq!(chosen(Some(1000), Some(1024)), Some(1024));
        assert_eq!(chosen(Some(1000), Some(1023)), None);
        assert_eq!(chosen(None, None), Some(1 << 30));
        assert_eq!(chosen(None, Some(1500)), Some(1024));
        assert_eq!(chosen(None, Some(100)), None);
        assert_eq!(chosen(Some(u64::MAX), None), None);
    }

    proptest! {
        #[test]
        fn a_chosen_size_is_in_the_range(required in any::<Option<u64>>(), limit in any::<Option<u64>>(), shift in 0_u32..4) {
            let granularity = Capacity::from_bytes(512 << shift);
            if let Ok(size) = range(required, limit).choose(granularity) {
                prop_assert!(size.bytes() >= required.unwrap_or(0) && size.bytes() <= limit.unwrap_or(u64::MAX));
                prop_assert_eq!(size.bytes() % granularity.bytes(), 0);
            }
        }
    }
}
