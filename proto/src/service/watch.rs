//! Looks from time to time whether what a process depends on is there: sooner while it is not.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// Between two looks at what is there.
const WELL: Duration = Duration::from_mins(1);

/// How to look, and what to say when the outcome changes.
#[derive(Debug, Clone, Copy)]
pub struct Watch {
    /// The log line when all is well.
    pub well: &'static str,
    /// The log line, with the reason, when it is not.
    pub unwell: &'static str,
    /// Between two looks while it is not.
    pub retry: Duration,
}

impl Watch {
    /// Looks until `shutdown`. The reason for an outcome that stays the same is logged once.
    pub async fn run<F, L>(self, mut look: F, shutdown: CancellationToken)
    where
        F: FnMut() -> L,
        L: Future<Output = Result<(), String>>,
    {
        let mut last = None;
        while !shutdown.is_cancelled() {
            let outcome = look().await;
            if last.as_ref() != Some(&outcome) {
                match &outcome {
                    Ok(()) => tracing::info!("{}", self.well),
                    Err(reason) => tracing::warn!(reason, "{}", self.unwell),
                }
            }
            let pause = if outcome.is_ok() { WELL } else { self.retry };
            last = Some(outcome);
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn it_looks_again_soon_while_all_is_not_well_and_ends_when_told() {
        let looks = AtomicU32::new(0);
        let shutdown = CancellationToken::new();
        let watch = Watch {
            well: "well",
            unwell: "unwell",
            retry: Duration::from_millis(1),
        };
        let look = || async {
            if looks.fetch_add(1, Ordering::Relaxed) < 3 {
                return Err("not yet".to_owned());
            }
            shutdown.cancel();
            Ok(())
        };
        watch.run(look, shutdown.clone()).await;
        assert_eq!(looks.load(Ordering::Relaxed), 4);
    }
}
