//! Sizes in whole bytes, and what gluster-block makes of them when it prints.
//!
//! gluster-block's `info` shows a size with one decimal (`2.0 GiB`), rounded up or down, and offers no other
//! form. So a printed size stands for a range of sizes, and whoever counts free space must assume the
//! largest of them ([`Capacity::largest_printed_as`]).

use std::fmt;

use serde::{Deserialize, Serialize};

const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// A number of bytes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Capacity(u64);

impl Capacity {
    /// No bytes.
    pub const ZERO: Self = Self(0);

    /// That many bytes.
    #[must_use]
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The number of bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// The sum, unless it overflows.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// The difference, unless it is negative.
    #[must_use]
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).map(Self)
    }

    /// The smallest multiple of `multiple` that is not less; none if it overflows or `multiple` is zero.
    #[must_use]
    pub fn round_up(self, multiple: Self) -> Option<Self> {
        self.0.checked_next_multiple_of(multiple.0).map(Self)
    }

    /// The size as gluster-block prints it.
    ///
    /// It divides by 1024 until less than 1024 is left, keeps only the remainder of the last division (so
    /// the value is cut off to 1/1024 of the unit), and prints that with `%.1f`, whose ties go to even.
    /// Hence `1024.0 MiB` exists, and small sizes read `512.0 B`.
    #[must_use]
    pub fn printed(self) -> String {
        let (in_1024ths, unit) = scale(self.0);
        let tenths = round_to_tenths(in_1024ths);
        format!("{}.{} {unit}", tenths / 10, tenths % 10)
    }

    /// The largest size that prints as `text`; also takes the plain bytes that servers before 0.3 print.
    ///
    /// None if no size prints so.
    #[must_use]
    pub fn largest_printed_as(text: &str) -> Option<Self> {
        bounds(text).map(|(_, largest)| Self(largest))
    }

    /// The smallest size that prints as `text`; otherwise as [`Capacity::largest_printed_as`].
    #[must_use]
    pub fn smallest_printed_as(text: &str) -> Option<Self> {
        bounds(text).map(|(smallest, _)| Self(smallest))
    }

    /// Whether gluster-block would print this size as `text`.
    #[must_use]
    pub fn may_print_as(self, text: &str) -> bool {
        bounds(text).is_some_and(|(smallest, largest)| (smallest..=largest).contains(&self.0))
    }
}

impl fmt::Display for Capacity {
    /// Exact bytes, with a readable form beside them once they are many.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            few @ 0..1024 => write!(f, "{few} bytes"),
            many => write!(
                f,
                "{many} bytes ({})",
                bytesize::ByteSize::b(many).display().iec()
            ),
        }
    }
}

/// The value in 1/1024 of the unit it is printed in, and that unit.
fn scale(bytes: u64) -> (u64, &'static str) {
    let mut whole = bytes;
    let mut rest = 0;
    let mut units = UNITS.into_iter();
    let mut unit = units.next().unwrap_or_default();
    while whole >= 1024 {
        rest = whole % 1024;
        whole /= 1024;
        unit = units.next().unwrap_or_default();
    }
    (whole * 1024 + rest, unit)
}

/// What `%.1f` does to `in_1024ths / 1024`, times ten.
fn round_to_tenths(in_1024ths: u64) -> u64 {
    let tenths = in_1024ths * 10 / 1024;
    let up = match (in_1024ths * 10 % 1024).cmp(&512) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Equal => tenths % 2 == 1,
        std::cmp::Ordering::Greater => true,
    };
    if up { tenths + 1 } else { tenths }
}

/// The smallest and largest number of bytes that print as `text`.
fn bounds(text: &str) -> Option<(u64, u64)> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().ok().map(|bytes| (bytes, bytes));
    }
    let (number, unit) = text.split_once(' ')?;
    let exponent = u32::try_from(UNITS.into_iter().position(|known| known == unit)?).ok()?;
    let tenths = parse_tenths(number)?;
    if exponent == 0 {
        let bytes = tenths / 10;
        return (tenths % 10 == 0 && bytes < 1024).then_some((bytes, bytes));
    }
    // Every v with round_to_tenths(v) == tenths lies within half a tenth of tenths / 10.
    let middle = tenths.checked_mul(1024)? / 10;
    let mut fitting = (middle.saturating_sub(52)..=middle.checked_add(52)?)
        .filter(|v| (1024..1024 * 1024).contains(v) && round_to_tenths(*v) == tenths);
    let first = fitting.next()?;
    let last = fitting.next_back().unwrap_or(first);
    let step = 1024_u64.checked_pow(exponent - 1)?;
    let smallest = first.checked_mul(step)?;
    let largest = u128::from(last + 1) * u128::from(step) - 1;
    Some((smallest, u64::try_from(largest).unwrap_or(u64::MAX)))
}

/// `"12.3"` as 123.
fn parse_tenths(number: &str) -> Option<u64> {
    let (whole, tenth) = number.split_once('.')?;
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if tenth.len() != 1 || whole.is_empty() || !digits(whole) || !digits(tenth) {
        return None;
    }
    whole
        .parse::<u64>()
        .ok()?
        .checked_mul(10)?
        .checked_add(tenth.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_print_as_gluster_block_prints_them() {
        for (bytes, text) in [
            (0, "0.0 B"),
            (512, "512.0 B"),
            (1024, "1.0 KiB"),
            (1 << 20, "1.0 MiB"),
            (1 << 30, "1.0 GiB"),
            (2_104_533_975, "2.0 GiB"),
            ((1 << 30) - 1, "1024.0 MiB"),
            ((1 << 30) / 4 * 5, "1.2 GiB"),
            ((1 << 30) / 4 * 7, "1.8 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(Capacity::from_bytes(bytes).printed(), text, "{bytes}");
        }
    }

    #[test]
    fn a_printed_size_stands_for_a_range() {
        let largest = Capacity::largest_printed_as("2.0 GiB").unwrap();
        let smallest = Capacity::smallest_printed_as("2.0 GiB").unwrap();
        assert!(smallest.bytes() < 2_104_533_975 && largest.bytes() > 2 << 30);
        assert_eq!(smallest.printed(), "2.0 GiB");
        assert_eq!(largest.printed(), "2.0 GiB");
        assert_eq!(Capacity(largest.bytes() + 1).printed(), "2.1 GiB");
        assert_eq!(Capacity(smallest.bytes() - 1).printed(), "1.9 GiB");
    }

    #[test]
    fn old_servers_print_plain_bytes() {
        let bytes = Some(Capacity::from_bytes(1_073_741_824));
        assert_eq!(Capacity::largest_printed_as("1073741824"), bytes);
        assert_eq!(Capacity::smallest_printed_as("1073741824"), bytes);
    }

    #[test]
    fn what_no_size_prints_as_has_no_bounds() {
        for text in [
            "",
            " ",
            "GiB",
            "2 GiB",
            "2.00 GiB",
            "2.0GiB",
            "2.0 GB",
            "-1.0 GiB",
            "+1.0 GiB",
            "0.5 GiB",
            "1025.0 MiB",
            "1024.0 B",
            "1.5 B",
            "17.0 EiB",
            "99999999999999999999.0 GiB",
            "1e3",
        ] {
            assert_eq!(Capacity::largest_printed_as(text), None, "{text:?}");
        }
    }

    #[test]
    fn rounding_up_is_checked() {
        let round = |bytes, multiple| {
            Capacity::from_bytes(bytes)
                .round_up(Capacity::from_bytes(multiple))
                .map(Capacity::bytes)
        };
        assert_eq!(round(0, 512), Some(0));
        assert_eq!(round(1, 512), Some(512));
        assert_eq!(round(512, 512), Some(512));
        assert_eq!(round(u64::MAX, 512), None);
        assert_eq!(round(1, 0), None);
    }

    #[test]
    fn sums_and_differences_are_checked() {
        let (one, max) = (Capacity::from_bytes(1), Capacity::from_bytes(u64::MAX));
        assert_eq!(max.checked_add(one), None);
        assert_eq!(Capacity::ZERO.checked_sub(one), None);
        assert_eq!(one.checked_add(one), Some(Capacity::from_bytes(2)));
    }

    /// Bytes of every magnitude, not only huge ones.
    fn any_size() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0_u32..64).prop_map(|(bits, shift)| bits >> shift)
    }

    proptest! {
        #[test]
        fn every_size_lies_within_the_bounds_of_its_print(bytes in any_size()) {
            let size = Capacity::from_bytes(bytes);
            let text = size.printed();
            prop_assert!(Capacity::smallest_printed_as(&text).unwrap() <= size);
            prop_assert!(size <= Capacity::largest_printed_as(&text).unwrap());
            prop_assert!(size.may_print_as(&text));
        }

        #[test]
        fn the_bounds_are_tight(bytes in any_size()) {
            let text = Capacity::from_bytes(bytes).printed();
            let (smallest, largest) = bounds(&text).unwrap();
            prop_assert_eq!(Capacity(smallest).printed(), text.clone());
            prop_assert_eq!(Capacity(largest).printed(), text.clone());
            if let Some(below) = smallest.checked_sub(1) {
                prop_assert_ne!(Capacity(below).printed(), text.clone());
            }
            if let Some(above) = largest.checked_add(1) {
                prop_assert_ne!(Capacity(above).printed(), text);
            }
        }

        #[test]
        fn parsing_a_print_never_panics(text in ".*") {
            let _ = Capacity::largest_printed_as(&text);
        }

        #[test]
        fn parsing_something_like_a_print_never_panics(text in "[0-9]{0,22}\\.?[0-9]{0,2} ?[BKMGTPE]?i?B?") {
            let _ = Capacity::largest_printed_as(&text);
        }
    }
}
