//! Series of times, what is said about them, and the table that says it.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

/// The times of one thing, in seconds, in the order they were taken.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Series(Vec<f64>);

/// One thing done in turns by the driver and by hand.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Comparison {
    /// What was done.
    pub name: String,
    /// What it took when the driver did it.
    pub driver: Series,
    /// What it took by hand.
    pub hand: Series,
}

impl Series {
    /// Adds one time.
    pub fn push(&mut self, time: Duration) {
        self.0.push(time.as_secs_f64());
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The time that `percent` of all times do not exceed, by nearest rank: always one that was measured. 0 is the least, 100
    /// the greatest. `None` without times.
    #[must_use]
    pub fn percentile(&self, percent: usize) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        sorted.get(rank - 1).copied()
    }
}

impl Comparison {
    /// A comparison without times.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// How many times as long the driver takes, by the medians.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let (driver, hand) = (self.driver.percentile(50)?, self.hand.percentile(50)?);
        (hand > 0.0).then_some(driver / hand)
    }
}

/// Two lines a comparison: number, least, median, 99th percentile and greatest in seconds, ratio of the medians.
#[must_use]
pub fn table(comparisons: &[Comparison]) -> String {
    let mut text = line(
        "seconds",
        ["n", "min", "p50", "p99", "max", "ratio"].map(str::to_owned),
    );
    for comparison in comparisons {
        let _ = writeln!(text, "{}", comparison.name);
        text += &side("driver", &comparison.driver, comparison.ratio());
        text += &side("by hand", &comparison.hand, None);
    }
    text
}

fn side(name: &str, series: &Series, ratio: Option<f64>) -> String {
    let seconds = |percent| number(series.percentile(percent));
    line(
        &format!("  {name}"),
        [
            series.count().to_string(),
            seconds(0),
            seconds(50),
            seconds(99),
            seconds(100),
            ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
        ],
    )
}

fn line(name: &str, cells: [String; 6]) -> String {
    let mut text = format!("{name:<12}");
    for cell in cells {
        let _ = write!(text, "{cell:>8}");
    }
    format!("{}\n", text.trim_end())
}

fn number(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(milliseconds: &[u64]) -> Series {
        let mut series = Series::default();
        for time in milliseconds {
            series.push(Duration::from_millis(*time));
        }
        series
    }

    #[test]
    fn a_percentile_is_a_time_that_was_measured() {
        let four = series(&[4000, 1000, 3000, 2000]);
        assert_eq!(four.percentile(0), Some(1.0));
        assert_eq!(four.percentile(50), Some(2.0));
        assert_eq!(four.percentile(51), Some(3.0));
        assert_eq!(four.percentile(100), Some(4.0));
    }

    #[test]
    fn the_99th_percentile_is_the_greatest_below_a_hundred_times_and_not_above() {
        let all: Vec<_> = (1..=200).map(|second| second * 1000).collect();
        assert_eq!(series(&all[..10]).percentile(99), Some(10.0));
        assert_eq!(series(&all[..100]).percentile(99), Some(99.0));
        assert_eq!(series(&all).percentile(99), Some(198.0));
    }

    #[test]
    fn without_times_there_is_nothing_to_say() {
        assert_eq!(Series::default().percentile(50), None);
        assert_eq!(Comparison::new("nothing").ratio(), None);
    }

    #[test]
    fn the_ratio_is_of_the_medians() {
        let comparison = Comparison {
            name: "stage".to_owned(),
            driver: series(&[3000, 3000, 90000]),
            hand: series(&[1000, 2000, 9000]),
        };
        assert_eq!(comparison.ratio(), Some(1.5));
    }

    #[test]
    fn the_table_has_two_lines_a_comparison_and_columns_that_line_up() {
        let comparison = Comparison {
            name: "NodeStage and NodePublish".to_owned(),
            driver: series(&[1500, 2500, 12250]),
            hand: series(&[1250]),
        };
        insta::assert_snapshot!(table(&[comparison, Comparison::new("nothing")]), @r"
        seconds            n     min     p50     p99     max   ratio
        NodeStage and NodePublish
          driver           3   1.500   2.500  12.250  12.250    2.00
          by hand          1   1.250   1.250   1.250   1.250
        nothing
          driver           0       -       -       -       -
          by hand          0       -       -       -       -
        ");
    }
}
