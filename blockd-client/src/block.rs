//! A block as it is asked for ([`CreateBlock`]) and as `info` shows it ([`BlockInfo`]).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::vocabulary::{
    Capacity, ChapCredentials, ChapPassword, Gbid, HostAddress, Portal, VolumeId,
};

const SECTOR: u64 = 512;

/// A block to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateBlock {
    /// Its name and where it goes.
    pub id: VolumeId,
    /// Its size: whole sectors of 512 bytes and of `block_size`. gluster-block would round down.
    pub size: Capacity,
    /// The hosts that export it, each once; their number is the block's HA count.
    pub hosts: Vec<HostAddress>,
    /// Whether initiators must log in with CHAP.
    pub auth: bool,
    /// Whether the file is filled at once.
    pub prealloc: Prealloc,
    /// Bytes of a logical block as initiators see it; the kernel's default if not given. Since 0.5.
    pub block_size: Option<u32>,
    /// How long the target waits for the hosting volume; 43 s if not given. Since 0.5.
    pub io_timeout: Option<Duration>,
    /// Megabytes of the ring between kernel and tcmu-runner; the kernel's default if not given. Since 0.4.
    pub ring_buffer: Option<u32>,
}

/// Whether a block takes its space at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prealloc {
    /// Zeros are written over the whole size before the block is ready: slow, and never out of space later.
    Full,
    /// Space is taken as it is written: quick, and the hosting volume can be overcommitted.
    No,
}

/// A block as gluster-block's metadata describes it. Not a live check: a host that died is still listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockInfo {
    /// Its name and where it is.
    pub id: VolumeId,
    /// Its UUID; target name and WWID follow from it.
    pub gbid: Gbid,
    /// Its size with one decimal, see [`Capacity::largest_printed_as`]. The exact size is not to be had.
    pub printed_size: String,
    /// How many hosts should export it.
    pub ha: u32,
    /// The hosts that export it, in no order.
    pub exported_on: Vec<HostAddress>,
    /// The hosts on which configuration or clean-up failed.
    pub failing: Vec<HostAddress>,
    /// The hosts whose last resize failed, with the size they still show.
    pub lagging: BTreeMap<HostAddress, String>,
    /// The CHAP password; none if initiators may log in without.
    pub password: Option<ChapPassword>,
}

/// How a block differs from the one that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// Another size.
    #[error("it has {found} and {wanted} were asked for")]
    Size {
        /// As printed.
        found: String,
        /// As asked for.
        wanted: Capacity,
    },
    /// Another number of hosts.
    #[error("it is for {found} hosts and {wanted} were asked for")]
    Ha {
        /// Its HA count.
        found: u32,
        /// As asked for.
        wanted: usize,
    },
    /// CHAP on one side only.
    #[error("CHAP is {} and was to be {}", on(*found), on(!*found))]
    Auth {
        /// Whether it asks for CHAP.
        found: bool,
    },
}

impl CreateBlock {
    /// Finds what gluster-block would refuse, or worse, silently change.
    ///
    /// # Errors
    ///
    /// A sentence saying what is wrong and what is allowed.
    pub fn check(&self) -> Result<(), String> {
        let distinct: BTreeSet<_> = self.hosts.iter().collect();
        if self.hosts.is_empty() || distinct.len() != self.hosts.len() {
            return Err("the hosts of a block must be at least one, and each only once".to_owned());
        }
        let block_size = self.block_size.map_or(SECTOR, u64::from);
        if block_size == 0 || !block_size.is_multiple_of(SECTOR) {
            return Err(format!(
                "block size {block_size} is not a multiple of {SECTOR} bytes"
            ));
        }
        if self.size == Capacity::ZERO || !self.size.bytes().is_multiple_of(block_size) {
            return Err(format!(
                "size {} is not a multiple of {block_size} bytes above zero",
                self.size
            ));
        }
        if self
            .ring_buffer
            .is_some_and(|megabytes| !(1..=1024).contains(&megabytes))
        {
            return Err("the ring buffer must be 1 to 1024 megabytes".to_owned());
        }
        if self
            .io_timeout
            .is_some_and(|timeout| timeout.as_secs() == 0 || timeout.subsec_nanos() != 0)
        {
            return Err("the I/O timeout must be whole seconds, at least one".to_owned());
        }
        Ok(())
    }
}

impl BlockInfo {
    /// Whether every host that should export the block does, and none failed.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let hosts: BTreeSet<_> = self.exported_on.iter().collect();
        u32::try_from(hosts.len()) == Ok(self.ha) && self.failing.is_empty()
    }

    /// Where initiators log in: one portal per exporting host, in order of address.
    ///
    /// Made from the list of hosts, because the list of portals that `create` prints may lack an address
    /// that is the tail of another one (`10.55.0.1` beside `110.55.0.1`).
    #[must_use]
    pub fn portals(&self) -> Vec<Portal> {
        let hosts: BTreeSet<_> = self.exported_on.iter().copied().collect();
        hosts.into_iter().map(HostAddress::portal).collect()
    }

    /// What initiators must show; none if they may log in without.
    #[must_use]
    pub fn credentials(&self) -> Option<ChapCredentials> {
        let password = self.password.clone()?;
        Some(ChapCredentials {
            user: self.gbid,
            password,
        })
    }

    /// Compares with what is asked for, as far as `info` tells.
    ///
    /// The hosts are not compared, only their number: they may have been chosen anew, or replaced since.
    ///
    /// # Errors
    ///
    /// The first difference.
    pub fn matches(&self, wanted: &CreateBlock) -> Result<(), Mismatch> {
        if !wanted.size.may_print_as(&self.printed_size) {
            return Err(Mismatch::Size {
                found: self.printed_size.clone(),
                wanted: wanted.size,
            });
        }
        if usize::try_from(self.ha) != Ok(wanted.hosts.len()) {
            return Err(Mismatch::Ha {
                found: self.ha,
                wanted: wanted.hosts.len(),
            });
        }
        if self.password.is_some() != wanted.auth {
            return Err(Mismatch::Auth {
                found: self.password.is_some(),
            });
        }
        Ok(())
    }
}

const fn on(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> CreateBlock {
        CreateBlock {
            id: "hv/b1".parse().unwrap(),
            size: Capacity::from_bytes(1 << 30),
            hosts: vec!["10.0.0.2".parse().unwrap(), "10.0.0.1".parse().unwrap()],
            auth: true,
            prealloc: Prealloc::No,
            block_size: None,
            io_timeout: None,
            ring_buffer: None,
        }
    }

    fn info() -> BlockInfo {
        BlockInfo {
            id: "hv/b1".parse().unwrap(),
            gbid: "7f9aa1b2-aba7-4c77-9a5b-02a3ed562b15".parse().unwrap(),
            printed_size: "1.0 GiB".to_owned(),
            ha: 2,
            exported_on: wanted().hosts,
            failing: Vec::new(),
            lagging: BTreeMap::new(),
            password: Some("secret".parse().unwrap()),
        }
    }

    #[test]
    fn a_request_that_gluster_block_would_change_is_refused() {
        assert_eq!(wanted().check(), Ok(()));
        let refused = |change: fn(&mut CreateBlock), text: &str| {
            let mut request = wanted();
            change(&mut request);
            let message = request.check().unwrap_err();
            assert!(message.contains(text), "{message}");
        };
        refused(|r| r.hosts.clear(), "at least one");
        refused(
            |r| r.hosts = vec!["10.0.0.1".parse().unwrap(); 2],
            "each only once",
        );
        refused(|r| r.size = Capacity::from_bytes(1000), "multiple of 512");
        refused(|r| r.size = Capacity::ZERO, "above zero");
        refused(|r| r.block_size = Some(0), "block size 0");
        refused(|r| r.block_size = Some(1000), "block size 1000");
        refused(
            |r| (r.block_size, r.size) = (Some(4096), Capacity::from_bytes(512)),
            "multiple of 4096",
        );
        refused(|r| r.ring_buffer = Some(1025), "1 to 1024");
        refused(
            |r| r.io_timeout = Some(Duration::from_millis(1500)),
            "whole seconds",
        );
    }

    #[test]
    fn a_block_is_complete_when_every_host_exports_and_none_fails() {
        assert!(info().is_complete());
        let host: HostAddress = "10.0.0.1".parse().unwrap();
        assert!(
            !BlockInfo {
                exported_on: vec![host],
                ..info()
            }
            .is_complete()
        );
        assert!(
            !BlockInfo {
                exported_on: vec![host, host],
                ..info()
            }
            .is_complete()
        );
        assert!(
            !BlockInfo {
                failing: vec![host],
                ..info()
            }
            .is_complete()
        );
    }

    #[test]
    fn a_block_matches_by_size_hosts_and_chap() {
        assert_eq!(info().matches(&wanted()), Ok(()));
        let rounded = CreateBlock {
            size: Capacity::from_bytes((1 << 30) + 512),
            ..wanted()
        };
        assert_eq!(info().matches(&rounded), Ok(()));
        let larger = CreateBlock {
            size: Capacity::from_bytes(2 << 30),
            ..wanted()
        };
        assert!(matches!(
            info().matches(&larger),
            Err(Mismatch::Size { .. })
        ));
        let open = BlockInfo {
            password: None,
            ..info()
        };
        assert_eq!(
            open.matches(&wanted()).unwrap_err().to_string(),
            "CHAP is off and was to be on"
        );
        let single = BlockInfo { ha: 1, ..info() };
        assert_eq!(
            single.matches(&wanted()),
            Err(Mismatch::Ha {
                found: 1,
                wanted: 2
            })
        );
    }

    #[test]
    fn portals_come_in_order_of_address() {
        let portals: Vec<_> = info().portals().iter().map(ToString::to_string).collect();
        assert_eq!(portals, ["10.0.0.1:3260", "10.0.0.2:3260"]);
        assert_eq!(info().credentials().unwrap().user, info().gbid);
    }
}
