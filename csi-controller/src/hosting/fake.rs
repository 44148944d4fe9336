//! Hosting volumes in memory, with failure switches.
//!
//! Shared by its clones, like a backend by controllers: a new controller over a clone is a restarted one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use blockd_client::vocabulary::{Capacity, HostAddress};

use super::{ClusterId, Hosting, HostingError, HostingVolumes, Room};
use crate::blocks::fake::Kill;
use crate::placement::usable;

/// A modelled backend with one cluster.
#[derive(Debug, Clone)]
pub struct FakeHosting {
    state: Arc<Mutex<State>>,
    kill: Kill,
}

#[derive(Debug)]
struct State {
    volumes: Vec<Hosting>,
    made: usize,
    hosts: Vec<HostAddress>,
    capacity: Capacity,
    failures: VecDeque<(Verb, Fault)>,
    slow: Duration,
}

/// What can be asked of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// `list`
    List,
    /// `create`
    Create,
    /// `room`
    Room,
}

/// What can go wrong once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is done, and it says so.
    Unreachable,
    /// Nothing is done, credentials are refused.
    Unauthorized,
    /// It is done, and the answer is lost.
    LostAnswer,
}

impl FakeHosting {
    /// A backend with these hosts and that much room.
    #[must_use]
    pub fn new(hosts: Vec<HostAddress>, capacity: Capacity, kill: Kill) -> Self {
        let state = State {
            volumes: Vec::new(),
            made: 0,
            hosts,
            capacity,
            failures: VecDeque::new(),
            slow: Duration::ZERO,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            kill,
        }
    }

    /// The same backend, as a new process sees it.
    #[must_use]
    pub fn restarted(&self, kill: Kill) -> Self {
        let state = Arc::clone(&self.state);
        Self { state, kill }
    }

    /// The next request of that kind fails so.
    pub fn fail(&self, verb: Verb, fault: Fault) {
        self.state().failures.push_back((verb, fault));
    }

    /// Nothing goes wrong from now on.
    pub fn clear_faults(&self) {
        self.state().failures.clear();
    }

    /// How long making a volume takes.
    pub fn slow(&self, time: Duration) {
        self.state().slow = time;
    }

    /// The volumes there are.
    #[must_use]
    pub fn volumes(&self) -> Vec<Hosting> {
        self.state().volumes.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fault(&self, verb: Verb) -> Option<Fault> {
        let mut state = self.state();
        let position = state.failures.iter().position(|(v, _)| *v == verb)?;
        state.failures.remove(position).map(|(_, fault)| fault)
    }

    fn refuse(&self, verb: Verb) -> Result<Option<Fault>, HostingError> {
        match self.fault(verb) {
            Some(Fault::Unreachable) => Err(HostingError::Unreachable {
                url: "http://fake".to_owned(),
                setting: "--heketi-url",
                source: "connection refused".into(),
            }),
            Some(Fault::Unauthorized) => Err(HostingError::Unauthorized {
                setting: "--heketi-key-file",
                said: "Invalid JWT token".to_owned(),
            }),
            other => Ok(other),
        }
    }
}

/// The one cluster there is.
fn cluster() -> ClusterId {
    ClusterId("c1".to_owned())
}

impl State {
    fn left(&self) -> Capacity {
        let made = self.volumes.iter().map(|volume| volume.size.bytes()).sum();
        self.capacity
            .checked_sub(Capacity::from_bytes(made))
            .unwrap_or(Capacity::ZERO)
    }

    fn make(&mut self, size: Capacity) -> Result<Hosting, HostingError> {
        if size > self.left() {
            return Err(HostingError::NoSpace {
                size,
                said: "No space".to_owned(),
            });
        }
        self.made += 1;
        let name = format!("fake_{}", self.made);
        let name = name.parse().map_err(|_| HostingError::Protocol {
            what: "the fake".to_owned(),
            why: "a name".to_owned(),
        })?;
        let volume = Hosting {
            name,
            size,
            hosts: self.hosts.clone(),
            cluster: cluster(),
        };
        self.volumes.push(volume.clone());
        Ok(volume)
    }
}

impl HostingVolumes for FakeHosting {
    async fn list(&self) -> Result<Vec<Hosting>, HostingError> {
        self.refuse(Verb::List)?;
        Ok(self.volumes())
    }

    async fn create(&self, size: Capacity, _: &[ClusterId]) -> Result<Hosting, HostingError> {
        self.kill.step().await;
        let fault = self.refuse(Verb::Create)?;
        let slow = self.state().slow;
        if slow > Duration::ZERO {
            tokio::time::sleep(slow).await;
        }
        let made = self.state().make(size)?;
        self.kill.step().await;
        if fault == Some(Fault::LostAnswer) {
            return Err(HostingError::Unknown {
                what: format!("hosting volume {}", made.name),
                why: "the answer was lost".to_owned(),
            });
        }
        Ok(made)
    }

    async fn room(&self, clusters: &[ClusterId]) -> Result<Vec<Room>, HostingError> {
        self.refuse(Verb::Room)?;
        if !clusters.is_empty() && !clusters.contains(&cluster()) {
            return Ok(Vec::new());
        }
        let state = self.state();
        Ok(vec![Room {
            cluster: cluster(),
            hosts: state.hosts.iter().copied().collect(),
            largest: usable(state.left()),
        }])
    }
}
