//! Whether a process is ready, and if not, why: it is ready when nobody objects.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The objections to being ready. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Readiness {
    // A std mutex: taken for the length of one map operation, never across an await.
    objections: Arc<Mutex<Objections>>,
}

#[derive(Debug, Default)]
struct Objections {
    next: u64,
    reasons: BTreeMap<u64, String>,
}

/// Something that has to happen once before the process is ready: not ready while this lives.
#[derive(Debug)]
#[must_use = "the process is ready again as soon as the latch is dropped"]
pub struct Latch {
    _objection: Objection,
}

/// Something that has to hold for the process to be ready, and may come and go.
///
/// It objects until the first [`ok`](Self::ok): what has not been checked is not known to hold. Dropped, it no longer
/// objects.
#[derive(Debug)]
#[must_use = "a dropped condition no longer objects"]
pub struct Condition {
    name: &'static str,
    objection: Objection,
}

#[derive(Debug)]
struct Objection {
    id: u64,
    readiness: Readiness,
}

impl Readiness {
    /// Objects for `reason` until the latch is dropped.
    pub fn latch(&self, reason: &'static str) -> Latch {
        let objection = self.objection();
        objection.raise(reason.to_owned());
        Latch {
            _objection: objection,
        }
    }

    /// A condition that is not checked yet.
    pub fn condition(&self, name: &'static str) -> Condition {
        let objection = self.objection();
        let condition = Condition { name, objection };
        condition.fail("not checked yet");
        condition
    }

    /// The objections, oldest first; none means ready.
    #[must_use]
    pub fn reasons(&self) -> Vec<String> {
        self.lock().reasons.values().cloned().collect()
    }

    /// Whether nobody objects.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.lock().reasons.is_empty()
    }

    fn objection(&self) -> Objection {
        let mut objections = self.lock();
        objections.next += 1;
        Objection {
            id: objections.next,
            readiness: self.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Objections> {
        self.objections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Latch {
    /// It has happened. The same as dropping the latch, in a word.
    pub fn release(self) {
        drop(self);
    }
}

impl Condition {
    /// It holds.
    pub fn ok(&self) {
        self.objection.withdraw();
    }

    /// It does not hold.
    pub fn fail(&self, reason: impl fmt::Display) {
        self.objection.raise(format!("{}: {reason}", self.name));
    }
}

impl Objection {
    fn raise(&self, reason: String) {
        self.readiness.lock().reasons.insert(self.id, reason);
    }

    fn withdraw(&self) {
        self.readiness.lock().reasons.remove(&self.id);
    }
}

impl Drop for Objection {
    fn drop(&mut self) {
        self.withdraw();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_nobody_objects_to_is_ready() {
        assert!(Readiness::default().is_ready());
    }

    #[test]
    fn it_is_ready_when_the_last_latch_is_gone() {
        let readiness = Readiness::default();
        let first = readiness.latch("starting");
        let second = readiness.clone().latch("reading the journal");

        assert_eq!(readiness.reasons(), ["starting", "reading the journal"]);
        drop(first);
        assert_eq!(readiness.reasons(), ["reading the journal"]);
        second.release();

        assert!(readiness.is_ready());
    }

    #[test]
    fn a_condition_objects_until_it_was_found_to_hold_and_whenever_it_fails() {
        let readiness = Readiness::default();
        let condition = readiness.condition("iscsid");

        assert_eq!(readiness.reasons(), ["iscsid: not checked yet"]);
        condition.ok();
        assert!(readiness.is_ready());
        condition.fail("does not answer");
        condition.fail("is gone");
        assert_eq!(readiness.reasons(), ["iscsid: is gone"]);
        condition.ok();

        assert!(readiness.is_ready());
    }

    #[test]
    fn a_dropped_condition_no_longer_objects() {
        let readiness = Readiness::default();
        drop(readiness.condition("iscsid"));

        assert!(readiness.is_ready());
    }
}
