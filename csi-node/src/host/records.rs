//! The node records' files: listing them, and writing CHAP into them.
//!
//! A CHAP password given to iscsiadm would be an argument that every process of the host can read (C7). So the record is
//! made with the tool, and its `node.session.auth.*` lines are written here: the file is put together beside the
//! database, with mode 0600, and renamed over the tool's. Nobody else writes the records of this target, and a volume has
//! one operation at a time, so the rename needs no lock: iscsid reads the old file or the new one.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use blockd_client::vocabulary::{ChapCredentials, Iqn, Portal};

use super::HostError;

/// What the lines about authentication begin with.
const AUTH: &str = "node.session.auth.";
/// The one such line that is no credential and stays as the host has it.
const ALGORITHMS: &str = "node.session.auth.chap_algs";

/// What the target takes for the mark of a base64 value.
const BASE64: &str = "0b";

/// open-iscsi's database of records.
#[derive(Debug, Clone)]
pub struct Records {
    root: PathBuf,
}

impl Records {
    /// The database in this directory, which holds `nodes/`.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The portals for which the target has a record.
    ///
    /// # Errors
    ///
    /// The directory is there and cannot be read.
    pub fn portals(&self, iqn: &Iqn) -> Result<Vec<Portal>, HostError> {
        let directory = self.root.join("nodes").join(iqn.to_string());
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(failed("list", &directory, source)),
        };
        let mut portals: Vec<_> = entries
            .filter_map(|entry| portal(&entry.ok()?.file_name().into_string().ok()?))
            .collect();
        portals.sort_unstable();
        portals.dedup();
        Ok(portals)
    }

    /// Whether the record is there and holds nothing (Q01).
    ///
    /// # Errors
    ///
    /// It is there and cannot be read.
    pub fn is_blank(&self, iqn: &Iqn, portal: &Portal) -> Result<bool, HostError> {
        match self.file(iqn, *portal)? {
            Some(file) => Ok(read(&file)?.trim().is_empty()),
            None => Ok(false),
        }
    }

    /// Removes a record that the tool cannot read; absent is success.
    ///
    /// # Errors
    ///
    /// It cannot be removed.
    pub fn remove(&self, iqn: &Iqn, portal: &Portal) -> Result<(), HostError> {
        match self.file(iqn, *portal)? {
            Some(file) => fs::remove_file(&file).map_err(|source| failed("remove", &file, source)),
            None => Ok(()),
        }
    }

    /// Writes how the target wants to be logged in to, and reads it back: all fields, CHAP or none (C06, C07, C08, C20).
    ///
    /// # Errors
    ///
    /// There is no such record, or it does not hold afterwards what was written. No error says what that was.
    pub fn write_auth(
        &self,
        iqn: &Iqn,
        portal: &Portal,
        chap: Option<&ChapCredentials>,
    ) -> Result<(), HostError> {
        let file = self.existing(iqn, *portal)?;
        let text = with_auth(&read(&file)?, chap);
        self.replace(iqn, *portal, &file, &text)
    }

    /// Writes a user name that begins with `0b` with that prefix twice; false when there is nothing (more) to do.
    ///
    /// Since Linux 6.0 the kernel's target takes a CHAP value that begins with `0b` for base64 (`extract_param` of
    /// `iscsi_target_nego.c`), the user name too: it drops the two characters, and one GBID in 256 matches no more.
    /// With the prefix twice the name is what remains. Older kernels want it once, so this is the second attempt.
    ///
    /// # Errors
    ///
    /// There is no such record, or it does not hold afterwards what was written.
    pub fn escape_user(&self, iqn: &Iqn, portal: &Portal) -> Result<bool, HostError> {
        let file = self.existing(iqn, *portal)?;
        match with_escaped_user(&read(&file)?) {
            Some(text) => self.replace(iqn, *portal, &file, &text).map(|()| true),
            None => Ok(false),
        }
    }

    fn existing(&self, iqn: &Iqn, portal: Portal) -> Result<PathBuf, HostError> {
        self.file(iqn, portal)?
            .ok_or_else(|| HostError::Unreadable {
                what: format!("the node record of {portal} of {iqn}"),
                detail: "iscsiadm made it, and it is not there".to_owned(),
            })
    }

    fn replace(&self, iqn: &Iqn, portal: Portal, file: &Path, text: &str) -> Result<(), HostError> {
        // Beside the database, not in it: iscsiadm takes whatever lies in there for a record.
        let fresh = self.root.join(format!(".{}-{portal}.new", iqn.gbid()));
        let write = || -> io::Result<()> {
            let _ = fs::remove_file(&fresh);
            let mut out = fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&fresh)?;
            out.write_all(text.as_bytes())?;
            out.sync_all()?;
            fs::rename(&fresh, file)
        };
        write().map_err(|source| failed("write", file, source))?;
        if read(file)? == text {
            return Ok(());
        }
        Err(HostError::Unreadable {
            what: file.display().to_string(),
            detail: "it does not hold what was just written to it".to_owned(),
        })
    }

    /// The record's file: `IP,PORT`, or `IP,PORT,TAG/default` as other versions have it.
    fn file(&self, iqn: &Iqn, wanted: Portal) -> Result<Option<PathBuf>, HostError> {
        let directory = self.root.join("nodes").join(iqn.to_string());
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(failed("list", &directory, source)),
        };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if portal(&name) == Some(wanted) {
                let path = entry.path();
                return Ok(Some(if path.is_dir() {
                    path.join("default")
                } else {
                    path
                }));
            }
        }
        Ok(None)
    }
}

/// `10.0.0.1,3260` and `10.0.0.1,3260,1`.
fn portal(name: &str) -> Option<Portal> {
    let mut parts = name.split(',');
    format!("{}:{}", parts.next()?, parts.next()?).parse().ok()
}

/// The record with its authentication replaced.
fn with_auth(record: &str, chap: Option<&ChapCredentials>) -> String {
    let kept = |line: &&str| !line.starts_with(AUTH) || line.starts_with(ALGORITHMS);
    let (mut lines, end): (Vec<_>, Vec<_>) = record
        .lines()
        .filter(kept)
        .partition(|line| !line.starts_with("# END RECORD"));
    let auth = match chap {
        Some(chap) => format!(
            "{AUTH}authmethod = CHAP\n{AUTH}username = {}\n{AUTH}password = {}",
            chap.user,
            chap.password.expose()
        ),
        None => format!("{AUTH}authmethod = None"),
    };
    lines.push(&auth);
    lines.extend(end);
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

/// The record with the user name's `0b` doubled, if it begins with one only.
fn with_escaped_user(record: &str) -> Option<String> {
    let before = format!("{AUTH}username = {BASE64}");
    let doubled = format!("{before}{BASE64}");
    let is_plain = |line: &str| line.starts_with(&before) && !line.starts_with(&doubled);
    record
        .lines()
        .any(is_plain)
        .then(|| record.replace(&before, &doubled))
}

fn read(file: &Path) -> Result<String, HostError> {
    fs::read_to_string(file).map_err(|source| failed("read", file, source))
}

fn failed(what: &'static str, path: &Path, source: io::Error) -> HostError {
    HostError::Io {
        what,
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GBID: &str = "6f3c2a10-1111-4222-8333-abcdefabcdef";
    const RECORD: &str = "# BEGIN RECORD 2.1.8\nnode.name = x\nnode.session.auth.authmethod = CHAP\n\
        node.session.auth.username = somebody\nnode.session.auth.password = else\n\
        node.session.auth.username_in = in\nnode.session.auth.chap_algs = MD5\n# END RECORD\n";

    fn chap() -> ChapCredentials {
        ChapCredentials {
            user: GBID.parse().unwrap(),
            password: "pw-36-characters-long".parse().unwrap(),
        }
    }

    fn database() -> (tempfile::TempDir, Records, Iqn, Portal) {
        let root = tempfile::tempdir().unwrap();
        let iqn: Iqn = format!("iqn.2016-12.org.gluster-block:{GBID}")
            .parse()
            .unwrap();
        let directory = root.path().join("nodes").join(iqn.to_string());
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("10.0.0.1,3260"), RECORD).unwrap();
        let records = Records::new(root.path());
        (root, records, iqn, "10.0.0.1:3260".parse().unwrap())
    }

    // C06, C07, C08, C20
    #[test]
    fn credentials_replace_whatever_the_hosts_defaults_had() {
        let (root, records, iqn, portal) = database();
        records.write_auth(&iqn, &portal, Some(&chap())).unwrap();
        let file = records.file(&iqn, portal).unwrap().unwrap();
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains("authmethod = CHAP") && text.contains("password = pw-36"));
        assert!(
            !text.contains("somebody")
                && !text.contains("username_in")
                && text.contains("chap_algs")
        );
        assert!(text.ends_with("# END RECORD\n"));
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&file).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        records.write_auth(&iqn, &portal, None).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains("authmethod = None") && !text.contains("pw-36"));
        // Nothing else lies in the database.
        assert_eq!(fs::read_dir(root.path().join("nodes")).unwrap().count(), 1);
    }

    #[test]
    fn a_user_name_that_looks_like_base64_is_escaped_once() {
        let (_root, records, iqn, portal) = database();
        let user = "0bf007f3-432d-47f4-af76-4263f09e3d7c";
        let chap = ChapCredentials {
            user: user.parse().unwrap(),
            ..chap()
        };
        records.write_auth(&iqn, &portal, Some(&chap)).unwrap();
        assert!(records.escape_user(&iqn, &portal).unwrap());
        let text = read(&records.file(&iqn, portal).unwrap().unwrap()).unwrap();
        assert!(
            text.contains(&format!("auth.username = 0b{user}\n")),
            "{text}"
        );
        assert!(!records.escape_user(&iqn, &portal).unwrap());
        // Any other name is what it is.
        records
            .write_auth(&iqn, &portal, Some(&self::chap()))
            .unwrap();
        assert!(!records.escape_user(&iqn, &portal).unwrap());
    }

    #[test]
    fn records_are_known_by_address_and_port_in_both_forms() {
        let (root, records, iqn, portal) = database();
        let directory = root.path().join("nodes").join(iqn.to_string());
        fs::create_dir(directory.join("10.0.0.2,3260,2")).unwrap();
        let portals = records.portals(&iqn).unwrap();
        assert_eq!(portals, [portal, "10.0.0.2:3260".parse().unwrap()]);
    }

    // Q01
    #[test]
    fn a_blank_record_is_seen_as_such() {
        let (root, records, iqn, portal) = database();
        assert!(!records.is_blank(&iqn, &portal).unwrap());
        fs::write(
            root.path()
                .join("nodes")
                .join(iqn.to_string())
                .join("10.0.0.1,3260"),
            "\n",
        )
        .unwrap();
        assert!(records.is_blank(&iqn, &portal).unwrap());
        records.remove(&iqn, &portal).unwrap();
        assert!(records.portals(&iqn).unwrap().is_empty());
    }
}
