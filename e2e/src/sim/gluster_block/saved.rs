//! The saved configuration of one host, in the layout of LIO's `saveconfig.json`.
//!
//! It outlives reboots, it is what targets are restored from, and a create is refused when any of its storage
//! objects has the block's name (reference §1.2, §5.4).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::metadata::iqn;
use super::protocol::HostCreate;

/// The whole document.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedConfig {
    pub(crate) storage_objects: Vec<StorageObject>,
    pub(crate) targets: Vec<Target>,
}

/// A backstore.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StorageObject {
    pub(crate) alua_tpgs: Vec<AluaGroup>,
    pub(crate) attributes: BTreeMap<String, u64>,
    /// `glfs/VOL@SERVER/block-store/GBID;tcmur_cmd_time_out=S`
    pub(crate) config: String,
    pub(crate) name: String,
    pub(crate) plugin: String,
    pub(crate) size: u64,
    /// The unit serial, which is the GBID.
    pub(crate) wwn: String,
}

/// An ALUA target port group.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AluaGroup {
    pub(crate) name: String,
    pub(crate) tg_pt_gp_id: u32,
    pub(crate) alua_access_state: u32,
    pub(crate) alua_access_type: u32,
}

/// An iSCSI target.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Target {
    pub(crate) fabric: String,
    pub(crate) tpgs: Vec<Tpg>,
    pub(crate) wwn: String,
}

/// A target portal group: one a host of the block.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tpg {
    pub(crate) attributes: BTreeMap<String, u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) chap_userid: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) chap_password: Option<String>,
    pub(crate) enable: bool,
    pub(crate) luns: Vec<Lun>,
    pub(crate) node_acls: Vec<String>,
    pub(crate) portals: Vec<SavedPortal>,
    pub(crate) tag: usize,
}

/// A LUN of a portal group.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lun {
    pub(crate) alua_tg_pt_gp_name: String,
    pub(crate) index: u32,
    pub(crate) storage_object: String,
}

/// A portal of a portal group.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedPortal {
    pub(crate) ip_address: String,
    pub(crate) iser: bool,
    pub(crate) offload: bool,
    pub(crate) port: u16,
}

pub(crate) const OPTIMIZED: &str = "glfs_tg_pt_gp_ao";
pub(crate) const NON_OPTIMIZED: &str = "glfs_tg_pt_gp_ano";
const DEFAULT_GROUP: &str = "default_tg_pt_gp";

impl StorageObject {
    /// The hosting volume in the configuration string.
    pub(crate) fn volume(&self) -> Option<&str> {
        self.config
            .strip_prefix("glfs/")?
            .split_once('@')
            .map(|(volume, _)| volume)
    }
}

/// What a host is told to export, as the two saved objects.
///
/// "Host *i* of the list becomes TPG *i* on **every** node. On node *i* only TPG *i* is enabled; the other TPGs
/// exist with the remote portal address, disabled, `tpg_enabled_sendtargets=0`" (reference §3.3).
pub(crate) fn exports(create: &HostCreate) -> (StorageObject, Target) {
    let is_balanced = !create.prio_path.is_empty();
    let group = |name: &str, tg_pt_gp_id, alua_access_state| AluaGroup {
        name: name.to_owned(),
        tg_pt_gp_id,
        alua_access_state,
        alua_access_type: 1,
    };
    // "when not given the metadata stores 0 and each node applies 43" (reference §1.2)
    let command_timeout = if create.io_timeout == 0 {
        43
    } else {
        create.io_timeout
    };
    let mut attributes = BTreeMap::from([("cmd_time_out".to_owned(), 130)]);
    if create.block_size > 0 {
        attributes.insert("hw_block_size".to_owned(), create.block_size);
    }
    if create.ring_buffer > 0 {
        attributes.insert("max_data_area_mb".to_owned(), u64::from(create.ring_buffer));
    }
    let object = StorageObject {
        alua_tpgs: if is_balanced {
            vec![group(OPTIMIZED, 1, 0), group(NON_OPTIMIZED, 2, 1)]
        } else {
            Vec::new()
        },
        attributes,
        config: format!(
            "glfs/{}@{}/block-store/{};tcmur_cmd_time_out={command_timeout}",
            create.volume, create.server, create.gbid
        ),
        name: create.block.clone(),
        plugin: "user".to_owned(),
        size: create.size,
        wwn: create.gbid.clone(),
    };
    let tpgs = create
        .hosts
        .split(',')
        .enumerate()
        .map(|(index, host)| tpg(create, index + 1, host));
    let target = Target {
        fabric: "iscsi".to_owned(),
        tpgs: tpgs.collect(),
        wwn: iqn(&create.gbid),
    };
    (object, target)
}

fn tpg(create: &HostCreate, tag: usize, host: &str) -> Tpg {
    let is_local = host == create.address;
    let group = match (create.prio_path.as_str(), host) {
        ("", _) => DEFAULT_GROUP,
        (prio, host) if prio == host => OPTIMIZED,
        _ => NON_OPTIMIZED,
    };
    // "`generate_node_acls=1`, `demo_mode_write_protect=0`" (reference §3.1)
    let mut attributes = BTreeMap::from([
        ("generate_node_acls".to_owned(), 1),
        ("demo_mode_write_protect".to_owned(), 0),
        ("authentication".to_owned(), u32::from(create.auth)),
        // Few commands at a time, since `fileio` runs them one after the other.
        ("default_cmdsn_depth".to_owned(), 16),
    ]);
    if !is_local {
        attributes.insert("tpg_enabled_sendtargets".to_owned(), 0);
    }
    Tpg {
        attributes,
        chap_userid: create.auth.then(|| create.gbid.clone()),
        chap_password: create.auth.then(|| create.password.clone()),
        enable: is_local,
        luns: vec![Lun {
            alua_tg_pt_gp_name: group.to_owned(),
            index: 0,
            storage_object: format!("/backstores/user/{}", create.block),
        }],
        node_acls: Vec::new(),
        portals: vec![SavedPortal {
            ip_address: host.to_owned(),
            iser: false,
            offload: false,
            port: 3260,
        }],
        tag,
    }
}

impl Target {
    /// Switches authentication of every portal group.
    pub(crate) fn set_auth(&mut self, credentials: Option<(&str, &str)>) {
        for tpg in &mut self.tpgs {
            tpg.attributes.insert(
                "authentication".to_owned(),
                u32::from(credentials.is_some()),
            );
            tpg.chap_userid = credentials.map(|(user, _)| user.to_owned());
            tpg.chap_password = credentials.map(|(_, password)| password.to_owned());
        }
    }
}

/// The file that holds the document.
#[derive(Debug, Clone)]
pub(crate) struct SavedFile {
    path: PathBuf,
}

impl SavedFile {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }

    /// Reads the document; a missing or emptied file is an empty one (reference §6, #95: it has been seen emptied).
    pub(crate) fn load(&self) -> io::Result<SavedConfig> {
        match fs::read_to_string(&self.path) {
            Ok(text) if text.trim().is_empty() => Ok(SavedConfig::default()),
            Ok(text) => serde_json::from_str(&text).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(SavedConfig::default()),
            Err(error) => Err(error),
        }
    }

    /// Replaces the document, whole or not at all.
    pub(crate) fn store(&self, config: &SavedConfig) -> io::Result<()> {
        if let Some(directory) = self.path.parent() {
            fs::create_dir_all(directory)?;
        }
        let text = serde_json::to_string_pretty(config).map_err(io::Error::other)?;
        let temporary = self.path.with_extension("json.temp");
        let mut file = File::create(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(temporary, &self.path)
    }

    /// Changes the document.
    pub(crate) fn update(&self, change: impl FnOnce(&mut SavedConfig)) -> io::Result<()> {
        let mut config = self.load()?;
        change(&mut config);
        self.store(&config)
    }

    /// The stale-entry check as it is made, not as it was meant.
    ///
    /// "Not-loaded detection greps the saved config for `block-store/<GBID>"` but 0.5+ always appends
    /// `;tcmur_cmd_time_out=43`, so the pattern never matches" (reference §3.6).
    pub(crate) fn seems_to_hold(&self, gbid: &str) -> bool {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        text.contains(&format!("block-store/{gbid}\""))
    }
}

impl SavedConfig {
    pub(crate) fn find(&self, gbid: &str) -> Option<(&StorageObject, &Target)> {
        let object = self
            .storage_objects
            .iter()
            .find(|object| object.wwn == gbid)?;
        let target = self.targets.iter().find(|target| target.wwn == iqn(gbid))?;
        Some((object, target))
    }

    pub(crate) fn has_name(&self, block: &str) -> bool {
        self.storage_objects
            .iter()
            .any(|object| object.name == block)
    }

    pub(crate) fn insert(&mut self, object: StorageObject, target: Target) {
        self.remove(&object.wwn);
        self.storage_objects.push(object);
        self.targets.push(target);
    }

    pub(crate) fn remove(&mut self, gbid: &str) {
        self.storage_objects.retain(|object| object.wwn != gbid);
        self.targets.retain(|target| target.wwn != iqn(gbid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create() -> HostCreate {
        HostCreate {
            address: "10.0.0.2".to_owned(),
            volume: "hostvol".to_owned(),
            gbid: "7f9aa1b2-aba7-4c77-9a5b-02a3ed562b15".to_owned(),
            password: "secret".to_owned(),
            size: 1 << 30,
            block: "b1".to_owned(),
            prio_path: "10.0.0.1".to_owned(),
            hosts: "10.0.0.1,10.0.0.2".to_owned(),
            auth: true,
            server: "localhost".to_owned(),
            ..HostCreate::default()
        }
    }

    #[test]
    fn only_the_local_portal_group_is_enabled() {
        let (object, target) = exports(&create());
        let enabled: Vec<bool> = target.tpgs.iter().map(|tpg| tpg.enable).collect();
        assert_eq!(enabled, [false, true]);
        assert_eq!(
            target.tpgs[0].attributes.get("tpg_enabled_sendtargets"),
            Some(&0)
        );
        assert_eq!(
            target.tpgs[1].attributes.get("tpg_enabled_sendtargets"),
            None
        );
        assert_eq!(target.tpgs[0].luns[0].alua_tg_pt_gp_name, OPTIMIZED);
        assert_eq!(target.tpgs[1].luns[0].alua_tg_pt_gp_name, NON_OPTIMIZED);
        assert_eq!(object.volume(), Some("hostvol"));
    }

    #[test]
    fn the_stale_entry_check_never_matches() {
        // reference §3.6
        let directory = tempfile::tempdir().expect("temporary directory");
        let file = SavedFile::new(&directory.path().join("target/saveconfig.json"));
        let (object, target) = exports(&create());
        let gbid = object.wwn.clone();
        file.update(|config| config.insert(object, target))
            .expect("saved");
        assert!(file.load().expect("loaded").find(&gbid).is_some());
        assert!(!file.seems_to_hold(&gbid));
    }

    #[test]
    fn a_missing_or_emptied_file_is_an_empty_document() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let path = directory.path().join("saveconfig.json");
        let file = SavedFile::new(&path);
        assert!(file.load().expect("missing").targets.is_empty());
        fs::write(&path, "").expect("emptied");
        assert!(file.load().expect("empty").targets.is_empty());
    }
}
