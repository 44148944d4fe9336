//! `/clusters`.

use std::sync::Arc;

use axum::http::StatusCode;
use serde_json::json;

use super::super::answer::{Answer, ClusterInfo};
use super::super::model::{Cluster, Id};
use super::super::refusal::Refusal;
use super::super::request::{ClusterFlags, parse};
use super::super::simulator::Simulator;
use super::{Answered, Place};
use crate::sim::executor::Executor;

pub(super) fn handle<E: Executor>(
    simulator: &Arc<Simulator<E>>,
    verb: &str,
    place: &Place<'_>,
    body: &[u8],
) -> Option<Answered> {
    Some(match (verb, place) {
        ("GET", Place::Clusters) => list(simulator),
        ("POST", Place::Clusters) => create(simulator, body),
        ("GET", Place::Cluster(id)) => info(simulator, &Id::requested(id)),
        ("DELETE", Place::Cluster(id)) => delete(simulator, &Id::requested(id)),
        ("POST", Place::ClusterFlags(id)) => set_flags(simulator, &Id::requested(id), body),
        _ => return None,
    })
}

fn list<E: Executor>(simulator: &Simulator<E>) -> Answered {
    let ids: Vec<Id> = simulator
        .store
        .view(|database| database.clusters.keys().cloned().collect());
    Answer::ok(&json!({ "clusters": ids }))
}

fn create<E: Executor>(simulator: &Simulator<E>, body: &[u8]) -> Answered {
    let ClusterFlags { file, block } = parse(body)?;
    let cluster = Cluster {
        id: Id::random(),
        file,
        block,
        nodes: Vec::new(),
    };
    let info = simulator.store.update(|database| {
        database
            .clusters
            .insert(cluster.id.clone(), cluster.clone());
        Ok::<_, Refusal>(ClusterInfo::new(database, &cluster))
    })?;
    Answer::json(StatusCode::CREATED, &info)
}

fn info<E: Executor>(simulator: &Simulator<E>, id: &Id) -> Answered {
    let info = simulator.store.view(|db| {
        db.clusters
            .get(id)
            .map(|cluster| ClusterInfo::new(db, cluster))
    });
    Answer::ok(&info.ok_or_else(Refusal::not_found)?)
}

fn delete<E: Executor>(simulator: &Simulator<E>, id: &Id) -> Answered {
    simulator.store.update(|database| {
        let cluster = database.clusters.get(id).ok_or_else(Refusal::not_found)?;
        if !cluster.nodes.is_empty() || database.volume_count(id) > 0 {
            let text =
                format!("Unable to delete cluster [{id}] because it contains volumes and/or nodes");
            return Err(Refusal::conflict(text));
        }
        database.clusters.remove(id);
        Ok(Answer::Empty(StatusCode::OK))
    })
}

fn set_flags<E: Executor>(simulator: &Simulator<E>, id: &Id, body: &[u8]) -> Answered {
    let ClusterFlags { file, block } = parse(body)?;
    simulator.store.update(|database| {
        let cluster = database
            .clusters
            .get_mut(id)
            .ok_or_else(Refusal::not_found)?;
        (cluster.file, cluster.block) = (file, block);
        Ok(Answer::Json(StatusCode::OK, Vec::new()))
    })
}
