//! Node operations: observe the host, decide the next step, perform it, until nothing is left to do.
//!
//! | operation                | decides                        | on                                      |
//! |--------------------------|--------------------------------|-----------------------------------------|
//! | [`Operations::stage`]    | [`stage::next_step`]           | journal, sessions, paths, map, mounts   |
//! | [`Operations::unstage`]  | [`unstage::next_step`]         | the same, downwards                     |
//! | [`Operations::publish`]  | [`publish::next_step`]         | the mounts of the map                   |
//! | [`Operations::unpublish`]| the mounts at the target path  | the mount table alone                   |
//! | [`Operations::expand`]   | [`expand::next_step`]          | paths, map, file system                 |
//! | [`Operations::stats`]    | nothing                        | the mount table, statvfs                |
//!
//! Deciding functions are pure; whatever cannot be seen in sysfs and must be remembered within one run is in a `Tried`.
//! Deadlines belong to single effects and are the host's business; loops are bounded by a number of steps.

use std::sync::Arc;
use std::time::Duration;

use blockd_client::vocabulary::SealingKeys;

use crate::host::Host;
use crate::record::Journal;

use self::attach::Patience;

pub mod attach;
#[cfg(test)]
mod crash_tests;
pub mod expand;
#[cfg(test)]
mod fixture;
pub mod info;
pub mod observe;
#[cfg(test)]
mod properties;
pub mod publish;
pub mod stage;
pub mod stats;
pub mod tidy;
pub mod unpublish;
pub mod unstage;

/// What operations need: a host, a journal, keys, and how long to wait.
#[derive(Debug, Clone)]
pub struct Operations<H> {
    host: H,
    journal: Journal,
    keys: Option<Arc<SealingKeys>>,
    waiting: Waiting,
}

/// How long to wait for what the kernel and multipathd do on their own.
#[derive(Debug, Clone, Copy)]
pub struct Waiting {
    /// Between two looks.
    pub poll: Duration,
    /// For paths to show after a scan.
    pub paths: Duration,
    /// For a map to be complete, or to be gone.
    pub map: Duration,
}

impl Default for Waiting {
    fn default() -> Self {
        Self {
            poll: Duration::from_millis(250),
            paths: Duration::from_secs(10),
            map: Duration::from_secs(30),
        }
    }
}

impl Waiting {
    fn patience(&self) -> Patience {
        Patience {
            paths: self.looks(self.paths),
            map: self.looks(self.map),
        }
    }

    fn looks(&self, limit: Duration) -> u32 {
        let poll = self.poll.as_millis().max(1);
        u32::try_from(limit.as_millis() / poll).unwrap_or(u32::MAX)
    }
}

impl<H: Host> Operations<H> {
    /// Operations on `host` that remember in `journal` and open credentials with `keys`.
    #[must_use]
    pub fn new(
        host: H,
        journal: Journal,
        keys: Option<Arc<SealingKeys>>,
        waiting: Waiting,
    ) -> Self {
        Self {
            host,
            journal,
            keys,
            waiting,
        }
    }

    /// The host.
    #[must_use]
    pub fn host(&self) -> &H {
        &self.host
    }

    /// The journal.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    async fn pause(&self) {
        tokio::time::sleep(self.waiting.poll).await;
    }
}

/// No operation takes more steps than this; one that would is stuck.
const STEP_LIMIT: u32 = 600;
