//! System calls and children that may never come back, and the account of those that did not.
//!
//! A mount, a `statvfs` or a write to sysfs on a dead disk can sleep in the kernel beyond any signal. Such a call gets a
//! thread of its own and a deadline: when it is late the caller goes on, the thread is never joined, and what it was
//! about is refused until it has come back (P06, P07). The number of threads left behind is bounded.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::HostError;

/// Most calls and children that may be stuck at one time. A host that has more of them needs a person.
const STUCK_LIMIT: usize = 64;

/// What is stuck, by subject. Clones share one account.
///
/// A `std` mutex: held for a map operation, never across an await.
#[derive(Debug, Clone, Default)]
pub struct Stuck {
    subjects: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl Stuck {
    /// The right to start something about this subject.
    ///
    /// # Errors
    ///
    /// [`HostError::Busy`] while something earlier about it is stuck, or too much is stuck altogether.
    pub fn claim(&self, subject: &str) -> Result<Claim, HostError> {
        let subjects = self.lock();
        let busy = |detail: String| HostError::Busy {
            what: subject.to_owned(),
            detail,
        };
        if subjects.contains_key(subject) {
            return Err(busy(
                "an earlier call about it has not come back".to_owned(),
            ));
        }
        if subjects.values().sum::<usize>() >= STUCK_LIMIT {
            let names: Vec<_> = subjects.keys().map(String::as_str).collect();
            return Err(busy(format!(
                "too many calls have not come back: {}",
                names.join(", ")
            )));
        }
        Ok(Claim {
            account: self.clone(),
            subject: subject.to_owned(),
        })
    }

    /// The subjects of what is stuck now.
    #[must_use]
    pub fn subjects(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// Runs a blocking call on a thread of its own, and waits for it until `limit`.
    ///
    /// # Errors
    ///
    /// [`HostError::Deadline`] when it is late, [`HostError::Busy`] when an earlier one is, [`HostError::Lost`] when it
    /// panicked or no thread could be had; and whatever the call itself answers.
    pub async fn call<T: Send + 'static>(
        &self,
        subject: &str,
        limit: Duration,
        call: impl FnOnce() -> Result<T, HostError> + Send + 'static,
    ) -> Result<T, HostError> {
        let claim = self.claim(subject)?;
        let late = Arc::new(Mutex::new(Phase::Running));
        let phase = Arc::clone(&late);
        let (answer, answered) = oneshot::channel();
        let lost = |detail: String| HostError::Lost {
            what: subject.to_owned(),
            detail,
        };
        std::thread::Builder::new()
            .name("bounded".to_owned())
            .spawn(move || {
                // The caller may have given up: then nobody wants the answer.
                let _ = answer.send(call());
                let mut phase = phase.lock().unwrap_or_else(PoisonError::into_inner);
                *phase = Phase::Ended;
            })
            .map_err(|error| lost(error.to_string()))?;
        match timeout(limit, answered).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(lost("the thread panicked".to_owned())),
            Err(_) => {
                let mut phase = late.lock().unwrap_or_else(PoisonError::into_inner);
                if matches!(*phase, Phase::Running) {
                    *phase = Phase::Late(claim.stuck());
                }
                Err(HostError::Deadline {
                    what: subject.to_owned(),
                    limit,
                })
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.subjects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a bounded call is. The thread drops the mark of a late call when it comes back.
enum Phase {
    Running,
    Late(#[expect(dead_code, reason = "counts by living")] Mark),
    Ended,
}

/// The right to start something about one subject.
#[derive(Debug)]
pub struct Claim {
    account: Stuck,
    subject: String,
}

impl Claim {
    /// Enters the subject into the account, for as long as the mark lives.
    #[must_use]
    pub fn stuck(self) -> Mark {
        *self.account.lock().entry(self.subject.clone()).or_default() += 1;
        Mark {
            account: self.account,
            subject: self.subject,
        }
    }
}

/// Something is stuck.
#[derive(Debug)]
pub struct Mark {
    account: Stuck,
    subject: String,
}

impl Drop for Mark {
    fn drop(&mut self) {
        let mut subjects = self.account.lock();
        if let Some(count) = subjects.get_mut(&self.subject) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                subjects.remove(&self.subject);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const SOON: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn a_call_in_time_answers() {
        let answer = Stuck::default()
            .call("sda", Duration::from_secs(5), || Ok(7))
            .await;
        assert_eq!(answer.unwrap(), 7);
    }

    #[tokio::test]
    async fn a_late_call_is_left_behind_and_its_subject_refused_until_it_comes_back() {
        // P06, P07
        let stuck = Stuck::default();
        let (release, held) = mpsc::channel::<()>();
        let late = stuck
            .call("sda", SOON, move || {
                let _ = held.recv();
                Ok(())
            })
            .await;
        assert!(matches!(late, Err(HostError::Deadline { .. })));
        assert_eq!(stuck.subjects(), ["sda"]);

        let again = stuck.call("sda", SOON, || Ok(())).await;
        assert!(matches!(again, Err(HostError::Busy { .. })));
        assert!(
            stuck
                .call("sdb", Duration::from_secs(5), || Ok(()))
                .await
                .is_ok()
        );

        release.send(()).unwrap();
        while !stuck.subjects().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(
            stuck
                .call("sda", Duration::from_secs(5), || Ok(()))
                .await
                .is_ok()
        );
    }

    #[tokio::test]
    async fn a_panic_is_an_answer() {
        let lost = Stuck::default()
            .call(
                "sda",
                Duration::from_secs(5),
                || -> Result<(), HostError> { panic!("oops") },
            )
            .await;
        assert!(matches!(lost, Err(HostError::Lost { .. })));
    }

    #[tokio::test]
    async fn only_so_many_may_be_stuck() {
        let stuck = Stuck::default();
        let claims: Vec<_> = (0..STUCK_LIMIT)
            .map(|n| stuck.claim(&format!("sd{n}")).unwrap().stuck())
            .collect();
        assert!(matches!(stuck.claim("other"), Err(HostError::Busy { .. })));
        drop(claims);
        assert!(stuck.claim("other").is_ok());
    }
}
