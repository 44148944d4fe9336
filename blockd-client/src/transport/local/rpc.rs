//! ONC RPC version 2 over a stream: one call, and its answer.
//!
//! A message is a record of any number of fragments, each behind four bytes of which the first bit marks the last
//! fragment and the others are its length.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::transport::TransportError;
use crate::vocabulary::HostAddress;

use super::xdr::{Malformed, Reader, Writer};

/// The most that is taken of an answer.
pub(super) const ANSWER_LIMIT: usize = 4 << 20;

/// The version of both programs, in every release.
const VERSION: u32 = 1;

const RPC_VERSION: u32 = 2;
const LAST_FRAGMENT: u32 = 1 << 31;

/// Programs of gluster-blockd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    /// Served on the Unix socket.
    CommandLine,
    /// Served to the other hosts, on TCP 24010.
    Hosts,
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum RpcError {
    #[error("the socket failed")]
    Socket(#[from] io::Error),
    #[error("the answer has more than {ANSWER_LIMIT} bytes")]
    TooLong,
    #[error("the answer cannot be read")]
    Malformed(#[from] Malformed),
    #[error("the answer is to another call")]
    OtherCall,
    #[error("the call was refused: {0}; is this gluster-blockd 0.5 or newer?")]
    Refused(&'static str),
    #[error("the daemon says that its system failed")]
    System,
    #[error(
        "gluster-blockd here is older than 0.5, whose requests differ; update it, or use the ssh transport"
    )]
    Release,
}

impl Program {
    const fn number(self) -> u32 {
        match self {
            Self::CommandLine => 212_153_113,
            Self::Hosts => 21_215_311,
        }
    }
}

impl RpcError {
    /// As an error of the transport, after the call was sent.
    pub(super) fn into_transport(self, host: HostAddress) -> TransportError {
        let source = Box::new(self);
        match *source {
            Self::Socket(_) => TransportError::Lost { host, source },
            Self::TooLong => TransportError::TooLong {
                host,
                limit: ANSWER_LIMIT,
            },
            Self::Refused(_) | Self::Release => TransportError::NotStarted { host, source },
            Self::Malformed(_) | Self::OtherCall | Self::System => {
                TransportError::Broken { host, source }
            }
        }
    }
}

/// Sends one call on `stream` and waits for its result.
pub(super) async fn call(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    program: Program,
    procedure: u32,
    arguments: &[u8],
) -> Result<Vec<u8>, RpcError> {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let message = message(number, program, procedure, arguments);
    let length = u32::try_from(message.len()).map_err(|_| RpcError::TooLong)?;
    stream.write_u32(length | LAST_FRAGMENT).await?;
    stream.write_all(&message).await?;
    stream.flush().await?;
    let answer = record(&mut stream).await?;
    Ok(result(&answer, number)?.to_vec())
}

/// A call without credentials.
fn message(number: u32, program: Program, procedure: u32, arguments: &[u8]) -> Vec<u8> {
    const CALL: u32 = 0;
    const NO_AUTHENTICATION: u64 = 0;
    Writer::default()
        .word(number)
        .word(CALL)
        .word(RPC_VERSION)
        .word(program.number())
        .word(VERSION)
        .word(procedure)
        .long(NO_AUTHENTICATION)
        .long(NO_AUTHENTICATION)
        .raw(arguments)
        .into_bytes()
}

/// Reads the fragments of one record.
async fn record(stream: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, RpcError> {
    let mut record = Vec::new();
    loop {
        let header = stream.read_u32().await?;
        let length = usize::try_from(header & !LAST_FRAGMENT).map_err(|_| RpcError::TooLong)?;
        if record.len().saturating_add(length) > ANSWER_LIMIT {
            return Err(RpcError::TooLong);
        }
        let wanted = u64::try_from(length).map_err(|_| RpcError::TooLong)?;
        // Memory grows with what comes, not with what is announced.
        let read = (&mut *stream).take(wanted).read_to_end(&mut record).await?;
        if read < length {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        if header & LAST_FRAGMENT != 0 {
            return Ok(record);
        }
        if length == 0 {
            // Empty fragments without end would never reach the limit.
            return Err(Malformed::Length.into());
        }
    }
}

/// The result in an answer.
///
/// | word                     | what                                                   |
/// |--------------------------|--------------------------------------------------------|
/// | number                   | must be the call's                                     |
/// | 1                        | an answer                                              |
/// | 0, or 1                  | accepted, or denied: other RPC version, no credentials |
/// | flavor, counted bytes    | the daemon's verifier                                  |
/// | 0; 1, 2, 3, 4; 5         | the result follows; refused before it ran; failed      |
fn result(answer: &[u8], number: u32) -> Result<&[u8], RpcError> {
    let mut reader = Reader::new(answer);
    if reader.word()? != number {
        return Err(RpcError::OtherCall);
    }
    if reader.word()? != 1 {
        return Err(RpcError::OtherCall);
    }
    if reader.word()? != 0 {
        return Err(RpcError::Refused("denied"));
    }
    reader.word()?;
    reader.counted()?;
    match reader.word()? {
        0 => Ok(reader.rest()),
        1 => Err(RpcError::Refused("no such program")),
        2 => Err(RpcError::Refused("no such version of the program")),
        3 => Err(RpcError::Refused("no such procedure")),
        4 => Err(RpcError::Refused("it does not understand the arguments")),
        _ => Err(RpcError::System),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn a_call_has_a_header_of_forty_bytes() {
        let message = message(7, Program::CommandLine, 3, b"args");
        assert_eq!(
            message[..40],
            words(&[7, 0, 2, 0x0CA5_3319, 1, 3, 0, 0, 0, 0])
        );
        assert_eq!(&message[40..], b"args");
        assert_eq!(Program::Hosts.number(), 0x0143_B84F);
    }

    #[test]
    fn each_refusal_is_told_apart() {
        let of = |rest: &[u32]| result(&words(&[&[9, 1], rest].concat()), 9).map(<[u8]>::to_vec);
        assert_eq!(of(&[0, 0, 0, 0, 77]).unwrap(), words(&[77]));
        assert!(matches!(
            of(&[1, 0, 2, 2]),
            Err(RpcError::Refused("denied"))
        ));
        for status in 1..=4 {
            assert!(
                matches!(of(&[0, 0, 0, status]), Err(RpcError::Refused(_))),
                "{status}"
            );
        }
        assert!(matches!(of(&[0, 0, 0, 5]), Err(RpcError::System)));
        assert!(matches!(of(&[0, 0]), Err(RpcError::Malformed(_))));
        assert!(matches!(
            result(&words(&[8, 1, 0, 0, 0, 0]), 9),
            Err(RpcError::OtherCall)
        ));
        assert!(matches!(
            result(&words(&[9, 0, 0, 0, 0, 0]), 9),
            Err(RpcError::OtherCall)
        ));
    }

    proptest! {
        #[test]
        fn reading_an_answer_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = result(&bytes, 0);
        }

        #[test]
        fn a_record_is_the_sum_of_its_fragments(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..20), 1..6)) {
            let mut bytes = Vec::new();
            for (index, piece) in pieces.iter().enumerate() {
                let last = if index + 1 == pieces.len() { LAST_FRAGMENT } else { 0 };
                bytes.extend((u32::try_from(piece.len()).unwrap() | last).to_be_bytes());
                bytes.extend(piece);
            }
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let whole = runtime.block_on(record(&mut bytes.as_slice())).unwrap();
            prop_assert_eq!(whole, pieces.concat());
            bytes.pop();
            prop_assert!(runtime.block_on(record(&mut bytes.as_slice())).is_err());
        }
    }
}
