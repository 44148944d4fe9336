//! An error as gd2 sends it: a status, and JSON with a code, words, and the fields of a failed step.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::sim::store::StoreError;

/// A request that is not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{status}: {message}")]
pub struct Refusal {
    /// HTTP status.
    pub status: StatusCode,
    /// What is wrong; empty makes a body without errors.
    pub message: String,
    /// Of a step of a transaction that failed: peer, step and error.
    pub fields: BTreeMap<&'static str, String>,
}

impl Refusal {
    /// A refusal with that status and text.
    #[must_use]
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            fields: BTreeMap::new(),
        }
    }

    /// 400.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// 401.
    #[must_use]
    pub fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, message)
    }

    /// 404 for a volume.
    #[must_use]
    pub fn no_volume() -> Self {
        Self::new(StatusCode::NOT_FOUND, "volume not found")
    }

    /// 409, the only text it comes with.
    #[must_use]
    pub fn locked() -> Self {
        let text = "could not obtain lock: another conflicting transaction may be in progress";
        Self::new(StatusCode::CONFLICT, text)
    }

    /// 500.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// 500 for a transaction whose step failed.
    #[must_use]
    pub fn step(peer: &str, step: &str, error: &str) -> Self {
        let mut refusal = Self::internal("a txn step failed");
        refusal.fields = BTreeMap::from([
            ("peer-id", peer.to_owned()),
            ("step", step.to_owned()),
            ("error", error.to_owned()),
        ]);
        refusal
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::internal(error.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = if self.message.is_empty() {
            json!({"errors": null})
        } else if self.fields.is_empty() {
            json!({"errors": [{"code": 1, "message": self.message}]})
        } else {
            json!({"errors": [{"code": 2, "message": self.message, "fields": self.fields}]})
        };
        (self.status, axum::Json(body)).into_response()
    }
}
