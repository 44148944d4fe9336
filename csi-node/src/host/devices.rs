//! Sessions, paths and maps as sysfs shows them, found by number and identity and never by name or udev link (W20).

use std::path::{Path, PathBuf};

use blockd_client::vocabulary::{Capacity, Iqn, Portal, Wwid};

use super::sysfs::Sysfs;
use super::{HostError, Map, PathDevice, Session, SessionState};

/// sysfs counts sizes in sectors of 512 bytes, whatever the device's own block size.
const SECTOR: u64 = 512;

/// A session of any target.
struct AnySession {
    sid: u32,
    host: u32,
    target: String,
    portal: Option<Portal>,
    state: SessionState,
}

/// Every session to a gluster-block target. One whose files cannot be read is going away and is skipped (S14).
///
/// # Errors
///
/// The list itself cannot be read.
pub fn sessions(sysfs: &Sysfs) -> Result<Vec<Session>, HostError> {
    let ours = any_sessions(sysfs)?.into_iter().filter_map(|session| {
        Some(Session {
            sid: session.sid,
            host: session.host,
            iqn: session.target.parse::<Iqn>().ok()?,
            portal: session.portal?,
            state: session.state,
        })
    });
    Ok(ours.collect())
}

fn any_sessions(sysfs: &Sysfs) -> Result<Vec<AnySession>, HostError> {
    let names = sysfs.names("class/iscsi_session")?;
    Ok(names
        .iter()
        .filter_map(|name| session(sysfs, name))
        .collect())
}

fn session(sysfs: &Sysfs, name: &str) -> Option<AnySession> {
    let base = Path::new("class/iscsi_session").join(name);
    let read = |file: &str| sysfs.read(base.join(file)).ok().flatten();
    let state = match read("state").unwrap_or_default().as_str() {
        "LOGGED_IN" => SessionState::LoggedIn,
        "FAILED" => SessionState::Failed,
        "FREE" => SessionState::Free,
        other => SessionState::Other(other.to_owned()),
    };
    // …/hostH/sessionN is the device, hostH the SCSI host.
    let device = sysfs.resolve(base.join("device"))?;
    let host = number(device.parent()?, "host")?;
    Some(AnySession {
        sid: name.strip_prefix("session")?.parse().ok()?,
        host,
        target: read("targetname")?,
        portal: portal(sysfs, &base),
        state,
    })
}

/// The portal of a session's connection; the persistent address is the one that was asked for.
fn portal(sysfs: &Sysfs, session: &Path) -> Option<Portal> {
    let device = session.join("device");
    let connection = sysfs
        .names(&device)
        .ok()?
        .into_iter()
        .find(|name| name.starts_with("connection"))?;
    let base = device
        .join(&connection)
        .join("iscsi_connection")
        .join(&connection);
    let address = sysfs.read(base.join("persistent_address")).ok()??;
    let port = sysfs.read(base.join("persistent_port")).ok()??;
    format!("{address}:{port}").parse().ok()
}

/// LUN 0 of each of these sessions' SCSI hosts.
///
/// # Errors
///
/// An attribute is there and cannot be read.
pub fn paths(sysfs: &Sysfs, sessions: &[Session]) -> Result<Vec<PathDevice>, HostError> {
    let mut found = Vec::new();
    let all = any_sessions(sysfs)?;
    for session in sessions {
        // Channel, id and LUN are numbers of their own in the name: LUN 1 and LUN 11 cannot be mixed up (W21).
        let blocks = format!("class/scsi_device/{}:0:0:0/device/block", session.host);
        for name in sysfs.names(blocks)? {
            found.extend(path_device(sysfs, &name, &all)?);
        }
    }
    Ok(found)
}

/// The disks that a map stands on.
///
/// # Errors
///
/// An attribute is there and cannot be read.
pub fn slaves(sysfs: &Sysfs, map: &Map) -> Result<Vec<PathDevice>, HostError> {
    let mut found = Vec::new();
    let all = any_sessions(sysfs)?;
    for name in sysfs.names(format!("block/{}/slaves", map.name))? {
        found.extend(path_device(sysfs, &name, &all)?);
    }
    Ok(found)
}

/// One disk, whose session is among `sessions`; `None` when it is gone.
///
/// They are listed once for all disks of an observation: a node has as many sessions as disks.
fn path_device(
    sysfs: &Sysfs,
    name: &str,
    sessions: &[AnySession],
) -> Result<Option<PathDevice>, HostError> {
    let base = Path::new("block").join(name);
    let Some(dev) = sysfs.parse(base.join("dev"))? else {
        return Ok(None);
    };
    let Some(device) = sysfs.resolve(base.join("device")) else {
        return Ok(None);
    };
    let Some(host) = scsi_host(&device) else {
        return Ok(None);
    };
    let session = sessions.iter().find(|session| session.host == host);
    let wwid = sysfs.read(base.join("device/wwid"))?;
    Ok(Some(PathDevice {
        name: name.to_owned(),
        dev,
        host,
        portal: session.and_then(|session| session.portal),
        target: session.map(|session| session.target.clone()),
        wwid: wwid.as_deref().and_then(wwid_of_sysfs),
        size: size(sysfs, &base)?,
        read_only: flag(sysfs, &base.join("ro"))?,
        state: sysfs.read(base.join("device/state"))?.unwrap_or_default(),
        holders: sysfs.names(base.join("holders"))?,
    }))
}

/// What a path's name means now.
enum Named {
    /// The same device, and its directory. Session numbers are in it, and they are never used again.
    Same(PathBuf),
    /// No device.
    Nothing,
    /// A device of another SCSI host: names are used again at once (W17).
    Another,
}

/// Whether a path still is what it was when it was seen.
///
/// | SCSI host of the device of that name | its identity | answer |
/// |---|---|---|
/// | as seen | as seen | the same |
/// | as seen | another | an error: nothing may be done to it by the old one's right |
/// | another | | another |
/// | there is no such device | | nothing |
fn named(sysfs: &Sysfs, path: &PathDevice) -> Result<Named, HostError> {
    let Some(device) = sysfs.resolve(Path::new("block").join(&path.name).join("device")) else {
        return Ok(Named::Nothing);
    };
    if scsi_host(&device) != Some(path.host) {
        return Ok(Named::Another);
    }
    let wwid = sysfs.read(device.join("wwid"))?;
    let wwid = wwid.as_deref().and_then(wwid_of_sysfs);
    if wwid != path.wwid {
        return Err(HostError::NoDevice {
            device: path.name.clone(),
            detail: format!("its identity was {:?} and now is {wwid:?}", path.wwid),
        });
    }
    Ok(Named::Same(device))
}

/// Removes a path's device; one that is gone, also if its name is another's by now, is success.
///
/// # Errors
///
/// The device has another identity than when it was seen, or the kernel refuses.
pub fn delete(sysfs: &Sysfs, path: &PathDevice) -> Result<(), HostError> {
    match named(sysfs, path)? {
        Named::Same(device) => sysfs.write(device.join("delete"), "1").map(drop),
        Named::Nothing | Named::Another => Ok(()),
    }
}

/// Those of the paths whose names are no other device's by now.
///
/// # Errors
///
/// A device has another identity than when it was seen.
pub fn not_renamed(sysfs: &Sysfs, paths: &[PathDevice]) -> Result<Vec<PathDevice>, HostError> {
    let mut kept = Vec::new();
    for path in paths {
        match named(sysfs, path)? {
            Named::Same(_) | Named::Nothing => kept.push(path.clone()),
            Named::Another => {}
        }
    }
    Ok(kept)
}

/// Every multipath map of a gluster-block identity.
///
/// # Errors
///
/// An attribute is there and cannot be read.
pub fn maps(sysfs: &Sysfs) -> Result<Vec<Map>, HostError> {
    let mut found = Vec::new();
    for name in sysfs
        .names("block")?
        .into_iter()
        .filter(|name| name.starts_with("dm-"))
    {
        let base = Path::new("block").join(&name);
        let uuid = sysfs.read(base.join("dm/uuid"))?;
        let Some(wwid) = uuid.and_then(|uuid| uuid.strip_prefix("mpath-")?.parse::<Wwid>().ok())
        else {
            continue;
        };
        let Some(dev) = sysfs.parse(base.join("dev"))? else {
            continue;
        };
        found.push(Map {
            dev,
            wwid,
            size: size(sysfs, &base)?,
            read_only: flag(sysfs, &base.join("ro"))?,
            suspended: flag(sysfs, &base.join("dm/suspended"))?,
            slaves: sysfs.names(base.join("slaves"))?,
            holders: sysfs.names(base.join("holders"))?,
            name,
        });
    }
    Ok(found)
}

/// The first number of a device directory's name, `3:0:0:0`.
fn scsi_host(device: &Path) -> Option<u32> {
    device
        .file_name()?
        .to_str()?
        .split(':')
        .next()?
        .parse()
        .ok()
}

/// sysfs writes `naa.6001405…`, multipath `36001405…` (W18).
fn wwid_of_sysfs(text: &str) -> Option<Wwid> {
    format!("3{}", text.strip_prefix("naa.")?).parse().ok()
}

fn size(sysfs: &Sysfs, base: &Path) -> Result<Capacity, HostError> {
    let sectors: u64 = sysfs.parse(base.join("size"))?.unwrap_or(0);
    Ok(Capacity::from_bytes(sectors.saturating_mul(SECTOR)))
}

fn flag(sysfs: &Sysfs, path: &Path) -> Result<bool, HostError> {
    Ok(sysfs.read(path)?.as_deref() == Some("1"))
}

fn number(path: &Path, prefix: &str) -> Option<u32> {
    path.file_name()?
        .to_str()?
        .strip_prefix(prefix)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    const GBID: &str = "6f3c2a10-1111-4222-8333-abcdefabcdef";

    /// A small tree as the kernel shows it: one session on host 3 with sda, and the map dm-0 on it.
    fn tree() -> (tempfile::TempDir, Sysfs) {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        let write = |path: &str, text: &str| {
            fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            fs::write(at(path), text).unwrap();
        };
        let link = |from: &str, to: &str| {
            fs::create_dir_all(at(from).parent().unwrap()).unwrap();
            symlink(at(to), at(from)).unwrap();
        };
        let session = "devices/platform/host3/session1";
        let class = format!("{session}/iscsi_session/session1");
        write(
            &format!("{class}/targetname"),
            &format!("iqn.2016-12.org.gluster-block:{GBID}\n"),
        );
        write(&format!("{class}/state"), "LOGGED_IN\n");
        link(&format!("{class}/device"), session);
        link("class/iscsi_session/session1", &class);
        let connection = format!("{session}/connection1:0/iscsi_connection/connection1:0");
        write(&format!("{connection}/persistent_address"), "10.77.1.11\n");
        write(&format!("{connection}/persistent_port"), "3260\n");
        let lun = format!("{session}/target3:0:0/3:0:0:0");
        write(&format!("{lun}/state"), "running\n");
        write(
            &format!("{lun}/wwid"),
            "naa.60014056f3c2a10111142228333abcde\n",
        );
        write(&format!("{lun}/block/sda/dev"), "8:0\n");
        write(&format!("{lun}/block/sda/size"), "2097152\n");
        write(&format!("{lun}/block/sda/ro"), "0\n");
        fs::create_dir_all(at(&format!("{lun}/block/sda/holders/dm-0"))).unwrap();
        link(&format!("{lun}/block/sda/device"), &lun);
        link("class/scsi_device/3:0:0:0/device", &lun);
        link("block/sda", &format!("{lun}/block/sda"));
        write(
            "block/dm-0/dm/uuid",
            "mpath-360014056f3c2a10111142228333abcde\n",
        );
        write("block/dm-0/dm/suspended", "0\n");
        write("block/dm-0/dev", "253:0\n");
        write("block/dm-0/size", "2097152\n");
        fs::create_dir_all(at("block/dm-0/slaves/sda")).unwrap();
        let sysfs = Sysfs::new(root.path());
        (root, sysfs)
    }

    #[test]
    fn a_session_its_path_and_its_map_are_found() {
        let (_root, sysfs) = tree();
        let sessions = sessions(&sysfs).unwrap();
        assert_eq!(sessions.len(), 1);
        assert_eq!(sessions[0].portal.to_string(), "10.77.1.11:3260");
        let paths = paths(&sysfs, &sessions).unwrap();
        assert_eq!(
            (paths[0].name.as_str(), paths[0].size.bytes()),
            ("sda", 1 << 30)
        );
        let maps = maps(&sysfs).unwrap();
        assert_eq!(maps[0].slaves, ["sda"]);
        assert_eq!(paths[0].wwid.as_ref(), Some(&maps[0].wwid));
    }

    #[test]
    fn the_sessions_are_listed_once_however_many_paths_there_are() {
        let (root, sysfs) = tree();
        let sessions = sessions(&sysfs).unwrap();
        let map = maps(&sysfs).unwrap().remove(0);
        fs::create_dir_all(root.path().join("block/dm-0/slaves/sdb")).unwrap();
        symlink(root.path().join("block/sda"), root.path().join("block/sdb")).unwrap();
        let listings = || {
            let mut listed = sysfs.listed.lock().unwrap();
            let listed = std::mem::take(&mut *listed).into_iter();
            listed
                .filter(|path| path == Path::new("class/iscsi_session"))
                .count()
        };
        listings();
        let twice = [sessions[0].clone(), sessions[0].clone()];
        assert_eq!(paths(&sysfs, &twice).unwrap().len(), 2);
        assert_eq!(listings(), 1);
        assert_eq!(slaves(&sysfs, &map).unwrap().len(), 2);
        assert_eq!(listings(), 1);
    }

    // W17
    #[test]
    fn a_name_that_is_another_devices_by_now_is_left_alone() {
        let (root, sysfs) = tree();
        let at = |path: &str| root.path().join(path);
        let seen = paths(&sysfs, &sessions(&sysfs).unwrap()).unwrap();
        let lun = "devices/platform/host3/session1/target3:0:0/3:0:0:0";
        let deleted = |lun: &str| fs::read_to_string(at(lun).join("delete")).unwrap();
        fs::write(at(lun).join("delete"), "").unwrap();

        fs::write(
            at(lun).join("wwid"),
            "naa.6001405ffffffffffffffffffffffff\n",
        )
        .unwrap();
        assert!(delete(&sysfs, &seen[0]).is_err());
        assert!(not_renamed(&sysfs, &seen).is_err());
        fs::write(
            at(lun).join("wwid"),
            "naa.60014056f3c2a10111142228333abcde\n",
        )
        .unwrap();
        assert_eq!(deleted(lun), "");
        assert_eq!(not_renamed(&sysfs, &seen).unwrap(), seen);

        let other = "devices/platform/host4/session9/target4:0:0/4:0:0:0";
        fs::create_dir_all(at(other).join("block/sda")).unwrap();
        fs::write(at(other).join("delete"), "").unwrap();
        symlink(at(other), at(other).join("block/sda/device")).unwrap();
        fs::remove_file(at("block/sda")).unwrap();
        symlink(at(other).join("block/sda"), at("block/sda")).unwrap();
        delete(&sysfs, &seen[0]).unwrap();
        assert_eq!(not_renamed(&sysfs, &seen).unwrap(), []);
        assert_eq!(
            (deleted(lun), deleted(other)),
            (String::new(), String::new())
        );

        fs::remove_file(at("block/sda")).unwrap();
        delete(&sysfs, &seen[0]).unwrap();
        assert_eq!(not_renamed(&sysfs, &seen).unwrap(), seen);

        symlink(at(lun).join("block/sda"), at("block/sda")).unwrap();
        delete(&sysfs, &seen[0]).unwrap();
        assert_eq!(deleted(lun), "1");
    }

    // S14
    #[test]
    fn a_session_without_a_readable_connection_is_skipped() {
        let (root, sysfs) = tree();
        let connection =
            "devices/platform/host3/session1/connection1:0/iscsi_connection/connection1:0";
        fs::remove_file(root.path().join(connection).join("persistent_address")).unwrap();
        assert!(sessions(&sysfs).unwrap().is_empty());
    }

    // W18
    #[test]
    fn identities_of_other_kinds_are_none_of_ours() {
        for text in [
            "t10.ATA",
            "eui.0025385b71b0",
            "naa.",
            "naa.5000c500a1b2c3d4",
            "",
        ] {
            assert_eq!(wwid_of_sysfs(text), None, "{text}");
        }
    }
}
