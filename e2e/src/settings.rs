//! What the environment of a test, the demo or a benchmark may set; read here and nowhere else.

use std::path::PathBuf;

#[expect(
    clippy::disallowed_methods,
    reason = "the one place where this crate reads its environment"
)]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// `LAB_ID`: the lab that tests share; each boots its own without it.
#[must_use]
pub fn lab_id() -> Option<String> {
    variable("LAB_ID")
}

fn path(name: &str) -> Option<PathBuf> {
    variable(name).map(PathBuf::from)
}

/// `LAB_STORAGE_OVERLAY`: a tar archive to lay over the root of storage guests.
#[must_use]
pub fn storage_overlay() -> Option<PathBuf> {
    path("LAB_STORAGE_OVERLAY")
}

/// `LAB_HEKETI`: the real heketi's program, to run in place of its simulator.
#[must_use]
pub fn heketi() -> Option<PathBuf> {
    path("LAB_HEKETI")
}

/// Where costly things are kept outside the checkout: `XDG_CACHE_HOME` or `~/.cache`.
#[must_use]
pub fn cache() -> PathBuf {
    let home = || path("HOME").unwrap_or_else(|| PathBuf::from("/root"));
    let base = path("XDG_CACHE_HOME").unwrap_or_else(|| home().join(".cache"));
    base.join("gluster-block-csi")
}

/// Where the images of guests are kept: `lab` in the [`cache`].
#[must_use]
pub fn images() -> PathBuf {
    cache().join("lab")
}
