//! `/volumes`: create, read, expand, delete, and the block restriction.

use std::sync::Arc;

use serde_json::json;

use super::super::answer::{Answer, VolumeInfo};
use super::super::model::{Database, Id, Restriction, Volume, usable};
use super::super::operations::{build_create, build_delete, build_expand};
use super::super::queue::Outcome;
use super::super::refusal::Refusal;
use super::super::request::{BlockRestriction, VolumeCreate, VolumeExpand, parse};
use super::super::simulator::{BuildError, Simulator, StepError};
use super::{Answered, Place};
use crate::sim::executor::Executor;

pub(super) fn handle<E: Executor>(
    simulator: &Arc<Simulator<E>>,
    verb: &str,
    place: &Place<'_>,
    body: &[u8],
) -> Option<Answered> {
    Some(match (verb, place) {
        ("GET", Place::Volumes) => list(simulator),
        ("POST", Place::Volumes) => create(simulator, body),
        ("GET", Place::Volume(id)) => info(simulator, &Id::requested(id)),
        ("DELETE", Place::Volume(id)) => delete(simulator, &Id::requested(id)),
        ("POST", Place::VolumeExpand(id)) => expand(simulator, &Id::requested(id), body),
        ("POST", Place::BlockRestriction(id)) => restrict(simulator, &Id::requested(id), body),
        _ => return None,
    })
}

fn list<E: Executor>(simulator: &Simulator<E>) -> Answered {
    let ids: Vec<Id> = simulator.store.view(|database| {
        database
            .volumes
            .values()
            .filter(|v| v.pending.is_none())
            .map(|v| v.id.clone())
            .collect()
    });
    Answer::ok(&json!({ "volumes": ids }))
}

fn info<E: Executor>(simulator: &Simulator<E>, id: &Id) -> Answered {
    let info = simulator.store.view(|db| {
        db.visible_volume(id)
            .map(|volume| VolumeInfo::new(db, volume))
    });
    Answer::ok(&info.ok_or_else(Refusal::not_found)?)
}

fn create<E: Executor>(simulator: &Arc<Simulator<E>>, body: &[u8]) -> Answered {
    let request: VolumeCreate = parse(body)?;
    request.check()?;
    let candidates = simulator
        .store
        .view(|database| candidates(database, &request))?;
    let volume = new_volume(&request, &simulator.settings.block_options)?;
    let settings = simulator.settings.clone();
    simulator.begin(
        "Failed to allocate new volume",
        move |database, operation| {
            build_create(database, &settings, volume, &candidates, operation)
        },
    )
}

/// The clusters to try: those of the request, which must exist, or all.
fn candidates(database: &Database, request: &VolumeCreate) -> Result<Vec<Id>, Refusal> {
    if database.clusters.is_empty() {
        return Err(Refusal::bad_request("No clusters configured"));
    }
    let asked: Vec<Id> = request
        .clusters
        .iter()
        .map(|id| Id::requested(id))
        .collect();
    if let Some(unknown) = asked.iter().find(|id| !database.clusters.contains_key(id)) {
        return Err(Refusal::bad_request(format!(
            "Cluster id {unknown} not found"
        )));
    }
    Ok(if asked.is_empty() {
        database.clusters.keys().cloned().collect()
    } else {
        asked
    })
}

/// The volume as it will be recorded. Its options are the hosting volume's and then the request's, between two empty
/// entries: heketi splits its own unset option lists into one empty entry each.
fn new_volume(request: &VolumeCreate, block_options: &[String]) -> Result<Volume, Refusal> {
    let id = Id::random();
    let durability = request.durability()?;
    if let super::super::model::Durability::Disperse { data, .. } = durability
        && request.size < i64::from(data)
    {
        let least = u64::from(data).saturating_mul(1024 * 1024);
        return Err(Refusal::bad_request(format!(
            "Requested volume size ({} GB) is smaller than the minimum supported volume size ({least})",
            request.size
        )));
    }
    let of_block = if request.block { block_options } else { &[] };
    let options = [String::new()]
        .into_iter()
        .chain(of_block.iter().cloned())
        .chain(request.glustervolumeoptions.iter().cloned())
        .chain([String::new()])
        .collect();
    let (snapshot, snapshot_factor) = request.snapshot();
    Ok(Volume {
        name: if request.name.is_empty() {
            format!("vol_{id}")
        } else {
            request.name.clone()
        },
        cluster: Id::requested(""),
        size: request.size,
        durability,
        requested_replica: request.requested_replica(),
        gid: request.gid,
        options,
        block: request.block,
        snapshot,
        snapshot_factor,
        free: 0,
        reserved: 0,
        restriction: Restriction::None,
        bricks: Vec::new(),
        pending: None,
        id,
    })
}

fn delete<E: Executor>(simulator: &Arc<Simulator<E>>, id: &Id) -> Answered {
    let volume = known(simulator, id)?;
    if volume.name == "heketidbstorage" {
        return Err(Refusal::conflict(
            "Cannot delete volume containing the Heketi database",
        ));
    }
    simulator.begin("Failed to set up volume delete", |database, operation| {
        build_delete(database, &volume.id, operation)
    })
}

fn expand<E: Executor>(simulator: &Arc<Simulator<E>>, id: &Id, body: &[u8]) -> Answered {
    let request: VolumeExpand = parse(body)?;
    request.check()?;
    let volume = known(simulator, id)?;
    let settings = simulator.settings.clone();
    simulator.begin(
        "Failed to allocate volume expansion",
        move |database, operation| {
            build_expand(
                database,
                &settings,
                &volume.id,
                request.expand_size,
                operation,
            )
        },
    )
}

/// The volume, hidden or not: deletes and expands of a hidden one are conflicts, not unknown ids.
fn known<E: Executor>(simulator: &Simulator<E>, id: &Id) -> Result<Volume, Refusal> {
    simulator
        .store
        .view(|database| database.volumes.get(id).cloned())
        .ok_or_else(Refusal::not_found)
}

/// Locking takes effect with the answer, unlocking at the end of the operation; neither is recorded as pending.
fn restrict<E: Executor>(simulator: &Arc<Simulator<E>>, id: &Id, body: &[u8]) -> Answered {
    let wanted = parse::<BlockRestriction>(body)?.check()?;
    let refused =
        |error: BuildError| Refusal::internal(format!("Failed to set block restriction: {error}"));
    let operation = Id::random();
    let place = simulator
        .tracker
        .admit(&operation, super::super::tracker::Class::Normal)
        .ok_or_else(Refusal::busy)?;
    simulator.store.update(|database| {
        let volume = database
            .volumes
            .get_mut(id)
            .filter(|volume| volume.pending.is_none());
        let volume = volume.ok_or_else(Refusal::not_found)?;
        may_restrict(volume, wanted).map_err(refused)?;
        if wanted != Restriction::None {
            volume.restriction = wanted;
        }
        Ok::<_, Refusal>(())
    })?;
    let (this, id) = (Arc::clone(simulator), id.clone());
    Ok(simulator.in_background(async move {
        let _place = place;
        this.store.update(|database| {
            let volume = database
                .volumes
                .get_mut(&id)
                .ok_or_else(|| StepError("Id not found".to_owned()))?;
            may_restrict(volume, wanted).map_err(|error| StepError(error.to_string()))?;
            set_restriction(volume, wanted);
            Ok::<_, StepError>(())
        })?;
        Ok(Outcome::SeeOther(format!("/volumes/{id}")))
    }))
}

/// Decides whether a restriction may be set.
///
/// | volume               | now                | wanted | free                          | verdict |
/// |----------------------|--------------------|--------|-------------------------------|---------|
/// | hosts no blocks      |                    |        |                               | no      |
/// | hosts blocks         | none, `locked`     | any    |                               | yes     |
/// | hosts blocks, reserved | `locked-by-update` | other |                              | yes     |
/// | hosts blocks, nothing reserved | `locked-by-update` | other | ≥ 2 % of size         | yes     |
/// |                      | `locked-by-update` | other  | less                          | no      |
fn may_restrict(volume: &Volume, wanted: Restriction) -> Result<(), BuildError> {
    if !volume.block {
        let text = "Block restrictions can only be set on block hosting volumes";
        return Err(BuildError::Text(text.to_owned()));
    }
    let reserve = volume.size.saturating_sub(usable(volume.size));
    let needs_reserve =
        volume.restriction == Restriction::LockedByUpdate && wanted != Restriction::LockedByUpdate;
    if needs_reserve && volume.reserved == 0 && volume.free < reserve {
        let free = volume.free;
        return Err(BuildError::Text(format!(
            "Can not unlock volume. {reserve}GiB free space is required, but found {free}GiB"
        )));
    }
    Ok(())
}

fn set_restriction(volume: &mut Volume, wanted: Restriction) {
    let freed = volume.restriction == Restriction::LockedByUpdate && wanted == Restriction::None;
    if freed && volume.reserved == 0 {
        volume.reserved = volume.size.saturating_sub(usable(volume.size));
        volume.free = volume.free.saturating_sub(volume.reserved);
    }
    volume.restriction = wanted;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosting(size: i64, free: i64, restriction: Restriction) -> Volume {
        let request: VolumeCreate = parse(br#"{"size": 1, "block": true}"#).expect("parsed");
        let volume = new_volume(&request, &["group gluster-block".to_owned()]).expect("volume");
        Volume {
            size,
            free,
            restriction,
            ..volume
        }
    }

    #[test]
    fn options_of_the_request_come_after_those_of_every_hosting_volume() {
        let request: VolumeCreate = parse(
            br#"{"size": 1, "block": true, "glustervolumeoptions": ["network.ping-timeout 5"]}"#,
        )
        .expect("parsed");
        let volume = new_volume(&request, &["group gluster-block".to_owned()]).expect("volume");
        assert_eq!(
            volume.options,
            ["", "group gluster-block", "network.ping-timeout 5", ""]
        );
    }

    #[test]
    fn a_volume_locked_by_an_update_is_unlocked_once_the_reserve_fits() {
        let tight = hosting(100, 1, Restriction::LockedByUpdate);
        let refused = may_restrict(&tight, Restriction::None)
            .expect_err("refused")
            .to_string();
        assert_eq!(
            refused,
            "Can not unlock volume. 2GiB free space is required, but found 1GiB"
        );

        let mut roomy = hosting(100, 2, Restriction::LockedByUpdate);
        may_restrict(&roomy, Restriction::None).expect("allowed");
        set_restriction(&mut roomy, Restriction::None);
        assert_eq!((roomy.free, roomy.reserved), (0, 2));
    }
}
