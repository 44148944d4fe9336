//! Connections that can be cut, so that an answer can be lost after the work behind it was done.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// The client of a connection, and the knife.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    /// Where the client is.
    pub(super) address: SocketAddr,
    cut: Arc<AtomicBool>,
}

impl Peer {
    /// Cuts the connection: nothing that is written from now on arrives.
    pub(super) fn cut(&self) {
        self.cut.store(true, Ordering::Release);
    }
}

impl Connected<IncomingStream<'_, Cuttable>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Cuttable>) -> Self {
        stream.remote_addr().clone()
    }
}

/// A listener whose connections can be cut.
#[derive(Debug)]
pub(super) struct Cuttable(pub(super) TcpListener);

impl Listener for Cuttable {
    type Io = Stream;
    type Addr = Peer;

    async fn accept(&mut self) -> (Stream, Peer) {
        let (stream, address) = Listener::accept(&mut self.0).await;
        let cut = Arc::new(AtomicBool::new(false));
        (
            Stream {
                stream,
                cut: Arc::clone(&cut),
            },
            Peer { address, cut },
        )
    }

    fn local_addr(&self) -> io::Result<Peer> {
        let address = self.0.local_addr()?;
        Ok(Peer {
            address,
            cut: Arc::default(),
        })
    }
}

/// A connection that can be cut.
#[derive(Debug)]
pub(super) struct Stream {
    stream: TcpStream,
    cut: Arc<AtomicBool>,
}

impl Stream {
    fn check(&self) -> io::Result<()> {
        if self.cut.load(Ordering::Acquire) {
            Err(io::ErrorKind::ConnectionReset.into())
        } else {
            Ok(())
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
