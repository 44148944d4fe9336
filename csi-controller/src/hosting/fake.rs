//! A backend in memory: keeps hosting volumes and can be told to fail.

use std::sync::{Arc, Mutex, PoisonError};

use blockd_client::vocabulary::{Capacity, HostAddress, HostingVolume};

use super::{Hosting, HostingError, HostingVolumes, Ownership};

/// The backend; clones share it, as controllers that were killed and started again share a real one.
#[derive(Debug, Clone, Default)]
pub struct FakeBackend {
    // Held for single reads and writes only.
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    ours: Vec<Hosting>,
    foreign: Vec<HostingVolume>,
    room_gib: u64,
    failures: Vec<HostingError>,
    made: u32,
    hosts: Vec<HostAddress>,
}

impl FakeBackend {
    /// A backend on these storage hosts with room for so many GiB of hosting volumes.
    #[must_use]
    pub fn new(hosts: &[HostAddress], room_gib: u64) -> Self {
        let fake = Self::default();
        fake.with(|state| {
            state.hosts = hosts.to_vec();
            state.room_gib = room_gib;
        });
        fake
    }

    /// The next call fails so.
    pub fn fail_next(&self, error: HostingError) {
        self.with(|state| state.failures.push(error));
    }

    /// Adds a hosting volume that is somebody else's.
    pub fn add_foreign(&self, name: &HostingVolume) {
        self.with(|state| state.foreign.push(name.clone()));
    }

    /// How many hosting volumes were made.
    #[must_use]
    pub fn made(&self) -> u32 {
        self.with(|state| state.made)
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn fault(&self) -> Result<(), HostingError> {
        self.with(|state| state.failures.pop()).map_or(Ok(()), Err)
    }
}

impl HostingVolumes for FakeBackend {
    async fn list(&self) -> Result<Vec<Hosting>, HostingError> {
        self.fault()?;
        Ok(self.with(|state| state.ours.clone()))
    }

    async fn find(&self, name: &HostingVolume) -> Result<Ownership, HostingError> {
        self.fault()?;
        Ok(self.with(|state| {
            let ours = state
                .ours
                .iter()
                .find(|hosting| hosting.name == *name)
                .cloned();
            match ours {
                Some(hosting) => Ownership::Ours(hosting),
                None if state.foreign.contains(name) => Ownership::Foreign,
                None => Ownership::Absent,
            }
        }))
    }

    async fn create(&self, gib: u64) -> Result<Hosting, HostingError> {
        self.fault()?;
        self.with(|state| {
            let no_room = || HostingError::NoRoom {
                reason: "No space".to_owned(),
            };
            state.room_gib = state.room_gib.checked_sub(gib).ok_or_else(no_room)?;
            state.made += 1;
            let name = format!("hv-{}", state.made)
                .parse()
                .map_err(|_| no_room())?;
            let size = Capacity::from_bytes(gib << 30);
            let hosting = Hosting {
                name,
                size,
                hosts: state.hosts.clone(),
            };
            state.ours.push(hosting.clone());
            Ok(hosting)
        })
    }

    async fn has_room(&self, gib: u64) -> Result<bool, HostingError> {
        self.fault()?;
        Ok(self.with(|state| state.room_gib >= gib))
    }
}
