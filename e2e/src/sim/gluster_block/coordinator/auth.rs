//! `modify auth`: a password for everybody or for nobody, by what the journal happens to say last.

use super::super::answer::Answer as Keys;
use super::super::metadata::{Metadata, State};
use super::super::protocol::{HostCall, Reply};
use super::cleanup::ByOutcome;
use super::resize::all_valid_hosts;
use super::{Stop, Work};

impl Work<'_> {
    /// Switches authentication.
    ///
    /// - "auth enable again returns the stored password and does nothing where already enforced. disable then enable
    ///   produces a **new** password. On partial failure it clears the password and rolls back" (reference §3.7).
    /// - "**auth disable after a resize (or replace) does nothing on the targets** but clears the stored password and
    ///   reports SUCCESS" (reference §3.7, §0.13): only hosts whose *last* entry is about authentication are told.
    pub(super) fn auth(&self, enable: bool) -> Result<Reply, Stop> {
        let read = self.existing()?;
        let all = all_valid_hosts(&read)?;
        self.peers.check(&all, &["modify", "modify_auth"])?;
        let hosts =
            read.hosts_where(|state| state.is_valid() && state.is_auth_enforced() != enable);
        let password = match (enable, read.password.is_empty()) {
            (true, true) => uuid::Uuid::new_v4().to_string(),
            _ => read.password.clone(),
        };
        if enable && read.password.is_empty() {
            self.journal(&format!("PASSWORD: {password}\n"))?;
        }
        self.pass("metadata")?;
        let outcomes = self.each(&hosts, |host| self.auth_one(&read, host, &password, enable))?;
        let sorted = ByOutcome::new(&hosts, &outcomes);
        if sorted.failed.is_empty() {
            if !enable {
                self.journal("PASSWORD: \n")?;
            }
            return Ok(self.authenticated(&read, enable.then_some(&password), &sorted, None));
        }
        let back = self.each(&sorted.succeeded, |host| {
            self.auth_one(&read, host, &password, !enable)
        })?;
        let back = ByOutcome::new(&sorted.succeeded, &back);
        if enable {
            self.journal("PASSWORD: \n")?;
        }
        Ok(self.authenticated(&read, None, &sorted, Some(&back)))
    }

    fn auth_one(&self, read: &Metadata, host: &str, password: &str, enable: bool) -> bool {
        let (before, good, bad) = if enable {
            (
                State::AuthEnforcing,
                State::AuthEnforced,
                State::AuthEnforceFail,
            )
        } else {
            (
                State::AuthClearEnforcing,
                State::AuthClearEnforced,
                State::AuthClearEnforceFail,
            )
        };
        self.note(host, before);
        let call = HostCall::Auth {
            volume: read.volume.clone(),
            block: self.block.to_owned(),
            gbid: read.gbid.clone(),
            password: password.to_owned(),
            enable,
        };
        let is_success = self
            .peers
            .call(host, &call)
            .is_ok_and(|reply| reply.exit == 0);
        self.note(host, if is_success { good } else { bad });
        is_success
    }

    /// "A failed auth change has **no errCode/errMsg**; exit 255" (reference §2.7).
    fn authenticated(
        &self,
        read: &Metadata,
        password: Option<&String>,
        sorted: &ByOutcome,
        rolled_back: Option<&ByOutcome>,
    ) -> Reply {
        let mut answer = Keys::default();
        answer.text("IQN", read.iqn());
        if let Some(password) = password {
            answer
                .text("USERNAME", &read.gbid)
                .text("PASSWORD", password);
        }
        answer.some_list("FAILED ON", &sorted.failed);
        answer.some_list("SUCCESSFUL ON", &sorted.succeeded);
        if let Some(back) = rolled_back {
            answer.some_list("ROLLBACK FAILED ON", &back.failed);
            answer.some_list("ROLLBACK SUCCESS ON", &back.succeeded);
        }
        let is_success = rolled_back.is_none();
        answer.text("RESULT", if is_success { "SUCCESS" } else { "FAIL" });
        answer.reply(if is_success { 0 } else { 255 }, self.form)
    }
}
