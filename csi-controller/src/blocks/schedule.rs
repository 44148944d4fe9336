//! Who may ask gluster-blockd, and which host is asked: one request at a time per hosting volume and per host.
//!
//! gluster-blockd serves one request at a time, and a hosting volume has one lock for reading and writing alike; a second
//! request would only wait there, into its own deadline, where nobody can tell waiting from working. So it waits here,
//! where nothing has begun yet, and not for a certain host but for any that will do: whoever only wants to look stays off a
//! daemon that fills a block with zeros. The wait has a limit.
//!
//! Volumes are served in turn, so that a hundred requests for one do not hold up the first for another.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use blockd_client::vocabulary::{HostAddress, HostingVolume};
use tokio::sync::oneshot;

/// The schedule of a process. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Schedule {
    shared: Arc<Shared>,
    limit: Duration,
}

#[derive(Debug, Default)]
struct Shared {
    // A std mutex: taken for single decisions, never across an await.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// In the order of their coming.
    waiting: Vec<Waiting>,
    at_work: AtWork,
}

/// Who is at work, and when whom was served last.
#[derive(Debug, Default)]
struct AtWork {
    volumes: HashSet<HostingVolume>,
    hosts: HashSet<HostAddress>,
    turns: u64,
    /// The numbers of their last turns.
    volume_turns: HashMap<HostingVolume, u64>,
    host_turns: HashMap<HostAddress, u64>,
}

#[derive(Debug)]
struct Waiting {
    volume: HostingVolume,
    /// In order of preference.
    hosts: Vec<HostAddress>,
    grant: oneshot::Sender<Turn>,
}

/// The right to send one request about a hosting volume to a host; given back when dropped.
#[derive(Debug)]
pub(super) struct Turn {
    host: HostAddress,
    volume: HostingVolume,
    shared: Arc<Shared>,
}

impl Turn {
    /// The host to ask.
    pub(super) fn host(&self) -> HostAddress {
        self.host
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.shared.give_back(&self.volume, self.host);
        grant(&self.shared);
    }
}

impl Schedule {
    /// A schedule in which nobody waits longer than `limit`.
    pub(super) fn new(limit: Duration) -> Self {
        Self {
            shared: Arc::default(),
            limit,
        }
    }

    /// Waits for a turn at one of these hosts; none if none came in time.
    pub(super) async fn turn(
        &self,
        volume: &HostingVolume,
        hosts: Vec<HostAddress>,
    ) -> Option<Turn> {
        let (sender, granted) = oneshot::channel();
        self.shared.state().waiting.push(Waiting {
            volume: volume.clone(),
            hosts,
            grant: sender,
        });
        grant(&self.shared);
        // Whoever gives up drops the receiving end: a turn that comes all the same comes back, and goes to the next.
        let turn = tokio::time::timeout(self.limit, granted).await;
        turn.ok()?.ok()
    }
}

/// Gives out every turn there is to give.
fn grant(shared: &Arc<Shared>) {
    while let Some((grant, volume, host)) = shared.take_next() {
        let shared = Arc::clone(shared);
        let turn = Turn {
            host,
            volume,
            shared,
        };
        // Not taken, it ends here, which calls this again.
        drop(grant.send(turn));
    }
}

impl Shared {
    fn take_next(&self) -> Option<(oneshot::Sender<Turn>, HostingVolume, HostAddress)> {
        let mut state = self.state();
        state.waiting.retain(|waiting| !waiting.grant.is_closed());
        let wishes: Vec<_> = state
            .waiting
            .iter()
            .map(|w| (&w.volume, &*w.hosts))
            .collect();
        let (index, host) = state.at_work.next(&wishes)?;
        let Waiting { volume, grant, .. } = state.waiting.remove(index);
        state.at_work.begin(&volume, host);
        Some((grant, volume, host))
    }

    fn give_back(&self, volume: &HostingVolume, host: HostAddress) {
        let mut state = self.state();
        state.at_work.volumes.remove(volume);
        state.at_work.hosts.remove(&host);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AtWork {
    /// Whose turn it is, and with which host.
    ///
    /// | the volume is | of its hosts are idle | then |
    /// |---|---|---|
    /// | at work | | it waits |
    /// | idle | none | it waits |
    /// | idle | some | it may go, with the one whose last turn is longest ago, else the first |
    ///
    /// Of those that may go, the one whose volume had its last turn longest ago goes, else the one that came first.
    fn next(&self, wishes: &[(&HostingVolume, &[HostAddress])]) -> Option<(usize, HostAddress)> {
        let idle = |hosts: &[HostAddress]| {
            let idle = hosts.iter().filter(|host| !self.hosts.contains(host));
            let last = |host: &&HostAddress| self.host_turns.get(host).copied();
            idle.min_by_key(last).copied()
        };
        let may_go = wishes
            .iter()
            .enumerate()
            .filter_map(|(index, (volume, hosts))| {
                let host = (!self.volumes.contains(volume)).then(|| idle(hosts))??;
                Some((self.volume_turns.get(volume).copied(), index, host))
            });
        let next = may_go.min_by_key(|(last, index, _)| (*last, *index));
        next.map(|(_, index, host)| (index, host))
    }

    fn begin(&mut self, volume: &HostingVolume, host: HostAddress) {
        self.turns += 1;
        self.volumes.insert(volume.clone());
        self.hosts.insert(host);
        self.volume_turns.insert(volume.clone(), self.turns);
        self.host_turns.insert(host, self.turns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(name: &str) -> HostingVolume {
        name.parse().unwrap()
    }

    fn host(n: u8) -> HostAddress {
        format!("10.0.0.{n}").parse().unwrap()
    }

    fn schedule() -> Schedule {
        Schedule::new(Duration::from_mins(1))
    }

    #[test]
    fn a_busy_host_is_passed_over_and_a_busy_volume_waits() {
        let mut at_work = AtWork::default();
        let (a, b) = (volume("a"), volume("b"));
        let hosts = [host(1), host(2)];
        assert_eq!(at_work.next(&[(&a, &hosts)]), Some((0, host(1))));
        at_work.begin(&a, host(1));
        assert_eq!(
            at_work.next(&[(&a, &hosts), (&b, &hosts)]),
            Some((1, host(2)))
        );
        at_work.begin(&b, host(2));
        assert_eq!(at_work.next(&[(&volume("c"), &hosts)]), None);
    }

    #[test]
    fn idle_hosts_take_turns() {
        let mut at_work = AtWork::default();
        let hosts = [host(1), host(2), host(3)];
        let mut asked = Vec::new();
        for _ in 0..4 {
            let (_, host) = at_work.next(&[(&volume("a"), &hosts)]).unwrap();
            at_work.begin(&volume("a"), host);
            at_work.volumes.clear();
            at_work.hosts.clear();
            asked.push(host);
        }
        assert_eq!(asked, [host(1), host(2), host(3), host(1)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_volume_with_many_requests_does_not_hold_up_another() {
        let schedule = schedule();
        let first = schedule.turn(&volume("a"), vec![host(1)]).await.unwrap();
        let (told, mut order) = tokio::sync::mpsc::unbounded_channel();
        for name in ["a", "a", "a", "b"] {
            let (schedule, told) = (schedule.clone(), told.clone());
            tokio::spawn(async move {
                let turn = schedule.turn(&volume(name), vec![host(1)]).await;
                told.send(name).unwrap();
                drop(turn);
            });
            tokio::task::yield_now().await;
        }
        drop((first, told));
        let mut served = Vec::new();
        while let Some(name) = order.recv().await {
            served.push(name);
        }
        assert_eq!(served, ["b", "a", "a", "a"]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_or_goes_away_does_not_keep_a_turn() {
        let schedule = schedule();
        let first = schedule.turn(&volume("a"), vec![host(1)]).await.unwrap();
        assert!(schedule.turn(&volume("a"), vec![host(2)]).await.is_none());
        let gone = schedule.clone();
        let gone = tokio::spawn(async move { gone.turn(&volume("a"), vec![host(1)]).await });
        tokio::task::yield_now().await;
        gone.abort();
        assert!(gone.await.is_err());
        drop(first);
        assert!(schedule.turn(&volume("a"), vec![host(1)]).await.is_some());
        assert!(schedule.shared.state().waiting.is_empty());
    }
}
