//! How many operations run at a time: eight by default, and one of the background cleaner beside them.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use super::model::Id;

/// On whose behalf an operation runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A client's.
    Normal,
    /// The background cleaner's: not counted against clients, but one at a time.
    Background,
}

#[derive(Debug, Default)]
struct Running {
    normal: HashSet<Id>,
    background: HashSet<Id>,
}

/// The operations that run now.
#[derive(Debug, Clone)]
pub struct Tracker {
    limit: usize,
    /// Held for single look-ups, never across an await.
    running: Arc<Mutex<Running>>,
}

impl Tracker {
    /// A tracker that admits `limit` operations of clients.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            running: Arc::default(),
        }
    }

    /// Admits an operation, or not: too many, or this one runs already.
    #[must_use]
    pub fn admit(&self, id: &Id, class: Class) -> Option<Admitted> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let known = running.normal.contains(id) || running.background.contains(id);
        let second_cleaner = class == Class::Background && !running.background.is_empty();
        if known || second_cleaner || running.normal.len() >= self.limit {
            return None;
        }
        match class {
            Class::Normal => running.normal.insert(id.clone()),
            Class::Background => running.background.insert(id.clone()),
        };
        Some(Admitted {
            id: id.clone(),
            running: Arc::clone(&self.running),
        })
    }

    /// Whether that operation runs now.
    #[must_use]
    pub fn runs(&self, id: &Id) -> bool {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.normal.contains(id) || running.background.contains(id)
    }

    /// How many run now.
    #[must_use]
    pub fn count(&self) -> usize {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running
            .normal
            .len()
            .saturating_add(running.background.len())
    }
}

/// The right to run; gives the place back when dropped.
#[derive(Debug)]
pub struct Admitted {
    id: Id,
    running: Arc<Mutex<Running>>,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.normal.remove(&self.id);
        running.background.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ninth_operation_is_turned_away_until_one_ends() {
        let tracker = Tracker::new(8);
        let mut running: Vec<_> = (0..8)
            .map(|_| tracker.admit(&Id::random(), Class::Normal).expect("place"))
            .collect();

        assert!(tracker.admit(&Id::random(), Class::Normal).is_none());
        running.pop();
        assert!(tracker.admit(&Id::random(), Class::Normal).is_some());
    }

    #[test]
    fn the_cleaner_takes_no_place_from_clients() {
        let tracker = Tracker::new(1);
        let _cleaner = tracker
            .admit(&Id::random(), Class::Background)
            .expect("place");

        assert!(tracker.admit(&Id::random(), Class::Background).is_none());
        assert!(tracker.admit(&Id::random(), Class::Normal).is_some());
    }
}
