//! Taking one's turn at a volume.
//!
//! Stage, unstage and expand are refused with ABORTED while anything else runs on the volume. Publications are short and
//! come in crowds: many pods of one volume start on one node at once (P11), so those wait a little first. The wait
//! is far below half of kubelet's deadline (P10), and a caller that gives up while waiting has begun nothing.

use std::time::Duration;

use proto::in_flight::{Busy, VolumeGuard, VolumeLocks};
use tokio::time::{Instant, sleep};

/// Takes the volume, waiting for it up to a limit.
///
/// # Errors
///
/// [`Busy`] when the limit is over.
pub(super) async fn wait_for(locks: &VolumeLocks, id: &str) -> Result<VolumeGuard, Busy> {
    let end = Instant::now() + LIMIT;
    loop {
        match locks.try_acquire(id) {
            Ok(guard) => return Ok(guard),
            Err(busy) if Instant::now() >= end => return Err(busy),
            Err(_) => sleep(POLL).await,
        }
    }
}

const LIMIT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_turn_comes_when_the_other_ends_and_aborted_when_it_does_not() {
        let locks = VolumeLocks::default();
        let guard = locks.try_acquire("v").unwrap();
        let other = tokio::spawn({
            let locks = locks.clone();
            async move { wait_for(&locks, "v").await }
        });
        sleep(Duration::from_secs(1)).await;
        drop(guard);
        let _held = other.await.unwrap().unwrap();
        assert!(wait_for(&locks, "v").await.is_err());
    }
}
