//! The one table from error kinds to gRPC codes, and the one place where an error is logged.
//!
//! Without the log only the caller would see it, and callers keep little.

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

/// Answers the caller with the error's chain, and logs it in full.
///
/// The level says who has to act: nobody where the caller asked wrongly or only has to ask again, perhaps somebody where
/// the surroundings are at fault, and a developer for a bug.
#[must_use]
pub fn into_status(error: &impl Classify) -> Status {
    let chain = Chain(error).to_string();
    let kind = error.kind();
    let code = code(kind);
    match kind {
        ErrorKind::InvalidArgument
        | ErrorKind::NotFound
        | ErrorKind::AlreadyExists
        | ErrorKind::OutOfRange
        | ErrorKind::Aborted => tracing::info!(?code, error = %chain, "request refused"),
        ErrorKind::FailedPrecondition
        | ErrorKind::ResourceExhausted
        | ErrorKind::Unavailable
        | ErrorKind::DeadlineExceeded
        | ErrorKind::Unauthenticated => tracing::warn!(?code, error = %chain, "request failed"),
        ErrorKind::Internal => tracing::error!(?code, error = %chain, "request failed"),
    }
    Status::new(code, within_a_header(chain))
}

/// Shortens what a program said to what fits: the message travels percent-encoded in one HTTP/2 header, and a client
/// that finds its headers too long drops the answer, code included.
fn within_a_header(mut message: String) -> String {
    const LIMIT: usize = 2048;
    if message.len() > LIMIT {
        message.truncate(message.floor_char_boundary(LIMIT));
        message.push('…');
    }
    message
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Sample {
        kind: ErrorKind,
        text: String,
    }

    impl Classify for Sample {
        fn kind(&self) -> ErrorKind {
            self.kind
        }
    }

    fn status_of(kind: ErrorKind, text: &str) -> Status {
        let text = text.to_owned();
        into_status(&Sample { kind, text })
    }

    // external-provisioner goes on asking after these four and after nothing else.
    fn provisioner_goes_on_after(code: Code) -> bool {
        [
            Code::Cancelled,
            Code::DeadlineExceeded,
            Code::Unavailable,
            Code::Aborted,
        ]
        .contains(&code)
    }

    #[test]
    fn a_kind_is_final_exactly_when_the_provisioner_stops_asking() {
        for kind in ErrorKind::ALL {
            let code = status_of(kind, "no").code();
            assert_eq!(
                kind.is_final(),
                !provisioner_goes_on_after(code),
                "{kind:?}"
            );
        }
    }

    #[test]
    fn each_kind_has_a_code_of_its_own_and_the_name_says_which() {
        let mut codes = HashSet::new();
        for kind in ErrorKind::ALL {
            let code = status_of(kind, "no").code();
            assert_eq!(format!("{kind:?}"), format!("{code:?}"));
            assert!(codes.insert(i32::from(code)), "{kind:?}");
        }
    }

    #[test]
    fn the_status_carries_the_message_and_no_details() {
        let status = status_of(ErrorKind::NotFound, "volume hv/b does not exist");

        assert_eq!(status.message(), "volume hv/b does not exist");
        assert!(status.details().is_empty());
    }

    #[test]
    fn a_message_too_long_for_a_header_is_cut_between_letters() {
        let status = status_of(ErrorKind::Internal, &"é".repeat(3000));

        assert_eq!(status.message(), "é".repeat(1024) + "…");
    }
}
