//! What an error means to the caller: a closed set of kinds, and the display of a chain of causes.
//!
//! Layers below the services know nothing of gRPC: an error says of which kind it is, and [`status`](crate::status)
//! turns the kind into a code.

use std::error::Error;
use std::fmt;

/// What an error means to the caller.
///
/// *Final* is what external-provisioner makes of the code: after a final one it takes `CreateVolume` as surely not
/// running any more and forgets it when the claim goes; after the others it keeps asking until it gets a final answer.
/// So `CreateVolume` answers with a non-final kind if and only if the backend holds, or may yet come to hold, the block.
/// The attacher, resizer and snapshotter ask again after any code; they also count `RESOURCE_EXHAUSTED` as not final.
///
/// | kind | gRPC code | final | external-provisioner, after `CreateVolume` |
/// |---|---|---|---|
/// | [`InvalidArgument`](Self::InvalidArgument) | 3 `INVALID_ARGUMENT` | yes | reports, tries afresh with growing pauses |
/// | [`NotFound`](Self::NotFound) | 5 `NOT_FOUND` | yes | the same |
/// | [`AlreadyExists`](Self::AlreadyExists) | 6 `ALREADY_EXISTS` | yes | the same |
/// | [`FailedPrecondition`](Self::FailedPrecondition) | 9 `FAILED_PRECONDITION` | yes | the same |
/// | [`OutOfRange`](Self::OutOfRange) | 11 `OUT_OF_RANGE` | yes | the same |
/// | [`Unauthenticated`](Self::Unauthenticated) | 16 `UNAUTHENTICATED` | yes | the same |
/// | [`Internal`](Self::Internal) | 13 `INTERNAL` | yes | the same: never for "outcome unknown" |
/// | [`ResourceExhausted`](Self::ResourceExhausted) | 8 `RESOURCE_EXHAUSTED` | yes | picks another node if the class waits for the first consumer |
/// | [`Aborted`](Self::Aborted) | 10 `ABORTED` | no | repeats the same call until a final answer |
/// | [`Unavailable`](Self::Unavailable) | 14 `UNAVAILABLE` | no | the same |
/// | [`DeadlineExceeded`](Self::DeadlineExceeded) | 4 `DEADLINE_EXCEEDED` | no | the same |
///
/// CANCELLED (1), which gRPC itself sends when a caller gave up, is not final either; no error of ours has that kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A field is missing or has a value that is not allowed.
    InvalidArgument,
    /// The volume, node or path does not exist.
    NotFound,
    /// The name is in use with other parameters.
    AlreadyExists,
    /// The state of the volume or host forbids it until somebody changes that state.
    FailedPrecondition,
    /// A size outside what is possible.
    OutOfRange,
    /// No room.
    ResourceExhausted,
    /// Another operation on the volume is pending, or may be.
    Aborted,
    /// Something does not answer, and may again.
    Unavailable,
    /// An effect hit its own deadline.
    DeadlineExceeded,
    /// Credentials do not fit.
    Unauthenticated,
    /// A bug or damage.
    Internal,
}

impl ErrorKind {
    /// Every kind.
    pub const ALL: [Self; 11] = [
        Self::InvalidArgument,
        Self::NotFound,
        Self::AlreadyExists,
        Self::FailedPrecondition,
        Self::OutOfRange,
        Self::ResourceExhausted,
        Self::Aborted,
        Self::Unavailable,
        Self::DeadlineExceeded,
        Self::Unauthenticated,
        Self::Internal,
    ];

    /// False when external-provisioner takes the code as "the operation may still be running".
    #[must_use]
    pub const fn is_final(self) -> bool {
        match self {
            Self::Aborted | Self::Unavailable | Self::DeadlineExceeded => false,
            Self::InvalidArgument
            | Self::NotFound
            | Self::AlreadyExists
            | Self::FailedPrecondition
            | Self::OutOfRange
            | Self::ResourceExhausted
            | Self::Unauthenticated
            | Self::Internal => true,
        }
    }
}

/// An error that knows its kind. Implement it with an exhaustive `match`, never with `_`.
pub trait Classify: Error + Send + Sync + 'static {
    /// What the error means to the caller.
    fn kind(&self) -> ErrorKind;
}

/// Displays an error with all its sources, `outermost: cause: root`.
#[derive(Debug, Clone, Copy)]
pub struct Chain<'a>(pub &'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("step {step} failed")]
    struct StepFailed {
        step: u32,
        #[source]
        source: std::num::ParseIntError,
    }

    #[test]
    fn a_chain_names_every_cause_once() {
        let error = StepFailed {
            step: 3,
            source: "x".parse::<u32>().unwrap_err(),
        };

        assert_eq!(
            Chain(&error).to_string(),
            "step 3 failed: invalid digit found in string"
        );
    }

    #[test]
    fn all_names_each_kind_once() {
        let distinct: std::collections::HashSet<_> = ErrorKind::ALL.into_iter().collect();

        assert_eq!(distinct.len(), ErrorKind::ALL.len());
    }
}
