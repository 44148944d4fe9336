//! What multipathd and device-mapper do.

use blockd_client::vocabulary::Wwid;

use super::world::{LiveMap, World};
use crate::host::{DevNumber, HostError, Map, PathDevice};

impl World {
    pub(super) fn all_maps(&self) -> Vec<Map> {
        self.maps
            .iter()
            .filter(|(_, map)| map.hidden_for == 0)
            .map(|(wwid, map)| show(wwid, map))
            .collect()
    }

    pub(super) fn map_of(&mut self, wwid: &Wwid) -> Option<Map> {
        let map = self.maps.get_mut(wwid)?;
        map.hidden_for = map.hidden_for.saturating_sub(1);
        (map.hidden_for == 0).then(|| show(wwid, map))
    }

    pub(super) fn slaves_of(&self, map: &Map) -> Vec<PathDevice> {
        map.slaves
            .iter()
            .filter_map(|name| Some((name, self.paths.get(name)?)))
            .map(|(name, path)| self.show_path(name, path))
            .collect()
    }

    /// multipathd groups by the identity it remembers, and takes no path whose size is not the map's, as the real one does
    /// (`lab.md` §5).
    pub(super) fn add_map(&mut self, wwid: &Wwid, paths: &[PathDevice]) {
        if self.mapless {
            return;
        }
        let slaves: Vec<String> = paths
            .iter()
            .map(|path| path.name.clone())
            .filter(|name| self.paths.get(name).is_some_and(|path| path.wwid == *wwid))
            .collect();
        let size = slaves
            .iter()
            .filter_map(|name| self.paths.get(name))
            .map(|path| path.size);
        let (Some(size), Some(minor)) = (size.min(), self.free_minor()) else {
            return;
        };
        let hidden_for = self.map_delay;
        self.known.extend(slaves.iter().cloned());
        let map = self.maps.entry(wwid.clone()).or_insert_with(|| LiveMap {
            name: format!("dm-{minor}"),
            dev: DevNumber { major: 253, minor },
            size,
            slaves: std::collections::BTreeSet::new(),
            suspended: false,
            queueing: true,
            read_only: false,
            holders: Vec::new(),
            hidden_for,
        });
        let fits = |name: &String| {
            self.paths
                .get(name)
                .is_some_and(|path| path.size == map.size)
        };
        map.slaves.extend(slaves.into_iter().filter(fits));
    }

    pub(super) fn resize_map(&mut self, wwid: &Wwid) -> Result<(), HostError> {
        let sizes: Vec<_> = self
            .maps
            .get(wwid)
            .into_iter()
            .flat_map(|map| &map.slaves)
            .filter_map(|name| self.paths.get(name))
            .map(|path| path.size)
            .collect();
        let unlike = sizes.iter().any(|size| Some(size) != sizes.first());
        let (Some(size), Some(map), false) = (sizes.first(), self.maps.get_mut(wwid), unlike)
        else {
            return Err(HostError::MultipathRefused {
                what: "resize map".to_owned(),
                detail: "fail".to_owned(),
            });
        };
        map.size = *size;
        Ok(())
    }

    pub(super) fn flush_map(&mut self, wwid: &Wwid) -> Result<(), HostError> {
        let Some(map) = self.maps.get(wwid) else {
            return Ok(());
        };
        let dev = map.dev;
        let used = self
            .mounts
            .iter()
            .any(|entry| entry.dev == dev || entry.node == Some(dev));
        if used || !map.holders.is_empty() {
            return Err(HostError::Busy {
                what: map.name.clone(),
                detail: "map in use".to_owned(),
            });
        }
        self.maps.remove(wwid);
        Ok(())
    }

    pub(super) fn forget_paths(&mut self, names: &[String]) {
        self.known.retain(|name| !names.contains(name));
    }

    pub(super) fn stop_queueing(&mut self, wwid: &Wwid) {
        if let Some(dev) = self.maps.get(wwid).map(|map| map.dev)
            && self
                .mounts
                .iter()
                .any(|entry| entry.dev == dev || entry.node == Some(dev))
        {
            self.violation("queueing stopped on a map in use"); // D16
        }
        if let Some(map) = self.maps.get_mut(wwid) {
            map.queueing = false;
        }
    }

    /// The lowest number no map has: numbers are reused at once (W09, W17).
    fn free_minor(&self) -> Option<u32> {
        (0..1024).find(|minor| self.maps.values().all(|map| map.dev.minor != *minor))
    }
}

fn show(wwid: &Wwid, map: &LiveMap) -> Map {
    Map {
        name: map.name.clone(),
        dev: map.dev,
        wwid: wwid.clone(),
        size: map.size,
        read_only: map.read_only,
        suspended: map.suspended,
        slaves: map.slaves.iter().cloned().collect(),
        holders: map.holders.clone(),
    }
}
