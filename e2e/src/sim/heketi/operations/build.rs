//! Building operations: what is decided and reserved before anything is run (`reference/heketi-gd2.md` §1.4, §2.8).

use super::super::allocate::{AllocateError, Wanted, allocate};
use super::super::model::{Cluster, Database, Id, Kind, Operation, Status, Volume, now, usable};
use super::super::simulator::{BuildError, Settings};

/// Places a new volume in the first cluster that may hold it and has room, and hides it behind the operation.
///
/// # Errors
///
/// With one candidate its own reason, with several all of them under a heading.
pub(in super::super) fn build_create(
    database: &mut Database,
    settings: &Settings,
    mut volume: Volume,
    candidates: &[Id],
    operation: &Id,
) -> Result<Operation, BuildError> {
    let eligible = eligible(database, settings, &volume, candidates)?;
    let wanted = Wanted {
        volume: &volume,
        size: volume.size,
        strict_zones: strict_zones(settings, &volume),
        bricks_root: &settings.bricks_root,
        operation,
    };
    let mut reasons = Vec::new();
    let mut found = None;
    for cluster in eligible {
        match allocate(database, &cluster, &wanted) {
            Ok(bricks) => {
                found = Some((cluster, bricks));
                break;
            }
            Err(error @ (AllocateError::EmptyCluster | AllocateError::NoStorage)) => {
                reasons.push((cluster, error.to_string()));
            }
            Err(AllocateError::MaxBricks | AllocateError::MinimumBrickSize) => {
                reasons.push((cluster, BuildError::NoSpace.to_string()));
            }
        }
    }
    let Some((cluster, bricks)) = found else {
        return Err(all_clusters_failed(
            "Unable to create volume on any cluster:",
            &reasons,
        ));
    };
    volume.cluster = cluster;
    volume.bricks = bricks.iter().map(|brick| brick.id.clone()).collect();
    volume.pending = Some(operation.clone());
    if volume.block {
        volume.free = usable(volume.size);
        volume.reserved = volume.size.saturating_sub(volume.free);
    }
    let record = record(
        operation,
        Kind::CreateVolume,
        &volume,
        volume.bricks.clone(),
    );
    database.place(bricks);
    database.volumes.insert(volume.id.clone(), volume);
    Ok(record)
}

/// Hides a volume and its bricks behind the delete.
///
/// # Errors
///
/// A conflict when it is hidden already.
pub(in super::super) fn build_delete(
    database: &mut Database,
    id: &Id,
    operation: &Id,
) -> Result<Operation, BuildError> {
    let volume = database.volumes.get_mut(id).ok_or(BuildError::NotFound)?;
    if volume.pending.is_some() {
        return Err(BuildError::Conflict);
    }
    volume.pending = Some(operation.clone());
    let volume = volume.clone();
    for brick in &volume.bricks {
        let brick = database.bricks.get_mut(brick).ok_or(BuildError::NotFound)?;
        if brick.pending.is_some() {
            return Err(BuildError::Conflict);
        }
        brick.pending = Some(operation.clone());
    }
    Ok(record(
        operation,
        Kind::DeleteVolume,
        &volume,
        volume.bricks.clone(),
    ))
}

/// Takes the space for more bricks. The volume stays visible with its old size.
///
/// # Errors
///
/// The bare reason of the placement; a conflict when the volume is hidden.
pub(in super::super) fn build_expand(
    database: &mut Database,
    settings: &Settings,
    id: &Id,
    delta: i64,
    operation: &Id,
) -> Result<Operation, BuildError> {
    let volume = database
        .volumes
        .get(id)
        .ok_or(BuildError::NotFound)?
        .clone();
    if volume.pending.is_some() {
        return Err(BuildError::Conflict);
    }
    let wanted = Wanted {
        volume: &volume,
        size: delta,
        strict_zones: strict_zones(settings, &volume),
        bricks_root: &settings.bricks_root,
        operation,
    };
    let bricks = allocate(database, &volume.cluster, &wanted)
        .map_err(|error| BuildError::Text(error.to_string()))?;
    let mut record = record(
        operation,
        Kind::ExpandVolume,
        &volume,
        bricks.iter().map(|b| b.id.clone()).collect(),
    );
    record.delta = delta;
    database.place(bricks);
    Ok(record)
}

fn record(id: &Id, kind: Kind, volume: &Volume, bricks: Vec<Id>) -> Operation {
    Operation {
        id: id.clone(),
        kind,
        status: Status::New,
        begun: now(),
        volume: volume.id.clone(),
        bricks,
        delta: 0,
    }
}

fn eligible(
    database: &Database,
    settings: &Settings,
    volume: &Volume,
    candidates: &[Id],
) -> Result<Vec<Id>, BuildError> {
    let mut fit = Vec::new();
    let mut reasons = Vec::new();
    for id in candidates {
        let cluster = database.clusters.get(id).ok_or(BuildError::NotFound)?;
        match why_not(database, settings, cluster, volume) {
            None => fit.push(id.clone()),
            Some(reason) => reasons.push((id.clone(), reason)),
        }
    }
    if fit.is_empty() {
        Err(all_clusters_failed(
            "No eligible cluster for volume",
            &reasons,
        ))
    } else {
        Ok(fit)
    }
}

fn why_not(
    database: &Database,
    settings: &Settings,
    cluster: &Cluster,
    volume: &Volume,
) -> Option<String> {
    let count = database.volume_count(&cluster.id);
    let limit = settings.max_volumes_per_cluster;
    match (cluster.file, cluster.block) {
        (false, false) => Some("Cluster has disabled all volume types".to_owned()),
        (file, block) if if volume.block { !block } else { !file } => {
            Some("Cluster does not support requested volume type".to_owned())
        }
        _ if database.name_taken(&cluster.id, &volume.name) => {
            Some(format!("Volume name '{}' already in use", volume.name))
        }
        _ if count >= limit => Some(format!("Cluster has {count} volumes and limit is {limit}")),
        _ => None,
    }
}

fn all_clusters_failed(heading: &str, reasons: &[(Id, String)]) -> BuildError {
    match reasons {
        [] => BuildError::NoSpace,
        [(_, reason)] => BuildError::Text(reason.clone()),
        several => {
            let lines = several
                .iter()
                .map(|(id, reason)| format!("\nCluster {id}: {reason}"));
            BuildError::Text(std::iter::once(heading.to_owned()).chain(lines).collect())
        }
    }
}

fn strict_zones(settings: &Settings, volume: &Volume) -> bool {
    let mut of_volume = volume
        .options
        .iter()
        .filter_map(|o| o.strip_prefix("user.heketi.zone-checking "));
    of_volume
        .next_back()
        .map_or(settings.strict_zones, |value| value == "strict")
}

#[cfg(test)]
mod tests {
    use super::super::super::model::{Durability, Restriction};
    use super::super::super::topology::Topology;
    use super::*;

    fn lab() -> (Database, Vec<Id>) {
        let hosts = ["a", "b", "c"].map(str::to_owned);
        let database = Topology::simple(&hosts, 10).into_database();
        let clusters = database.clusters.keys().cloned().collect();
        (database, clusters)
    }

    fn hosting(name: &str, size: i64) -> Volume {
        Volume {
            id: Id::random(),
            name: name.to_owned(),
            cluster: Id::derived("nowhere yet"),
            size,
            durability: Durability::Replicate { replica: 3 },
            requested_replica: 3,
            gid: 0,
            options: Vec::new(),
            block: true,
            snapshot: false,
            snapshot_factor: 1.0,
            free: 0,
            reserved: 0,
            restriction: Restriction::None,
            bricks: Vec::new(),
            pending: None,
        }
    }

    #[test]
    fn space_is_taken_when_the_request_is_accepted_and_given_back_with_the_bricks() {
        let (mut database, clusters) = lab();
        let before = database.devices.clone();
        let built = build_create(
            &mut database,
            &Settings::default(),
            hosting("v", 5),
            &clusters,
            &Id::random(),
        )
        .expect("built");

        let volume = &database.volumes[&built.volume];
        assert_eq!((volume.free, volume.reserved), (4, 1));
        assert!(database.visible_volume(&built.volume).is_none());
        assert_ne!(database.devices, before);

        database.remove_bricks(&built.bricks);
        assert_eq!(database.devices, before);
    }

    #[test]
    fn reasons_for_refusal_are_heketis() {
        let (mut database, clusters) = lab();
        let settings = Settings {
            max_volumes_per_cluster: 1,
            ..Settings::default()
        };
        let mut ask = |volume: Volume, settings: &Settings| {
            build_create(&mut database, settings, volume, &clusters, &Id::random())
                .map_or_else(|error| error.to_string(), |_| "ok".to_owned())
        };
        let texts = [
            ask(hosting("v", 11), &Settings::default()),
            ask(hosting("v", 1), &Settings::default()),
            ask(hosting("v", 1), &Settings::default()),
            ask(hosting("w", 1), &settings),
        ];
        insta::assert_snapshot!(texts.join("\n"), @r"
    No space
    ok
    Volume name 'v' already in use
    Cluster has 1 volumes and limit is 1
    ");
    }

    #[test]
    fn a_volume_has_one_unfinished_operation_at_a_time() {
        let (mut database, clusters) = lab();
        let built = build_create(
            &mut database,
            &Settings::default(),
            hosting("v", 1),
            &clusters,
            &Id::random(),
        )
        .expect("built");
        let refused =
            build_delete(&mut database, &built.volume, &Id::random()).expect_err("refused");
        assert_eq!(
            refused.to_string(),
            "The target exists, contains other items, or is in use."
        );
    }
}
