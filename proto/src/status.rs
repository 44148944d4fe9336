//! The one table from error kinds to gRPC codes.

use tonic::{Code, Status};

use crate::error::{Chain, Classify, ErrorKind};

/// The gRPC code of a kind.
#[must_use]
pub const fn code(kind: ErrorKind) -> Code {
    match kind {
        ErrorKind::InvalidArgument => Code::InvalidArgument,
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::AlreadyExists => Code::AlreadyExists,
        ErrorKind::FailedPrecondition => Code::FailedPrecondition,
        ErrorKind::OutOfRange => Code::OutOfRange,
        ErrorKind::ResourceExhausted => Code::ResourceExhausted,
        ErrorKind::Aborted => Code::Aborted,
        ErrorKind::Unavailable => Code::Unavailable,
        ErrorKind::DeadlineExceeded => Code::DeadlineExceeded,
        ErrorKind::Unauthenticated => Code::Unauthenticated,
        ErrorKind::Internal => Code::Internal,
    }
}

/// Answers the caller with the error's chain, and logs it: the one place where an error is logged.
#[must_use]
pub fn into_status(error: &impl Classify) -> Status {
    let chain = Chain(error).to_string();
    let code = code(error.kind());
    tracing::warn!(?code, error = %chain, "request failed");
    Status::new(code, chain)
}
