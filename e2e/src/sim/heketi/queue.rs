//! The queue of asynchronous answers: each can be read once, and only from the server that began the work.
//!
//! Kept in memory only: after a restart, as after the first read of a finished entry, `GET /queue/{id}` says 404, which
//! means *outcome unknown* and never *failed* (`reference/heketi-gd2.md` §1.3).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::model::Id;

/// How a piece of work ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// There is a resource to read at that path.
    SeeOther(String),
    /// Done, nothing to read.
    NoContent,
    /// Failed, with that text.
    Failed(String),
}

/// What the queue says about an id.
#[derive(Debug, PartialEq, Eq)]
pub enum Poll {
    /// Never existed, already collected, or from before a restart.
    Unknown,
    /// Still running.
    Pending,
    /// Done; the entry is gone now.
    Done(Outcome),
}

/// The entries by id; `None` while the work runs.
#[derive(Debug, Default)]
pub struct Queue {
    /// Held for single look-ups, never across an await.
    entries: Mutex<HashMap<Id, Option<Outcome>>>,
}

impl Queue {
    /// A new entry for work that is about to run.
    pub fn open(&self) -> Id {
        let id = Id::random();
        self.entries
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id.clone(), None);
        id
    }

    /// Records how the work ended.
    pub fn close(&self, id: &Id, outcome: Outcome) {
        self.entries
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id.clone(), Some(outcome));
    }

    /// Reads an entry; a finished one is removed by this.
    pub fn poll(&self, id: &Id) -> Poll {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        match entries.remove(id) {
            None => Poll::Unknown,
            Some(Some(outcome)) => Poll::Done(outcome),
            Some(None) => {
                entries.insert(id.clone(), None);
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_can_be_read_once() {
        let queue = Queue::default();
        let id = queue.open();

        assert_eq!(queue.poll(&id), Poll::Pending);
        queue.close(&id, Outcome::NoContent);

        assert_eq!(queue.poll(&id), Poll::Done(Outcome::NoContent));
        assert_eq!(queue.poll(&id), Poll::Unknown);
    }
}
