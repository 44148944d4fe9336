//! Problems as HTTP answers, and what is wrong with a request before a handler sees it.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::schema::{PROBLEM_JSON, Problem};

/// A problem on its way out.
pub(super) struct Refusal(Problem);

/// A path whose pieces are what they must be.
pub(super) struct At<T>(pub(super) T);

/// A query that is what it must be.
pub(super) struct Asked<T>(pub(super) T);

/// A body that is what it must be.
pub(super) struct Sent<T>(pub(super) T);

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self(error.into())
    }
}

impl Refusal {
    fn of_request(reason: String) -> Self {
        Error::InvalidRequest { reason }.into()
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self(problem) = self;
        let status =
            StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let kind = [(header::CONTENT_TYPE, PROBLEM_JSON)];
        (status, kind, Json(problem)).into_response()
    }
}

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for At<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let path = Path::from_request_parts(parts, state).await;
        let Path(path) = path.map_err(|rejection| Refusal::of_request(rejection.body_text()))?;
        Ok(Self(path))
    }
}

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Asked<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let query = Query::from_request_parts(parts, state).await;
        let Query(query) = query.map_err(|rejection| Refusal::of_request(rejection.body_text()))?;
        Ok(Self(query))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Sent<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let bytes = Bytes::from_request(request, state).await;
        let bytes = bytes.map_err(|rejection| Refusal::of_request(rejection.body_text()))?;
        let body = serde_json::from_slice(&bytes);
        let body = body.map_err(|error| Refusal::of_request(format!("the body: {error}")))?;
        Ok(Self(body))
    }
}
