//! ONC RPC version 2 with record marking: the frame around gluster-block's messages, and the calling side.
//!
//! Reference §4: standard XDR, `AUTH_NONE` both ways; a bad procedure is answered with accept status 3, a bad
//! version with 2 and low/high 1/1, short arguments with 4, procedure 0 with an empty success.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::xdr::{Decoder, Encoder, XdrError};

/// The program of the command line's socket (0x0CA53319).
pub(crate) const CLI_PROGRAM: u32 = 212_153_113;
/// The program between daemons (0x0143B84F).
pub(crate) const HOST_PROGRAM: u32 = 21_215_311;
/// The one version of both.
pub(crate) const VERSION: u32 = 1;

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// Nobody listens there.
    #[error("cannot connect")]
    Connect(#[source] std::io::Error),
    /// The connection broke or the peer closed it before answering: RPC status 4, "can't receive".
    #[error("no answer")]
    Receive(#[source] std::io::Error),
    /// Nothing came in time: RPC status 5.
    #[error("no answer in time")]
    TimedOut,
    /// The answer is not what it should be.
    #[error("answer cannot be read")]
    Malformed(#[source] XdrError),
    /// The peer refused the call with this accept status.
    #[error("call refused with accept status {0}")]
    Refused(u32),
}

impl CallError {
    /// The number that leaks into `errCode` (reference §0.3 and §2.10: 4 can't receive, 5 timed out,
    /// 8 program unavailable; reference §2.3: a daemon that is down counts as -107).
    pub(crate) fn status(&self) -> i32 {
        match self {
            Self::Connect(_) => -107,
            Self::Receive(_) => 4,
            Self::TimedOut => 5,
            Self::Malformed(_) => 2,
            Self::Refused(1) => 8,
            Self::Refused(2) => 9,
            Self::Refused(3) => 10,
            Self::Refused(_) => 11,
        }
    }
}

/// The header of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) xid: u32,
    pub(crate) rpc_version: u32,
    pub(crate) program: u32,
    pub(crate) version: u32,
    pub(crate) procedure: u32,
}

impl Call {
    /// Reads a call; the rest of the message is its arguments.
    pub(crate) fn decode(message: &[u8]) -> Result<(Self, &[u8]), XdrError> {
        let mut wire = Decoder::new(message);
        let xid = wire.u32()?;
        match wire.u32()? {
            0 => {}
            other => return Err(XdrError::Enumeration(other)),
        }
        let call = Self {
            xid,
            rpc_version: wire.u32()?,
            program: wire.u32()?,
            version: wire.u32()?,
            procedure: wire.u32()?,
        };
        for _credential_and_verifier in 0..2 {
            wire.u32()?;
            wire.opaque()?;
        }
        Ok((call, wire.rest()))
    }

    /// The message that makes this call with `arguments`: a header of 40 bytes and the arguments.
    pub(crate) fn encode(&self, arguments: &[u8]) -> Vec<u8> {
        let mut wire = Encoder::default();
        wire.u32(self.xid).u32(0).u32(self.rpc_version);
        wire.u32(self.program).u32(self.version).u32(self.procedure);
        wire.u32(0).u32(0).u32(0).u32(0);
        let mut message = wire.finish();
        message.extend_from_slice(arguments);
        message
    }
}

/// What a server says to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The procedure ran; its encoded result.
    Success(Vec<u8>),
    /// Accept status 1.
    ProgramUnavailable,
    /// Accept status 2, with the one version there is.
    VersionMismatch,
    /// Accept status 3.
    ProcedureUnavailable,
    /// Accept status 4.
    GarbageArguments,
    /// The RPC version itself is not 2.
    RpcMismatch,
}

impl Answer {
    /// The reply message.
    pub(crate) fn encode(&self, xid: u32) -> Vec<u8> {
        let mut wire = Encoder::default();
        wire.u32(xid).u32(1);
        if *self == Self::RpcMismatch {
            wire.u32(1).u32(0).u32(2).u32(2);
            return wire.finish();
        }
        wire.u32(0).u32(0).u32(0);
        match self {
            Self::Success(_) | Self::RpcMismatch => wire.u32(0),
            Self::ProgramUnavailable => wire.u32(1),
            Self::VersionMismatch => wire.u32(2).u32(VERSION).u32(VERSION),
            Self::ProcedureUnavailable => wire.u32(3),
            Self::GarbageArguments => wire.u32(4),
        };
        let mut message = wire.finish();
        if let Self::Success(result) = self {
            message.extend_from_slice(result);
        }
        message
    }
}

/// Reads one record of any number of fragments; `None` when the peer closed between records.
pub(crate) fn read_record(stream: &mut impl Read) -> std::io::Result<Option<Vec<u8>>> {
    const LIMIT: usize = 16 << 20;
    let mut record = Vec::new();
    loop {
        let mut header = [0; 4];
        match stream.read_exact(&mut header) {
            Ok(()) => {}
            Err(ended)
                if ended.kind() == std::io::ErrorKind::UnexpectedEof && record.is_empty() =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        let header = u32::from_be_bytes(header);
        let length = usize::try_from(header & 0x7fff_ffff).unwrap_or(usize::MAX);
        let start = record.len();
        let end = start.saturating_add(length);
        if end > LIMIT {
            return Err(std::io::Error::other("record too long"));
        }
        record.resize(end, 0);
        if let Some(fragment) = record.get_mut(start..) {
            stream.read_exact(fragment)?;
        }
        if header & 0x8000_0000 != 0 {
            return Ok(Some(record));
        }
    }
}

/// Writes one record as a single fragment.
pub(crate) fn write_record(stream: &mut impl Write, record: &[u8]) -> std::io::Result<()> {
    let length = u32::try_from(record.len()).map_err(std::io::Error::other)?;
    let mut bytes = (length | 0x8000_0000).to_be_bytes().to_vec();
    bytes.extend_from_slice(record);
    stream.write_all(&bytes)?;
    stream.flush()
}

/// Calls the daemon on this machine.
pub(crate) fn call_unix(
    socket: &Path,
    procedure: u32,
    arguments: &[u8],
    timeout: Duration,
) -> Result<Vec<u8>, CallError> {
    let mut stream = UnixStream::connect(socket).map_err(CallError::Connect)?;
    stream
        .set_read_timeout(Some(timeout))
        .map_err(CallError::Connect)?;
    exchange(&mut stream, CLI_PROGRAM, procedure, arguments)
}

/// Calls the daemon of another host (or this one's) over TCP.
pub(crate) fn call_tcp(
    peer: SocketAddr,
    procedure: u32,
    arguments: &[u8],
    timeout: Duration,
) -> Result<Vec<u8>, CallError> {
    let mut stream = TcpStream::connect_timeout(&peer, timeout).map_err(CallError::Connect)?;
    stream
        .set_read_timeout(Some(timeout))
        .map_err(CallError::Connect)?;
    stream.set_nodelay(true).map_err(CallError::Connect)?;
    exchange(&mut stream, HOST_PROGRAM, procedure, arguments)
}

fn exchange(
    stream: &mut (impl Read + Write),
    program: u32,
    procedure: u32,
    arguments: &[u8],
) -> Result<Vec<u8>, CallError> {
    let xid = std::process::id();
    let call = Call {
        xid,
        rpc_version: 2,
        program,
        version: VERSION,
        procedure,
    };
    write_record(stream, &call.encode(arguments)).map_err(CallError::Receive)?;
    let record = match read_record(stream) {
        Ok(Some(record)) => record,
        Ok(None) => {
            return Err(CallError::Receive(std::io::ErrorKind::UnexpectedEof.into()));
        }
        Err(error) => return Err(receive_error(error)),
    };
    let mut wire = Decoder::new(&record);
    let mut header = || -> Result<(u32, u32), XdrError> {
        let _xid = wire.u32()?;
        let _is_reply = wire.u32()?;
        let denied = wire.u32()?;
        let _flavor = wire.u32()?;
        wire.opaque()?;
        Ok((denied, wire.u32()?))
    };
    match header().map_err(CallError::Malformed)? {
        (0, 0) => Ok(wire.rest().to_vec()),
        (_, status) => Err(CallError::Refused(status)),
    }
}

fn receive_error(error: std::io::Error) -> CallError {
    if matches!(
        error.kind(),
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
    ) {
        CallError::TimedOut
    } else {
        CallError::Receive(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_header_takes_forty_bytes_and_reads_back() {
        let call = Call {
            xid: 7,
            rpc_version: 2,
            program: CLI_PROGRAM,
            version: 1,
            procedure: 2,
        };
        let message = call.encode(b"args");
        assert_eq!(message.len(), 40 + 4);
        assert_eq!(Call::decode(&message), Ok((call, &b"args"[..])));
    }

    #[test]
    fn refusals_carry_the_recorded_accept_status() {
        // reference §4: bad procedure -> 3; bad version -> 2 with low/high 1/1; short arguments -> 4
        let words = |answer: Answer| {
            answer
                .encode(9)
                .chunks(4)
                .map(|word| word[3])
                .collect::<Vec<u8>>()
        };
        assert_eq!(words(Answer::ProcedureUnavailable), [9, 1, 0, 0, 0, 3]);
        assert_eq!(words(Answer::VersionMismatch), [9, 1, 0, 0, 0, 2, 1, 1]);
        assert_eq!(words(Answer::GarbageArguments), [9, 1, 0, 0, 0, 4]);
        assert_eq!(words(Answer::ProgramUnavailable), [9, 1, 0, 0, 0, 1]);
        assert_eq!(words(Answer::Success(Vec::new())), [9, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn a_record_may_come_in_several_fragments() {
        // reference §4: "a client must still handle several"
        let mut bytes = vec![0, 0, 0, 2, b'a', b'b'];
        write_record(&mut bytes, b"cd").expect("memory");
        assert_eq!(
            read_record(&mut &bytes[..]).expect("whole"),
            Some(b"abcd".to_vec())
        );
        assert_eq!(read_record(&mut &b""[..]).expect("closed"), None);
        assert!(read_record(&mut &bytes[..5]).is_err());
    }
}
