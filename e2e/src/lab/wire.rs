//! What the lab and its agent in a guest say to each other: one request a connection, then frames until the end.
//!
//! A request is a JSON head and a body, each with its length before it. A reply is a row of [`Frame`]s that ends with
//! `Done` or `Failed`; after `Done` of a [`Request::Connect`] the connection carries the socket's bytes.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The agent's port on the guest's address in the lab's own network.
pub const PORT: u16 = 7;

/// Longest head, body or frame that is believed.
const LIMIT: u32 = 256 << 20;

/// One thing to do in a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Runs a program to its end; the body is its stdin. Its group is killed at the limit or when the caller goes.
    Exec {
        /// Program and arguments.
        argv: Vec<String>,
        /// Variables added to the environment.
        env: Vec<(String, String)>,
        /// Most it may take.
        limit_ms: u64,
    },
    /// Starts a program that goes on by itself; both its outputs are appended to `log`.
    Spawn {
        /// Program and arguments.
        argv: Vec<String>,
        /// Variables added to the environment.
        env: Vec<(String, String)>,
        /// A file in the guest.
        log: PathBuf,
    },
    /// Sends a signal to the group of a process started by `Spawn`; answers whether it was there.
    Signal {
        /// The process.
        process: Process,
        /// What to send; `None` only looks.
        signal: Option<SignalName>,
    },
    /// Answers a file's content.
    Read {
        /// The file.
        path: PathBuf,
    },
    /// Writes the body to a file: beside it first, then renamed, so that a reader sees all or nothing.
    Write {
        /// The file; missing folders are made.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Removes a file; a missing one is well.
    Remove {
        /// The file.
        path: PathBuf,
    },
    /// Connects to a Unix socket.
    Connect {
        /// The socket.
        path: PathBuf,
    },
}

/// A process of a guest, told apart from a later one with the same id by its start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Process id, which is also its group.
    pub pid: u32,
    /// Start time in ticks since the guest's boot.
    pub started: u64,
}

/// Signals that tests send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SignalName {
    /// SIGKILL.
    Kill,
    /// SIGTERM.
    Term,
    /// SIGSTOP.
    Stop,
    /// SIGCONT.
    Cont,
}

/// A piece of a reply.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    /// Bytes from stdout, or of a file.
    Out(Vec<u8>),
    /// Bytes from stderr.
    Err(Vec<u8>),
    /// The end: JSON whose meaning depends on the request.
    Done(Vec<u8>),
    /// The end: why the request could not be done.
    Failed(String),
}

/// Sends a request.
///
/// # Errors
/// When the connection breaks.
pub async fn send(
    stream: &mut (impl AsyncWrite + Unpin),
    request: &Request,
    body: &[u8],
) -> io::Result<()> {
    let head = serde_json::to_vec(request)?;
    let mut message = Vec::with_capacity(head.len() + body.len() + 8);
    for part in [head.as_slice(), body] {
        message.extend(length(part)?.to_be_bytes());
        message.extend(part);
    }
    stream.write_all(&message).await
}

/// Receives a request and its body.
///
/// # Errors
/// When the connection breaks or what comes is no request.
pub async fn receive(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<(Request, Vec<u8>)> {
    let head = block(stream).await?;
    let body = block(stream).await?;
    Ok((serde_json::from_slice(&head)?, body))
}

/// Sends one piece of a reply.
///
/// # Errors
/// When the connection breaks.
pub async fn reply(stream: &mut (impl AsyncWrite + Unpin), frame: &Frame) -> io::Result<()> {
    let (kind, bytes) = match frame {
        Frame::Out(bytes) => (1_u8, bytes.as_slice()),
        Frame::Err(bytes) => (2, bytes.as_slice()),
        Frame::Done(bytes) => (3, bytes.as_slice()),
        Frame::Failed(text) => (4, text.as_bytes()),
    };
    let mut message = Vec::with_capacity(bytes.len() + 5);
    message.push(kind);
    message.extend(length(bytes)?.to_be_bytes());
    message.extend(bytes);
    stream.write_all(&message).await
}

/// Receives one piece of a reply.
///
/// # Errors
/// When the connection breaks or what comes is no frame.
pub async fn frame(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Frame> {
    let kind = stream.read_u8().await?;
    let bytes = block(stream).await?;
    match kind {
        1 => Ok(Frame::Out(bytes)),
        2 => Ok(Frame::Err(bytes)),
        3 => Ok(Frame::Done(bytes)),
        4 => Ok(Frame::Failed(String::from_utf8_lossy(&bytes).into_owned())),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("frame of kind {kind}"),
        )),
    }
}

async fn block(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let length = stream.read_u32().await?;
    if length > LIMIT {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{length} bytes at once"),
        ));
    }
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

fn length(bytes: &[u8]) -> io::Result<u32> {
    u32::try_from(bytes.len())
        .ok()
        .filter(|length| *length <= LIMIT)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "too long for one message"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_comes_out_as_it_went_in() {
        let (mut near, mut far) = tokio::io::duplex(1 << 16);
        let request = Request::Exec {
            argv: vec!["echo".to_owned(), "ä \n'".to_owned()],
            env: vec![("A".to_owned(), "b=c".to_owned())],
            limit_ms: 5,
        };
        send(&mut near, &request, b"\0stdin").await.unwrap();
        let (received, body) = receive(&mut far).await.unwrap();
        assert_eq!(
            (received, body.as_slice()),
            (request, b"\0stdin".as_slice())
        );
    }

    #[tokio::test]
    async fn frames_keep_their_kind_and_order() {
        let (mut near, mut far) = tokio::io::duplex(1 << 16);
        let sent = [
            Frame::Out(b"1".to_vec()),
            Frame::Err(Vec::new()),
            Frame::Done(b"{}".to_vec()),
            Frame::Failed("no".to_owned()),
        ];
        for piece in &sent {
            reply(&mut near, piece).await.unwrap();
        }
        for piece in &sent {
            assert_eq!(&frame(&mut far).await.unwrap(), piece);
        }
    }

    #[tokio::test]
    async fn a_length_beyond_reason_is_refused() {
        let mut garbage: &[u8] = &[1, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(
            frame(&mut garbage).await.unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
    }
}
