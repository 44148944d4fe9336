//! How a test sets the scene, and how it reads what is left.

use std::path::Path;

use blockd_client::vocabulary::{Capacity, Iqn, Portal};

use super::world::{Disk, Endpoint, Target};
use super::{DiskContent, DiskId, FakeHost};
use crate::host::{DevNumber, MountEntry, SessionState, TargetKind};

impl FakeHost {
    /// A gluster-block volume, exported blank at every portal.
    #[must_use]
    pub fn add_volume(&self, iqn: &Iqn, portals: &[Portal], size: Capacity) -> DiskId {
        let disk = self.add_disk(iqn, size);
        let mut world = self.world();
        let endpoints = portals.iter().map(|portal| {
            (
                *portal,
                Endpoint {
                    up: true,
                    lun: Some(disk),
                },
            )
        });
        world.targets.insert(
            *iqn,
            Target {
                endpoints: endpoints.collect(),
                chap: None,
            },
        );
        disk
    }

    /// A disk with the identity that this target's GBID gives, exported nowhere.
    #[must_use]
    pub fn add_disk(&self, iqn: &Iqn, size: Capacity) -> DiskId {
        let mut world = self.world();
        let id = DiskId(world.disks.len());
        world.disks.push(Disk {
            id,
            wwid: iqn.gbid().wwid(),
            size,
            content: DiskContent::Blank,
            damaged: false,
            formats: 0,
        });
        id
    }

    /// Has the target ask for CHAP.
    pub fn ask_for_chap(&self, iqn: &Iqn, user: &str, password: &str) {
        if let Some(target) = self.world().targets.get_mut(iqn) {
            target.chap = Some((user.to_owned(), password.to_owned()));
        }
    }

    /// Cuts or restores one portal; its session notices.
    pub fn set_portal(&self, iqn: &Iqn, portal: &Portal, up: bool) {
        let mut world = self.world();
        let target = world.targets.get_mut(iqn);
        if let Some(endpoint) = target.and_then(|target| target.endpoints.get_mut(portal)) {
            endpoint.up = up;
        }
        let state = if up {
            SessionState::LoggedIn
        } else {
            SessionState::Failed
        };
        for session in world.sessions.values_mut() {
            if session.iqn == *iqn && session.portal == *portal {
                session.state = state.clone();
            }
        }
    }

    /// What LUN 0 of this portal is from now on; live sessions are not told.
    pub fn set_lun(&self, iqn: &Iqn, portal: &Portal, lun: Option<DiskId>) {
        let mut world = self.world();
        let target = world.targets.get_mut(iqn);
        if let Some(endpoint) = target.and_then(|target| target.endpoints.get_mut(portal)) {
            endpoint.lun = lun;
        }
    }

    /// What a disk carries.
    pub fn set_content(&self, disk: DiskId, content: DiskContent) {
        if let Some(disk) = self.world().disk_mut(disk) {
            disk.content = content;
        }
    }

    /// What a disk carries now.
    #[must_use]
    pub fn content(&self, disk: DiskId) -> Option<DiskContent> {
        self.world().disk(disk).map(|disk| disk.content.clone())
    }

    /// Changes the size of a disk on the storage side.
    pub fn set_size(&self, disk: DiskId, size: Capacity) {
        if let Some(disk) = self.world().disk_mut(disk) {
            disk.size = size;
        }
    }

    /// Damages a disk's file system.
    pub fn damage(&self, disk: DiskId) {
        if let Some(disk) = self.world().disk_mut(disk) {
            disk.damaged = true;
        }
    }

    /// How often a disk was formatted to the end.
    #[must_use]
    pub fn formats(&self, disk: DiskId) -> u32 {
        self.world().disk(disk).map_or(0, |disk| disk.formats)
    }

    /// How many observations new paths and new maps stay hidden.
    pub fn set_latency(&self, paths: u32, maps: u32) {
        let mut world = self.world();
        world.path_delay = paths;
        world.map_delay = maps;
    }

    /// Has multipathd make no maps any more.
    pub fn set_mapless(&self, mapless: bool) {
        self.world().mapless = mapless;
    }

    /// Suspends or resumes every map.
    pub fn set_suspended(&self, suspended: bool) {
        for map in self.world().maps.values_mut() {
            map.suspended = suspended;
        }
    }

    /// Puts something on top of every map, as partitions do.
    pub fn set_holders(&self, holders: &[&str]) {
        for map in self.world().maps.values_mut() {
            map.holders = holders.iter().map(|name| (*name).to_owned()).collect();
        }
    }

    /// What the caller of the driver makes before a call.
    pub fn make(&self, target: &Path, kind: TargetKind) {
        self.world().made_by_caller(target, kind);
    }

    /// Whether a mount target is there.
    #[must_use]
    pub fn is_made(&self, target: &Path) -> bool {
        self.world().targets_on_disk.contains_key(target)
    }

    /// Mounts a device of somebody else's.
    pub fn mount_foreign(&self, target: &Path, dev: DevNumber) {
        self.world().mounts.push(MountEntry {
            dev,
            root: "/".into(),
            mountpoint: target.to_owned(),
            fs_type: "ext4".to_owned(),
            source: "/dev/foreign".to_owned(),
            read_only: false,
            super_read_only: false,
            options: String::new(),
            super_options: String::new(),
            node: None,
        });
    }

    /// The mounts on one path, oldest first.
    #[must_use]
    pub fn mounts_on(&self, target: &Path) -> Vec<MountEntry> {
        self.world()
            .mounts
            .iter()
            .filter(|entry| entry.mountpoint == target)
            .cloned()
            .collect()
    }

    /// Forgets a node record behind everybody's back (S08).
    pub fn lose_records(&self) {
        self.world().records.clear();
    }

    /// Drops all sessions and their paths behind everybody's back (D04); a map keeps its name and loses its paths.
    pub fn lose_sessions(&self) {
        let mut world = self.world();
        world.sessions.clear();
        world.paths.clear();
        world.known.clear();
        for map in world.maps.values_mut() {
            map.slaves.clear();
        }
    }

    /// Takes a number of map away and gives it to another (W09): renames every map and its device.
    pub fn renumber_maps(&self) {
        let mut world = self.world();
        let mut moved = Vec::new();
        for map in world.maps.values_mut() {
            let old = map.dev;
            map.dev.minor += 7;
            map.name = format!("dm-{}", map.dev.minor);
            moved.push((old, map.dev));
        }
        for entry in &mut world.mounts {
            if let Some((_, new)) = moved.iter().find(|(old, _)| *old == entry.dev) {
                entry.dev = *new;
            }
        }
    }

    /// Switches the host off and on: the kernel forgets everything, files stay.
    pub fn reboot(&self) {
        let mut world = self.world();
        world.sessions.clear();
        world.paths.clear();
        world.known.clear();
        world.maps.clear();
        world.mounts.clear();
        world.boots += 1;
    }

    /// Everything of a volume that is still on the host, in words.
    #[must_use]
    pub fn residue(&self) -> Vec<String> {
        let world = self.world();
        let mut residue: Vec<String> = Vec::new();
        residue.extend(
            world
                .records
                .keys()
                .map(|(iqn, portal)| format!("record {iqn} {portal}")),
        );
        residue.extend(
            world
                .all_sessions()
                .iter()
                .map(|session| format!("session {} {}", session.sid, session.portal)),
        );
        residue.extend(world.paths.keys().map(|name| format!("path {name}")));
        residue.extend(
            world
                .known
                .iter()
                .map(|name| format!("known to multipathd {name}")),
        );
        residue.extend(world.maps.keys().map(|wwid| format!("map {wwid}")));
        residue.extend(
            world
                .mounts
                .iter()
                .map(|entry| format!("mount {}", entry.mountpoint.display())),
        );
        residue
    }

    /// What was done that must never be done.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        self.world().violations.clone()
    }

    /// How many sessions there are.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.world().sessions.len()
    }
}
