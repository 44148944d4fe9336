//! The machine the figures were made on, without which they mean nothing.

use std::fs;
use std::thread;

use anyhow::Context as _;
use serde::Serialize;

use crate::lab::Lab;
use crate::lab::process::Program;

/// This machine, the lab's guests on it, and what was built.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// Processors this process may use.
    pub cores: usize,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Its kernel's release.
    pub kernel: String,
    /// The guests' kernel's release.
    pub guest_kernel: String,
    /// Number of guests; each has one processor.
    pub guests: usize,
    /// Memory of each in MiB.
    pub guest_memory_mib: u32,
    /// Load average of the last minute before the lab was booted: the work of others.
    pub load: String,
    /// The commit that was built, with `-dirty` when files differ from it; empty outside a checkout.
    pub commit: String,
    /// `release` or `debug`.
    pub build: &'static str,
    /// Whether the storage guests run the real gluster-block and not its simulator.
    pub real_gluster_block: bool,
}

impl Machine {
    /// Looks at this machine, which had that [`load`], and at a lab on it.
    ///
    /// # Errors
    /// When /proc cannot be read or a guest does not answer.
    pub async fn of(lab: &Lab, load: String) -> anyhow::Result<Self> {
        let commit = Program::new("git")
            .args(["describe", "--always", "--dirty", "--exclude=*"])
            .output()
            .await;
        Ok(Self {
            cores: thread::available_parallelism()?.get(),
            memory_mib: memory(&read("/proc/meminfo")?).context("/proc/meminfo")?,
            kernel: read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            guest_kernel: lab.guest("n1")?.run("uname -r").await?,
            guests: lab.guests().len(),
            guest_memory_mib: lab.record().memory,
            load,
            commit: commit.unwrap_or_default().trim().to_owned(),
            build: if cfg!(debug_assertions) {
                "debug"
            } else {
                "release"
            },
            real_gluster_block: lab.record().real_blockd,
        })
    }

    /// Some lines for people.
    #[must_use]
    pub fn lines(&self) -> String {
        let commit = if self.commit.is_empty() {
            "unknown"
        } else {
            &self.commit
        };
        format!(
            "machine   {} cores, {} MiB, kernel {}, load {} before the lab\n\
             guests    {} of one core and {} MiB, kernel {} (user-mode Linux)\n\
             storage   {}\n\
             commit    {commit}, {} build\n",
            self.cores,
            self.memory_mib,
            self.kernel,
            self.load,
            self.guests,
            self.guest_memory_mib,
            self.guest_kernel,
            if self.real_gluster_block {
                "gluster-block on GlusterFS"
            } else {
                "simulated gluster-block on real GlusterFS and LIO"
            },
            self.build,
        )
    }
}

/// This machine's load average of the last minute.
///
/// # Errors
/// When /proc cannot be read.
pub fn load() -> anyhow::Result<String> {
    let text = read("/proc/loadavg")?;
    Ok(text.split(' ').next().unwrap_or_default().to_owned())
}

fn read(path: &str) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| path.to_owned())
}

fn memory(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_mebibytes() {
        let text = "MemTotal:       24683520 kB\nMemFree:        1 kB\n";
        assert_eq!(memory(text), Some(24105));
        assert_eq!(memory("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn the_lines_name_all_that_a_figure_depends_on() {
        let machine = Machine {
            cores: 2,
            memory_mib: 24105,
            kernel: "6.1.0".to_owned(),
            guest_kernel: "6.12.1".to_owned(),
            guests: 5,
            guest_memory_mib: 768,
            load: "0.10".to_owned(),
            commit: String::new(),
            build: "release",
            real_gluster_block: false,
        };
        insta::assert_snapshot!(machine.lines(), @r"
        machine   2 cores, 24105 MiB, kernel 6.1.0, load 0.10 before the lab
        guests    5 of one core and 768 MiB, kernel 6.12.1 (user-mode Linux)
        storage   simulated gluster-block on real GlusterFS and LIO
        commit    unknown, release build
        ");
    }
}
