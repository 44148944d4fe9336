//! What this machine knows beyond the daemon's answers: exact sizes, connected addresses, and what runs.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use crate::schema::{Block, Component};
use crate::vocabulary::{Capacity, ISCSI_PORT};

/// State of a TCP socket that is connected, in the kernel's table.
const CONNECTED: &str = "01";

/// The kernel's files of this machine.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    root: PathBuf,
}

impl Machine {
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// The block with its exact size, if this host exports it and shows a size that prints as gluster-block says.
    ///
    /// During a resize the two can differ; then neither is exact.
    pub(super) fn measure(&self, block: Block) -> Block {
        let size = self
            .exported_size(&block)
            .filter(|size| size.may_print_as(&block.printed_size));
        Block {
            size_bytes: size.map(Capacity::bytes),
            ..block
        }
    }

    /// The size of the storage object with the name of the block and its GBID for a serial number.
    fn exported_size(&self, block: &Block) -> Option<Capacity> {
        let adapters = self.root.join("sys/kernel/config/target/core");
        let objects = fs::read_dir(adapters).ok()?.filter_map(Result::ok);
        let mut objects = objects.map(|adapter| adapter.path().join(block.name.as_str()));
        let object = objects.find(|object| {
            let serial = fs::read_to_string(object.join("wwn/vpd_unit_serial"));
            serial.is_ok_and(|text| text.trim_end().ends_with(&format!(": {}", block.gbid)))
        })?;
        printed_size(&fs::read_to_string(object.join("info")).ok()?)
    }

    /// Addresses with a connection to the portal of this host. The kernel does not tell to which target.
    pub(super) fn portal_peers(&self) -> io::Result<BTreeSet<Ipv4Addr>> {
        let table = fs::read_to_string(self.root.join("proc/net/tcp"))?;
        Ok(table.lines().filter_map(portal_peer).collect())
    }

    /// Whether tcmu-runner runs.
    pub(super) fn tcmu_runner(&self) -> Component {
        let processes = fs::read_dir(self.root.join("proc"))
            .into_iter()
            .flatten()
            .filter_map(Result::ok);
        let mut names =
            processes.filter_map(|process| fs::read_to_string(process.path().join("comm")).ok());
        let runs = names.any(|name| name.trim_end() == "tcmu-runner");
        let problem =
            "tcmu-runner does not run, or not where the agent can see its process; start it";
        Component::new((!runs).then(|| problem.to_owned()))
    }

    /// Whether the kernel's iSCSI target is loaded.
    pub(super) fn target(&self) -> Component {
        let is_loaded = self.root.join("sys/kernel/config/target/iscsi").is_dir();
        let problem = "the kernel has no iSCSI target; mount configfs, and load iscsi_target_mod or start gluster-block-target";
        Component::new((!is_loaded).then(|| problem.to_owned()))
    }
}

/// The word after `Size:` in the description of a storage object.
fn printed_size(info: &str) -> Option<Capacity> {
    let mut words = info.split_whitespace().skip_while(|word| *word != "Size:");
    words.nth(1)?.parse().ok().map(Capacity::from_bytes)
}

/// The other side of a connection to the portal. Addresses are printed as they lie in memory, ports as numbers.
fn portal_peer(line: &str) -> Option<Ipv4Addr> {
    let mut fields = line.split_whitespace();
    let (_, port) = fields.nth(1)?.split_once(':')?;
    let (peer, _) = fields.next()?.split_once(':')?;
    let is_portal = u16::from_str_radix(port, 16) == Ok(ISCSI_PORT);
    let is_connected = fields.next() == Some(CONNECTED);
    let peer = u32::from_str_radix(peer, 16).ok()?;
    (is_portal && is_connected).then(|| Ipv4Addr::from(peer.to_ne_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::BlockInfo;

    const GBID: &str = "7f9aa1b2-aba7-4c77-9a5b-02a3ed562b15";

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn block() -> Block {
        let info = BlockInfo {
            id: "hv/b1".parse().unwrap(),
            gbid: GBID.parse().unwrap(),
            printed_size: "1.0 GiB".to_owned(),
            ha: 1,
            exported_on: vec![],
            failing: vec![],
            lagging: std::collections::BTreeMap::new(),
            password: None,
        };
        info.into()
    }

    // C4
    #[test]
    fn the_exact_size_is_that_of_the_storage_object_of_this_very_block() {
        let root = tempfile::tempdir().unwrap();
        let machine = Machine::new(root.path());
        assert_eq!(
            machine.measure(block()).size_bytes,
            None,
            "not exported here"
        );
        let object = |file: &str| format!("sys/kernel/config/target/core/user_3/b1/{file}");
        write(
            root.path(),
            &object("info"),
            "Status: ACTIVATED  Max Queue Depth: 128\n        Config: glfs/hv@h/block-store/x Size: 1073745920 MaxDataAreaMB: 8\n",
        );
        assert_eq!(
            machine.measure(block()).size_bytes,
            None,
            "of nobody knows which block"
        );
        write(
            root.path(),
            &object("wwn/vpd_unit_serial"),
            &format!("T10 VPD Unit Serial Number: {GBID}\n"),
        );
        assert_eq!(machine.measure(block()).size_bytes, Some(1_073_745_920));
        let grown = Block {
            printed_size: "2.0 GiB".to_owned(),
            ..block()
        };
        assert_eq!(
            machine.measure(grown).size_bytes,
            None,
            "in the middle of a resize"
        );
    }

    #[test]
    fn connected_addresses_are_those_at_the_portal() {
        let root = tempfile::tempdir().unwrap();
        let peer = |ip: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(ip));
        let line = |port: &str, ip, state: &str| {
            format!(
                "   0: 0100000A:{port} {}:C001 {state} 00000000:00000000\n",
                peer(ip)
            )
        };
        let table = [
            line("0CBC", [10, 0, 0, 9], "01"),
            line("0CBC", [10, 0, 0, 9], "01"),
            line("0CBC", [0, 0, 0, 0], "0A"),
            line("0016", [10, 0, 0, 8], "01"),
        ];
        write(
            root.path(),
            "proc/net/tcp",
            &format!("  sl  local_address\n{}", table.concat()),
        );
        let peers = Machine::new(root.path()).portal_peers().unwrap();
        assert_eq!(
            peers.into_iter().collect::<Vec<_>>(),
            [Ipv4Addr::new(10, 0, 0, 9)]
        );
    }

    #[test]
    fn what_runs_is_seen_in_the_kernels_files() {
        let root = tempfile::tempdir().unwrap();
        let machine = Machine::new(root.path());
        assert!(!machine.tcmu_runner().well && !machine.target().well);
        write(root.path(), "proc/7/comm", "tcmu-runner\n");
        fs::create_dir_all(root.path().join("sys/kernel/config/target/iscsi")).unwrap();
        assert!(machine.tcmu_runner().well && machine.target().well);
    }
}
