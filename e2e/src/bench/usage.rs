//! What a process has used, read from its files in /proc.

use serde::Serialize;

/// Clock ticks in a second, as /proc counts them (`USER_HZ`): 100 on every architecture a Kubernetes node has.
const TICKS: u64 = 100;

/// Memory and processor time of one process.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Usage {
    /// Resident memory in KiB (`VmRSS`).
    pub resident_kib: u64,
    /// The most that ever was resident, in KiB (`VmHWM`).
    pub peak_kib: u64,
    /// Processor time of its own since its start, in seconds.
    pub own_seconds: f64,
    /// Processor time of the programs that it ran and that have ended, in seconds.
    pub tools_seconds: f64,
}

impl Usage {
    /// Reads the text of `/proc/PID/status` followed by that of `/proc/PID/stat`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let memory = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key))?;
            line.split_whitespace().next()?.parse().ok()
        };
        // The name in brackets may hold blanks; what follows the last bracket begins with field 3.
        let (_, fields) = text.rsplit_once(')')?;
        let ticks: Vec<u64> = fields
            .split_whitespace()
            .skip(11)
            .take(4)
            .map_while(|field| field.parse().ok())
            .collect();
        let [user, system, tools_user, tools_system] = ticks.try_into().ok()?;
        Some(Self {
            resident_kib: memory("VmRSS:")?,
            peak_kib: memory("VmHWM:")?,
            own_seconds: seconds(user + system),
            tools_seconds: seconds(tools_user + tools_system),
        })
    }
}

fn seconds(ticks: u64) -> f64 {
    std::time::Duration::from_millis(ticks * 1000 / TICKS).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Name:\tcsi-node (x) y\nVmPeak:\t  300000 kB\nVmHWM:\t   15364 kB\nVmRSS:\t   12288 kB\nThreads:\t5\n\
        77 (csi-node (x) y) S 1 77 77 0 -1 4194560 2345 99 0 0 123 45 678 900 20 0 5 0 1234 300000 3072 1";

    #[test]
    fn memory_and_times_are_found_whatever_the_process_is_called() {
        let usage = Usage::parse(TEXT).unwrap();
        assert_eq!((usage.resident_kib, usage.peak_kib), (12288, 15364));
        assert!((usage.own_seconds - 1.68).abs() < 1e-9);
        assert!((usage.tools_seconds - 15.78).abs() < 1e-9);
    }

    #[test]
    fn a_process_that_is_gone_has_no_usage() {
        assert_eq!(Usage::parse(""), None);
        // A zombie has no memory lines.
        assert_eq!(
            Usage::parse("77 (csi-node) Z 1 77 77 0 -1 4 2 9 0 0 1 4 6 9 20"),
            None
        );
    }
}
