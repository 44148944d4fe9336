//! What the real host is asked: device nodes, bound nodes, small files, and the answer to an INQUIRY.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use crate::host::command::Output;
use crate::host::{DevNumber, HostError, Identity, Map, MountEntry};

/// The node of a map, proved to be that map's (F04).
pub(super) fn node(map: &Map) -> Result<String, HostError> {
    let device = format!("/dev/{}", map.name);
    let detail = match fs::metadata(&device) {
        Ok(found) if !found.file_type().is_block_device() => "it is not a block device".to_owned(),
        Ok(found) if number(found.rdev()) != map.dev => {
            format!("it is not {} but another device", map.dev)
        }
        Ok(_) => return Ok(device),
        Err(error) => error.to_string(),
    };
    Err(HostError::NoDevice { device, detail })
}

fn number(rdev: u64) -> DevNumber {
    DevNumber {
        major: rustix::fs::major(rdev),
        minor: rustix::fs::minor(rdev),
    }
}

/// A block device node that is mounted on a file: its number.
pub(super) fn bound_node(entry: &MountEntry) -> Option<DevNumber> {
    if !["devtmpfs", "tmpfs"].contains(&entry.fs_type.as_str()) || entry.root == Path::new("/") {
        return None;
    }
    let found = fs::symlink_metadata(&entry.mountpoint).ok()?;
    found
        .file_type()
        .is_block_device()
        .then(|| number(found.rdev()))
}

pub(super) fn read(path: &str) -> Result<String, HostError> {
    fs::read_to_string(path).map_err(|source| HostError::Io {
        what: "read",
        path: path.into(),
        source,
    })
}

/// What `sg_inq` says about page 0x83, and about the device when it has none.
///
/// | exit | export | identity |
/// |---|---|---|
/// | 0 | an NAA designator of the LUN | it |
/// | 0 | another designator, or none | other |
/// | 5 (illegal request), and its standard INQUIRY has no LUN behind it | | no LUN |
/// | else | | an error |
pub(super) fn identity(page: &Output) -> Option<Identity> {
    let text = page.text();
    let value = |key: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
    };
    let naa = [
        "SCSI_IDENT_LUN_NAA_REGEXT",
        "SCSI_IDENT_LUN_NAA_EXT",
        "SCSI_IDENT_LUN_NAA_REG",
    ];
    if page.code != Some(0) {
        return None;
    }
    Some(match naa.iter().find_map(|key| value(key)) {
        Some(naa) => match format!("3{naa}").parse() {
            Ok(wwid) => Identity::Naa(wwid),
            Err(_) => Identity::Other(naa.to_owned()),
        },
        None => Identity::Other(text.trim().replace('\n', " ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: i32, stdout: &str) -> Output {
        Output {
            code: Some(code),
            status: format!("exit status: {code}"),
            stdout: stdout.as_bytes().to_vec(),
            stderr: Vec::new(),
        }
    }

    // As recorded from a block of gluster-block; the T10 designator may come first.
    #[test]
    fn the_naa_designator_is_taken_wherever_it_stands() {
        let text = "SCSI_IDENT_LUN_T10=LIO-ORG_TCMU_device:6518e34b\nSCSI_IDENT_LUN_NAA_REGEXT=60014056518e34b1a8f4dfe99fd26f0a\n";
        let wanted = "360014056518e34b1a8f4dfe99fd26f0a".parse().unwrap();
        assert_eq!(identity(&said(0, text)), Some(Identity::Naa(wanted)));
    }

    // W18, W22
    #[test]
    fn another_designator_is_another_device_and_no_answer_is_no_identity() {
        let naa = said(0, "SCSI_IDENT_LUN_NAA_REG=5000c500a1b2c3d4\n");
        assert_eq!(
            identity(&naa),
            Some(Identity::Other("5000c500a1b2c3d4".to_owned()))
        );
        let t10 = said(0, "SCSI_IDENT_LUN_T10=ATA\n");
        assert!(matches!(identity(&t10), Some(Identity::Other(_))));
        assert_eq!(identity(&said(5, "")), None);
    }
}
