//! What a lab is to be: the number of guests, their programs, their timers, their owner.

use std::path::PathBuf;

use super::image::{self, Image};
use super::kernel;
use super::state::{Owner, Record};
use super::{LabError, this_process};
use crate::settings;

/// Options that make gluster notice a lost host within seconds. They work only when set before the volume starts: the
/// connections that exist keep the old values (measured: 46 s instead of 10 s of stalled writes).
pub const FAST_GLUSTER_OPTIONS: [(&str, &str); 9] = [
    ("network.ping-timeout", "5"),
    ("client.tcp-user-timeout", "5"),
    ("client.keepalive-time", "2"),
    ("client.keepalive-interval", "1"),
    ("client.keepalive-count", "3"),
    ("server.tcp-user-timeout", "5"),
    ("server.keepalive-time", "2"),
    ("server.keepalive-interval", "1"),
    ("server.keepalive-count", "3"),
];

/// What a lab is to be.
#[derive(Debug, Clone)]
pub struct LabOptions {
    /// Its name: 1 to 20 of a-z, 0-9 and "-".
    pub id: String,
    /// Number of storage guests, 0 to 9.
    pub storage: u8,
    /// Number of node guests, 0 to 9.
    pub nodes: u8,
    /// Folder of host-built programs, which guests see as /lab/bin; `lab` itself must be in it.
    pub bin_dir: PathBuf,
    /// Folder in which root images are kept.
    pub cache: PathBuf,
    /// Tar archive to lay over the storage guests' root.
    pub overlay: Option<PathBuf>,
    /// Short iSCSI timers on the nodes. Gluster's are for whoever makes volumes: [`FAST_GLUSTER_OPTIONS`].
    pub fast_timers: bool,
    /// Memory of a guest in MiB; taken only as it is used.
    pub memory: u32,
    /// The daemon of the storage guests, unless an overlay brings the real one.
    pub blockd: Option<BlockdCommand>,
    /// With whom the lab goes.
    pub owner: Ownership,
}

/// With whom a lab goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ownership {
    /// With this process, and with the [`Lab`](super::Lab) value.
    Caller,
    /// With another process.
    Process(u32),
    /// With nobody: it stays until it is taken down.
    Nobody,
}

/// A stand-in for gluster-block on the storage guests.
#[derive(Debug, Clone)]
pub struct BlockdCommand {
    /// The daemon with its arguments, in the foreground; paths are the guest's.
    pub daemon: Vec<String>,
    /// What `/usr/sbin/gluster-block` runs.
    pub cli: Vec<String>,
}

impl LabOptions {
    /// Three storage guests and two nodes, owned by the caller, with the programs beside the running one.
    ///
    /// # Errors
    /// When the running program's own place is not known.
    pub fn new(id: impl Into<String>) -> Result<Self, LabError> {
        let program = std::env::current_exe().map_err(LabError::at("/proc/self/exe"))?;
        let mut bin_dir = program.parent().map(PathBuf::from).unwrap_or_default();
        // Cargo keeps tests one folder deeper.
        if bin_dir.ends_with("deps") {
            bin_dir.pop();
        }
        let blockd = bin_dir
            .join("sim-gluster-blockd")
            .is_file()
            .then(BlockdCommand::simulator);
        Ok(Self {
            id: id.into(),
            storage: 3,
            nodes: 2,
            bin_dir,
            cache: settings::images(),
            overlay: settings::storage_overlay(),
            fast_timers: false,
            memory: 768,
            blockd,
            owner: Ownership::Caller,
        })
    }

    /// Refuses what cannot work, before anything is made.
    pub(super) fn check(&self) -> Result<(), LabError> {
        let refuse = |reason: String| Err(LabError::Options { reason });
        if !rustix::process::geteuid().is_root() {
            return refuse("the lab needs root: it makes a network namespace and taps".to_owned());
        }
        if self.storage > 9 || self.nodes > 9 || self.storage + self.nodes == 0 {
            return refuse("a lab has 1 to 18 guests, at most 9 of a kind".to_owned());
        }
        if !self.bin_dir.join("lab").is_file() {
            return refuse(format!(
                "{} has no program `lab`, which the guests need; `cargo build -p e2e` makes it",
                self.bin_dir.display()
            ));
        }
        Ok(())
    }

    /// Finds or builds the images, and writes down what the lab is made from.
    pub(super) async fn record(&self) -> Result<Record, LabError> {
        let owner = match self.owner {
            Ownership::Caller => Some(this_process()?),
            Ownership::Nobody => None,
            Ownership::Process(pid) => Some(Owner::of(pid).ok_or_else(|| LabError::Options {
                reason: format!("there is no process {pid} to own the lab"),
            })?),
        };
        let node = image::image(&self.cache, None)
            .await
            .map_err(LabError::Image)?;
        let storage = match &self.overlay {
            Some(overlay) if self.storage > 0 => image::image(&self.cache, Some(overlay))
                .await
                .map_err(LabError::Image)?,
            _ => Image {
                path: node.path.clone(),
                real_blockd: false,
            },
        };
        Ok(Record {
            id: self.id.clone(),
            builder: this_process()?,
            owner,
            storage: self.storage,
            nodes: self.nodes,
            bin_dir: self
                .bin_dir
                .canonicalize()
                .map_err(LabError::at(&self.bin_dir))?,
            kernel: kernel::kernel(&self.cache).await.map_err(LabError::Image)?,
            storage_image: storage.path,
            node_image: node.path,
            real_blockd: storage.real_blockd,
            fast_timers: self.fast_timers,
            memory: self.memory,
        })
    }
}

impl BlockdCommand {
    /// The simulator among the host-built programs.
    #[must_use]
    pub fn simulator() -> Self {
        Self {
            daemon: vec!["/lab/bin/sim-gluster-blockd".to_owned()],
            cli: vec!["/lab/bin/sim-gluster-block".to_owned()],
        }
    }
}

/// The nodes' iscsid.conf: what sessions get whose records say nothing else.
pub(super) fn iscsid_conf(fast: bool) -> String {
    let (replacement, interval, timeout) = if fast { (5, 2, 3) } else { (120, 5, 5) };
    format!(
        "iscsid.startup = /usr/sbin/iscsid\n\
         node.startup = manual\n\
         node.leading_login = No\n\
         node.session.timeo.replacement_timeout = {replacement}\n\
         node.conn[0].timeo.login_timeout = 5\n\
         node.conn[0].timeo.logout_timeout = 15\n\
         node.conn[0].timeo.noop_out_interval = {interval}\n\
         node.conn[0].timeo.noop_out_timeout = {timeout}\n\
         node.session.err_timeo.abort_timeout = 15\n\
         node.session.err_timeo.lu_reset_timeout = 30\n\
         node.session.err_timeo.tgt_reset_timeout = 30\n\
         node.session.initial_login_retry_max = 2\n\
         node.session.cmds_max = 128\n\
         node.session.queue_depth = 32\n\
         node.session.scan = auto\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fast_labs_have_short_timers() {
        assert!(iscsid_conf(false).contains("replacement_timeout = 120\n"));
        assert!(iscsid_conf(true).contains("replacement_timeout = 5\n"));
    }

    #[test]
    fn programs_are_looked_for_beside_the_running_one() {
        let options = LabOptions::new("x").unwrap();
        assert!(!options.bin_dir.ends_with("deps"));
    }
}
