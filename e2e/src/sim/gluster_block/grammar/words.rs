//! The words behind a command, read one after another, and what becomes of an error among them.

use std::net::Ipv4Addr;

use super::Refusal;
use crate::sim::gluster_block::size::{self, Flaw};
use crate::sim::gluster_block::usage;

pub(super) fn refusal(exit: u8, lines: &[&str]) -> Refusal {
    Refusal {
        exit,
        message: lines.join("\n") + "\n",
    }
}

/// The words that follow a command, and what an error exits with.
///
/// The exit code is whatever the real program last put into one variable:
///
/// | after | exit |
/// |---|---|
/// | the start | 255 |
/// | `yes`, `enable`, `full`, … to `auth`, `prealloc` (create), `unlink-storage` (delete) | **1** |
/// | `no`, `disable`, … to one of these | **0** |
/// | another word to one of these | 255 |
/// | a good list of hosts (create), so before the size | **0** (reference §0.1) |
pub(super) struct Words<'a> {
    command: &'a str,
    rest: &'a [&'a str],
    exit: u8,
}

impl<'a> Words<'a> {
    pub(super) fn of(command: &'a str, rest: &'a [&'a str]) -> Self {
        Self {
            command,
            rest,
            exit: 255,
        }
    }

    /// How many words are left.
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    /// A refusal that shows the grammar of the command.
    pub(super) fn refuse(&self, message: &str) -> Refusal {
        refusal(
            self.exit,
            &[message, usage::line(self.command).unwrap_or_default()],
        )
    }

    pub(super) fn expect_count(
        &self,
        allowed: std::ops::RangeInclusive<usize>,
    ) -> Result<(), Refusal> {
        if allowed.contains(&self.rest.len()) {
            return Ok(());
        }
        // The text of `reload` names the wrong command, as there.
        let named = match self.command {
            "reload" => "replace",
            command => command,
        };
        Err(self.refuse(&format!("Inadequate arguments for {named}:")))
    }

    pub(super) fn next(&mut self) -> Option<&'a str> {
        let (word, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(word)
    }

    pub(super) fn next_is(&mut self, keyword: &str) -> bool {
        let is_next = self.rest.first() == Some(&keyword);
        if is_next {
            self.next();
        }
        is_next
    }

    /// `force` or nothing; `refused` makes the message about any other word.
    pub(super) fn end_or_force(
        &mut self,
        refused: impl Fn(&str) -> String,
    ) -> Result<bool, Refusal> {
        let force = self.next_is("force");
        match self.rest.first() {
            None => Ok(force),
            Some(word) => Err(self.refuse(&refused(word))),
        }
    }

    pub(super) fn volume_and_block(&mut self) -> Result<(String, String), Refusal> {
        let word = self.next().unwrap_or_default();
        let Some((volume, block)) = word.split_once('/') else {
            return Err(self.refuse(&format!(
                "argument '<volname/blockname>'({word}) is incorrect"
            )));
        };
        // The message shows an empty name, and an empty block name passes (reference §1.2).
        for (kind, name) in [("volume", volume), ("block", block)] {
            if !is_name(name) {
                let message = format!(
                    "{kind} name() should contain only aplhanumeric,'-', '_' characters and should \
                     be less than 255 characters long"
                );
                return Err(refusal(self.exit, &[&message]));
            }
        }
        Ok((volume.to_owned(), block.to_owned()))
    }

    /// A boolean word, which also decides what later errors exit with.
    pub(super) fn truth(&mut self, key: &str) -> Result<bool, Refusal> {
        let (exit, truth) = match self.next() {
            Some("yes" | "true" | "enable" | "1" | "set" | "full") => (1, Some(true)),
            Some("no" | "false" | "disable" | "0" | "unset") => (0, Some(false)),
            _ => (255, None),
        };
        self.exit = exit;
        truth.ok_or_else(|| self.refuse(&format!("'{key}' option is incorrect")))
    }

    /// A number in `allowed`; `not_a_number` and `not_allowed` are the ends of the message, behind the key.
    pub(super) fn number(
        &mut self,
        key: &str,
        not_a_number: &str,
        allowed: impl Fn(u32) -> bool,
        not_allowed: &str,
    ) -> Result<u32, Refusal> {
        // A sign is accepted and read as C reads it into an unsigned number.
        let number = self.next().and_then(|word| word.parse::<i64>().ok());
        let Some(number) = number.and_then(|n| u32::try_from(n.rem_euclid(1 << 32)).ok()) else {
            return Err(self.refuse(&format!("'{key}' {not_a_number}")));
        };
        if !allowed(number) {
            return Err(self.refuse(&format!("'{key}' {not_allowed}")));
        }
        Ok(number)
    }

    pub(super) fn address(&mut self) -> Result<String, Refusal> {
        match self.next() {
            Some(word) if is_address(word) => Ok(word.to_owned()),
            word => Err(self.refuse(&format!(
                "host addr ({}) should be a valid ip address",
                word.unwrap_or_default()
            ))),
        }
    }

    /// A list of `count` addresses, after which errors exit with 0.
    pub(super) fn hosts(&mut self, count: u32) -> Result<String, Refusal> {
        let list = self.next().unwrap_or_default();
        // "The character check permits digits and dots only" (reference §1.2)
        if !list.split(',').all(is_address) {
            let lines = [
                "hostnames are not supported with gluster-block, use ips only",
                "Hint: if you are already using ips, make sure there are no typos",
            ];
            return Err(refusal(255, &lines));
        }
        if u32::try_from(list.split(',').count()) != Ok(count) {
            let line = "number of ip's in the list passed are not matching HA count requested";
            return Err(refusal(255, &[line]));
        }
        self.exit = 0;
        Ok(list.to_owned())
    }

    pub(super) fn size(
        &mut self,
        name: &str,
        alignment: u64,
        notice: &mut Option<String>,
    ) -> Result<u64, Refusal> {
        let size = match size::parse(self.next().unwrap_or_default(), alignment) {
            Ok(size) => size,
            Err(flaw) => {
                let mut refusal = self.refuse(&format!("'{name}' is incorrect"));
                if flaw == Flaw::TooSmall {
                    let first = format!("minimum acceptable block size is {alignment} bytes\n");
                    refusal.message.insert_str(0, &first);
                }
                return Err(refusal);
            }
        };
        if size.bytes != size.asked {
            // "Text may precede the JSON on stdout" (reference §0.16)
            *notice = Some(format!(
                "The size {} will align to sector size {alignment} bytes\n",
                size.asked
            ));
        }
        Ok(size.bytes)
    }
}

pub(super) fn is_name(name: &str) -> bool {
    let is_legal = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    name.len() < 255 && name.bytes().all(is_legal)
}

pub(super) fn is_address(word: &str) -> bool {
    word.parse::<Ipv4Addr>().is_ok()
}
