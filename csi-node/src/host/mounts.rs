//! Mounts through the kernel's own calls: no helper program, no force, no lazy unmount.
//!
//! Every call may sleep on a dead device, so all of them run on a bounded thread.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_remount, unmount};

use super::{HostError, MountOptions, TargetKind};

/// Options that are flags of the mount and not words for the file system.
const FLAGS: [(&str, MountFlags); 8] = [
    ("ro", MountFlags::RDONLY),
    ("noatime", MountFlags::NOATIME),
    ("nodiratime", MountFlags::NODIRATIME),
    ("relatime", MountFlags::RELATIME),
    ("nodev", MountFlags::NODEV),
    ("nosuid", MountFlags::NOSUID),
    ("noexec", MountFlags::NOEXEC),
    ("sync", MountFlags::SYNCHRONOUS),
];

/// Mounts a device's file system.
///
/// # Errors
///
/// [`HostError::MountOption`] when the kernel does not take the options (K05).
pub fn mount_device(
    device: &Path,
    fs_type: &str,
    target: &Path,
    options: &MountOptions,
) -> Result<(), HostError> {
    let mut flags = if options.read_only {
        MountFlags::RDONLY
    } else {
        MountFlags::empty()
    };
    let mut words = Vec::new();
    for option in options.flags.iter().flat_map(|option| split(option)) {
        match FLAGS.iter().find(|(name, _)| *name == option) {
            Some((_, flag)) => flags |= *flag,
            None if ["rw", "defaults"].contains(&option) => {}
            None => words.push(option),
        }
    }
    let text = words.join(",");
    let data = CString::new(text.clone()).map_err(|_| HostError::MountOption {
        options: text.clone(),
        detail: "a NUL byte is in them".to_owned(),
    })?;
    mount(device, target, fs_type, flags, data.as_c_str()).map_err(|errno| match errno {
        Errno::INVAL if !text.is_empty() => HostError::MountOption {
            options: text.clone(),
            detail: format!("{errno}; the kernel's log says which"),
        },
        errno => failed("mount", target, errno),
    })
}

/// Options may come as one text; a `SELinux` context in quotes may hold commas.
fn split(option: &str) -> Vec<&str> {
    if option.contains('"') {
        vec![option]
    } else {
        option.split(',').filter(|word| !word.is_empty()).collect()
    }
}

/// Binds a directory onto a directory, or a file onto a file.
///
/// # Errors
///
/// The kernel refuses.
pub fn bind(source: &Path, target: &Path, read_only: bool) -> Result<(), HostError> {
    mount_bind(source, target).map_err(|errno| failed("bind", target, errno))?;
    if !read_only {
        return Ok(());
    }
    // A bind ignores `ro` at first (R02).
    let flags = MountFlags::BIND | MountFlags::RDONLY;
    if let Err(errno) = mount_remount(target, flags, "") {
        // A writable mount must not stay where a read-only one was promised.
        let _ = unmount(target, UnmountFlags::empty());
        return Err(failed("remount read-only", target, errno));
    }
    Ok(())
}

/// Takes the topmost mount off; not mounted is success.
///
/// # Errors
///
/// [`HostError::Busy`] while it is in use (D27).
pub fn unmount_one(target: &Path) -> Result<(), HostError> {
    match unmount(target, UnmountFlags::NOFOLLOW) {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(Errno::BUSY) => Err(HostError::Busy {
            what: target.display().to_string(),
            detail: "a process has a file open on it or its directory there".to_owned(),
        }),
        Err(errno) => Err(failed("unmount", target, errno)),
    }
}

/// Makes the directory or the empty file to mount on.
///
/// # Errors
///
/// It cannot be made, or something of another kind is there.
pub fn make_target(target: &Path, kind: TargetKind) -> Result<(), HostError> {
    let at = |what| {
        move |source| HostError::Io {
            what,
            path: target.to_owned(),
            source,
        }
    };
    if let Some(above) = target.parent() {
        fs::create_dir_all(above).map_err(at("make the directory of"))?;
    }
    match kind {
        TargetKind::Directory => match fs::create_dir(target) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && target.is_dir() => Ok(()),
            outcome => outcome.map_err(at("make")),
        },
        TargetKind::File => match fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(target)
        {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let found = fs::symlink_metadata(target)
                    .map_err(at("look at"))?
                    .file_type();
                if found.is_file() || found.is_block_device() {
                    return Ok(());
                }
                Err(at("use")(error))
            }
            Err(error) => Err(at("make")(error)),
        },
    }
}

/// Removes an empty directory or a file and nothing below it (D25); absent is success.
///
/// # Errors
///
/// It is not empty, or still mounted on.
pub fn remove_target(target: &Path) -> Result<(), HostError> {
    let removed = match fs::symlink_metadata(target) {
        Ok(found) if found.is_dir() => fs::remove_dir(target),
        Ok(_) => fs::remove_file(target),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome.map_err(|source| HostError::Io {
            what: "remove",
            path: target.to_owned(),
            source,
        }),
    }
}

fn failed(what: &'static str, path: &Path, errno: Errno) -> HostError {
    debug_assert!(!path.as_os_str().as_bytes().is_empty());
    HostError::Io {
        what,
        path: path.to_owned(),
        source: errno.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_made_once_and_removed_with_nothing_below_it() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("pods/1/mount");
        make_target(&target, TargetKind::Directory).unwrap();
        make_target(&target, TargetKind::Directory).unwrap();
        // D25
        fs::write(target.join("data"), "x").unwrap();
        assert!(remove_target(&target).is_err());
        assert!(target.join("data").is_file());
        fs::remove_file(target.join("data")).unwrap();
        remove_target(&target).unwrap();
        remove_target(&target).unwrap();
    }

    #[test]
    fn a_file_target_is_not_made_over_a_directory() {
        let folder = tempfile::tempdir().unwrap();
        assert!(make_target(folder.path(), TargetKind::File).is_err());
        let file = folder.path().join("dev");
        make_target(&file, TargetKind::File).unwrap();
        make_target(&file, TargetKind::File).unwrap();
        assert!(make_target(&file, TargetKind::Directory).is_err());
    }

    // K04
    #[test]
    fn a_context_in_quotes_stays_one_option() {
        assert_eq!(split("noatime,nodev"), ["noatime", "nodev"]);
        assert_eq!(
            split("context=\"a:b:c:s0:c1,c2\""),
            ["context=\"a:b:c:s0:c1,c2\""]
        );
    }
}
