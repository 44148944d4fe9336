//! A simulator of heketi: its REST interface, its one-shot queue, its book-keeping, and its ways to fail.
//!
//! It makes real volumes with real commands on real storage hosts ([`executor::ssh`](super::executor::ssh)), or on a model of them
//! ([`executor::fake`](super::executor::fake)). Every rule and text is `reference/heketi-gd2.md` §1 and §2. `docs/simulators-heketi.md` says how to start it, how to make
//! it fail, and what it leaves out.
//!
//! ```text
//! routes ─► auth, admin state, faults ─► request (rules) ─► operations::build (reserve) ─► 202
//!                                                        └► operations (run) ─► command ─► executor
//!                                                                             └► queue (one answer)
//! ```

use std::sync::Arc;

use axum::Router;
use axum::routing::any;
use tokio::net::TcpListener;

use super::connection::{Cuttable, Peer};
use super::executor::Executor;

pub mod allocate;
pub mod answer;
pub mod auth;
pub mod command;
pub mod model;
mod operations;
pub mod queue;
pub mod refusal;
pub mod request;
mod routes;
pub mod simulator;
pub mod topology;
pub mod tracker;

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
    if let Some((first, every)) = simulator.settings.cleaner {
        tokio::spawn(Arc::clone(&simulator).clean_periodically(first, every));
    }
    let handler = any(routes::answer::<E>);
    let router = Router::new().fallback_service(handler.with_state(simulator));
    let service = router.into_make_service_with_connect_info::<Peer>();
    axum::serve(Cuttable(listener), service).await
}
