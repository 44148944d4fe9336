//! `/queue`, `/operations` and `/admin`: what runs, how it ended, and whether anything may.

use std::sync::Arc;

use axum::http::StatusCode;
use serde_json::json;

use super::super::answer::{Answer, OperationCounts, OperationDetails, OperationInfo};
use super::super::model::{Id, Status};
use super::super::refusal::Refusal;
use super::super::request::{AdminChange, Cleanup, parse};
use super::super::simulator::{AdminState, Simulator};
use super::super::tracker::Class;
use super::{Answered, Place, poll};
use crate::sim::executor::Executor;

pub(super) fn handle<E: Executor>(
    simulator: &Arc<Simulator<E>>,
    verb: &str,
    place: &Place<'_>,
    body: &[u8],
) -> Option<Answered> {
    Some(match (verb, place) {
        ("GET", Place::Queue(id)) => poll(simulator, &Id::requested(id)),
        ("GET", Place::Operations) => counts(simulator),
        ("GET", Place::PendingList) => list(simulator),
        ("GET", Place::Pending(id)) => details(simulator, &Id::requested(id)),
        ("POST", Place::Cleanup) => clean(simulator, body),
        ("GET", Place::Admin) => Answer::ok(&json!({ "state": simulator.admin().name() })),
        ("POST", Place::Admin) => set_admin(simulator, body),
        _ => return None,
    })
}

fn counts<E: Executor>(simulator: &Simulator<E>) -> Answered {
    let (total, [stale, failed, new]) = simulator.store.view(|database| {
        let count = |wanted| {
            database
                .operations
                .values()
                .filter(|op| op.status == wanted)
                .count()
        };
        (
            database.operations.len(),
            [Status::Stale, Status::Failed, Status::New].map(count),
        )
    });
    let in_flight = simulator.tracker.count();
    let counts = OperationCounts {
        total,
        in_flight,
        stale,
        failed,
        new,
    };
    Answer::ok(&counts)
}

fn list<E: Executor>(simulator: &Simulator<E>) -> Answered {
    let operations: Vec<OperationInfo> = simulator.store.view(|database| {
        let info = |op| OperationInfo::new(op, simulator.tracker.runs(&op.id));
        database.operations.values().map(info).collect()
    });
    Answer::ok(&json!({ "pendingoperations": operations }))
}

fn details<E: Executor>(simulator: &Simulator<E>, id: &Id) -> Answered {
    let details = simulator
        .store
        .view(|database| database.operations.get(id).map(OperationDetails::new));
    let not_found = || Refusal::new(StatusCode::NOT_FOUND, format!("Id not found: {id}"));
    Answer::ok(&details.ok_or_else(not_found)?)
}

fn clean<E: Executor>(simulator: &Arc<Simulator<E>>, body: &[u8]) -> Answered {
    let request: Cleanup = parse(body)?;
    request.check()?;
    let chosen: Vec<Id> = request
        .operations
        .iter()
        .map(|id| Id::requested(id))
        .collect();
    let this = Arc::clone(simulator);
    Ok(simulator.in_background(async move { this.clean(&chosen, Class::Normal).await }))
}

fn set_admin<E: Executor>(simulator: &Simulator<E>, body: &[u8]) -> Answered {
    let reason = if body.is_empty() {
        ": unexpected end of JSON input"
    } else {
        ""
    };
    let unparsable = |refusal: Refusal| Refusal::bad_request(format!("{}{reason}", refusal.text));
    let AdminChange { state } = parse(body).map_err(unparsable)?;
    if state.is_empty() {
        return Err(Refusal::invalid("state: cannot be blank."));
    }
    let state = AdminState::named(&state)
        .ok_or_else(|| Refusal::invalid("state: must be a valid value."))?;
    simulator.set_admin(state);
    Ok(Answer::Empty(StatusCode::NO_CONTENT))
}
