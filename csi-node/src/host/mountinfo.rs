//! The kernel's mount table, `/proc/self/mountinfo`.
//!
//! It is the only source of truth about mounts: asking the mounted file system itself can fail or hang exactly when it
//! matters (T06). Format: proc(5). A line is
//! `id parent major:minor root mountpoint options [optional]… - type source super-options`, with octal escapes in paths.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::{DevNumber, MountEntry};

/// A line that is not of the kernel's form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {number} of the mount table has no {missing}: {line:?}")]
pub struct InvalidLine {
    number: usize,
    missing: &'static str,
    line: String,
}

/// Parses the table, oldest mount first as the kernel lists it.
///
/// # Errors
///
/// A line that does not parse: half a table would be worse than none.
pub fn parse(table: &[u8]) -> Result<Vec<MountEntry>, InvalidLine> {
    table
        .split(|byte| *byte == b'\n')
        .enumerate()
        .filter(|(_, line)| !line.is_empty())
        .map(|(index, line)| {
            parse_line(line).map_err(|missing| InvalidLine {
                number: index.saturating_add(1),
                missing,
                line: String::from_utf8_lossy(line).into_owned(),
            })
        })
        .collect()
}

/// Whether the path is mounted over at least once.
#[must_use]
pub fn is_mountpoint(table: &[MountEntry], path: &Path) -> bool {
    table.iter().any(|entry| entry.mountpoint == path)
}

fn parse_line(line: &[u8]) -> Result<MountEntry, &'static str> {
    let mut fields = line
        .split(|byte| *byte == b' ')
        .filter(|field| !field.is_empty());
    let mut next = |name: &'static str| fields.next().ok_or(name);
    next("mount id")?;
    next("parent id")?;
    let dev: DevNumber = text(next("device number")?)
        .parse()
        .map_err(|_| "device number")?;
    let root = path(next("root")?);
    let mountpoint = path(next("mountpoint")?);
    let options = text(next("options")?);
    // Optional fields, such as shared:1, end at a lone dash.
    while next("separator")? != b"-" {}
    let fs_type = text(&unescape(next("type")?));
    // The source may be empty: then there are two spaces in a row, which the filter above swallows.
    let source_or_options = next("super options")?;
    let (source, super_options) = match next("super options") {
        Ok(super_options) => (text(&unescape(source_or_options)), text(super_options)),
        Err(_) => (String::new(), text(source_or_options)),
    };
    Ok(MountEntry {
        dev,
        root,
        mountpoint,
        fs_type,
        source,
        read_only: has_option(&options, "ro"),
        super_read_only: has_option(&super_options, "ro"),
        options,
        super_options,
        node: None,
    })
}

fn has_option(options: &str, wanted: &str) -> bool {
    options.split(',').any(|option| option == wanted)
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(field).into_owned()
}

fn path(field: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(unescape(field)))
}

/// Takes the kernel's `\ooo` back: it escapes blank, tab, newline, backslash and `#`.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let escape = (*first == b'\\').then(|| octal(after)).flatten();
        let (byte, after) = escape.unwrap_or((*first, after));
        plain.push(byte);
        rest = after;
    }
    plain
}

fn octal(text: &[u8]) -> Option<(u8, &[u8])> {
    let (digits, rest) = text.split_at_checked(3)?;
    let digits = std::str::from_utf8(digits).ok()?;
    let byte = u8::from_str_radix(digits, 8).ok()?;
    digits
        .bytes()
        .all(|digit| digit.is_ascii_digit())
        .then_some((byte, rest))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use proptest::prelude::*;

    use super::*;

    const TABLE: &[u8] = include_bytes!("../../tests/fixtures/mountinfo/node");

    fn escape(path: &[u8]) -> Vec<u8> {
        let mut escaped = Vec::new();
        for byte in path {
            match byte {
                b' ' | b'\t' | b'\n' | b'\\' | b'#' => {
                    escaped.extend_from_slice(format!("\\{byte:03o}").as_bytes());
                }
                other => escaped.push(*other),
            }
        }
        escaped
    }

    #[test]
    fn a_recorded_table_reads_completely() {
        let entries = parse(TABLE).unwrap();
        assert_eq!(
            entries.len(),
            TABLE
                .split(|b| *b == b'\n')
                .filter(|l| !l.is_empty())
                .count()
        );
        let staged = entries
            .iter()
            .find(|e| e.mountpoint == Path::new("/mnt/stage a"))
            .unwrap();
        assert_eq!(staged.fs_type, "ext4");
        assert_eq!(staged.root, Path::new("/"));
        assert!(!staged.read_only);
        let bound = entries
            .iter()
            .find(|e| e.mountpoint == Path::new("/mnt/bound"))
            .unwrap();
        assert_eq!(bound.dev, staged.dev);
        assert_eq!(bound.root, Path::new("/sub"));
        assert!(bound.read_only && !bound.super_read_only); // R02
        let node = entries
            .iter()
            .find(|e| e.mountpoint == Path::new("/mnt/node"))
            .unwrap();
        assert_eq!(node.fs_type, "devtmpfs");
        assert!(node.root.to_str().unwrap().starts_with("/dm-"));
    }

    #[test]
    fn any_number_of_optional_fields_is_skipped() {
        for optional in [
            "",
            "shared:1 ",
            "shared:1 master:2 ",
            "propagate_from:1 unbindable x:y ",
        ] {
            let line =
                format!("36 35 98:0 /a /b rw,noatime {optional}- ext3 /dev/root rw,errors=x\n");
            let [entry] = parse(line.as_bytes()).unwrap().try_into().unwrap();
            assert_eq!(entry.super_options, "rw,errors=x");
        }
    }

    #[test]
    fn an_empty_source_is_no_reason_to_stop() {
        let [entry] = parse(b"1 0 0:5 / /x rw - tmpfs  rw,size=1k\n")
            .unwrap()
            .try_into()
            .unwrap();
        assert_eq!(entry.source, "");
        assert_eq!(entry.super_options, "rw,size=1k");
    }

    #[test]
    fn a_cut_line_is_an_error_not_a_shorter_table() {
        let error = parse(b"36 35 98:0 / /b rw - ext3 /dev/root rw\n36 35 98:0 /\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"line 2 of the mount table has no mountpoint: "36 35 98:0 /""#
        );
    }

    proptest! {
        #[test]
        fn every_path_reads_back_as_it_was(path in prop::collection::vec(1_u8..=255, 1..40)) {
            let mut line = b"36 35 98:0 / /".to_vec();
            line.extend(escape(&path));
            line.extend_from_slice(b" rw - xfs /dev/dm-0 rw\n");
            let entries = parse(&line).unwrap();
            prop_assert_eq!(&entries[0].mountpoint.as_os_str().as_bytes()[1..], &path[..]);
        }

        #[test]
        fn no_input_makes_it_panic(table in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&table);
        }
    }
}
