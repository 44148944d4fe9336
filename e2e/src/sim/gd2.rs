//! A simulator of `GlusterD2`: the part of its REST that hosting volumes need, its tokens, locks and planner, and its ways to fail.
//!
//! It makes real volumes with real commands on real storage hosts ([`executor::ssh`](super::executor::ssh)), or on a model of
//! them ([`executor::fake`](super::executor::fake)). Every rule and text is `reference/heketi-gd2.md` §4. `docs/simulators-gd2.md`
//! says how to start it, how to make it fail, and what it leaves out.
//!
//! ```text
//! routes ─► token, faults ─► request (rules) ─► plan (bricks) ─► transaction: lock, peers alive, steps ─► executor
//! ```

use std::sync::Arc;

use axum::Router;
use axum::routing::any;
use tokio::net::TcpListener;

use super::connection::{Cuttable, Peer};
use super::executor::Executor;

pub mod auth;
pub mod model;
pub mod options;
pub mod plan;
pub mod refusal;
mod request;
mod routes;
pub mod simulator;
mod transaction;

pub use simulator::{Settings, Simulator};

/// Serves a simulator until its task is dropped.
///
/// # Errors
///
/// What the system says to accepting connections.
pub async fn serve<E: Executor>(
    listener: TcpListener,
    simulator: Arc<Simulator<E>>,
) -> std::io::Result<()> {
    let handler = any(routes::answer::<E>);
    let router = Router::new().fallback_service(handler.with_state(simulator));
    let service = router.into_make_service_with_connect_info::<Peer>();
    axum::serve(Cuttable(listener), service).await
}
