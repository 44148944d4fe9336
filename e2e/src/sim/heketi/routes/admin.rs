//! The metrics that anybody may read.

use std::fmt::Write as _;

use axum::http::header;
use axum::response::IntoResponse;

use super::super::model::Status;
use super::super::simulator::Simulator;
use crate::sim::executor::Executor;

/// Counts of what there is and of what runs, in Prometheus' text form.
pub(super) fn metrics<E: Executor>(simulator: &Simulator<E>) -> impl IntoResponse + use<E> {
    let in_flight = simulator.tracker.count();
    let values = simulator.store.view(|database| {
        let state = |wanted| {
            database
                .operations
                .values()
                .filter(|op| op.status == wanted)
                .count()
        };
        [
            ("up", 1),
            ("cluster_count", database.clusters.len()),
            ("nodes_count", database.nodes.len()),
            ("device_count", database.devices.len()),
            (
                "volumes_count",
                database
                    .volumes
                    .values()
                    .filter(|v| v.pending.is_none())
                    .count(),
            ),
            ("block_volumes_count", 0),
            ("operations_total", database.operations.len()),
            ("operations_new", state(Status::New)),
            ("operations_stale", state(Status::Stale)),
            ("operations_failed", state(Status::Failed)),
            ("operations_inFlight", in_flight),
        ]
    });
    let mut text = String::new();
    for (name, value) in values {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# TYPE heketi_{name} gauge\nheketi_{name} {value}");
    }
    (
        [(
            header::CONTENT_TYPE,
            "text/plain; version=0.0.4; charset=utf-8",
        )],
        text,
    )
}
