//! File systems, mounts and mount targets.

use std::path::{Path, PathBuf};

use blockd_client::vocabulary::FsType;

use super::world::{DiskContent, World};
use crate::host::{
    Content, DevNumber, HostError, Map, MountEntry, MountOptions, Proof, TargetKind, Usage,
};

impl World {
    pub(super) fn probe(&self, map: &Map) -> Result<Content, HostError> {
        let disk = self.disk_under(&map.wwid).and_then(|id| self.disk(id));
        let disk = disk.ok_or_else(|| HostError::ReadFailed {
            device: map.name.clone(),
            detail: "input/output error at offset 0".to_owned(),
        })?;
        Ok(match &disk.content {
            DiskContent::Blank => Content::Blank,
            DiskContent::Scraps => Content::NotBlank,
            DiskContent::Filesystem { fs, .. } => Content::Filesystem(*fs),
            DiskContent::Foreign(text) => Content::Foreign(text.clone()),
        })
    }

    pub(super) fn begin_format(&mut self, map: &Map, proof: Proof) -> Result<(), HostError> {
        let Some(id) = self.disk_under(&map.wwid) else {
            return Err(io_error("write", &map.name));
        };
        let mounted = self.mounts.iter().any(|entry| entry.dev == map.dev);
        let Some(disk) = self.disk_mut(id) else {
            return Err(io_error("write", &map.name));
        };
        let lawful = match proof {
            Proof::Blank => disk.content == DiskContent::Blank,
            Proof::OurUnfinishedFormat => {
                matches!(disk.content, DiskContent::Blank | DiskContent::Scraps)
            }
        };
        if !lawful || mounted {
            let complaint = format!("format over {:?}", disk.content); // C9
            self.violation(complaint);
        } else {
            disk.content = DiskContent::Scraps;
        }
        Ok(())
    }

    pub(super) fn finish_format(&mut self, map: &Map, fs: FsType) -> Result<(), HostError> {
        let disk = self.disk_under(&map.wwid).and_then(|id| self.disk_mut(id));
        let disk = disk.ok_or_else(|| io_error("write", &map.name))?;
        disk.content = DiskContent::Filesystem { fs, size: map.size };
        disk.formats += 1;
        Ok(())
    }

    pub(super) fn check(&mut self, map: &Map, fs: FsType) -> Result<(), HostError> {
        if self.mounts.iter().any(|entry| entry.dev == map.dev) {
            self.violation("check of a mounted file system"); // F23
        }
        let damaged = self
            .disk_under(&map.wwid)
            .and_then(|id| self.disk(id))
            .is_some_and(|disk| disk.damaged);
        if damaged {
            return Err(HostError::Damaged {
                fs,
                device: map.name.clone(),
                detail: "unattached inode".to_owned(),
            });
        }
        Ok(())
    }

    pub(super) fn can_grow(&self, map: &Map) -> bool {
        let disk = self.disk_under(&map.wwid).and_then(|id| self.disk(id));
        disk.is_some_and(|disk| match &disk.content {
            DiskContent::Filesystem { size, .. } => *size < map.size,
            DiskContent::Blank | DiskContent::Scraps | DiskContent::Foreign(_) => false,
        })
    }

    pub(super) fn grow(&mut self, map: &Map, mountpoint: &Path) -> Result<(), HostError> {
        let mounted = self
            .top(mountpoint)
            .is_some_and(|entry| entry.dev == map.dev && !entry.super_read_only);
        if !mounted {
            return Err(HostError::Failed {
                what: "grow".to_owned(),
                status: "exit code 1".to_owned(),
                detail: format!("{} is not a mounted file system", mountpoint.display()),
            });
        }
        let disk = self.disk_under(&map.wwid).and_then(|id| self.disk_mut(id));
        let disk = disk.ok_or_else(|| io_error("write", &map.name))?;
        if let DiskContent::Filesystem { size, .. } = &mut disk.content {
            *size = map.size;
        }
        Ok(())
    }

    pub(super) fn mount(
        &mut self,
        map: &Map,
        fs: FsType,
        target: &Path,
        options: &MountOptions,
    ) -> Result<(), HostError> {
        let content = self.probe(map)?;
        if content != Content::Filesystem(fs) || map.suspended {
            return Err(io_error("mount", &map.name));
        }
        if fs == FsType::Xfs && !options.flags.iter().any(|flag| flag == "nouuid") {
            self.violation("xfs mounted without nouuid"); // X02
        }
        self.add_mount(MountEntry {
            dev: map.dev,
            root: PathBuf::from("/"),
            mountpoint: target.to_owned(),
            fs_type: fs.to_string(),
            source: format!("/dev/mapper/{}", map.wwid),
            read_only: options.read_only,
            super_read_only: options.read_only,
            options: options.flags.join(","),
            super_options: options.flags.join(","),
            node: None,
        })
    }

    pub(super) fn bind(
        &mut self,
        source: &Path,
        target: &Path,
        read_only: bool,
    ) -> Result<(), HostError> {
        let top = self.top(source).cloned();
        let entry = top.ok_or_else(|| io_error("bind", &source.display().to_string()))?;
        self.add_mount(MountEntry {
            mountpoint: target.to_owned(),
            read_only: read_only || entry.super_read_only,
            ..entry
        })
    }

    pub(super) fn bind_device(
        &mut self,
        map: &Map,
        target: &Path,
        read_only: bool,
    ) -> Result<(), HostError> {
        self.add_mount(MountEntry {
            dev: DevNumber { major: 0, minor: 5 },
            root: PathBuf::from(format!("/{}", map.name)),
            mountpoint: target.to_owned(),
            fs_type: "devtmpfs".to_owned(),
            source: "udev".to_owned(),
            read_only,
            super_read_only: false,
            options: String::new(),
            super_options: String::new(),
            node: Some(map.dev),
        })
    }

    pub(super) fn unmount(&mut self, target: &Path) {
        if let Some(index) = self
            .mounts
            .iter()
            .rposition(|entry| entry.mountpoint == target)
        {
            self.mounts.remove(index);
        }
    }

    pub(super) fn remove_target(&mut self, target: &Path) -> Result<(), HostError> {
        if self.top(target).is_some() {
            self.violation(format!("removal of mounted {}", target.display())); // D25
            return Err(HostError::Busy {
                what: target.display().to_string(),
                detail: "mounted".to_owned(),
            });
        }
        self.targets_on_disk.remove(target);
        Ok(())
    }

    pub(super) fn usage(&self, mountpoint: &Path) -> Result<Usage, HostError> {
        let dev = self.top(mountpoint).map(|entry| entry.dev);
        let wwid = self
            .maps
            .iter()
            .find(|(_, map)| Some(map.dev) == dev)
            .map(|(wwid, _)| wwid);
        let disk = wwid
            .and_then(|wwid| self.disk_under(wwid))
            .and_then(|id| self.disk(id));
        let total = match disk.map(|disk| &disk.content) {
            Some(DiskContent::Filesystem { size, .. }) => size.bytes(),
            Some(DiskContent::Blank | DiskContent::Scraps | DiskContent::Foreign(_)) | None => {
                return Err(io_error("statvfs", &mountpoint.display().to_string()));
            }
        };
        Ok(Usage {
            total_bytes: total,
            used_bytes: total / 4,
            available_bytes: total - total / 4,
            total_inodes: 1000,
            used_inodes: 10,
            free_inodes: 990,
        })
    }

    fn add_mount(&mut self, entry: MountEntry) -> Result<(), HostError> {
        if !self.targets_on_disk.contains_key(&entry.mountpoint) {
            return Err(io_error(
                "mount on",
                &entry.mountpoint.display().to_string(),
            ));
        }
        self.mounts.push(entry);
        Ok(())
    }

    fn top(&self, mountpoint: &Path) -> Option<&MountEntry> {
        self.mounts
            .iter()
            .rev()
            .find(|entry| entry.mountpoint == mountpoint)
    }

    /// A directory or file as the caller of the driver makes it before a call.
    pub(super) fn made_by_caller(&mut self, target: &Path, kind: TargetKind) {
        self.targets_on_disk.insert(target.to_owned(), kind);
    }
}

fn io_error(what: &str, on: &str) -> HostError {
    HostError::Failed {
        what: format!("{what} {on}"),
        status: "an error of the kernel".to_owned(),
        detail: "input/output error".to_owned(),
    }
}
