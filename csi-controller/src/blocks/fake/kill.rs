//! The death of a process at a chosen step, as its backends see it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Kills a modelled process at its n-th step: from there on nothing it does comes to an end.
#[derive(Debug, Clone, Default)]
pub struct Kill {
    inner: Arc<KillState>,
}

#[derive(Debug, Default)]
struct KillState {
    steps: Mutex<(usize, Option<usize>)>,
    died: Notify,
}

impl Kill {
    /// Kills at the n-th step, counted from one.
    #[must_use]
    pub fn at(step: usize) -> Self {
        let kill = Self::default();
        kill.steps().1 = Some(step);
        kill
    }

    /// How many steps there were.
    #[must_use]
    pub fn count(&self) -> usize {
        self.steps().0
    }

    /// Waits for the death.
    pub async fn died(&self) {
        self.inner.died.notified().await;
    }

    /// One step: before and after everything that changes something.
    pub async fn step(&self) {
        let dead = {
            let mut steps = self.steps();
            steps.0 += 1;
            steps.1.is_some_and(|at| steps.0 >= at)
        };
        if dead {
            self.inner.died.notify_one();
            std::future::pending::<()>().await;
        }
    }

    fn steps(&self) -> MutexGuard<'_, (usize, Option<usize>)> {
        self.inner
            .steps
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
