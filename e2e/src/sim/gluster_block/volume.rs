//! A hosting volume: its mount, its lock, and the three places in it where gluster-block keeps things.
//!
//! The real daemon reaches volumes through gfapi; the simulator mounts them. The mount is uncached
//! (`direct-io-mode=enable`, no attribute cache), since with a page cache a host returned stale blocks after a
//! failover (reference lab §2).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, FlockOperation, XattrFlags};

use super::answer::Failure;
use super::metadata::Metadata;

/// An open hosting volume.
#[derive(Debug, Clone)]
pub(crate) struct Volume {
    name: String,
    root: PathBuf,
}

/// The volume's lock, held until dropped.
#[derive(Debug)]
pub(crate) struct MetaLock {
    _file: File,
}

impl Volume {
    pub(crate) fn new(name: &str, root: PathBuf) -> Self {
        Self {
            name: name.to_owned(),
            root,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn meta(&self, name: &str) -> PathBuf {
        self.root.join("block-meta").join(name)
    }

    /// The data file of a block, or a file that `storage` names.
    pub(crate) fn store(&self, file: &str) -> PathBuf {
        self.root.join("block-store").join(file)
    }

    /// What the daemon says when the volume fails under it (reference §2.10, code 107).
    pub(crate) fn failure(&self, error: &io::Error) -> Failure {
        let code = error
            .raw_os_error()
            .unwrap_or(rustix::io::Errno::IO.raw_os_error());
        let text = error.to_string();
        let reason = text.split(" (os error").next().unwrap_or_default();
        Failure::new(
            code,
            format!(
                "Not able to create Metadata on volume {}[{reason}]",
                self.name
            ),
        )
    }

    /// Takes the lock, waiting for as long as it takes.
    ///
    /// "Blocking exclusive POSIX lock on `meta.lock` for the whole command, **including `list` and `info`**"
    /// (reference §3.5).
    pub(crate) fn lock(&self) -> io::Result<MetaLock> {
        self.directory("block-meta")?;
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(self.meta("meta.lock"))?;
        rustix::fs::fcntl_lock(&file, FlockOperation::LockExclusive)?;
        Ok(MetaLock { _file: file })
    }

    /// "Directories have mode 0" (reference §3.4); root does not mind.
    fn directory(&self, name: &str) -> io::Result<()> {
        match fs::DirBuilder::new().mode(0o0).create(self.root.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    /// The journal of a block; `None` when there is no such block.
    pub(crate) fn metadata(&self, block: &str) -> io::Result<Option<Metadata>> {
        match fs::read(self.meta(block)) {
            Ok(bytes) => Ok(Some(Metadata::parse(&String::from_utf8_lossy(&bytes)))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Adds lines to the journal of a block, making it if need be.
    pub(crate) fn append(&self, block: &str, lines: &str) -> io::Result<()> {
        let path = self.meta(block);
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        // One write, so that lines of parallel answers never mix. Not flushed: bricks hold it once it is answered.
        (&file).write_all(lines.as_bytes())
    }

    pub(crate) fn remove_metadata(&self, block: &str) -> io::Result<()> {
        absent_is_fine(fs::remove_file(self.meta(block)))
    }

    /// "Every metadata file without a dot is listed, including half-made blocks" (reference §2.4).
    pub(crate) fn blocks(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.root.join("block-meta"))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if !name.contains('.') {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Free bytes of the volume.
    pub(crate) fn free(&self) -> io::Result<u64> {
        let numbers = rustix::fs::statvfs(&self.root)?;
        Ok(numbers.f_bavail.saturating_mul(numbers.f_frsize))
    }

    /// Makes the data file.
    pub(crate) fn create_store(&self, gbid: &str, size: u64, prealloc: bool) -> io::Result<()> {
        self.directory("block-store")?;
        let file = OpenOptions::new()
            .create_new(true)
            .read(true)
            .write(true)
            .open(self.store(gbid))?;
        file.set_len(size)?;
        if prealloc {
            zero_fill(&file, 0, size)?;
        }
        file.sync_all()
    }

    /// Grows or shrinks the data file; "zero-filled if the file looked fully allocated" (reference §3.7).
    pub(crate) fn resize_store(&self, gbid: &str, size: u64) -> io::Result<()> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.store(gbid))?;
        let before = file.metadata()?;
        file.set_len(size)?;
        if size > before.len() && before.len() > 0 && before.blocks() * 512 >= before.len() {
            zero_fill(&file, before.len(), size)?;
        }
        file.sync_all()
    }

    pub(crate) fn remove_store(&self, gbid: &str) -> io::Result<()> {
        absent_is_fine(fs::remove_file(self.store(gbid)))
    }

    fn prio_file(&self) -> io::Result<PathBuf> {
        let path = self.meta("prio.info");
        OpenOptions::new().create(true).append(true).open(&path)?;
        Ok(path)
    }

    /// "the host with the lowest counter in extended attributes `user.block.<ip>` of `/block-meta/prio.info`
    /// (first host without a counter wins)" (reference §3.3). Raises the counter of the chosen one.
    pub(crate) fn choose_prio_path(&self, hosts: &[String]) -> io::Result<String> {
        let path = self.prio_file()?;
        let mut best: Option<(u64, &String)> = None;
        for host in hosts {
            let Some(count) = counter(&path, host)? else {
                best = Some((0, host));
                break;
            };
            if best.is_none_or(|(lowest, _)| count < lowest) {
                best = Some((count, host));
            }
        }
        let Some((_, chosen)) = best else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        change_counter(&path, chosen, |count| count.saturating_add(1))?;
        Ok(chosen.clone())
    }

    /// Lowers the counter of a deleted block's preferred host.
    pub(crate) fn release_prio_path(&self, host: &str) -> io::Result<()> {
        change_counter(&self.prio_file()?, host, |count| count.saturating_sub(1))
    }
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn counter_name(host: &str) -> String {
    format!("user.block.{host}")
}

fn counter(path: &Path, host: &str) -> io::Result<Option<u64>> {
    let mut value = [0_u8; 32];
    match rustix::fs::getxattr(path, counter_name(host), &mut value) {
        Ok(length) => {
            let text = String::from_utf8_lossy(value.get(..length).unwrap_or_default());
            Ok(text.trim_end_matches('\0').parse().ok())
        }
        Err(rustix::io::Errno::NODATA) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn change_counter(path: &Path, host: &str, change: impl Fn(u64) -> u64) -> io::Result<()> {
    let count = change(counter(path, host)?.unwrap_or(0)).to_string();
    Ok(rustix::fs::setxattr(
        path,
        counter_name(host),
        count.as_bytes(),
        XattrFlags::empty(),
    )?)
}

/// "`prealloc full` zero-fills through glusterfs while the volume lock is held; with volumes lacking zerofill … it
/// writes zeros 16 MiB at a time, slowly" (reference §1.2).
fn zero_fill(file: &File, from: u64, to: u64) -> io::Result<()> {
    const PIECE: usize = 16 << 20;
    if from >= to {
        return Ok(());
    }
    if rustix::fs::fallocate(file, FallocateFlags::ZERO_RANGE, from, to - from).is_ok() {
        return Ok(());
    }
    let zeros = vec![0; PIECE];
    let mut at = from;
    while at < to {
        let length = usize::try_from(to - at).map_or(PIECE, |left| left.min(PIECE));
        let piece = zeros.get(..length).unwrap_or_default();
        file.write_all_at(piece, at)?;
        at = at.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume() -> (tempfile::TempDir, Volume) {
        let directory = tempfile::tempdir().expect("temporary directory");
        let volume = Volume::new("hostvol", directory.path().to_owned());
        (directory, volume)
    }

    #[test]
    fn a_journal_grows_at_its_end_and_dotted_files_are_no_blocks() {
        let (_directory, volume) = volume();
        let lock = volume.lock().expect("lock");
        volume.append("b1", "SIZE: 512\n").expect("append");
        volume.append("b1", "SIZE: 1024\n").expect("append");
        volume.prio_file().expect("prio.info");
        assert_eq!(volume.blocks().expect("list"), ["b1"]);
        let read = volume.metadata("b1").expect("read").expect("present");
        assert_eq!(read.size, 1024);
        assert_eq!(volume.metadata("b2").expect("read"), None);
        drop(lock);
    }

    #[test]
    fn the_preferred_path_goes_to_the_host_with_the_lowest_counter() {
        let (_directory, volume) = volume();
        let _lock = volume.lock().expect("lock");
        let hosts = ["10.0.0.1".to_owned(), "10.0.0.2".to_owned()];
        let chosen = || volume.choose_prio_path(&hosts).expect("choice");
        assert_eq!(
            [chosen(), chosen(), chosen()],
            ["10.0.0.1", "10.0.0.2", "10.0.0.1"]
        );
        volume.release_prio_path("10.0.0.1").expect("release");
        volume.release_prio_path("10.0.0.1").expect("release");
        assert_eq!(volume.choose_prio_path(&hosts).expect("choice"), "10.0.0.1");
    }

    #[test]
    fn a_preallocated_file_is_filled_and_grows_filled() {
        let (_directory, volume) = volume();
        volume.create_store("full", 1 << 20, true).expect("create");
        volume.resize_store("full", 2 << 20).expect("grow");
        let allocated = fs::metadata(volume.store("full")).expect("stat").blocks() * 512;
        assert!(allocated >= 2 << 20, "{allocated}");
        volume.create_store("thin", 1 << 20, false).expect("create");
        volume.resize_store("thin", 2 << 20).expect("grow");
        assert_eq!(
            fs::metadata(volume.store("thin")).expect("stat").blocks(),
            0
        );
    }
}
