//! Paths as the mount table spells them.

use std::path::{Path, PathBuf};

/// The path with every symbolic link on the way to its last component resolved.
///
/// The directory of kubelet may be a link (K03), and the kernel names mount points by where they are. The last component is
/// left alone: it may be a mount whose file system does not answer. A path whose directory is not there is given back
/// as it is; nothing is mounted on it.
pub async fn resolve(path: &Path) -> PathBuf {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return path.to_owned();
    };
    match tokio::fs::canonicalize(directory).await {
        Ok(directory) => directory.join(name),
        Err(_) => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[tokio::test]
    async fn links_on_the_way_are_resolved_and_the_last_component_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let real = directory.path().canonicalize().unwrap().join("real");
        std::fs::create_dir(&real).unwrap();
        symlink(&real, directory.path().join("link")).unwrap();
        symlink("/", real.join("last")).unwrap();
        for name in ["mount", "last"] {
            assert_eq!(
                resolve(&directory.path().join("link").join(name)).await,
                real.join(name)
            );
        }
        let absent = Path::new("/no/such/directory/mount");
        assert_eq!(resolve(absent).await, absent);
    }
}
