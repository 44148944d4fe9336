//! The routes and their handlers: check the caller, take the request apart, hand it on.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use uuid::Uuid;

use crate::blocks::Blocks;
use crate::error::Error;
use crate::schema::{
    Block, BlockList, Health, NewBlock, NewSize, Operation, Problem, SessionList, What,
};
use crate::vocabulary::{BlockName, Capacity, HostingVolume, Iqn, VolumeId};

use super::Agent;
use super::operations::Change;
use super::problem::{Asked, At, Refusal, Sent};
use super::roles::Role;

pub(super) const HEALTH: &str = "/v1/health";
pub(super) const BLOCKS: &str = "/v1/volumes/{hosting}/blocks";
pub(super) const BLOCK: &str = "/v1/volumes/{hosting}/blocks/{block}";
pub(super) const BLOCK_SESSIONS: &str = "/v1/volumes/{hosting}/blocks/{block}/sessions";
pub(super) const TARGET_SESSIONS: &str = "/v1/targets/{iqn}/sessions";
pub(super) const OPERATION: &str = "/v1/operations/{id}";

/// Longest body of a request; a create for a hundred hosts has two thousand bytes.
const BODY_LIMIT: usize = 64 << 10;

/// Longest wait for the end of an operation within one request.
const PATIENCE: Duration = Duration::from_secs(30);

type Shared<B> = State<Arc<Agent<B>>>;
type Answer<T> = Result<Json<T>, Refusal>;
type BlockPath = At<(HostingVolume, BlockName)>;

/// All routes.
pub(super) fn routes<B: Blocks>(agent: Arc<Agent<B>>) -> Router {
    let block = get(block::<B>)
        .put(create::<B>)
        .patch(resize::<B>)
        .delete(delete::<B>);
    Router::new()
        .route(HEALTH, get(health::<B>))
        .route(BLOCKS, get(list::<B>))
        .route(BLOCK, block)
        .route(BLOCK_SESSIONS, get(block_sessions::<B>))
        .route(TARGET_SESSIONS, get(target_sessions::<B>))
        .route(OPERATION, get(operation::<B>))
        .fallback(nothing)
        .method_not_allowed_fallback(nothing)
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(agent)
}

async fn health<B: Blocks>(State(agent): Shared<B>, role: Role) -> Answer<Health> {
    role.require_known()?;
    Ok(Json(agent.health().await))
}

async fn list<B: Blocks>(
    _: Controller,
    State(agent): Shared<B>,
    At(volume): At<HostingVolume>,
) -> Answer<BlockList> {
    let blocks = agent.blocks.list(agent.host, &volume).await?;
    Ok(Json(BlockList { blocks }))
}

async fn block<B: Blocks>(
    role: Role,
    State(agent): Shared<B>,
    At((volume, name)): BlockPath,
) -> Answer<Block> {
    role.require_known()?;
    let found = agent.find(&role, &VolumeId::new(volume, name)).await?;
    Ok(Json(found))
}

async fn create<B: Blocks>(
    _: Controller,
    State(agent): Shared<B>,
    At((volume, name)): BlockPath,
    Sent(body): Sent<NewBlock>,
) -> Result<Accepted, Refusal> {
    let wanted = body.named(VolumeId::new(volume, name));
    let checked = wanted.check();
    checked.map_err(|reason| Error::InvalidRequest { reason })?;
    Ok(Accepted(agent.accept(Change::Create(wanted))?))
}

async fn delete<B: Blocks>(
    _: Controller,
    State(agent): Shared<B>,
    At((volume, name)): BlockPath,
) -> Result<Accepted, Refusal> {
    let change = Change::Delete(VolumeId::new(volume, name));
    Ok(Accepted(agent.accept(change)?))
}

async fn resize<B: Blocks>(
    _: Controller,
    State(agent): Shared<B>,
    At((volume, name)): BlockPath,
    Sent(NewSize { size_bytes }): Sent<NewSize>,
) -> Result<Accepted, Refusal> {
    let (id, size) = (
        VolumeId::new(volume, name),
        Capacity::from_bytes(size_bytes),
    );
    Ok(Accepted(agent.accept(Change::Resize(id, size))?))
}

async fn block_sessions<B: Blocks>(
    role: Role,
    State(agent): Shared<B>,
    At((volume, name)): BlockPath,
) -> Answer<SessionList> {
    role.require_known()?;
    let found = agent.find(&role, &VolumeId::new(volume, name)).await?;
    Ok(Json(agent.sessions(&role, &found.iqn).await?))
}

async fn target_sessions<B: Blocks>(
    role: Role,
    State(agent): Shared<B>,
    At(iqn): At<Iqn>,
) -> Answer<SessionList> {
    role.require_known()?;
    Ok(Json(agent.sessions(&role, &iqn).await?))
}

async fn operation<B: Blocks>(
    _: Controller,
    State(agent): Shared<B>,
    At(id): At<Uuid>,
    Asked(Wait { wait }): Asked<Wait>,
) -> Answer<Operation> {
    let patience = Duration::from_secs(wait).min(PATIENCE);
    Ok(Json(agent.operations.look(id, patience).await?))
}

async fn nothing() -> Refusal {
    let detail = "there is nothing at this path for this method; see docs/agent-openapi.json";
    Problem::new(What::NoSuchPath, detail).into()
}

/// Seconds to wait for the end of an operation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wait {
    #[serde(default)]
    wait: u64,
}

/// An operation that was accepted.
struct Accepted(Operation);

impl IntoResponse for Accepted {
    fn into_response(self) -> Response {
        let Self(operation) = self;
        let place = [(header::LOCATION, format!("/v1/operations/{}", operation.id))];
        (StatusCode::ACCEPTED, place, Json(operation)).into_response()
    }
}

/// A caller that is the controller.
struct Controller;

impl<S: Send + Sync> FromRequestParts<S> for Controller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let Ok(role) = Role::from_request_parts(parts, state).await;
        role.require_controller()?;
        Ok(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Role {
    type Rejection = std::convert::Infallible;

    /// The role that the connection has; a connection without one is a stranger's.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let role = parts.extensions.get::<Self>();
        Ok(role.cloned().unwrap_or(Self::Stranger))
    }
}

#[cfg(test)]
mod tests;
