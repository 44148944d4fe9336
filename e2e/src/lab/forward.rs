//! A socket of this machine that leads into the lab: every connection to it is a fresh one inside, so that it outlives
//! restarts of the server and reboots of the guest.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::task::JoinHandle;

use super::guest::Guest;
use super::network::Namespace;

/// A way into the lab, open as long as this value lives.
#[derive(Debug)]
pub struct Forward {
    task: JoinHandle<()>,
    socket: Option<PathBuf>,
    address: Option<SocketAddr>,
}

impl Forward {
    /// Leads from a Unix socket here, made anew, to a Unix socket in a guest.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn to_guest_socket(
        guest: &Guest,
        guest_socket: impl Into<PathBuf>,
        socket: impl Into<PathBuf>,
    ) -> io::Result<Self> {
        let (guest, inside, socket) = (guest.clone(), guest_socket.into(), socket.into());
        match fs::remove_file(&socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&socket)?;
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (guest, inside) = (guest.clone(), inside.clone());
                tokio::spawn(async move {
                    match guest.connect(&inside).await {
                        Ok(far) => join(near, far, Some(guest)).await,
                        Err(error) => tracing::debug!(%error, "the far end cannot be reached"),
                    }
                });
            }
        });
        Ok(Self {
            task,
            socket: Some(socket),
            address: None,
        })
    }

    /// Leads from a port on this machine's loopback address to an address inside the lab.
    ///
    /// # Errors
    /// When there is no free port.
    pub async fn to_address(namespace: &Namespace, inside: SocketAddr) -> io::Result<Self> {
        let namespace = namespace.clone();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let namespace = namespace.clone();
                tokio::spawn(async move {
                    match namespace.connect(inside, Duration::from_secs(10)).await {
                        Ok(far) => join(near, far, None).await,
                        Err(error) => tracing::debug!(%error, "the far end cannot be reached"),
                    }
                });
            }
        });
        Ok(Self {
            task,
            socket: None,
            address: Some(address),
        })
    }

    /// The socket here, if it is a Unix socket.
    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }

    /// The address here, if it is a TCP port.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        self.task.abort();
        if let Some(socket) = &self.socket {
            let _ = fs::remove_file(socket);
        }
    }
}

/// Copies both ways until an end closes, or the guest is gone, which no packet would say.
async fn join(
    mut near: impl AsyncRead + AsyncWrite + Unpin,
    mut far: TcpStream,
    guest: Option<Guest>,
) {
    let born = guest.as_ref().and_then(Guest::process);
    let gone = async {
        loop {
            tokio::time::sleep(Duration::from_millis(500)).await;
            if guest
                .as_ref()
                .is_some_and(|guest| guest.process() != born || !guest.is_running())
            {
                return;
            }
        }
    };
    tokio::select! {
        _ = copy_bidirectional(&mut near, &mut far) => {}
        () = gone => {}
    }
}
