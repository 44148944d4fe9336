//! `delete`, `reload`, and the cleaning of hosts that a delete and a failed create share.

use super::super::answer::Answer as Keys;
use super::super::metadata::State;
use super::super::protocol::{HostCall, Reply};
use super::{Stop, Work};

/// Hosts by how an action went there.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ByOutcome {
    pub(super) failed: Vec<String>,
    pub(super) succeeded: Vec<String>,
}

impl ByOutcome {
    pub(super) fn new(hosts: &[String], outcomes: &[bool]) -> Self {
        let mut sorted = Self::default();
        for (host, is_success) in hosts.iter().zip(outcomes) {
            let list = if *is_success {
                &mut sorted.succeeded
            } else {
                &mut sorted.failed
            };
            list.push(host.clone());
        }
        sorted
    }
}

impl Work<'_> {
    /// Takes the block off `hosts` and notes how it went.
    pub(super) fn clean_up(&self, gbid: &str, hosts: &[String]) -> Result<ByOutcome, Stop> {
        let outcomes = self.each(hosts, |host| self.clean_up_one(gbid, host))?;
        Ok(ByOutcome::new(hosts, &outcomes))
    }

    pub(super) fn clean_up_one(&self, gbid: &str, host: &str) -> bool {
        self.note(host, State::CleanupInProgress);
        let call = HostCall::Delete {
            block: self.block.to_owned(),
            gbid: gbid.to_owned(),
        };
        let is_success = self
            .peers
            .call(host, &call)
            .is_ok_and(|reply| reply.exit == 0);
        self.note(
            host,
            if is_success {
                State::CleanupSuccess
            } else {
                State::CleanupFail
            },
        );
        is_success
    }

    /// Deletes the block (reference §2.6, §3.6).
    ///
    /// - Contacts only "nodes whose state is neither CONFIGINPROGRESS ("untouched") nor CLEANUPSUCCESS", so a host
    ///   that was mid-create when its coordinator died "keeps its LUN while delete says SUCCESS" (reference §0.11).
    /// - "Without force any unreachable node blocks the delete (nothing is changed)."
    /// - "With force the block disappears everywhere else and the node's LUN becomes an orphan."
    pub(super) fn delete(&self, unlink: bool, force: bool) -> Result<Reply, Stop> {
        let read = self.existing()?;
        let hosts = read.hosts_where(State::needs_cleanup);
        if !force {
            self.peers.check(&hosts, &["delete"])?;
        }
        self.journal("ENTRYDELETE: INPROGRESS\n")?;
        self.pass("metadata")?;
        let cleaned = self.clean_up(&read.gbid, &hosts)?;
        let is_gone = cleaned.failed.is_empty() || force;
        if is_gone {
            if unlink {
                self.io(self.volume.remove_store(&read.gbid))?;
            }
            self.pass("file")?;
            self.io(self.volume.remove_metadata(self.block))?;
            if !read.prio_path.is_empty() {
                self.io(self.volume.release_prio_path(&read.prio_path))?;
            }
        } else {
            self.journal("ENTRYDELETE: FAIL\n")?;
        }
        Ok(self.by_outcome(&cleaned, is_gone))
    }

    /// Applies the saved configuration anew on every valid host; "with `force`, failures are ignored" (reference §2.9).
    pub(super) fn reload(&self, force: bool) -> Result<Reply, Stop> {
        let read = self.existing()?;
        let hosts = read.hosts_where(State::is_valid);
        if !force {
            self.peers.check(&hosts, &["reload"])?;
        }
        let call = HostCall::Reload {
            block: self.block.to_owned(),
            gbid: read.gbid,
        };
        let outcomes = self.each(&hosts, |host| {
            self.peers
                .call(host, &call)
                .is_ok_and(|reply| reply.exit == 0)
        })?;
        let sorted = ByOutcome::new(&hosts, &outcomes);
        let is_success = sorted.failed.is_empty() || force;
        Ok(self.by_outcome(&sorted, is_success))
    }

    /// "**No errCode/errMsg when nodes failed**"; "Plain text prints `SUCCESSFUL ON: None`" (reference §2.6).
    fn by_outcome(&self, sorted: &ByOutcome, is_success: bool) -> Reply {
        let mut answer = Keys::default();
        answer.some_list("FAILED ON", &sorted.failed);
        answer.some_list("SUCCESSFUL ON", &sorted.succeeded);
        if sorted.succeeded.is_empty() && !self.form.is_json() {
            answer.text("SUCCESSFUL ON", "None");
        }
        answer.text("RESULT", if is_success { "SUCCESS" } else { "FAIL" });
        answer.reply(if is_success { 0 } else { 255 }, self.form)
    }
}
