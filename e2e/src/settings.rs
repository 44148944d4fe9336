//! What the environment of a test, the demo or a benchmark may set; read here and nowhere else.

use std::path::{Path, PathBuf};

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

/// Where costly things are kept outside the checkout: `XDG_CACHE_HOME` or `~/.cache`.
#[must_use]
pub fn cache() -> PathBuf {
    let base = variable("XDG_CACHE_HOME").map_or_else(
        || Path::new(&variable("HOME").unwrap_or_else(|| "/root".to_owned())).join(".cache"),
        PathBuf::from,
    );
    base.join("gluster-block-csi")
}
