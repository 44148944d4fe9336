//! A block's metadata: the append-only text journal `/block-meta/<block>` in which the last value wins.
//!
//! Keys and states are those of reference §3.4. Reading never fails: what is unknown is skipped, as there.

use std::fmt;

/// What one host has been told and answered last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    ConfigInProgress,
    ConfigSuccess,
    ConfigFail,
    AuthEnforcing,
    AuthEnforced,
    AuthEnforceFail,
    AuthClearEnforcing,
    AuthClearEnforced,
    AuthClearEnforceFail,
    CleanupInProgress,
    CleanupSuccess,
    CleanupFail,
    ReplaceInProgress,
    ReplaceSuccess,
    ReplaceFail,
    ResizeInProgress(u64),
    ResizeSuccess(u64),
    ResizeFail(u64),
}

impl State {
    /// Whether the host counts in `EXPORTED ON`: "everything except CONFIGINPROGRESS, CONFIGFAIL,
    /// CLEANUPSUCCESS, CLEANUPFAIL" (reference §3.4).
    pub(crate) fn is_valid(self) -> bool {
        !matches!(
            self,
            Self::ConfigInProgress | Self::ConfigFail | Self::CleanupSuccess | Self::CleanupFail
        )
    }

    /// Whether the host counts in `ENCOUNTERED FAILURES ON`: "config or cleanup failed there" (reference §2.5).
    pub(crate) fn is_failure(self) -> bool {
        matches!(self, Self::ConfigFail | Self::CleanupFail)
    }

    /// Whether the host lags behind a resize.
    pub(crate) fn is_lagging(self) -> bool {
        matches!(self, Self::ResizeFail(_) | Self::ResizeInProgress(_))
    }

    /// Whether a delete contacts the host: "nodes whose state is neither CONFIGINPROGRESS ("untouched") nor
    /// CLEANUPSUCCESS" (reference §3.6).
    pub(crate) fn needs_cleanup(self) -> bool {
        !matches!(self, Self::ConfigInProgress | Self::CleanupSuccess)
    }

    /// Whether the target of the host demands a password as far as the journal can tell: only while the last
    /// entry is about authentication, which is why a disable after a resize finds nobody (reference §3.7).
    pub(crate) fn is_auth_enforced(self) -> bool {
        matches!(
            self,
            Self::AuthEnforced | Self::AuthClearEnforceFail | Self::AuthClearEnforcing
        )
    }

    fn parse(text: &str) -> Option<Self> {
        let (name, bytes) = match text.split_once('-') {
            Some((name, bytes)) => (name, bytes.parse().ok()),
            None => (text, None),
        };
        Some(match (name, bytes) {
            ("CONFIGINPROGRESS", _) => Self::ConfigInProgress,
            ("CONFIGSUCCESS", _) => Self::ConfigSuccess,
            ("CONFIGFAIL", _) => Self::ConfigFail,
            ("AUTHENFORCEING", _) => Self::AuthEnforcing,
            ("AUTHENFORCED", _) => Self::AuthEnforced,
            ("AUTHENFORCEFAIL", _) => Self::AuthEnforceFail,
            ("AUTHCLEARENFORCEING", _) => Self::AuthClearEnforcing,
            ("AUTHCLEARENFORCED", _) => Self::AuthClearEnforced,
            ("AUTHCLEARENFORCEFAIL", _) => Self::AuthClearEnforceFail,
            ("CLEANUPINPROGRESS", _) => Self::CleanupInProgress,
            ("CLEANUPSUCCESS", _) => Self::CleanupSuccess,
            ("CLEANUPFAIL", _) => Self::CleanupFail,
            ("RPINPROGRESS", _) => Self::ReplaceInProgress,
            ("RPSUCCESS", _) => Self::ReplaceSuccess,
            ("RPFAIL", _) => Self::ReplaceFail,
            ("RSINPROGRESS", Some(bytes)) => Self::ResizeInProgress(bytes),
            ("RSSUCCESS", Some(bytes)) => Self::ResizeSuccess(bytes),
            ("RSFAIL", Some(bytes)) => Self::ResizeFail(bytes),
            _ => return None,
        })
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ConfigInProgress => f.write_str("CONFIGINPROGRESS"),
            Self::ConfigSuccess => f.write_str("CONFIGSUCCESS"),
            Self::ConfigFail => f.write_str("CONFIGFAIL"),
            Self::AuthEnforcing => f.write_str("AUTHENFORCEING"),
            Self::AuthEnforced => f.write_str("AUTHENFORCED"),
            Self::AuthEnforceFail => f.write_str("AUTHENFORCEFAIL"),
            Self::AuthClearEnforcing => f.write_str("AUTHCLEARENFORCEING"),
            Self::AuthClearEnforced => f.write_str("AUTHCLEARENFORCED"),
            Self::AuthClearEnforceFail => f.write_str("AUTHCLEARENFORCEFAIL"),
            Self::CleanupInProgress => f.write_str("CLEANUPINPROGRESS"),
            Self::CleanupSuccess => f.write_str("CLEANUPSUCCESS"),
            Self::CleanupFail => f.write_str("CLEANUPFAIL"),
            Self::ReplaceInProgress => f.write_str("RPINPROGRESS"),
            Self::ReplaceSuccess => f.write_str("RPSUCCESS"),
            Self::ReplaceFail => f.write_str("RPFAIL"),
            Self::ResizeInProgress(bytes) => write!(f, "RSINPROGRESS-{bytes}"),
            Self::ResizeSuccess(bytes) => write!(f, "RSSUCCESS-{bytes}"),
            Self::ResizeFail(bytes) => write!(f, "RSFAIL-{bytes}"),
        }
    }
}

/// A host as the journal knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) address: String,
    pub(crate) state: State,
    /// Whether it was ever valid: the pre-check of a replace asks all such hosts (reference §3.8).
    pub(crate) was_valid: bool,
    /// Bytes it last confirmed after a resize.
    confirmed: Option<u64>,
}

/// The journal, read.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Metadata {
    pub(crate) volume: String,
    pub(crate) gbid: String,
    pub(crate) ha: u32,
    pub(crate) entry_create: String,
    pub(crate) prio_path: String,
    pub(crate) size: u64,
    pub(crate) ring_buffer: u32,
    pub(crate) block_size: u32,
    pub(crate) io_timeout: u32,
    pub(crate) password: String,
    pub(crate) entry_delete: String,
    /// In the order in which the journal names them first.
    pub(crate) hosts: Vec<Host>,
    first_size: Option<u64>,
}

impl fmt::Debug for Metadata {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metadata")
            .field("gbid", &self.gbid)
            .field("size", &self.size)
            .field("hosts", &self.hosts)
            .finish_non_exhaustive()
    }
}

impl Metadata {
    /// Reads a journal.
    pub(crate) fn parse(text: &str) -> Self {
        let mut read = Self::default();
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            read.apply(key, value.trim());
        }
        read
    }

    fn apply(&mut self, key: &str, value: &str) {
        let number = || value.parse().unwrap_or(0);
        match key {
            "VOLUME" => value.clone_into(&mut self.volume),
            "GBID" => value.clone_into(&mut self.gbid),
            "HA" => self.ha = number(),
            "ENTRYCREATE" => value.clone_into(&mut self.entry_create),
            "PRIOPATH" => value.clone_into(&mut self.prio_path),
            "SIZE" => {
                self.size = value.parse().unwrap_or(0);
                self.first_size.get_or_insert(self.size);
            }
            "RINGBUFFER" => self.ring_buffer = number(),
            "BLKSIZE" => self.block_size = number(),
            "IOTIMEOUT" => self.io_timeout = number(),
            "PASSWORD" => value.clone_into(&mut self.password),
            "ENTRYDELETE" => value.clone_into(&mut self.entry_delete),
            address => {
                if let Some(state) = State::parse(value) {
                    self.note_state(address, state);
                }
            }
        }
    }

    fn note_state(&mut self, address: &str, state: State) {
        let confirmed = if let State::ResizeSuccess(bytes) = state {
            Some(bytes)
        } else {
            // A host configured late is configured at the size of that moment.
            (state == State::ConfigSuccess).then_some(self.size)
        };
        if let Some(host) = self.hosts.iter_mut().find(|host| host.address == address) {
            host.state = state;
            host.was_valid |= state.is_valid();
            host.confirmed = confirmed.or(host.confirmed);
        } else {
            let address = address.to_owned();
            self.hosts.push(Host {
                address,
                state,
                was_valid: state.is_valid(),
                confirmed,
            });
        }
    }

    /// Bytes that `host` still exports: what it confirmed last, else the size of the create.
    pub(crate) fn exported_size(&self, host: &Host) -> u64 {
        host.confirmed.or(self.first_size).unwrap_or(self.size)
    }

    /// The hosts whose state satisfies `wanted`, in journal order.
    pub(crate) fn hosts_where(&self, wanted: impl Fn(State) -> bool) -> Vec<String> {
        self.hosts
            .iter()
            .filter(|host| wanted(host.state))
            .map(|host| host.address.clone())
            .collect()
    }

    /// The state of `address`, if the journal names it.
    pub(crate) fn state_of(&self, address: &str) -> Option<State> {
        self.hosts
            .iter()
            .find(|host| host.address == address)
            .map(|host| host.state)
    }

    /// The target name on every host.
    pub(crate) fn iqn(&self) -> String {
        iqn(&self.gbid)
    }
}

/// The target name of a block: "`iqn.2016-12.org.gluster-block:` + GBID" (reference §3.1).
pub(crate) fn iqn(gbid: &str) -> String {
    format!("iqn.2016-12.org.gluster-block:{gbid}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOURNAL: &str = "VOLUME: hostvol\nGBID: 7f9aa1b2-aba7-4c77-9a5b-02a3ed562b15\nHA: 2\n\
        ENTRYCREATE: INPROGRESS\nPRIOPATH: 10.0.0.2\nSIZE: 1048576\nRINGBUFFER: 0\nBLKSIZE: 0\n\
        IOTIMEOUT: 0\nENTRYCREATE: SUCCESS\nPASSWORD: abc\n10.0.0.2: CONFIGINPROGRESS\n\
        10.0.0.1: CONFIGINPROGRESS\n10.0.0.1: CONFIGSUCCESS\n10.0.0.2: CONFIGSUCCESS\n";

    #[test]
    fn the_last_value_wins_and_hosts_keep_journal_order() {
        let read = Metadata::parse(JOURNAL);
        assert_eq!(
            (read.ha, read.size, read.entry_create.as_str()),
            (2, 1 << 20, "SUCCESS")
        );
        assert_eq!(read.hosts_where(State::is_valid), ["10.0.0.2", "10.0.0.1"]);
        assert_eq!(
            Metadata::parse(&format!("{JOURNAL}PASSWORD: \n")).password,
            ""
        );
    }

    #[test]
    fn a_lagging_host_exports_what_it_confirmed_last() {
        let text = format!(
            "{JOURNAL}SIZE: 2097152\n10.0.0.1: RSSUCCESS-2097152\n10.0.0.2: RSFAIL-2097152\n"
        );
        let read = Metadata::parse(&text);
        let sizes: Vec<u64> = read
            .hosts
            .iter()
            .map(|host| read.exported_size(host))
            .collect();
        assert_eq!(sizes, [1 << 20, 2 << 20]);
        assert_eq!(read.hosts_where(State::is_lagging), ["10.0.0.2"]);
        assert_eq!(read.hosts_where(State::is_valid).len(), 2);
    }

    #[test]
    fn every_state_reads_back() {
        for state in [
            State::ConfigInProgress,
            State::ConfigSuccess,
            State::ConfigFail,
            State::AuthEnforcing,
            State::AuthEnforced,
            State::AuthEnforceFail,
            State::AuthClearEnforcing,
            State::AuthClearEnforced,
            State::AuthClearEnforceFail,
            State::CleanupInProgress,
            State::CleanupSuccess,
            State::CleanupFail,
            State::ReplaceInProgress,
            State::ReplaceSuccess,
            State::ReplaceFail,
            State::ResizeInProgress(5),
            State::ResizeSuccess(6),
            State::ResizeFail(7),
        ] {
            assert_eq!(State::parse(&state.to_string()), Some(state));
        }
        assert_eq!(State::parse("RSFAIL"), None);
    }

    #[test]
    fn validity_is_the_recorded_rule() {
        // reference §2.5: valid includes "cleanup in progress" and "resize failed"
        assert!(State::CleanupInProgress.is_valid());
        assert!(State::ResizeFail(1).is_valid());
        for state in [
            State::ConfigInProgress,
            State::ConfigFail,
            State::CleanupSuccess,
            State::CleanupFail,
        ] {
            assert!(!state.is_valid());
        }
    }

    #[test]
    fn debug_output_keeps_the_password_out() {
        assert!(!format!("{:?}", Metadata::parse(JOURNAL)).contains("abc"));
    }
}
