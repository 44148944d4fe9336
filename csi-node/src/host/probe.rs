//! What a device carries, read by a child process that can be killed (C9, C12).
//!
//! The parent starts this very program as `csi-node probe-device /dev/dm-N`. One open file, opened past the page cache, so
//! that what is read is what the device holds now: the first and the last MiB, where file systems, partition tables, RAID and
//! volume managers have their signatures (blkid looks at copies further in). Each
//! byte of them must be read; a short read is an error and never "nothing there" (F01, F02, F04).

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::process::ExitCode;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

/// Bytes looked at on either end.
const END: u64 = 1 << 20;
/// What reads past the page cache are aligned to: the largest block size that is served.
const ALIGNMENT: usize = 4096;

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    /// Size of the device in bytes.
    pub size: u64,
    /// Every byte of both ends is zero.
    pub zero: bool,
    /// An xfs superblock whose making was cut short.
    pub xfs_in_progress: bool,
}

/// The child's main: prints the findings as JSON; 1 with the reason on stderr when a read failed.
#[expect(
    clippy::print_stdout,
    reason = "this is the child's answer to its parent"
)]
#[must_use]
pub fn run(arguments: &[OsString]) -> ExitCode {
    let Some(device) = arguments.first() else {
        eprintln!("csi-node probe-device: a device is needed");
        return ExitCode::FAILURE;
    };
    match examine(Path::new(device)) {
        Ok(findings) => {
            println!("{}", serde_json::json!(findings));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn examine(device: &Path) -> io::Result<Findings> {
    let direct = i32::try_from(OFlags::DIRECT.bits()).map_err(io::Error::other)?;
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(direct)
        .open(device)?;
    if !file.metadata()?.file_type().is_block_device() {
        return Err(io::Error::other("it is not a block device"));
    }
    look(&mut file)
}

/// Looks at both ends of what is open.
fn look(file: &mut File) -> io::Result<Findings> {
    let size = file.seek(SeekFrom::End(0))?;
    if size == 0 {
        return Err(io::Error::other("its size is zero"));
    }
    let first = read_at(file, 0, size.min(END))?;
    let from = size.saturating_sub(END) / alignment() * alignment();
    let last = read_at(file, from, size - from)?;
    Ok(Findings {
        size,
        zero: first.iter().chain(&last).all(|byte| *byte == 0),
        xfs_in_progress: first.starts_with(b"XFSB")
            && first.get(126).is_some_and(|flag| *flag != 0),
    })
}

/// Exactly so many bytes, or an error.
fn read_at(file: &mut File, from: u64, count: u64) -> io::Result<Vec<u8>> {
    let count = usize::try_from(count).map_err(io::Error::other)?;
    // Memory has to be aligned too: take more, and begin where it is.
    let mut memory = vec![0; count + ALIGNMENT];
    let start = memory.as_ptr().align_offset(ALIGNMENT);
    file.seek(SeekFrom::Start(from))?;
    let piece = memory
        .get_mut(start..start + count)
        .ok_or(io::ErrorKind::OutOfMemory)?;
    file.read_exact(piece)?;
    Ok(piece.to_vec())
}

fn alignment() -> u64 {
    u64::try_from(ALIGNMENT).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn image(size: u64, writes: &[(u64, &[u8])]) -> Findings {
        let mut file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        for (at, bytes) in writes {
            file.seek(SeekFrom::Start(*at)).unwrap();
            file.write_all(bytes).unwrap();
        }
        look(&mut file).unwrap()
    }

    // F01
    #[test]
    fn one_byte_at_either_end_is_not_blank() {
        const SIZE: u64 = 8 << 20;
        assert!(image(SIZE, &[]).zero);
        for at in [0, 1024, 65_536, END - 1, SIZE - END, SIZE - 1] {
            assert!(!image(SIZE, &[(at, b"x")]).zero, "{at}");
        }
    }

    #[test]
    fn a_device_smaller_than_two_ends_is_read_whole() {
        assert!(!image(5 << 18, &[(600_000, b"x")]).zero);
        assert!(image(4096, &[]).zero);
    }

    // F03
    #[test]
    fn an_xfs_whose_making_was_cut_short_is_seen() {
        let mut block = [0; 128];
        block[..4].copy_from_slice(b"XFSB");
        assert!(!image(4 << 20, &[(0, &block)]).xfs_in_progress);
        block[126] = 1;
        assert!(image(4 << 20, &[(0, &block)]).xfs_in_progress);
    }

    // F04
    #[test]
    fn what_is_no_block_device_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(examine(file.path()).is_err());
        assert!(examine(Path::new("/does/not/exist")).is_err());
    }
}
