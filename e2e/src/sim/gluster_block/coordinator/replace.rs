//! `replace`: a new host made, the portal swapped on the others and the old host cleaned, all at once and without a
//! way back.

use super::super::answer::{Answer as Keys, Failure};
use super::super::json::Json;
use super::super::metadata::{Metadata, State};
use super::super::protocol::{HostCall, HostCreate, Reply};
use super::{Stop, Work};

/// What one host of a replace has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Create,
    Delete,
    Swap,
    Skip,
}

impl Work<'_> {
    /// Puts `new` in the place of `old` (reference §3.8).
    ///
    /// - "if create fails, OLD is already gone and the block has HA-1 paths. Re-running the same command completes it."
    /// - "The pre-check asks every node that was *ever* valid for the block …; `force` exempts only OLD" and NEW is not
    ///   asked at all.
    /// - "**All of these exit 0 on stdout, including FAIL**" (reference §2.8).
    pub(super) fn replace(&self, old: &str, new: &str, force: bool) -> Result<Reply, Stop> {
        let read = self.existing()?;
        if self.is_finished(&read, old, new)? {
            let mut answer = Keys::default();
            answer.text("NAME", self.block).text("RESULT", "SKIPPED");
            return Ok(answer.reply(0, self.form));
        }
        let ever = read
            .hosts
            .iter()
            .filter(|host| host.was_valid && !(force && host.address == old));
        let ever: Vec<String> = ever
            .map(|host| host.address.clone())
            .filter(|address| address != new)
            .collect();
        self.peers.check(&ever, &["replace"])?;
        let survivors: Vec<String> = read
            .hosts_where(State::is_valid)
            .into_iter()
            .filter(|host| host != old && host != new)
            .collect();
        let prio_path = if read.prio_path == old {
            new
        } else {
            &read.prio_path
        };
        if prio_path != read.prio_path {
            self.journal(&format!("PRIOPATH: {new}\n"))?;
        }
        let hosts: Vec<String> = [new, old]
            .map(str::to_owned)
            .into_iter()
            .chain(survivors.iter().cloned())
            .collect();
        let wanted = self.wanted(&read, new, &survivors, prio_path);
        let outcomes = self.each(&hosts, |host| {
            let part = part_of(&read, host, old, new);
            let is_success = match part {
                Part::Create => self.configure(host, &wanted).is_ok(),
                Part::Delete => self.clean_up_one(&read.gbid, host),
                Part::Swap => self.swap(&read, host, old, new),
                Part::Skip => true,
            };
            (part, is_success)
        })?;
        Ok(self.replaced(&hosts, &outcomes, force))
    }

    /// Whether the same command has done all this before; 223 and 224 (reference §2.8) when it makes no sense.
    fn is_finished(&self, read: &Metadata, old: &str, new: &str) -> Result<bool, Failure> {
        let volume = self.volume.name();
        let Some(old_state) = read.state_of(old) else {
            let message = format!(
                "block '{}' is not configured on node '{old}' for volume '{volume}'",
                self.block
            );
            return Err(Failure::new(223, message));
        };
        let has_new = read.state_of(new).is_some_and(State::is_valid);
        if has_new && old_state.needs_cleanup() && !matches!(old_state, State::CleanupFail) {
            let message = format!(
                "block '{}' was already configured on node '{new}' for volume '{volume}'",
                self.block
            );
            return Err(Failure::new(224, message));
        }
        let is_swapped = read
            .hosts
            .iter()
            .filter(|host| host.state.is_valid() && host.address != new)
            .all(|host| host.state == State::ReplaceSuccess);
        Ok(has_new && old_state == State::CleanupSuccess && is_swapped)
    }

    /// "After `replace` the new node numbers itself TPG 1 and the survivors 2.." (reference §3.3).
    fn wanted(
        &self,
        read: &Metadata,
        new: &str,
        survivors: &[String],
        prio_path: &str,
    ) -> HostCreate {
        let mut hosts = vec![new.to_owned()];
        hosts.extend_from_slice(survivors);
        HostCreate {
            hosts: hosts.join(","),
            prio_path: prio_path.to_owned(),
            ..host_create(read, self.block, &self.server)
        }
    }

    fn swap(&self, read: &Metadata, host: &str, old: &str, new: &str) -> bool {
        self.note(host, State::ReplaceInProgress);
        let call = HostCall::Replace {
            volume: read.volume.clone(),
            block: self.block.to_owned(),
            gbid: read.gbid.clone(),
            new: new.to_owned(),
            old: old.to_owned(),
        };
        let is_success = self
            .peers
            .call(host, &call)
            .is_ok_and(|reply| reply.exit == 0);
        self.note(
            host,
            if is_success {
                State::ReplaceSuccess
            } else {
                State::ReplaceFail
            },
        );
        is_success
    }

    fn replaced(&self, hosts: &[String], outcomes: &[(Part, bool)], force: bool) -> Reply {
        let mut answer = Keys::default();
        answer.text("NAME", self.block);
        let mut outcomes = hosts.iter().zip(outcomes);
        let mut is_success = true;
        if let Some((host, (part, is_done))) = outcomes.next() {
            is_success &= is_done;
            let key = match (part, is_done) {
                (Part::Skip, _) => "CREATE SKIPPED",
                (_, true) => "CREATE SUCCESS",
                (_, false) => "CREATE FAILED",
            };
            answer.text(key, host);
        }
        if let Some((host, (part, is_done))) = outcomes.next() {
            // "In JSON mode a `DELETE FAILED` without force is counted as success …, while plain text says FAIL"
            is_success &= is_done | self.form.is_json() | force;
            let key = match (part, is_done) {
                (Part::Skip, _) => "DELETE SKIPPED",
                (_, true) => "DELETE SUCCESS",
                (_, false) if force => "DELETE FAILED (ignored)",
                (_, false) => "DELETE FAILED",
            };
            answer.text(key, host);
        }
        let mut lists: [Vec<String>; 3] = Default::default();
        let [succeeded, failed, skipped] = &mut lists;
        for (host, (part, is_done)) in outcomes {
            is_success &= is_done;
            match (part, is_done) {
                (Part::Skip, _) => skipped.push(host.clone()),
                (_, true) => succeeded.push(host.clone()),
                (_, false) => failed.push(host.clone()),
            }
        }
        if hosts.len() == 2 {
            answer.json("REPLACE PORTAL SUCCESS ON", Json::texts(["N/A"]));
        }
        answer.some_list("REPLACE PORTAL SUCCESS ON", succeeded);
        answer.some_list("REPLACE PORTAL FAILED ON", failed);
        answer.some_list("REPLACE PORTAL SKIPPED ON", skipped);
        answer.text("RESULT", if is_success { "SUCCESS" } else { "FAIL" });
        answer.reply(0, self.form)
    }
}

fn part_of(read: &Metadata, host: &str, old: &str, new: &str) -> Part {
    let state = read.state_of(host);
    let is_repeat = read.state_of(old).is_some_and(|old| {
        matches!(
            old,
            State::CleanupSuccess | State::CleanupFail | State::CleanupInProgress
        )
    });
    if host == new {
        return if state.is_some_and(State::is_valid) {
            Part::Skip
        } else {
            Part::Create
        };
    }
    if host == old {
        return if state.is_some_and(State::needs_cleanup) {
            Part::Delete
        } else {
            Part::Skip
        };
    }
    if is_repeat && state == Some(State::ReplaceSuccess) {
        Part::Skip
    } else {
        Part::Swap
    }
}

/// What a host would be told to create for an existing block.
pub(super) fn host_create(read: &Metadata, block: &str, server: &str) -> HostCreate {
    HostCreate {
        volume: read.volume.clone(),
        gbid: read.gbid.clone(),
        password: read.password.clone(),
        size: read.size,
        block: block.to_owned(),
        prio_path: read.prio_path.clone(),
        hosts: read.hosts_where(State::is_valid).join(","),
        auth: !read.password.is_empty(),
        ring_buffer: read.ring_buffer,
        server: server.to_owned(),
        block_size: u64::from(read.block_size),
        io_timeout: u64::from(read.io_timeout),
        ..HostCreate::default()
    }
}
