//! LIO through its configfs tree: what the real daemon has targetcli and tcmu-runner do.
//!
//! The backstore is `fileio` on the mounted volume instead of `user:glfs`, dressed with the same identity: vendor
//! `LIO-ORG`, product `TCMU device`, revision `0002`, unit serial = GBID, from which the kernel makes the WWID
//! `36001405` + 25 digits (reference §3.1). On a directory that is no configfs the same files are written, so that
//! the logic can be tested without a kernel that has LIO.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::metadata::iqn;
use super::saved::{StorageObject, Target, Tpg};

/// Attributes of every backstore.
///
/// `optimal_sectors` is the largest transfer that initiators choose by themselves.
/// `fileio` writes in the connection's receive thread. With the kernel's default of 8 MiB one write through FUSE takes
/// seconds on a small machine; meanwhile data of the next commands stays unread, LIO's data-out timer (3 s) ends the
/// connection, and initiators miss their no-ops. tcmu-runner has neither problem.
///
/// The others offer UNMAP and WRITE SAME with UNMAP, as tcmu-runner does; here they punch holes and are fast. Without
/// them the initiator zeroes by a WRITE SAME longer than `fileio` takes, and falls back to writing zeros.
const ATTRIBUTES: [(&str, &str); 4] = [
    ("optimal_sectors", "512"),
    ("emulate_tpu", "1"),
    ("emulate_tpws", "1"),
    ("unmap_zeroes_data", "1"),
];

/// With these a write of the optimal size comes whole with its command, so that no data-out timer runs.
/// (`fd_async_io=1` would free the receive thread, but lost writes over FUSE when it was tried.)
const PARAMETERS: [(&str, &str); 4] = [
    ("InitialR2T", "No"),
    ("ImmediateData", "Yes"),
    ("FirstBurstLength", "262144"),
    ("MaxRecvDataSegmentLength", "262144"),
];

/// The tree under `/sys/kernel/config/target`.
#[derive(Debug, Clone)]
pub(crate) struct Configfs {
    root: PathBuf,
    is_plain: bool,
    is_write_back: bool,
}

impl Configfs {
    /// The tree at `root`; a plain directory is recognised by its file system.
    pub(crate) fn new(root: &Path, is_write_back: bool) -> Self {
        const CONFIGFS_MAGIC: i64 = 0x6265_6570;
        let is_configfs =
            rustix::fs::statfs(root).is_ok_and(|numbers| numbers.f_type == CONFIGFS_MAGIC);
        Self {
            root: root.to_owned(),
            is_plain: !is_configfs,
            is_write_back,
        }
    }

    fn backstore(&self, block: &str) -> PathBuf {
        self.root.join("core/fileio_0").join(block)
    }

    fn target(&self, wwn: &str) -> PathBuf {
        self.root.join("iscsi").join(wwn)
    }

    /// Whether anything of the block is in the kernel: its target, or a backstore with its name and its serial.
    pub(crate) fn is_loaded(&self, block: &str, gbid: &str) -> bool {
        self.target(&iqn(gbid)).try_exists().unwrap_or(false)
            || self
                .serial(block)
                .is_some_and(|serial| serial.contains(gbid))
    }

    /// The unit serial line of a backstore, if there is one: names are unique per host but not per volume, so the
    /// name alone may be another block's (reference §1.2 and §6, #243).
    fn serial(&self, block: &str) -> Option<String> {
        fs::read_to_string(self.backstore(block).join("wwn/vpd_unit_serial")).ok()
    }

    /// Whether the block is exported as `target` says.
    pub(crate) fn is_complete(&self, target: &Target) -> bool {
        target.tpgs.iter().all(|tpg| {
            let path = self.target(&target.wwn).join(format!("tpgt_{}", tpg.tag));
            let enabled = fs::read_to_string(path.join("enable")).unwrap_or_default();
            (enabled.trim() == "1") == tpg.enable && path.try_exists().unwrap_or(false)
        })
    }

    /// Exports `file` as the two saved objects describe, from nothing.
    pub(crate) fn load(
        &self,
        object: &StorageObject,
        target: &Target,
        file: &Path,
    ) -> io::Result<()> {
        self.remove(&object.name, &object.wwn)?;
        let backstore = self.load_backstore(object, file)?;
        directory(&self.root.join("iscsi"))?;
        directory(&self.target(&target.wwn))?;
        for tpg in &target.tpgs {
            self.load_tpg(&target.wwn, tpg, &backstore)?;
        }
        Ok(())
    }

    fn load_backstore(&self, object: &StorageObject, file: &Path) -> io::Result<PathBuf> {
        let path = self.backstore(&object.name);
        directory(&path)?;
        let write_back = if self.is_write_back {
            ",fd_buffered_io=1"
        } else {
            ""
        };
        let control = format!(
            "fd_dev_name={},fd_dev_size={}{write_back}",
            file.display(),
            object.size
        );
        self.write(&path.join("control"), &control)?;
        // Before everything else: enabling opens the file and makes the defaults.
        self.write(&path.join("enable"), "1")?;
        self.write(&path.join("wwn/vendor_id"), "LIO-ORG")?;
        self.write(&path.join("wwn/product_id"), "TCMU device")?;
        self.write(&path.join("wwn/revision"), "0002")?;
        self.write(&path.join("wwn/vpd_unit_serial"), &object.wwn)?;
        for (name, value) in ATTRIBUTES {
            self.write(&path.join("attrib").join(name), value)?;
        }
        if let Some(bytes) = object.attributes.get("hw_block_size") {
            self.write(&path.join("attrib/block_size"), &bytes.to_string())?;
        }
        for group in &object.alua_tpgs {
            let path = path.join("alua").join(&group.name);
            directory(&path)?;
            self.write(&path.join("tg_pt_gp_id"), &group.tg_pt_gp_id.to_string())?;
            self.write(
                &path.join("alua_access_type"),
                &group.alua_access_type.to_string(),
            )?;
            self.write(
                &path.join("alua_access_state"),
                &group.alua_access_state.to_string(),
            )?;
            // "implicit only (`alua_access_type=1`), standby/offline/unavailable unsupported" (reference §3.3)
            for state in ["standby", "offline", "unavailable"] {
                self.write(&path.join(format!("alua_support_{state}")), "0")?;
            }
        }
        Ok(path)
    }

    fn load_tpg(&self, wwn: &str, tpg: &Tpg, backstore: &Path) -> io::Result<()> {
        let path = self.target(wwn).join(format!("tpgt_{}", tpg.tag));
        directory(&path)?;
        for lun in &tpg.luns {
            let lun_path = path.join("lun").join(format!("lun_{}", lun.index));
            directory(&lun_path)?;
            std::os::unix::fs::symlink(backstore, lun_path.join("backstore"))?;
            self.write(&lun_path.join("alua_tg_pt_gp"), &lun.alua_tg_pt_gp_name)?;
        }
        for portal in &tpg.portals {
            directory(
                &path
                    .join("np")
                    .join(format!("{}:{}", portal.ip_address, portal.port)),
            )?;
        }
        for (name, value) in &tpg.attributes {
            self.write(&path.join("attrib").join(name), &value.to_string())?;
        }
        for (name, value) in PARAMETERS {
            self.write(&path.join("param").join(name), &format!("{value}\n"))?;
        }
        // No newline: the kernel keeps it and CHAP then fails (reference lab §2).
        if let Some(user) = &tpg.chap_userid {
            self.write(&path.join("auth/userid"), user)?;
        }
        if let Some(password) = &tpg.chap_password {
            self.write(&path.join("auth/password"), password)?;
        }
        self.write(&path.join("enable"), if tpg.enable { "1" } else { "0" })
            .or_else(|error| {
                // Disabling what was never enabled is refused by the kernel.
                if tpg.enable { Err(error) } else { Ok(()) }
            })
    }

    /// Tells the kernel a new size.
    pub(crate) fn resize(&self, block: &str, bytes: u64) -> io::Result<()> {
        self.write(
            &self.backstore(block).join("control"),
            &format!("fd_dev_size={bytes}"),
        )
    }

    /// Applies the authentication of every portal group.
    pub(crate) fn set_auth(&self, target: &Target) -> io::Result<()> {
        for tpg in &target.tpgs {
            let path = self.target(&target.wwn).join(format!("tpgt_{}", tpg.tag));
            if let (Some(user), Some(password)) = (&tpg.chap_userid, &tpg.chap_password) {
                self.write(&path.join("auth/userid"), user)?;
                self.write(&path.join("auth/password"), password)?;
            }
            let authentication = tpg.attributes.get("authentication").copied().unwrap_or(0);
            self.write(
                &path.join("attrib/authentication"),
                &authentication.to_string(),
            )?;
        }
        Ok(())
    }

    /// Moves a portal of one portal group from `old` to `new`.
    pub(crate) fn move_portal(
        &self,
        wwn: &str,
        tag: usize,
        old: &str,
        new: &str,
    ) -> io::Result<()> {
        let portals = self.target(wwn).join(format!("tpgt_{tag}")).join("np");
        self.remove_tree(&portals.join(format!("{old}:3260")))?;
        directory(&portals.join(format!("{new}:3260")))
    }

    /// Takes everything of the block out of the kernel, in the order it accepts; absent parts are fine.
    pub(crate) fn remove(&self, block: &str, gbid: &str) -> io::Result<()> {
        let target = self.target(&iqn(gbid));
        for tpg in children(&target, "tpgt_")? {
            if fs::read_to_string(tpg.join("enable")).is_ok_and(|enabled| enabled.trim() == "1") {
                self.write(&tpg.join("enable"), "0")?;
            }
            for lun in children(&tpg.join("lun"), "lun_")? {
                for link in children(&lun, "backstore")? {
                    fs::remove_file(link)?;
                }
                self.remove_tree(&lun)?;
            }
            for portal in children(&tpg.join("np"), "")? {
                self.remove_tree(&portal)?;
            }
            self.remove_tree(&tpg)?;
        }
        self.remove_tree(&target)?;
        let serial = self.serial(block).unwrap_or_default();
        let value = serial.rsplit(':').next().unwrap_or_default().trim();
        if !value.is_empty() && value != gbid {
            return Ok(());
        }
        let backstore = self.backstore(block);
        for group in children(&backstore.join("alua"), "glfs_")? {
            self.remove_tree(&group)?;
        }
        self.remove_tree(&backstore)?;
        if let Some(adapter) = backstore.parent() {
            // The adapter goes with its last backstore and is busy until then.
            let _in_use = fs::remove_dir(adapter);
        }
        Ok(())
    }

    fn write(&self, path: &Path, value: &str) -> io::Result<()> {
        if self.is_plain
            && let Some(parent) = path.parent()
        {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, value)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    }

    /// Removes a directory; configfs empties it by itself, a plain one is emptied first.
    fn remove_tree(&self, path: &Path) -> io::Result<()> {
        if self.is_plain {
            for child in children(path, "")? {
                if child.symlink_metadata()?.is_dir() {
                    self.remove_tree(&child)?;
                } else {
                    fs::remove_file(child)?;
                }
            }
        }
        match fs::remove_dir(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io::Error::new(
                error.kind(),
                format!("{}: {error}", path.display()),
            )),
            _ => Ok(()),
        }
    }
}

fn directory(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

fn children(directory: &Path, prefix: &str) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::protocol::HostCreate;
    use super::super::saved::exports;
    use super::*;

    fn objects() -> (StorageObject, Target) {
        exports(&HostCreate {
            address: "10.0.0.1".to_owned(),
            volume: "hostvol".to_owned(),
            gbid: "7f9aa1b2-aba7-4c77-9a5b-02a3ed562b15".to_owned(),
            password: "secret".to_owned(),
            size: 1 << 20,
            block: "b1".to_owned(),
            prio_path: "10.0.0.1".to_owned(),
            hosts: "10.0.0.1,10.0.0.2".to_owned(),
            auth: true,
            server: "localhost".to_owned(),
            ..HostCreate::default()
        })
    }

    #[test]
    fn an_export_has_the_identity_of_the_real_one_and_goes_without_a_trace() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let configfs = Configfs::new(directory.path(), true);
        let (object, target) = objects();
        configfs
            .load(&object, &target, Path::new("/file"))
            .expect("load");
        let read = |path: &str| fs::read_to_string(directory.path().join(path)).expect(path);
        assert_eq!(read("core/fileio_0/b1/wwn/product_id"), "TCMU device");
        assert_eq!(read("core/fileio_0/b1/wwn/vpd_unit_serial"), object.wwn);
        let tpg = format!("iscsi/{}/tpgt_1", target.wwn);
        assert_eq!(read(&format!("{tpg}/auth/password")), "secret");
        assert_eq!(read(&format!("{tpg}/enable")), "1");
        assert!(configfs.is_complete(&target));
        configfs
            .load(&object, &target, Path::new("/file"))
            .expect("load again");
        configfs
            .remove(&object.name, "another-gbid")
            .expect("another block of that name");
        assert!(configfs.is_loaded(&object.name, &object.wwn));
        configfs.remove(&object.name, &object.wwn).expect("remove");
        assert!(!configfs.is_loaded(&object.name, &object.wwn));
        let left = |path: &str| children(&directory.path().join(path), "").expect("list");
        assert!(left("iscsi").is_empty() && left("core").is_empty());
    }

    #[test]
    fn removing_what_is_not_there_is_fine() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let configfs = Configfs::new(directory.path(), false);
        configfs.remove("b1", "gbid").expect("nothing to do");
        assert!(!configfs.is_loaded("b1", "gbid"));
    }
}
