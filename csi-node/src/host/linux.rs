//! The real host: the tools, sysfs, the mount table, and the kernel's mount calls.

use std::fs;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use blockd_client::vocabulary::{ChapCredentials, FsType, Initiator, Iqn, Portal, Wwid};

use super::bounded::Stuck;
use super::command::{Invocation, Output, Program, Runner, Tools};
use super::iscsiadm::{self, DATABASE_PAUSE, DATABASE_TRIES, Exit, Limits, Timers};
use super::records::Records;
use super::sysfs::Sysfs;
use super::{
    BootId, Content, Host, HostError, Identity, Map, MountEntry, MountOptions, PathDevice, Proof,
    Session, TargetKind, Usage, devices, filesystems, mountinfo, mounts, multipath,
};

mod asked;

use asked::{bound_node, identity, node, read};

/// A call into the kernel that can sleep on a dead device.
const KERNEL: Duration = Duration::from_secs(30);
/// A mount may replay a log.
const MOUNT: Duration = Duration::from_secs(100);
/// How long statistics of a file system may take (P06).
const STATISTICS: Duration = Duration::from_secs(10);
/// One INQUIRY.
const INQUIRY: Duration = Duration::from_secs(15);
/// How long a map may be in use by nobody that can be seen.
const SETTLE: Duration = Duration::from_secs(10);
/// How long multipathd may take to forget paths (D09), and how often it is looked.
const FORGET: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(200);

/// This host. Clones share the account of what is stuck.
#[derive(Debug, Clone)]
pub struct LinuxHost {
    runner: Runner,
    stuck: Stuck,
    sysfs: Sysfs,
    records: Records,
    timers: Timers,
    limits: Limits,
}

impl LinuxHost {
    /// The host this process runs on, with these times in node records.
    #[must_use]
    pub fn new(tools: Tools, timers: Timers) -> Self {
        let stuck = Stuck::default();
        Self {
            runner: Runner::new(tools, stuck.clone()),
            stuck,
            sysfs: Sysfs::new("/sys"),
            // Debian has the database in /etc, Fedora in /var/lib.
            records: Records::new(
                if Path::new("/etc/iscsi/nodes").is_dir() || !Path::new("/var/lib/iscsi").is_dir() {
                    "/etc/iscsi"
                } else {
                    "/var/lib/iscsi"
                },
            ),
            limits: Limits {
                login: timers.login * 2 + Duration::from_secs(5),
                ..Limits::default()
            },
            timers,
        }
    }

    /// Runs iscsiadm, again while its database is in the way (Q02).
    async fn iscsiadm(&self, invocation: &Invocation) -> Result<Output, HostError> {
        let mut output = self.runner.run(invocation).await?;
        for _ in 1..DATABASE_TRIES {
            if Exit::from(output.code) != Exit::Database {
                break;
            }
            tokio::time::sleep(DATABASE_PAUSE).await;
            output = self.runner.run(invocation).await?;
        }
        Ok(output)
    }

    async fn try_login(&self, iqn: &Iqn, portal: &Portal) -> Result<(), HostError> {
        let output = self
            .iscsiadm(&iscsiadm::login(iqn, portal, &self.limits))
            .await?;
        iscsiadm::login_error(iqn, portal, &output).map_or(Ok(()), Err)
    }

    async fn multipathd(&self, command: Invocation) -> Result<(), HostError> {
        let output = self.runner.run(&command).await?;
        multipath::accepted(&command, &output)
    }

    /// Writes to sysfs on a bounded thread; a file that is gone is success.
    async fn write(
        &self,
        subject: &str,
        file: String,
        value: &'static str,
    ) -> Result<(), HostError> {
        let sysfs = self.sysfs.clone();
        let call = move || sysfs.write(file, value).map(drop);
        self.stuck.call(subject, KERNEL, call).await
    }

    async fn mounting(
        &self,
        target: &Path,
        limit: Duration,
        call: impl FnOnce() -> Result<(), HostError> + Send + 'static,
    ) -> Result<(), HostError> {
        self.stuck
            .call(&format!("mount {}", target.display()), limit, call)
            .await
    }
}

impl Host for LinuxHost {
    async fn sessions(&self, iqn: &Iqn) -> Result<Vec<Session>, HostError> {
        let all = devices::sessions(&self.sysfs)?;
        Ok(all
            .into_iter()
            .filter(|session| session.iqn == *iqn)
            .collect())
    }

    async fn all_sessions(&self) -> Result<Vec<Session>, HostError> {
        devices::sessions(&self.sysfs)
    }

    async fn records(&self, iqn: &Iqn) -> Result<Vec<Portal>, HostError> {
        self.records.portals(iqn)
    }

    async fn paths(&self, sessions: &[Session]) -> Result<Vec<PathDevice>, HostError> {
        devices::paths(&self.sysfs, sessions)
    }

    async fn slaves(&self, map: &Map) -> Result<Vec<PathDevice>, HostError> {
        devices::slaves(&self.sysfs, map)
    }

    async fn map(&self, wwid: &Wwid) -> Result<Option<Map>, HostError> {
        Ok(devices::maps(&self.sysfs)?
            .into_iter()
            .find(|map| map.wwid == *wwid))
    }

    async fn all_maps(&self) -> Result<Vec<Map>, HostError> {
        devices::maps(&self.sysfs)
    }

    async fn mounts(&self) -> Result<Vec<MountEntry>, HostError> {
        let file = "/proc/self/mountinfo";
        let table = fs::read(file).map_err(|source| HostError::Io {
            what: "read",
            path: file.into(),
            source,
        })?;
        let unreadable = |error: mountinfo::InvalidLine| HostError::Unreadable {
            what: file.to_owned(),
            detail: error.to_string(),
        };
        let mut entries = mountinfo::parse(&table).map_err(unreadable)?;
        for entry in &mut entries {
            entry.node = bound_node(entry);
        }
        Ok(entries)
    }

    async fn boot_id(&self) -> Result<BootId, HostError> {
        let file = "/proc/sys/kernel/random/boot_id";
        let unreadable = |detail: String| HostError::Unreadable {
            what: file.to_owned(),
            detail,
        };
        read(file)?
            .parse()
            .map_err(|error: super::InvalidBootId| unreadable(error.to_string()))
    }

    async fn initiator(&self) -> Result<Initiator, HostError> {
        let file = "/etc/iscsi/initiatorname.iscsi";
        let text = read(file)?;
        let name = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("InitiatorName="));
        name.and_then(|name| name.trim().parse().ok()).ok_or_else(|| HostError::NotReady {
            what: format!("{file} has no line InitiatorName=iqn.…; make one with: echo InitiatorName=$(iscsi-iname) > {file}"),
        })
    }

    async fn ready(&self) -> Result<(), HostError> {
        let tools = self.runner.tools();
        let missing = Program::INSTALLED
            .into_iter()
            .filter(|program| !tools.is_remote(*program) && tools.find(*program).is_none());
        let missing: Vec<_> = missing
            .map(|program| {
                format!(
                    "{} is missing: install {}",
                    program.file_name(),
                    program.package()
                )
            })
            .collect();
        if !missing.is_empty() {
            return Err(HostError::NotReady {
                what: missing.join("; "),
            });
        }
        self.initiator().await?;
        // iscsid listens on a socket without a file, in the host's network namespace.
        let iscsid = SocketAddr::from_abstract_name("ISCSIADM_ABSTRACT_NAMESPACE")
            .and_then(|address| UnixStream::connect_addr(&address));
        iscsid.map_err(|error| HostError::NotReady {
            what: format!("iscsid does not answer ({error}); start it: systemctl start iscsid; and run this plugin in the host's network namespace"),
        })?;
        let multipathd = self.multipathd(multipath::status()).await;
        multipathd.map_err(|error| HostError::NotReady {
            what: format!(
                "multipathd does not answer ({error}); start it: systemctl start multipathd"
            ),
        })
    }

    async fn identify(&self, path: &PathDevice) -> Result<Identity, HostError> {
        let device = format!("/dev/{}", path.name);
        let inquiry = |arguments: &[&str]| {
            let arguments = arguments
                .iter()
                .map(ToString::to_string)
                .chain([device.clone()]);
            Invocation::new(Program::SgInq, arguments, INQUIRY).on(&device)
        };
        let page = self
            .runner
            .run(&inquiry(&["--page=0x83", "--export"]))
            .await?;
        if let Some(identity) = identity(&page) {
            return Ok(identity);
        }
        // No such page: LIO answers so for a LUN that it does not have, and its INQUIRY then says "not connected".
        let standard = self.runner.run(&inquiry(&[])).await?;
        let text = standard.text();
        if standard.code == Some(0) && (text.contains("PQual=1") || text.contains("RAMDISK-MCP")) {
            return Ok(Identity::NoLun);
        }
        Err(HostError::ReadFailed {
            device,
            detail: format!("{}: {}", page.status, page.detail()),
        })
    }

    async fn probe(&self, map: &Map) -> Result<Content, HostError> {
        filesystems::probe(&self.runner, &node(map)?).await
    }

    async fn usage(&self, mountpoint: &Path) -> Result<Usage, HostError> {
        let path = mountpoint.to_owned();
        let call = move || {
            let found = rustix::fs::statvfs(&path).map_err(|errno| HostError::Io {
                what: "read the usage of",
                path,
                source: errno.into(),
            })?;
            let used = found.f_blocks.saturating_sub(found.f_bfree);
            Ok(Usage {
                total_bytes: found.f_blocks.saturating_mul(found.f_frsize),
                used_bytes: used.saturating_mul(found.f_frsize),
                available_bytes: found.f_bavail.saturating_mul(found.f_frsize),
                total_inodes: found.f_files,
                used_inodes: found.f_files.saturating_sub(found.f_ffree),
                free_inodes: found.f_ffree,
            })
        };
        self.stuck
            .call(&format!("usage {}", mountpoint.display()), STATISTICS, call)
            .await
    }

    async fn write_record(
        &self,
        iqn: &Iqn,
        portal: &Portal,
        chap: Option<&ChapCredentials>,
    ) -> Result<(), HostError> {
        if self.records.is_blank(iqn, portal)? {
            self.records.remove(iqn, portal)?;
        }
        for step in [
            iscsiadm::new_record(iqn, portal, &self.limits),
            iscsiadm::update_record(iqn, portal, &self.timers, &self.limits),
        ] {
            let output = self.iscsiadm(&step).await?;
            if !matches!(Exit::from(output.code), Exit::Success | Exit::Exists) {
                return Err(iscsiadm::host_error(&output, "making a node record"));
            }
        }
        self.records.write_auth(iqn, portal, chap)
    }

    async fn delete_record(&self, iqn: &Iqn, portal: &Portal) -> Result<(), HostError> {
        let output = self
            .iscsiadm(&iscsiadm::delete_record(iqn, portal, &self.limits))
            .await?;
        if matches!(Exit::from(output.code), Exit::Success | Exit::NoObjects) {
            return Ok(());
        }
        Err(iscsiadm::host_error(&output, "deleting a node record"))
    }

    async fn login(&self, iqn: &Iqn, portal: &Portal) -> Result<(), HostError> {
        match self.try_login(iqn, portal).await {
            Err(HostError::ChapRejected { .. }) if self.records.escape_user(iqn, portal)? => {
                self.try_login(iqn, portal).await
            }
            outcome => outcome,
        }
    }

    async fn logout(&self, session: &Session) -> Result<(), HostError> {
        let output = self
            .iscsiadm(&iscsiadm::logout(session.sid, &self.limits))
            .await?;
        let gone = [Exit::Success, Exit::NoObjects, Exit::SessionNotFound];
        if gone.contains(&Exit::from(output.code)) {
            return Ok(());
        }
        Err(iscsiadm::host_error(&output, "logging out"))
    }

    async fn scan(&self, session: &Session) -> Result<(), HostError> {
        let file = format!("class/scsi_host/host{}/scan", session.host);
        self.write(&format!("scan of host{}", session.host), file, "0 0 0")
            .await
    }

    async fn rescan(&self, path: &PathDevice) -> Result<(), HostError> {
        self.write(
            &path.name,
            format!("block/{}/device/rescan", path.name),
            "1",
        )
        .await
    }

    async fn delete_path(&self, path: &PathDevice) -> Result<(), HostError> {
        let (sysfs, path) = (self.sysfs.clone(), path.clone());
        let subject = path.name.clone();
        let call = move || devices::delete(&sysfs, &path);
        self.stuck.call(&subject, KERNEL, call).await
    }

    async fn add_map(&self, wwid: &Wwid, paths: &[PathDevice]) -> Result<(), HostError> {
        // multipathd refuses what udev has already told it ("fail", exit 1), so no answer counts here; the caller looks
        // for the map afterwards, and its patience is bounded.
        for path in paths {
            self.runner
                .run(&multipath::add_identity(&path.name))
                .await?;
            self.runner.run(&multipath::add_path(&path.name)).await?;
        }
        if self.map(wwid).await?.is_none() {
            self.runner.run(&multipath::add_map(wwid)).await?;
        }
        Ok(())
    }

    async fn resize_map(&self, map: &Map) -> Result<(), HostError> {
        self.multipathd(multipath::resize_map(&map.wwid)).await
    }

    async fn flush_map(&self, map: &Map) -> Result<(), HostError> {
        let start = Instant::now();
        loop {
            let output = self.runner.run(&multipath::flush_map(&map.wwid)).await?;
            // Whatever it says: gone is what counts.
            let Some(left) = self.map(&map.wwid).await? else {
                return Ok(());
            };
            // udev looks at a device that was just unmounted and holds it for moments; who stands on it stays.
            if !left.holders.is_empty() || start.elapsed() > SETTLE {
                return Err(HostError::Busy {
                    what: format!("map {}", map.wwid),
                    detail: format!("{}; held by {:?}", output.detail(), left.holders),
                });
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn forget_paths(&self, paths: &[PathDevice]) -> Result<(), HostError> {
        let paths = devices::not_renamed(&self.sysfs, paths)?;
        for path in &paths {
            // It may have forgotten it by itself; what counts is its list.
            self.runner.run(&multipath::del_path(&path.name)).await?;
        }
        let start = Instant::now();
        loop {
            let listed = self.runner.run_ok(&multipath::list_paths()).await?.text();
            let left = paths
                .iter()
                .find(|path| listed.lines().any(|line| line.trim() == path.name));
            match left {
                None => return Ok(()),
                Some(path) if start.elapsed() > FORGET => {
                    return Err(HostError::MultipathRefused {
                        what: format!("del path {}", path.name),
                        detail: "it still lists the path".to_owned(),
                    });
                }
                Some(_) => tokio::time::sleep(LOOK).await,
            }
        }
    }

    async fn stop_queueing(&self, map: &Map) -> Result<(), HostError> {
        self.multipathd(multipath::disable_queueing(&map.wwid))
            .await
    }

    async fn format(&self, map: &Map, fs: FsType, proof: Proof) -> Result<(), HostError> {
        self.runner
            .run_ok(&filesystems::format(&node(map)?, fs, proof))
            .await
            .map(drop)
    }

    async fn check(&self, map: &Map, fs: FsType) -> Result<(), HostError> {
        filesystems::check(&self.runner, &node(map)?, fs).await
    }

    async fn grow(&self, map: &Map, fs: FsType, mountpoint: &Path) -> Result<(), HostError> {
        self.runner
            .run_ok(&filesystems::grow(&node(map)?, fs, mountpoint))
            .await
            .map(drop)
    }

    async fn mount(
        &self,
        map: &Map,
        fs: FsType,
        target: &Path,
        options: &MountOptions,
    ) -> Result<(), HostError> {
        let (device, target, options) = (
            PathBuf::from(node(map)?),
            target.to_owned(),
            options.clone(),
        );
        let path = target.clone();
        let call = move || mounts::mount_device(&device, fs.as_str(), &target, &options);
        self.mounting(&path, MOUNT, call).await
    }

    async fn bind(&self, source: &Path, target: &Path, read_only: bool) -> Result<(), HostError> {
        let (source, path) = (source.to_owned(), target.to_owned());
        self.mounting(target, KERNEL, move || {
            mounts::bind(&source, &path, read_only)
        })
        .await
    }

    async fn bind_device(
        &self,
        map: &Map,
        target: &Path,
        read_only: bool,
    ) -> Result<(), HostError> {
        let source = PathBuf::from(node(map)?);
        self.bind(&source, target, read_only).await
    }

    async fn unmount(&self, target: &Path) -> Result<(), HostError> {
        let path = target.to_owned();
        self.mounting(target, MOUNT, move || mounts::unmount_one(&path))
            .await
    }

    async fn make_target(&self, target: &Path, kind: TargetKind) -> Result<(), HostError> {
        mounts::make_target(target, kind)
    }

    async fn remove_target(&self, target: &Path) -> Result<(), HostError> {
        mounts::remove_target(target)
    }
}
