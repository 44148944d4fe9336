//! Sizes as gluster-block reads and prints them, which are two different and both surprising things.

/// Bytes of the sector that a size is cut down to when no block size is given.
pub(crate) const SECTOR: u64 = 512;

/// A size word that the command line accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    /// Bytes after cutting down to the alignment.
    pub(crate) bytes: u64,
    /// Bytes as asked for.
    pub(crate) asked: u64,
}

/// Why a size word is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Below the alignment, of which the command line has a line of its own to say.
    TooSmall,
    /// Anything else.
    Incorrect,
}

/// Reads a size word.
///
/// | word | bytes | why |
/// |---|---|---|
/// | `1g` `1GiB` `1Gi` `1 GiB` | 1073741824 | unit without case, then a prefix of `ib`, one space allowed |
/// | `1.5GiB` | 1073741824 | "Fractions are truncated before scaling" (reference §1.2) |
/// | `0.5GiB` `-5` `10GB` `2048bytes` | incorrect | zero, sign, unit |
/// | `100` | too small | below the minimum |
/// | `1000` | 512 | "rounded **down** with the notice line on stdout" (reference §1.2) |
pub(crate) fn parse(word: &str, alignment: u64) -> Result<Size, Flaw> {
    let (asked, rest) = scale(word).ok_or(Flaw::Incorrect)?;
    if asked < alignment {
        return Err(Flaw::TooSmall);
    }
    if !"ib".starts_with(rest.as_str()) {
        return Err(Flaw::Incorrect);
    }
    Ok(Size {
        bytes: asked - asked % alignment,
        asked,
    })
}

/// The bytes that number and unit letter say, and what follows them; none if they say nothing.
fn scale(word: &str) -> Option<(u64, String)> {
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = word.split_at(digits);
    let whole: u64 = whole.parse().ok()?;
    let rest = match rest.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => rest,
    };
    let unit = rest.strip_prefix(' ').unwrap_or(rest).to_ascii_lowercase();
    let mut letters = unit.chars();
    let power = match letters.next() {
        None => 0,
        Some(letter) => u32::try_from("bkmgtpezy".find(letter)?).ok()?,
    };
    let bytes = whole.checked_mul(1024_u64.checked_pow(power)?)?;
    (bytes > 0).then(|| (bytes, letters.collect()))
}

/// The one-decimal text of `info` and of the messages.
///
/// Reference §0.14: "`info` SIZE is rounded to one decimal, up or down (2104533975 bytes shows `2.0 GiB`)".
pub(crate) fn print(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut scale = 1_u64;
    let mut name = "B";
    for unit in UNITS {
        name = unit;
        if bytes / scale < 1024 || unit == "EiB" {
            break;
        }
        scale <<= 10;
    }
    let (whole, rest) = (bytes / scale, bytes % scale);
    // `%.1f` rounds half to even on the exact binary value, and all values here are exact.
    let (twentieths, remainder) = (
        u128::from(rest) * 10 / u128::from(scale),
        u128::from(rest) * 10 % u128::from(scale),
    );
    let round_up = match (remainder * 2).cmp(&u128::from(scale)) {
        std::cmp::Ordering::Less => 0,
        std::cmp::Ordering::Greater => 1,
        std::cmp::Ordering::Equal => twentieths % 2,
    };
    let tenths = u128::from(whole) * 10 + twentieths + round_up;
    format!("{}.{} {name}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn units_are_read_without_case_and_with_a_prefix_of_ib() {
        for word in [
            "1g",
            "1G",
            "1GiB",
            "1gi",
            "1 GiB",
            "1.5GiB",
            "1.9gib",
            "1073741824",
        ] {
            assert_eq!(
                parse(word, SECTOR).map(|size| size.bytes),
                Ok(GIB),
                "{word}"
            );
        }
        assert_eq!(parse("1mi", SECTOR).map(|size| size.bytes), Ok(1 << 20));
        assert_eq!(parse("1024b", SECTOR).map(|size| size.bytes), Ok(1024));
    }

    #[test]
    fn a_word_that_is_no_size_and_a_size_below_the_minimum_are_told_apart() {
        for word in [
            "10GB",
            "-5",
            "0.5GiB",
            "2048bytes",
            "0",
            "",
            "g",
            "1  GiB",
            "1x",
            "16e",
            "1z",
            "1GiBx",
        ] {
            assert_eq!(parse(word, SECTOR), Err(Flaw::Incorrect), "{word}");
        }
        for (word, alignment) in [("100", SECTOR), ("100bytes", SECTOR), ("1k", 4096)] {
            assert_eq!(parse(word, alignment), Err(Flaw::TooSmall), "{word}");
        }
    }

    #[test]
    fn a_size_off_the_alignment_is_cut_down() {
        assert_eq!(
            parse("1000", SECTOR),
            Ok(Size {
                bytes: 512,
                asked: 1000
            })
        );
        assert_eq!(
            parse("9000", 4096),
            Ok(Size {
                bytes: 8192,
                asked: 9000
            })
        );
    }

    #[test]
    fn printed_sizes_lose_bytes_up_and_down() {
        for (bytes, text) in [
            (2_104_533_975, "2.0 GiB"), // reference §0.14
            (2 * GIB, "2.0 GiB"),
            (GIB + GIB / 2, "1.5 GiB"),
            (2 * (1 << 20), "2.0 MiB"),
            (512, "512.0 B"),
            (1023, "1023.0 B"),
            (1024 * 1024 - 1, "1024.0 KiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(print(bytes), text, "{bytes}");
        }
    }
}
