//! Node records, sessions and the disks that come with them.

use blockd_client::vocabulary::{ChapCredentials, Iqn, Portal};

use super::world::{LivePath, LiveSession, World};
use crate::host::{DevNumber, HostError, Identity, PathDevice, Session, SessionState};

impl World {
    pub(super) fn all_sessions(&self) -> Vec<Session> {
        self.sessions
            .iter()
            .map(|(sid, session)| Session {
                sid: *sid,
                host: host_of(*sid),
                iqn: session.iqn,
                portal: session.portal,
                state: session.state.clone(),
            })
            .collect()
    }

    pub(super) fn sessions_of(&self, iqn: &Iqn) -> Vec<Session> {
        let mut sessions = self.all_sessions();
        sessions.retain(|session| session.iqn == *iqn);
        sessions
    }

    pub(super) fn records_of(&self, iqn: &Iqn) -> Vec<Portal> {
        self.records
            .keys()
            .filter(|(name, _)| name == iqn)
            .map(|(_, portal)| *portal)
            .collect()
    }

    pub(super) fn write_record(
        &mut self,
        iqn: &Iqn,
        portal: Portal,
        chap: Option<&ChapCredentials>,
    ) {
        let chap = chap.map(|chap| (chap.user.to_string(), chap.password.expose().to_owned()));
        self.records.insert((*iqn, portal), chap);
    }

    pub(super) fn delete_record(&mut self, iqn: &Iqn, portal: Portal) {
        self.records.remove(&(*iqn, portal));
    }

    pub(super) fn login(&mut self, iqn: &Iqn, portal: Portal) -> Result<(), HostError> {
        let known = |session: &LiveSession| session.iqn == *iqn && session.portal == portal;
        if self.sessions.values().any(known) {
            return Ok(());
        }
        let Some(offered) = self.records.get(&(*iqn, portal)) else {
            return Err(HostError::Failed {
                what: "login".to_owned(),
                status: "exit code 21".to_owned(),
                detail: "no records found".to_owned(),
            });
        };
        let target = self.targets.get(iqn);
        let up = target
            .and_then(|target| target.endpoints.get(&portal))
            .is_some_and(|endpoint| endpoint.up);
        if !up {
            return Err(HostError::PortalSilent {
                iqn: *iqn,
                portal,
                detail: "connection timed out".to_owned(),
            });
        }
        if target.and_then(|target| target.chap.as_ref()) != offered.as_ref() {
            return Err(HostError::ChapRejected {
                iqn: *iqn,
                portal,
                detail: "authorization failure".to_owned(),
            });
        }
        self.next_sid += 1;
        let session = LiveSession {
            iqn: *iqn,
            portal,
            state: SessionState::LoggedIn,
        };
        self.sessions.insert(self.next_sid, session);
        Ok(())
    }

    pub(super) fn logout(&mut self, sid: u32) {
        let names: Vec<String> = self.path_names(sid);
        for name in names {
            self.delete_path(&name);
        }
        self.sessions.remove(&sid);
    }

    pub(super) fn scan(&mut self, sid: u32) {
        // An existing device is not replaced by a scan, whatever the LUN is now (W01).
        if !self.path_names(sid).is_empty() {
            return;
        }
        let Some(session) = self.sessions.get(&sid) else {
            return;
        };
        let lun = self
            .targets
            .get(&session.iqn)
            .and_then(|target| target.endpoints.get(&session.portal))
            .filter(|endpoint| endpoint.up)
            .and_then(|endpoint| endpoint.lun);
        let Some((wwid, size)) = lun
            .and_then(|id| self.disk(id))
            .map(|disk| (disk.wwid.clone(), disk.size))
        else {
            return;
        };
        let Some((minor, name)) = (0_u32..)
            .zip(disk_names())
            .find(|(_, name)| !self.paths.contains_key(name))
        else {
            return;
        };
        let dev = DevNumber {
            major: 8,
            minor: minor * 16,
        };
        let hidden_for = self.path_delay;
        let path = LivePath {
            sid,
            dev,
            wwid,
            size,
            read_only: false,
            hidden_for,
        };
        self.paths.insert(name.clone(), path);
        self.known.insert(name);
    }

    pub(super) fn rescan(&mut self, name: &str) {
        let fresh = self
            .paths
            .get(name)
            .and_then(|path| self.disk_behind(path))
            .map(|disk| (disk.wwid.clone(), disk.size));
        if let (Some(path), Some((wwid, size))) = (self.paths.get_mut(name), fresh) {
            path.wwid = wwid;
            path.size = size;
        }
    }

    pub(super) fn delete_path(&mut self, name: &str) {
        if self.maps.values().any(|map| map.slaves.contains(name)) {
            self.violation(format!("{name} deleted under a live map")); // D05
        }
        for map in self.maps.values_mut() {
            map.slaves.remove(name);
        }
        self.paths.remove(name);
        self.known.remove(name);
    }

    pub(super) fn paths_of(&mut self, sessions: &[Session]) -> Vec<PathDevice> {
        for path in self.paths.values_mut() {
            path.hidden_for = path.hidden_for.saturating_sub(1);
        }
        self.paths
            .iter()
            .filter(|(_, path)| path.hidden_for == 0)
            .filter(|(_, path)| sessions.iter().any(|session| session.sid == path.sid))
            .map(|(name, path)| self.show_path(name, path))
            .collect()
    }

    pub(super) fn show_path(&self, name: &str, path: &LivePath) -> PathDevice {
        let session = self.sessions.get(&path.sid);
        let usable = session.is_some_and(|session| session.state.is_usable());
        PathDevice {
            name: name.to_owned(),
            dev: path.dev,
            host: host_of(path.sid),
            target: session.map(|session| session.iqn.to_string()),
            portal: session.map(|session| session.portal),
            wwid: Some(path.wwid.clone()),
            size: path.size,
            read_only: path.read_only,
            state: if usable {
                "running"
            } else {
                "transport-offline"
            }
            .to_owned(),
            holders: self
                .maps
                .values()
                .filter(|map| map.hidden_for == 0 && map.slaves.contains(name))
                .map(|map| map.name.clone())
                .collect(),
        }
    }

    pub(super) fn identify(&self, path: &PathDevice) -> Result<Identity, HostError> {
        let unreadable = || HostError::ReadFailed {
            device: path.name.clone(),
            detail: "input/output error".to_owned(),
        };
        let live = self.paths.get(&path.name).ok_or_else(unreadable)?;
        let session = self.sessions.get(&live.sid).ok_or_else(unreadable)?;
        let endpoint = self
            .targets
            .get(&session.iqn)
            .and_then(|target| target.endpoints.get(&session.portal))
            .filter(|endpoint| endpoint.up)
            .ok_or_else(unreadable)?;
        Ok(endpoint
            .lun
            .and_then(|id| self.disk(id))
            .map_or(Identity::NoLun, |disk| Identity::Naa(disk.wwid.clone())))
    }

    fn path_names(&self, sid: u32) -> Vec<String> {
        self.paths
            .iter()
            .filter(|(_, path)| path.sid == sid)
            .map(|(name, _)| name.clone())
            .collect()
    }
}

/// SCSI hosts are numbered apart from sessions, and code must not confuse them.
fn host_of(sid: u32) -> u32 {
    sid + 100
}

fn disk_names() -> impl Iterator<Item = String> {
    ('a'..='z').flat_map(|first| {
        ('a'..='z').map(move |second| {
            if first == 'a' {
                format!("sd{second}")
            } else {
                format!("sd{first}{second}")
            }
        })
    })
}
