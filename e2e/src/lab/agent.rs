//! The agent: runs in every guest, does what the lab asks for over TCP, and knows no more than that.
//!
//! It has no lock on its door: it listens only on the lab's own network, inside the lab's network namespace.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::mpsc;

use super::process::{self, Program};
use super::wire::{self, Frame, Process, Request, SignalName};

/// Serves until the guest goes down.
///
/// # Errors
/// When the address cannot be had.
pub async fn serve(listen: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind(listen).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(async move {
            if let Err(error) = answer(stream).await {
                tracing::debug!(%error, "a connection ended early");
            }
        });
    }
}

async fn answer(mut stream: TcpStream) -> io::Result<()> {
    let (request, body) = wire::receive(&mut stream).await?;
    let outcome = match request {
        Request::Exec {
            argv,
            env,
            limit_ms,
        } => {
            let program = program(&argv, &env).within(Duration::from_millis(limit_ms));
            return exec(stream, program, body).await;
        }
        Request::Connect { path } => return connect(stream, &path).await,
        Request::Spawn { argv, env, log } => spawn(program(&argv, &env), &log),
        Request::Signal { process, signal } => Ok(Frame::Done(json(signalled(process, signal)))),
        Request::Read { path } => fs::read(path).map(Frame::Done),
        Request::Write { path, mode } => {
            write(&path, mode, &body).map(|()| Frame::Done(Vec::new()))
        }
        Request::Remove { path } => match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(Frame::Done(Vec::new())),
        },
    };
    let frame = outcome.unwrap_or_else(|error| Frame::Failed(error.to_string()));
    wire::reply(&mut stream, &frame).await
}

fn program(argv: &[String], env: &[(String, String)]) -> Program {
    let mut program =
        Program::new(argv.first().map_or("", String::as_str)).args(argv.iter().skip(1));
    for (name, value) in env {
        program = program.env(name, value);
    }
    program
}

/// Runs a program and sends what it writes as it comes.
async fn exec(stream: TcpStream, program: Program, stdin: Vec<u8>) -> io::Result<()> {
    let (mut caller, mut back) = stream.into_split();
    let limit = program.limit();
    let mut running = match program.piped() {
        Ok(running) => running,
        Err(error) => {
            let text = format!("{error}: {}", source(&error));
            return wire::reply(&mut back, &Frame::Failed(text)).await;
        }
    };
    let (frames, mut queue) = mpsc::channel(8);
    if let Some(mut input) = running.stdin() {
        tokio::spawn(async move {
            let _ = input.write_all(&stdin).await;
        });
    }
    if let Some(out) = running.stdout() {
        tokio::spawn(pump(out, frames.clone(), Frame::Out));
    }
    if let Some(err) = running.stderr() {
        tokio::spawn(pump(err, frames.clone(), Frame::Err));
    }
    drop(frames);
    let deadline = tokio::time::sleep(limit);
    tokio::pin!(deadline);
    // The program's end is the end, even when a daemon it left behind holds its outputs open.
    let mut ended = None;
    let mut grace = None;
    let last = loop {
        let patience = async {
            match grace {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            frame = queue.recv() => match frame {
                Some(frame) => wire::reply(&mut back, &frame).await?,
                None => match ended.take() {
                    Some(code) => break Frame::Done(json(code)),
                    None => break Frame::Done(json(running.wait().await?)),
                },
            },
            code = running.wait(), if ended.is_none() => {
                ended = Some(code?);
                grace = Some(tokio::time::Instant::now() + Duration::from_millis(200));
            }
            () = patience => break Frame::Done(json(ended.unwrap_or(-1))),
            () = &mut deadline => {
                running.kill();
                break Frame::Failed(format!("killed after {limit:?}"));
            }
            _ = caller.read_u8() => {
                running.kill();
                return Ok(());
            }
        }
    };
    wire::reply(&mut back, &last).await
}

async fn pump(
    mut source: impl AsyncRead + Unpin,
    frames: mpsc::Sender<Frame>,
    wrap: fn(Vec<u8>) -> Frame,
) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count) = source.read(&mut buffer).await {
        let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else {
            return;
        };
        if frames.send(wrap(bytes.to_vec())).await.is_err() {
            return;
        }
    }
}

fn spawn(program: Program, log: &Path) -> io::Result<Frame> {
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut child = program
        .background(log)
        .map_err(|error| io::Error::other(format!("{error}: {}", source(&error))))?;
    let process = child
        .pid()
        .and_then(|pid| {
            Some(Process {
                pid,
                started: process::started(pid)?,
            })
        })
        .ok_or_else(|| io::Error::other("it ended at once"))?;
    tokio::spawn(async move { child.wait().await });
    Ok(Frame::Done(json(process)))
}

fn signalled(process: Process, signal: Option<SignalName>) -> bool {
    if process::started(process.pid) != Some(process.started) {
        return false;
    }
    if let Some(signal) = signal {
        let signal = match signal {
            SignalName::Kill => Signal::KILL,
            SignalName::Term => Signal::TERM,
            SignalName::Stop => Signal::STOP,
            SignalName::Cont => Signal::CONT,
        };
        process::signal_group(Some(process.pid), signal);
    }
    true
}

fn write(path: &Path, mode: u32, body: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let fresh = path.with_file_name(name);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(&fresh)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    io::Write::write_all(&mut file, body)?;
    drop(file);
    fs::rename(&fresh, path)
}

async fn connect(mut stream: TcpStream, path: &Path) -> io::Result<()> {
    let mut socket = match UnixStream::connect(path).await {
        Ok(socket) => socket,
        Err(error) => {
            return wire::reply(&mut stream, &Frame::Failed(error.to_string())).await;
        }
    };
    wire::reply(&mut stream, &Frame::Done(Vec::new())).await?;
    tokio::io::copy_bidirectional(&mut stream, &mut socket)
        .await
        .map(drop)
}

fn json(value: impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(&value).unwrap_or_default()
}

fn source(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(String::new, ToString::to_string)
}
