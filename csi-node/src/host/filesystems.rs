//! File systems: what is on a device, making one, checking it, growing it.

use std::path::Path;
use std::time::Duration;

use blockd_client::vocabulary::FsType;

use super::command::{Invocation, Output, Program, Runner};
use super::probe::Findings;
use super::{Content, HostError, Proof};

/// Reading both ends of a device.
const PROBE: Duration = Duration::from_mins(1);
/// Making, checking and growing write and read across the device.
const LONG: Duration = Duration::from_mins(10);

/// What the device carries, by our own reading and by blkid's together.
///
/// # Errors
///
/// Any read that failed, whichever of the two it was: then nothing is known (F02).
pub async fn probe(runner: &Runner, device: &str) -> Result<Content, HostError> {
    let unreadable = |detail: String| HostError::ReadFailed {
        device: device.to_owned(),
        detail,
    };
    let own = Invocation::new(Program::Own, ["probe-device", device], PROBE).on(device);
    let output = runner.run(&own).await?;
    if output.code != Some(0) {
        return Err(unreadable(output.detail()));
    }
    let findings =
        serde_json::from_slice(&output.stdout).map_err(|error| unreadable(error.to_string()))?;
    let blkid = ["--probe", "--output", "export", device];
    let signatures = runner
        .run(&Invocation::new(Program::Blkid, blkid, PROBE).on(device))
        .await?;
    content(findings, &signatures).ok_or_else(|| unreadable(signatures.detail()))
}

/// | blkid | our own reading | content |
/// |---|---|---|
/// | exit 0, TYPE ext4 or xfs | | that file system |
/// | exit 0, TYPE xfs | its making was cut short | not blank |
/// | exit 0, anything else | | foreign |
/// | exit 8, ambivalent | | foreign |
/// | exit 2, nothing | all zero | blank |
/// | exit 2, nothing | not all zero | not blank |
/// | any other exit | | nothing is known |
fn content(findings: Findings, blkid: &Output) -> Option<Content> {
    let text = blkid.text();
    let value = |key: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
    };
    match (blkid.code, value("TYPE").or_else(|| value("PTTYPE"))) {
        (Some(0), Some(_)) if findings.xfs_in_progress => Some(Content::NotBlank),
        (Some(0), Some(name)) => Some(match name.parse::<FsType>() {
            Ok(fs) => Content::Filesystem(fs),
            Err(_) => Content::Foreign(name.to_owned()),
        }),
        (Some(0), None) => Some(Content::Foreign(text.trim().replace('\n', " "))),
        (Some(8), _) => Some(Content::Foreign("several signatures".to_owned())),
        (Some(2), _) if findings.zero => Some(Content::Blank),
        (Some(2), _) => Some(Content::NotBlank),
        _ => None,
    }
}

/// Makes a file system without discarding: one UNMAP over the whole device outlasts tcmu-runner's timer and takes the
/// target down (gluster-block reference §9, F16). Without a proof the tools' own refusal to overwrite stays on.
#[must_use]
pub fn format(device: &str, fs: FsType, proof: Proof) -> Invocation {
    let (program, arguments, force) = match fs {
        // The journal is written at once: only the ends of the device are known to be zero (F17).
        FsType::Ext4 => (
            Program::MkfsExt4,
            vec!["-q", "-E", "nodiscard,lazy_journal_init=0"],
            "-F",
        ),
        FsType::Xfs => (Program::MkfsXfs, vec!["-q", "-K"], "-f"),
    };
    let force = (proof == Proof::OurUnfinishedFormat).then_some(force);
    let arguments = arguments.into_iter().chain(force).chain([device]);
    Invocation::new(program, arguments, LONG).on(device)
}

/// Repairs what is safe unattended. xfs replays its log at the mount and needs nothing here.
///
/// # Errors
///
/// [`HostError::Damaged`] for what a person must look at (F15).
pub async fn check(runner: &Runner, device: &str, fs: FsType) -> Result<(), HostError> {
    if fs == FsType::Xfs {
        return Ok(());
    }
    let output = runner
        .run(&Invocation::new(Program::E2fsck, ["-p", device], LONG).on(device))
        .await?;
    match output.code {
        // 1: errors corrected; 2: corrected, and a mounted file system would want a reboot, which this is not.
        Some(0..=2) => Ok(()),
        Some(code) if code & 4 != 0 => Err(HostError::Damaged {
            fs,
            device: device.to_owned(),
            detail: output.detail(),
        }),
        _ => Err(output.failure("the check of the file system")),
    }
}

/// Grows a mounted file system: ext4 by its device, xfs by its mount point (E06). Both do nothing when it fills its device (E11).
#[must_use]
pub fn grow(device: &str, fs: FsType, mountpoint: &Path) -> Invocation {
    let mountpoint = mountpoint.display().to_string();
    match fs {
        FsType::Ext4 => Invocation::new(Program::Resize2fs, [device.to_owned()], LONG),
        FsType::Xfs => Invocation::new(Program::XfsGrowfs, ["-d".to_owned(), mountpoint], LONG),
    }
    .on(device)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blkid(code: i32, stdout: &str) -> Output {
        Output {
            code: Some(code),
            status: format!("exit status: {code}"),
            stdout: stdout.as_bytes().to_vec(),
            stderr: Vec::new(),
        }
    }

    fn found(zero: bool) -> Findings {
        Findings {
            size: 1 << 30,
            zero,
            xfs_in_progress: false,
        }
    }

    // F01, F02
    #[test]
    fn blank_needs_both_readings() {
        assert_eq!(content(found(true), &blkid(2, "")), Some(Content::Blank));
        assert_eq!(
            content(found(false), &blkid(2, "")),
            Some(Content::NotBlank)
        );
        for code in [1, 4, 64, 127] {
            assert_eq!(content(found(true), &blkid(code, "")), None, "{code}");
        }
    }

    #[test]
    fn signatures_are_told_apart() {
        let with = |text: &str| content(found(false), &blkid(0, text));
        assert_eq!(
            with("DEVNAME=/dev/dm-0\nTYPE=xfs\n"),
            Some(Content::Filesystem(FsType::Xfs))
        );
        assert_eq!(with("TYPE=ext4\n"), Some(Content::Filesystem(FsType::Ext4)));
        assert_eq!(
            with("TYPE=LVM2_member\n"),
            Some(Content::Foreign("LVM2_member".to_owned()))
        );
        assert_eq!(
            with("PTTYPE=gpt\n"),
            Some(Content::Foreign("gpt".to_owned()))
        );
        assert!(matches!(
            content(found(false), &blkid(8, "")),
            Some(Content::Foreign(_))
        ));
        let cut = Findings {
            xfs_in_progress: true,
            ..found(false)
        };
        assert_eq!(
            content(cut, &blkid(0, "TYPE=xfs\n")),
            Some(Content::NotBlank)
        );
    }

    // F06, F16
    #[test]
    fn a_format_never_discards_and_forces_only_over_our_own_leftovers() {
        let ext4 = format("/dev/dm-0", FsType::Ext4, Proof::Blank).to_string();
        assert_eq!(
            ext4,
            "mkfs.ext4 -q -E nodiscard,lazy_journal_init=0 /dev/dm-0"
        );
        let xfs = format("/dev/dm-0", FsType::Xfs, Proof::Blank).to_string();
        assert_eq!(xfs, "mkfs.xfs -q -K /dev/dm-0");
        let again = format("/dev/dm-0", FsType::Xfs, Proof::OurUnfinishedFormat).to_string();
        assert_eq!(again, "mkfs.xfs -q -K -f /dev/dm-0");
    }

    // E06
    #[test]
    fn xfs_grows_by_its_mount_point() {
        let grown = grow("/dev/dm-0", FsType::Xfs, Path::new("/m")).to_string();
        assert_eq!(grown, "xfs_growfs -d /m");
    }
}
