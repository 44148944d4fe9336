//! `modify size`: the file first, then the hosts, without a way back.

use super::super::answer::{Answer as Keys, Failure};
use super::super::metadata::{Metadata, State};
use super::super::protocol::{HostCall, Reply};
use super::super::size::{self, SECTOR};
use super::cleanup::ByOutcome;
use super::{Stop, Work};

impl Work<'_> {
    /// Changes the size.
    ///
    /// "grows the file first, writes `SIZE`, then tells every node. So after a partial failure the file and `info`
    /// already show the new size; nodes in `RESIZE FAILED ON` still export the old one. Retry with the *same* size is
    /// allowed only while some node is RSFAIL/RSINPROGRESS, and touches only those" (reference §3.7).
    pub(super) fn resize(&self, wanted: u64, force: bool) -> Result<Reply, Stop> {
        let read = self.existing()?;
        let all = all_valid_hosts(&read)?;
        self.peers.check(&all, &["modify", "modify_size"])?;
        check_change(&read, wanted, force, self.volume.name(), || {
            self.io(self.volume.free())
        })?;
        let skipped = if wanted == read.size {
            read.hosts_where(|state| !state.is_lagging() && state.is_valid())
        } else {
            Vec::new()
        };
        let hosts: Vec<String> = all
            .into_iter()
            .filter(|host| !skipped.contains(host))
            .collect();
        if wanted != read.size {
            self.pass("size")?;
            let made = self.faults.size(self.verb, self.block, wanted);
            self.io(self.volume.resize_store(&read.gbid, made))?;
            self.journal(&format!("SIZE: {wanted}\n"))?;
            self.pass("file")?;
        }
        let outcomes = self.each(&hosts, |host| self.resize_one(&read, host, wanted))?;
        Ok(self.resized(&read, wanted, &ByOutcome::new(&hosts, &outcomes), &skipped))
    }

    fn resize_one(&self, read: &Metadata, host: &str, size: u64) -> bool {
        self.note(host, State::ResizeInProgress(size));
        let call = HostCall::Resize {
            volume: read.volume.clone(),
            block: self.block.to_owned(),
            gbid: read.gbid.clone(),
            size,
        };
        let is_success = self
            .peers
            .call(host, &call)
            .is_ok_and(|reply| reply.exit == 0);
        let state = if is_success {
            State::ResizeSuccess(size)
        } else {
            State::ResizeFail(size)
        };
        self.note(host, state);
        is_success
    }

    /// The answer: on partial failure `errCode` and `errMsg` come after `RESULT`, and "in plain text the table is
    /// lost: only the `block volume resize failed:` line is printed" (reference §2.7).
    fn resized(
        &self,
        read: &Metadata,
        wanted: u64,
        sorted: &ByOutcome,
        skipped: &[String],
    ) -> Reply {
        let mut answer = Keys::default();
        answer.text("IQN", read.iqn());
        if sorted.failed.is_empty() {
            answer
                .text("SIZE", size::print(wanted))
                .some_list("SUCCESSFUL ON", &sorted.succeeded);
            answer
                .some_list("SKIPPED ON", skipped)
                .text("RESULT", "SUCCESS");
            return answer.reply(0, self.form);
        }
        let still = |address: &String| {
            let bytes = read
                .hosts
                .iter()
                .find(|host| host.address == *address)
                .map_or(0, |host| read.exported_size(host));
            format!("{address}:[{}]", size::print(bytes))
        };
        let hosts: Vec<String> = sorted.failed.iter().map(still).collect();
        let message = format!("block volume resize failed: {}", hosts.join(" "));
        if !self.form.is_json() {
            return Reply::new(255, format!("{message}\n"));
        }
        answer.some_list("FAILED ON", &sorted.failed);
        answer
            .some_list("SUCCESSFUL ON", &sorted.succeeded)
            .some_list("SKIPPED ON", skipped);
        answer
            .text("RESULT", "FAIL")
            .number("errCode", 255)
            .text("errMsg", message);
        answer.reply(255, self.form)
    }
}

/// "all `HA` nodes must be valid" (reference §3.7), else 2, which is not "block missing" (reference §0.4).
pub(super) fn all_valid_hosts(read: &Metadata) -> Result<Vec<String>, Failure> {
    let hosts = read.hosts_where(State::is_valid);
    if u32::try_from(hosts.len()) == Ok(read.ha) {
        return Ok(hosts);
    }
    Err(Failure::new(
        2,
        "Some of the nodes are missing configuration, please look at the block's info\n",
    ))
}

/// Whether a change of size is allowed.
///
/// | wanted | answer (reference §2.7) |
/// |---|---|
/// | not a multiple of the block size | 22 |
/// | same, nobody lags | 255, `request size (X) is same as current size (X) ]`, stray bracket and all |
/// | same, somebody lags | go on |
/// | smaller, no force | 255, `Shrink size ?…` |
/// | smaller by more than the free space arithmetic survives | **255** `Low space on the volume` (reference §3.7) |
/// | larger than what is free | **255** `Low space on the volume`, not 28 |
fn check_change(
    read: &Metadata,
    wanted: u64,
    force: bool,
    volume: &str,
    free: impl FnOnce() -> Result<u64, Failure>,
) -> Result<(), Failure> {
    /// "shrinking by more than about 10 MiB fails with `Low space`" (reference §3.7).
    const UNDERFLOW: u64 = 10 << 20;
    let alignment = if read.block_size == 0 {
        SECTOR
    } else {
        u64::from(read.block_size)
    };
    let (is, was) = (size::print(wanted), size::print(read.size));
    if !wanted.is_multiple_of(alignment) {
        let message = format!("size {wanted} is not a multiple of block size {alignment}\n");
        return Err(Failure::new(22, message));
    }
    let low_space = || Failure::new(255, format!("Low space on the volume {volume}\n"));
    match wanted.cmp(&read.size) {
        std::cmp::Ordering::Equal if read.hosts.iter().any(|host| host.state.is_lagging()) => {
            Ok(())
        }
        std::cmp::Ordering::Equal => Err(Failure::new(
            255,
            format!("request size ({is}) is same as current size ({was}) ]"),
        )),
        std::cmp::Ordering::Less if !force => Err(Failure::new(
            255,
            format!("Shrink size ?\nuse 'force' option [current size {was}, request size {is}]"),
        )),
        std::cmp::Ordering::Less if read.size - wanted > UNDERFLOW => Err(low_space()),
        std::cmp::Ordering::Greater if free()? < wanted - read.size => Err(low_space()),
        std::cmp::Ordering::Less | std::cmp::Ordering::Greater => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(journal: &str, wanted: u64, force: bool) -> Result<(), (i32, String)> {
        check_change(&Metadata::parse(journal), wanted, force, "hostvol", || {
            Ok(1 << 30)
        })
        .map_err(|failure| (failure.code, failure.message))
    }

    const JOURNAL: &str = "HA: 1\nSIZE: 2097152\n10.0.0.1: CONFIGSUCCESS\n";

    #[test]
    fn refusals_have_the_recorded_texts() {
        // reference §2.7
        assert_eq!(
            check(JOURNAL, 2 << 20, false),
            Err((
                255,
                "request size (2.0 MiB) is same as current size (2.0 MiB) ]".to_owned()
            ))
        );
        assert_eq!(
            check(JOURNAL, 1 << 20, false),
            Err((
                255,
                "Shrink size ?\nuse 'force' option [current size 2.0 MiB, request size 1.0 MiB]"
                    .to_owned()
            ))
        );
        assert_eq!(
            check(JOURNAL, 2 << 30, false),
            Err((255, "Low space on the volume hostvol\n".to_owned()))
        );
        assert_eq!(
            check(&format!("{JOURNAL}BLKSIZE: 4096\n"), (2 << 20) + 512, false).map_err(|e| e.0),
            Err(22)
        );
    }

    #[test]
    fn the_same_size_goes_on_only_while_somebody_lags() {
        assert_eq!(
            check(
                &format!("{JOURNAL}10.0.0.1: RSFAIL-2097152\n"),
                2 << 20,
                false
            ),
            Ok(())
        );
    }

    #[test]
    fn a_forced_shrink_of_more_than_ten_mebibytes_lacks_space() {
        let journal = JOURNAL.replace("2097152", "104857600");
        assert_eq!(check(&journal, 104_857_600 - (1 << 20), true), Ok(()));
        assert_eq!(
            check(&journal, 104_857_600 - (11 << 20), true).map_err(|e| e.0),
            Err(255)
        );
    }
}
