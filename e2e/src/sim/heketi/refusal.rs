//! An error as heketi sends it: a status, and plain text with a newline.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

/// A request that is not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{status}: {text}")]
pub struct Refusal {
    /// HTTP status.
    pub status: StatusCode,
    /// The body, without its newline.
    pub text: String,
}

impl Refusal {
    /// A refusal with that status and text.
    #[must_use]
    pub fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self {
            status,
            text: text.into(),
        }
    }

    /// 400.
    #[must_use]
    pub fn bad_request(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    /// 400 with the prefix of the field rules.
    #[must_use]
    pub fn invalid(text: impl AsRef<str>) -> Self {
        Self::bad_request(format!("validation failed: {}", text.as_ref()))
    }

    /// 401.
    #[must_use]
    pub fn unauthorized(text: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, text)
    }

    /// 404, the text for an id that is not there or not yet visible.
    #[must_use]
    pub fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "Id not found")
    }

    /// 422, the text for a body that is not the JSON that was expected.
    #[must_use]
    pub fn unparsable() -> Self {
        Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "request unable to be parsed",
        )
    }

    /// 429, the only text it comes with.
    #[must_use]
    pub fn busy() -> Self {
        Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            "Server busy. Retry operation later.",
        )
    }

    /// 409.
    #[must_use]
    pub fn conflict(text: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, text)
    }

    /// 500.
    #[must_use]
    pub fn internal(text: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, text)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let headers = [
            (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        ];
        (self.status, headers, format!("{}\n", self.text)).into_response()
    }
}
