//! The guests' kernel: user-mode Linux, the newest that can be had, kept outside the checkout.
//!
//! From version 6.16 on a guest's programs run under a seccomp filter instead of ptrace, and starting one costs a fifth: a
//! gluster command that took 0.9 s takes 0.1 s. Debian's stable release has an older kernel, so a newer one is unpacked
//! from `SUITE`, together with the C library it was linked to, beside the guests' images. Nothing of it is installed on
//! the machine. Where that release cannot be reached, the machine's own kernel serves: the same tests, much slower.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::image::{self, ImageError, at, run};
use super::process::Program;

/// The release of Debian that has the newer kernel.
const SUITE: &str = "forky";
/// The packages: the kernel, and the library it needs.
const PACKAGES: [&str; 2] = ["user-mode-linux", "libc6"];
/// Prints the archive this machine has its own release from.
const ARCHIVE: [&str; 4] = [
    "indextargets",
    "--format",
    "$(ORIGIN) $(COMPONENT) $(REPO_URI)",
    "Created-By: Packages",
];

/// A kernel that runs as a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// The program.
    pub program: PathBuf,
    /// The folder of its modules, one folder a version.
    pub modules: PathBuf,
}

impl Kernel {
    /// The one that the machine's package `user-mode-linux` brings.
    #[must_use]
    pub fn installed() -> Self {
        Self {
            program: PathBuf::from("linux.uml"),
            modules: PathBuf::from("/usr/lib/uml/modules"),
        }
    }

    fn unpacked(place: &Path) -> Self {
        Self {
            program: place.join("linux"),
            modules: place.join("root/usr/lib/uml/modules"),
        }
    }
}

/// The kernel kept in `cache`, fetched if there is none; the installed one when none can be fetched.
///
/// # Errors
/// When the cache cannot be written.
pub async fn kernel(cache: &Path) -> Result<Kernel, ImageError> {
    fs::create_dir_all(cache).map_err(at(cache))?;
    let _lock = image::lock(&cache.join("lock")).await?;
    let place = cache.join(format!("kernel-{SUITE}"));
    if !place.try_exists().map_err(at(&place))? {
        let work = image::workplace(cache)?;
        if let Err(error) = fetch(work.path(), &place).await {
            eprintln!(
                "lab: no newer kernel, guests will be slow: {:#}",
                anyhow::Error::from(error)
            );
            return Ok(Kernel::installed());
        }
        fs::rename(work.path(), &place).map_err(at(&place))?;
        let _ = work.keep();
    }
    let used = place.join("used");
    fs::write(&used, "").map_err(at(&used))?;
    Ok(Kernel::unpacked(&place))
}

/// Downloads and unpacks it into `work`, ready to run once that is called `place`.
async fn fetch(work: &Path, place: &Path) -> Result<(), ImageError> {
    eprintln!("lab: fetching the guests' kernel from Debian's {SUITE} (once; 10 seconds)");
    let targets = Program::new("apt-get").args(ARCHIVE);
    let targets = targets.output().await.map_err(ImageError::Program)?;
    let archive = archive(&targets).ok_or(ImageError::NoArchive)?;
    for name in ["state/lists/partial", "cache/archives/partial", "root"] {
        let path = work.join(name);
        fs::create_dir_all(&path).map_err(at(&path))?;
    }
    let list = work.join("sources.list");
    fs::write(&list, format!("deb {archive} {SUITE} main\n")).map_err(at(&list))?;
    apt(work, &["update", "--error-on=any"]).await?;
    apt(work, &["download", PACKAGES[0], PACKAGES[1]]).await?;
    let root = work.join("root");
    for entry in fs::read_dir(work).map_err(at(work))? {
        let path = entry.map_err(at(work))?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            run(Program::new("dpkg-deb")
                .args(["--extract"])
                .args([&path, &root]))
            .await?;
            fs::remove_file(&path).map_err(at(&path))?;
        }
    }
    let kernel = work.join("linux");
    fs::rename(root.join("usr/bin/linux.uml"), &kernel).map_err(at(&kernel))?;
    let library = place.join("root/usr/lib/x86_64-linux-gnu");
    run(Program::new("patchelf")
        .args(["--set-interpreter"])
        .args([library.join("ld-linux-x86-64.so.2")])
        .args(["--set-rpath"])
        .args([&library, &kernel]))
    .await
}

/// apt-get with lists, cache and sources of its own; signatures are checked with the machine's keys.
async fn apt(work: &Path, words: &[&str]) -> Result<(), ImageError> {
    let options = [
        format!(
            "Dir::Etc::sourcelist={}",
            work.join("sources.list").display()
        ),
        "Dir::Etc::sourceparts=/dev/null".to_owned(),
        format!("Dir::State={}", work.join("state").display()),
        "Dir::State::status=/dev/null".to_owned(),
        format!("Dir::Cache={}", work.join("cache").display()),
        "APT::Sandbox::User=root".to_owned(),
        "APT::Default-Release=".to_owned(),
        "Acquire::Languages=none".to_owned(),
    ];
    run(Program::new("apt-get")
        .within(Duration::from_mins(5))
        .current_dir(work)
        .args(["--quiet"])
        .args(options.iter().flat_map(|option| ["-o", option.as_str()]))
        .args(words))
    .await
}

/// The first archive of Debian's `main` component among apt's targets.
fn archive(targets: &str) -> Option<&str> {
    targets
        .lines()
        .find_map(|line| line.strip_prefix("Debian main "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_is_the_one_of_the_machines_own_release() {
        let targets = "Other main https://other/apt/\nDebian contrib http://d/debian/\n\
                       Debian main http://d/debian/\nDebian main http://d/debian-security/\n";
        assert_eq!(archive(targets), Some("http://d/debian/"));
        assert_eq!(archive("Other main https://other/apt/\n"), None);
    }
}
