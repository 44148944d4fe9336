//! The guests' root image: built once from Debian packages, kept outside the checkout under the hash of its recipe.
//!
//! Two things are kept: the bare root as a tar archive (the costly part: packages) and the images made of it, each in a
//! folder named by the hash of all that went into it. A storage overlay makes a further image. What is built is built
//! beside its place and renamed, under a lock, so that two builders do not meet and an interrupted one leaves nothing.

use std::fmt::Write as _;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest;

use super::process::{ProcessError, Program};

const PACKAGES: &str = include_str!("../../lab/packages");
/// Files that go into the root: place, text, permissions.
const FILES: [(&str, &str, u32); 4] = [
    ("sbin/labinit", include_str!("../../lab/init"), 0o755),
    (
        "usr/lib/lab/blockd",
        include_str!("../../lab/blockd"),
        0o755,
    ),
    (
        "usr/lib/lab/wrapper",
        include_str!("../../lab/wrapper"),
        0o755,
    ),
    (
        "etc/multipath.conf",
        include_str!("../../lab/multipath.conf"),
        0o644,
    ),
];
/// Packaged files that only cost time in a guest: module autoloading and LVM activation at every device event,
/// glusterd's run of the geo-replication program at every start, and the ban on starting services.
const REMOVED: [&str; 5] = [
    "usr/sbin/policy-rc.d",
    "usr/lib/udev/rules.d/80-drivers.rules",
    "usr/lib/udev/rules.d/69-lvm.rules",
    "usr/lib/udev/rules.d/69-lvm-metad.rules",
    "usr/lib/x86_64-linux-gnu/glusterfs/gsyncd",
];
/// Tools that a test can stop before or after they ran.
pub const HELD_TOOLS: [&str; 10] = [
    "iscsiadm",
    "multipath",
    "multipathd",
    "mkfs.ext4",
    "mkfs.xfs",
    "blkid",
    "e2fsck",
    "resize2fs",
    "sg_inq",
    "xfs_growfs",
];
/// The release of Debian that guests run. Programs built on the lab's machine run in guests when its C library is not newer.
const RELEASE: &str = "bookworm";
/// The way an image is put together is part of its recipe.
const CODE: &str = include_str!("image.rs");
/// What was not used for so long is removed when something new is built.
const KEPT_FOR: Duration = Duration::from_hours(24 * 3);

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// A program failed.
    #[error("the guests' root image could not be built")]
    Program(#[source] ProcessError),
    /// A file could not be read or written.
    #[error("the guests' root image could not be built: {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// apt names no archive to fetch from.
    #[error("apt knows no Debian archive; `apt-get indextargets` lists what it knows")]
    NoArchive,
    /// A packaged tool is not where it was.
    #[error("the guests' root has no {tool}")]
    NoTool {
        /// Its name.
        tool: &'static str,
    },
}

/// A root image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The file, an ext4 file system; beside it `bricks.img`, an empty xfs.
    pub path: PathBuf,
    /// True when its overlay brought `usr/sbin/gluster-blockd`.
    pub real_blockd: bool,
}

/// The image for guests without an overlay (`None`) or with one, building what is missing.
///
/// # Errors
/// When packages cannot be fetched, the overlay is no tar archive or the disk is full.
pub async fn image(cache: &Path, overlay: Option<&Path>) -> Result<Image, ImageError> {
    fs::create_dir_all(cache).map_err(at(cache))?;
    let _lock = lock(&cache.join("lock")).await?;
    let packages = hash([RELEASE.as_bytes(), PACKAGES.as_bytes()]);
    let mut recipe = format!("{packages}\n{CODE}");
    for (name, text, mode) in FILES {
        let _ = write!(recipe, "\n{name} {mode:o}\n{text}");
    }
    let overlay_hash = match overlay {
        Some(overlay) => hash([fs::read(overlay).map_err(at(overlay))?.as_slice()]),
        None => String::new(),
    };
    let place = cache.join(hash([recipe.as_bytes(), overlay_hash.as_bytes()]));
    if !place.try_exists().map_err(at(&place))? {
        let archive = bare_root(cache, &packages).await?;
        build(cache, &archive, overlay, &place).await?;
        prune(cache, &[&place, archive.parent().unwrap_or(cache)]).await?;
    }
    let used = place.join("used");
    fs::write(&used, "").map_err(at(&used))?;
    let real_blockd = place.join("real-blockd").try_exists().map_err(at(&place))?;
    Ok(Image {
        path: place.join("root.img"),
        real_blockd,
    })
}

/// The packages, unpacked and configured, as a tar archive.
async fn bare_root(cache: &Path, packages: &str) -> Result<PathBuf, ImageError> {
    let place = cache.join(format!("packages-{packages}"));
    let archive = place.join("root.tar");
    if !archive.try_exists().map_err(at(&archive))? {
        let names: Vec<_> = PACKAGES
            .lines()
            .filter(|line| !line.starts_with('#'))
            .collect();
        eprintln!(
            "lab: building the guests' root from {} Debian packages (once; 1 to 4 minutes)",
            names.len()
        );
        let work = workplace(cache)?;
        run(Program::new("mmdebstrap")
            .args(["--variant=minbase", "--quiet"])
            .args([format!("--include={}", names.join(","))])
            .args([
                "--dpkgopt=path-exclude=/usr/share/doc/*",
                "--dpkgopt=path-exclude=/usr/share/man/*",
                "--dpkgopt=path-exclude=/usr/share/locale/*",
                "--aptopt=APT::Install-Recommends \"false\"",
                RELEASE,
            ])
            .args([work.path().join("root.tar")])
            .within(Duration::from_mins(20)))
        .await?;
        fs::rename(work.path(), &place).map_err(at(&place))?;
        let _ = work.keep();
    }
    let used = place.join("used");
    fs::write(&used, "").map_err(at(&used))?;
    Ok(archive)
}

async fn build(
    cache: &Path,
    archive: &Path,
    overlay: Option<&Path>,
    place: &Path,
) -> Result<(), ImageError> {
    eprintln!("lab: making the guests' root image");
    let trees = workplace(cache)?;
    let tree = trees.path().join("root");
    fs::create_dir(&tree).map_err(at(&tree))?;
    untar(archive, &tree).await?;
    furnish(&tree)?;
    let work = workplace(cache)?;
    if let Some(overlay) = overlay {
        untar(overlay, &tree).await?;
        run(Program::new("chroot")
            .args([&tree])
            .args(["/sbin/ldconfig"]))
        .await?;
        if tree
            .join("usr/sbin/gluster-blockd")
            .try_exists()
            .map_err(at(&tree))?
        {
            let marker = work.path().join("real-blockd");
            fs::write(&marker, "").map_err(at(&marker))?;
        }
    }
    bricks(&tree, &work.path().join("bricks.img")).await?;
    run(Program::new("mkfs.ext4")
        .args(["-q", "-F", "-E", "lazy_itable_init=0,root_owner=0:0", "-d"])
        .args([&tree, &work.path().join("root.img")])
        .args(["4G"])
        .within(Duration::from_mins(5)))
    .await?;
    fs::rename(work.path(), place).map_err(at(place))?;
    let _ = work.keep();
    Ok(())
}

/// The file system that every storage guest begins with, made by the guests' own tools.
async fn bricks(tree: &Path, place: &Path) -> Result<(), ImageError> {
    let inside = tree.join("bricks.img");
    File::create(&inside)
        .and_then(|file| file.set_len(8 << 30))
        .map_err(at(&inside))?;
    run(Program::new("chroot").args([tree]).args([
        "/usr/lib/lab/real/mkfs.xfs",
        "-q",
        "-i",
        "size=512",
        "/bricks.img",
    ]))
    .await?;
    run(Program::new("cp")
        .args(["--sparse=always"])
        .args([&inside])
        .args([place]))
    .await?;
    fs::remove_file(&inside).map_err(at(&inside))
}

/// Puts the lab's own files into an unpacked root.
fn furnish(tree: &Path) -> Result<(), ImageError> {
    for (name, text, mode) in FILES {
        let path = tree.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(at(folder))?;
        }
        fs::write(&path, text).map_err(at(&path))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(at(&path))?;
    }
    for name in REMOVED {
        let path = tree.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&path)(error)),
            _ => {}
        }
    }
    for name in [
        "usr/lib/modules",
        "lab/bin",
        "lab/conf",
        "lab/share",
        "bricks",
        "etc/target",
        "etc/sysconfig",
        "var/log/glusterfs",
    ] {
        let path = tree.join(name);
        fs::create_dir_all(&path).map_err(at(&path))?;
    }
    for (name, target) in [
        ("etc/hosts", "/lab/conf/hosts"),
        ("etc/iscsi/iscsid.conf", "/lab/conf/iscsid.conf"),
    ] {
        let path = tree.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&path)(error)),
            _ => std::os::unix::fs::symlink(target, &path).map_err(at(&path))?,
        }
    }
    let real = tree.join("usr/lib/lab/real");
    fs::create_dir_all(&real).map_err(at(&real))?;
    for tool in HELD_TOOLS {
        let path = ["usr/sbin", "usr/bin"]
            .iter()
            .map(|folder| tree.join(folder).join(tool))
            .find(|path| path.symlink_metadata().is_ok())
            .ok_or(ImageError::NoTool { tool })?;
        // Some are links to a program that looks at the name it was called by.
        fs::copy(&path, real.join(tool)).map_err(at(&path))?;
        fs::remove_file(&path).map_err(at(&path))?;
        std::os::unix::fs::symlink("/usr/lib/lab/wrapper", &path).map_err(at(&path))?;
    }
    Ok(())
}

/// Removes what was not used for long, and what interrupted builders left.
async fn prune(cache: &Path, kept: &[&Path]) -> Result<(), ImageError> {
    for entry in fs::read_dir(cache).map_err(at(cache))? {
        let path = entry.map_err(at(cache))?.path();
        let used = path.join("used").metadata().or_else(|_| path.metadata());
        let age = used
            .and_then(|used| used.modified())
            .ok()
            .and_then(|used| SystemTime::now().duration_since(used).ok())
            .unwrap_or_default();
        let is_work = path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("build-"));
        let limit = if is_work {
            Duration::from_hours(1)
        } else {
            KEPT_FOR
        };
        let is_lock = path.ends_with("lock");
        if !is_lock && age > limit && !kept.contains(&path.as_path()) {
            run(Program::new("rm")
                .args(["-rf", "--one-file-system"])
                .args([&path]))
            .await?;
        }
    }
    Ok(())
}

pub(super) async fn lock(path: &Path) -> Result<File, ImageError> {
    let file = File::create(path).map_err(at(path))?;
    let mut told = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {
                if !std::mem::replace(&mut told, true) {
                    eprintln!("lab: waiting for another builder of the root image");
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            Err(TryLockError::Error(error)) => return Err(at(path)(error)),
        }
    }
}

pub(super) fn workplace(cache: &Path) -> Result<tempfile::TempDir, ImageError> {
    let work = tempfile::Builder::new()
        .prefix("build-")
        .tempdir_in(cache)
        .map_err(at(cache))?;
    Ok(work)
}

async fn untar(archive: &Path, tree: &Path) -> Result<(), ImageError> {
    run(Program::new("tar")
        .args([
            "--extract",
            "--numeric-owner",
            "--keep-directory-symlink",
            "--file",
        ])
        .args([archive])
        .args(["--directory"])
        .args([tree])
        .within(Duration::from_mins(5)))
    .await
}

pub(super) async fn run(program: Program) -> Result<(), ImageError> {
    program
        .output()
        .await
        .map(drop)
        .map_err(ImageError::Program)
}

fn hash<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(part);
        context.update(&[0]);
    }
    context
        .finish()
        .as_ref()
        .iter()
        .take(8)
        .fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> ImageError + use<> {
    let path = path.to_owned();
    move |source| ImageError::File { path, source }
}
