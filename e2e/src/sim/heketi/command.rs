//! The command lines heketi runs on the storage hosts, in its order and words (`reference/heketi-gd2.md` §2.2, §2.11).
//!
//! Bricks are plain directories here; heketi makes a logical volume with a file system for each.

use super::allocate::shape;
use super::model::{Durability, Volume};

/// A step of an operation, as the switch file names it, and its command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Name for the switch file.
    pub step: &'static str,
    /// What is run.
    pub line: String,
}

/// A brick as gluster is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrickAt {
    /// Storage host name.
    pub host: String,
    /// Directory.
    pub path: String,
}

fn gluster(rest: &str) -> String {
    format!("gluster --mode=script --timeout=600 {rest}")
}

fn command(step: &'static str, rest: &str) -> Command {
    Command {
        step,
        line: gluster(rest),
    }
}

/// Makes a volume: create with the first set, add the other sets, set every option, start.
///
/// Options are set one by one in the order pre-request, hosting volume's, request's, post-request, `user.heketi.id`; later
/// ones win. All of them are set before the start.
#[must_use]
pub fn create(volume: &Volume, bricks: &[BrickAt]) -> Vec<Command> {
    let name = &volume.name;
    let (in_set, _) = shape(volume.durability);
    let kind = match volume.durability {
        Durability::None => String::new(),
        Durability::Replicate { replica } if volume.wants_arbiter() => {
            format!("replica {replica} arbiter 1 ")
        }
        Durability::Replicate { replica } => format!("replica {replica} "),
        Durability::Disperse { data, redundancy } => {
            format!("disperse-data {data} redundancy {redundancy} ")
        }
    };
    let (first, others) = bricks.split_at(in_set.min(bricks.len()));
    let mut commands = vec![command(
        "volume-create",
        &format!("volume create {name} {kind}{}", listed(first)),
    )];
    commands.extend(add_bricks(volume, others));
    let id = format!("user.heketi.id {}", volume.id);
    let options = volume
        .options
        .iter()
        .chain([&id])
        .filter(|option| !option.is_empty());
    commands.extend(
        options.map(|option| command("volume-set", &format!("volume set {name} {option}"))),
    );
    commands.push(command("volume-start", &format!("volume start {name}")));
    commands
}

/// Adds sets of bricks to a volume, several sets in a command where heketi does so.
#[must_use]
pub fn add_bricks(volume: &Volume, bricks: &[BrickAt]) -> Vec<Command> {
    let (in_set, _) = shape(volume.durability);
    let sets_at_once = match volume.durability {
        Durability::None => 15,
        Durability::Replicate { .. } => 5,
        Durability::Disperse { .. } => 1,
    };
    let add = |group: &[BrickAt]| {
        command(
            "add-brick",
            &format!("volume add-brick {} {}", volume.name, listed(group)),
        )
    };
    bricks
        .chunks(in_set.saturating_mul(sets_at_once).max(1))
        .map(add)
        .collect()
}

/// Spreads data over new bricks.
#[must_use]
pub fn rebalance(volume: &Volume) -> Command {
    command(
        "rebalance",
        &format!("volume rebalance {} start", volume.name),
    )
}

/// Stops a volume whoever uses it.
#[must_use]
pub fn stop(volume: &Volume) -> Command {
    command("volume-stop", &format!("volume stop {} force", volume.name))
}

/// Deletes a stopped volume.
#[must_use]
pub fn delete(volume: &Volume) -> Command {
    command("volume-delete", &format!("volume delete {}", volume.name))
}

/// Makes the directory of a brick and gives it to the volume's group.
#[must_use]
pub fn make_brick(path: &str, gid: i64) -> Command {
    let mut line = format!("mkdir -p {path}");
    if gid > 0 {
        line = format!("{line} && chown :{gid} {path} && chmod 2775 {path}");
    }
    Command {
        step: "make-brick",
        line,
    }
}

/// Removes the directory of a brick and what is in it.
#[must_use]
pub fn remove_brick(path: &str) -> Command {
    let folder = path.strip_suffix("/brick").unwrap_or(path);
    Command {
        step: "remove-brick",
        line: format!("rm -rf -- {folder}"),
    }
}

/// Removes the directory of a brick that no volume took yet. One that is in use is left, and the command fails, as heketi
/// cannot unmount a brick that is in use.
#[must_use]
pub fn remove_unused_brick(path: &str) -> Command {
    let folder = path.strip_suffix("/brick").unwrap_or(path);
    let line = format!("test ! -e {folder} || rmdir {path} {folder}");
    Command {
        step: "remove-brick",
        line,
    }
}

/// Asks whether glusterd runs.
#[must_use]
pub fn glusterd_check() -> Command {
    Command {
        step: "glusterd-check",
        line: "pidof glusterd".to_owned(),
    }
}

/// Takes a host into the pool.
#[must_use]
pub fn probe(host: &str) -> Command {
    command("peer-probe", &format!("peer probe {host}"))
}

/// Puts a host out of the pool.
#[must_use]
pub fn detach(host: &str) -> Command {
    command("peer-detach", &format!("peer detach {host}"))
}

/// Asks how much room there is for bricks.
#[must_use]
pub fn free_space(folder: &str) -> Command {
    Command {
        step: "device-setup",
        line: format!("df -k --output=avail {folder}"),
    }
}

fn listed(bricks: &[BrickAt]) -> String {
    let names: Vec<String> = bricks
        .iter()
        .map(|b| format!("{}:{}", b.host, b.path))
        .collect();
    names.join(" ")
}
