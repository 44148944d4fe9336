//! What an error means to the caller: a closed set of kinds, and the display of a chain of causes.

use std::error::Error;
use std::fmt;

/// What the caller should do next.
///
/// | kind | gRPC code | final |
/// |---|---|---|
/// | `InvalidArgument` | 3 | yes |
/// | `DeadlineExceeded` | 4 | no |
/// | `NotFound` | 5 | yes |
/// | `AlreadyExists` | 6 | yes |
/// | `ResourceExhausted` | 8 | yes |
/// | `FailedPrecondition` | 9 | yes |
/// | `Aborted` | 10 | no |
/// | `OutOfRange` | 11 | yes |
/// | `Internal` | 13 | yes |
/// | `Unavailable` | 14 | no |
/// | `Unauthenticated` | 16 | yes |
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
        !matches!(
            self,
            Self::Aborted | Self::Unavailable | Self::DeadlineExceeded
        )
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
