//! All figures of one run, for people and for programs.

use std::fmt::Write as _;

use serde::Serialize;

use super::figures::{self, Comparison};
use super::machine::Machine;
use super::usage::Usage;

/// The figures of one run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// How to make them again.
    pub command: String,
    /// The machine they were made on.
    pub machine: Machine,
    /// Driver and bare commands side by side.
    pub comparisons: Vec<Comparison>,
    /// What the plugins used.
    pub footprints: Vec<Footprint>,
    /// How long writes had to wait.
    pub stalls: Vec<Stall>,
}

/// What one plugin used.
#[derive(Debug, Serialize)]
pub struct Footprint {
    /// Its name and place.
    pub plugin: String,
    /// After its start, before its first request.
    pub idle: Usage,
    /// After all that is compared.
    pub after: Usage,
}

/// The longest wait of a write under one circumstance.
#[derive(Debug, Serialize)]
pub struct Stall {
    /// What happened meanwhile.
    pub during: String,
    /// The wait in seconds, as fio measured it.
    pub seconds: f64,
}

impl Report {
    /// The report for people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("command   {}\n{}\n", self.command, self.machine.lines());
        text += &figures::table(&self.comparisons);
        text += &footprints(&self.footprints);
        text += "\nlongest wait of a write (4 KiB, synchronous, one at a time), seconds\n";
        for stall in &self.stalls {
            let _ = writeln!(text, "{:>8.2}  {}", stall.seconds, stall.during);
        }
        text
    }

    /// The report for programs: JSON with every single time in seconds.
    ///
    /// # Errors
    /// Never with these types.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }
}

fn footprints(footprints: &[Footprint]) -> String {
    let mut text = format!(
        "\n{:<26}{:>10}{:>10}{:>10}{:>11}{:>11}\n",
        "memory MiB, processor s", "RSS idle", "RSS after", "peak", "own CPU", "tools' CPU"
    );
    for Footprint {
        plugin,
        idle,
        after,
    } in footprints
    {
        let _ = writeln!(
            text,
            "{plugin:<26}{:>10}{:>10}{:>10}{:>11.2}{:>11.2}",
            mebibytes(idle.resident_kib),
            mebibytes(after.resident_kib),
            mebibytes(after.peak_kib),
            after.own_seconds - idle.own_seconds,
            after.tools_seconds - idle.tools_seconds,
        );
    }
    text
}

/// With one decimal, rounded down.
fn mebibytes(kib: u64) -> String {
    format!("{}.{}", kib / 1024, kib % 1024 * 10 / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(kib: u64, own: f64) -> Usage {
        Usage {
            resident_kib: kib,
            peak_kib: kib * 2,
            own_seconds: own,
            tools_seconds: own * 10.0,
        }
    }

    #[test]
    fn processor_time_is_that_of_the_run_alone() {
        let footprint = Footprint {
            plugin: "csi-node in n1".to_owned(),
            idle: usage(10 * 1024, 0.25),
            after: usage(12 * 1024 + 512, 1.75),
        };
        insta::assert_snapshot!(footprints(&[footprint]), @r"
        memory MiB, processor s     RSS idle RSS after      peak    own CPU tools' CPU
        csi-node in n1                  10.0      12.5      25.0       1.50      15.00
        ");
    }

    #[test]
    fn memory_is_rounded_down() {
        assert_eq!(mebibytes(1023), "0.9");
        assert_eq!(mebibytes(15364), "15.0");
    }
}
