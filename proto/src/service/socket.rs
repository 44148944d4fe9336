//! A Unix socket that only its owner can connect to.
//!
//! It replaces what an earlier process left behind, and nothing else: a file of another kind is somebody's mistake in the
//! settings, and a socket that somebody listens on is a second plugin.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::{UnixListener, UnixSocket};

// Calls wait here only while the process is too busy to accept.
const BACKLOG: u32 = 128;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Something else is at that path.
    #[error("{} is not a socket; it is left alone", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// A running process has that socket.
    #[error("another process listens on {}", path.display())]
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// The folder of the socket cannot be used.
    #[error("no access to the folder of {}", path.display())]
    Folder {
        /// The socket's path.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// What is at that path can be neither examined nor removed.
    #[error("{} cannot be replaced", path.display())]
    Replace {
        /// The path.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The system refused the socket.
    #[error("cannot listen on {}", path.display())]
    Bind {
        /// The path.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// Listens on a socket at `path` that only this user may connect to. Call it inside a tokio runtime.
///
/// # Guarantees
///
/// - The socket has mode 0600 from the moment it exists.
/// - Of what was at `path` before, only a socket that nobody listens on is removed; of two plugins that start at the same
///   time one gets the socket.
///
/// # Errors
///
/// [`SocketError`], after which `path` is as it was, or free.
pub fn bind_private(path: &Path) -> Result<UnixListener, SocketError> {
    let owned = || path.to_owned();
    let _turn = lock_folder(path)?;
    remove_stale(path)?;
    listen(path).map_err(|source| SocketError::Bind {
        path: owned(),
        source,
    })
}

/// Keeps other plugins from looking at the same socket meanwhile: one could take the other's fresh socket for stale.
/// The folder itself is locked, because CSI wants no other file in it.
fn lock_folder(path: &Path) -> Result<impl Drop, SocketError> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let access = |source: Errno| SocketError::Folder {
        path: path.to_owned(),
        source: source.into(),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(folder, flags, Mode::empty()).map_err(access)?;
    match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(folder),
        Err(Errno::WOULDBLOCK) => Err(SocketError::InUse {
            path: path.to_owned(),
        }),
        Err(source) => Err(access(source)),
    }
}

/// Decides what to do about whatever is at `path`:
///
/// | there | a connection is | then |
/// |---|---|---|
/// | nothing | | nothing to do |
/// | not a socket, or a link | | refuse |
/// | socket | accepted, or the queue is full | refuse |
/// | socket | refused | remove |
/// | socket | impossible for another reason | refuse |
fn remove_stale(path: &Path) -> Result<(), SocketError> {
    use std::os::unix::fs::FileTypeExt as _;

    let owned = || path.to_owned();
    let replace = |source| SocketError::Replace {
        path: owned(),
        source,
    };
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(replace(error)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(SocketError::NotASocket { path: owned() });
        }
        Ok(_) => {}
    }
    match connect(path) {
        Err(Errno::CONNREFUSED) => std::fs::remove_file(path).map_err(replace),
        Ok(()) | Err(Errno::AGAIN) => Err(SocketError::InUse { path: owned() }),
        Err(error) => Err(replace(error.into())),
    }
}

/// Connects without waiting: a process that is stuck must not hold up the start of another.
fn connect(path: &Path) -> Result<(), Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let family = AddressFamily::UNIX;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    let socket = UnixSocket::new_stream()?;
    // Linux makes the file with the mode of the unbound socket (minus the umask), so there is no moment in which the
    // file is there with another mode, as there would be with a chmod after bind.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    socket.bind(path)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::*;

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("csi.sock");
        (folder, path)
    }

    #[tokio::test]
    async fn a_socket_is_for_its_owner_alone() {
        let (_folder, path) = folder();

        let _listener = bind_private(&path).unwrap();

        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced() {
        let (_folder, path) = folder();
        drop(bind_private(&path).unwrap());
        let stale = std::fs::metadata(&path).unwrap().ino();

        let listener = bind_private(&path).unwrap();

        let client = tokio::net::UnixStream::connect(&path);
        let (accepted, connected) = tokio::join!(listener.accept(), client);
        assert!(accepted.is_ok() && connected.is_ok(), "instead of {stale}");
    }

    #[tokio::test]
    async fn a_socket_that_somebody_listens_on_is_left_alone() {
        let (_folder, path) = folder();
        let _listener = bind_private(&path).unwrap();

        let refused = bind_private(&path).unwrap_err();

        assert!(matches!(refused, SocketError::InUse { .. }), "{refused}");
        tokio::net::UnixStream::connect(&path).await.unwrap();
    }

    #[tokio::test]
    async fn a_socket_whose_owner_does_not_accept_is_left_alone() {
        let (_folder, path) = folder();
        let socket = UnixSocket::new_stream().unwrap();
        socket.bind(&path).unwrap();
        let _listener = socket.listen(0).unwrap();
        let _queued = std::os::unix::net::UnixStream::connect(&path).unwrap();

        let refused = bind_private(&path).unwrap_err();

        assert!(matches!(refused, SocketError::InUse { .. }), "{refused}");
    }

    #[tokio::test]
    async fn a_file_is_left_alone() {
        let (_folder, path) = folder();
        std::fs::write(&path, "precious").unwrap();

        let refused = bind_private(&path).unwrap_err();

        assert!(
            matches!(refused, SocketError::NotASocket { .. }),
            "{refused}"
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }

    #[tokio::test]
    async fn a_folder_is_left_alone() {
        let (_folder, path) = folder();
        std::fs::create_dir(&path).unwrap();

        let refused = bind_private(&path).unwrap_err();

        assert!(
            matches!(refused, SocketError::NotASocket { .. }),
            "{refused}"
        );
    }

    #[tokio::test]
    async fn a_link_to_a_stale_socket_is_left_alone() {
        let (folder, path) = folder();
        let target = folder.path().join("target.sock");
        drop(bind_private(&target).unwrap());
        symlink(&target, &path).unwrap();

        let refused = bind_private(&path).unwrap_err();

        assert!(
            matches!(refused, SocketError::NotASocket { .. }),
            "{refused}"
        );
        assert!(target.try_exists().unwrap());
    }

    #[tokio::test]
    async fn of_two_that_start_at_once_the_second_is_refused() {
        let (_folder, path) = folder();
        let _first = lock_folder(&path).unwrap();

        let refused = bind_private(&path).unwrap_err();

        assert!(matches!(refused, SocketError::InUse { .. }), "{refused}");
    }

    #[tokio::test]
    async fn a_missing_folder_is_named() {
        let (folder, _) = folder();
        let path = folder.path().join("missing/csi.sock");

        let refused = bind_private(&path).unwrap_err();

        assert!(matches!(refused, SocketError::Folder { .. }), "{refused}");
    }

    #[tokio::test]
    async fn a_path_too_long_for_a_socket_is_refused() {
        let (folder, _) = folder();
        let path = folder.path().join("x".repeat(120));

        let refused = bind_private(&path).unwrap_err();

        assert!(matches!(refused, SocketError::Bind { .. }), "{refused}");
    }
}
