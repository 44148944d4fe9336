//! `/nodes` and `/devices`. Devices are folders here: no volume group is made, and bricks are never moved off.

use std::sync::Arc;

use axum::http::StatusCode;

use super::super::answer::{Answer, DeviceInfo, NodeInfo};
use super::super::command;
use super::super::model::{Database, Device, EntryState, Id, Node, Storage};
use super::super::queue::Outcome;
use super::super::refusal::Refusal;
use super::super::request::{DeviceAdd, NodeAdd, StateChange, parse};
use super::super::simulator::{Simulator, StepError};
use super::{Answered, Place};
use crate::sim::executor::Executor;

pub(super) async fn handle<E: Executor>(
    simulator: &Arc<Simulator<E>>,
    verb: &str,
    place: &Place<'_>,
    body: &[u8],
) -> Option<Answered> {
    Some(match (verb, place) {
        ("POST", Place::Nodes) => add_node(simulator, body).await,
        ("GET", Place::Node(id)) => node_info(simulator, &Id::requested(id)),
        ("DELETE", Place::Node(id)) => delete_node(simulator, &Id::requested(id)),
        ("POST", Place::NodeState(id)) => set_node_state(simulator, &Id::requested(id), body),
        ("POST", Place::Devices) => add_device(simulator, body),
        ("GET", Place::Device(id)) => device_info(simulator, &Id::requested(id)),
        ("DELETE", Place::Device(id)) => delete_device(simulator, &Id::requested(id)),
        ("POST", Place::DeviceState(id)) => set_device_state(simulator, &Id::requested(id), body),
        _ => return None,
    })
}

fn node_info<E: Executor>(simulator: &Simulator<E>, id: &Id) -> Answered {
    let info = simulator
        .store
        .view(|db| db.nodes.get(id).map(|node| NodeInfo::new(db, node)));
    Answer::ok(&info.ok_or_else(Refusal::not_found)?)
}

fn device_info<E: Executor>(simulator: &Simulator<E>, id: &Id) -> Answered {
    let info = simulator
        .store
        .view(|db| db.devices.get(id).map(|device| DeviceInfo::new(db, device)));
    Answer::ok(&info.ok_or_else(Refusal::not_found)?)
}

async fn add_node<E: Executor>(simulator: &Arc<Simulator<E>>, body: &[u8]) -> Answered {
    let request: NodeAdd = parse(body)?;
    request.check()?;
    let cluster = Id::requested(&request.cluster);
    let node = Node {
        id: Id::random(),
        cluster: cluster.clone(),
        zone: request.zone,
        manage: request.hostnames.manage,
        storage: request.hostnames.storage,
        tags: request.tags,
        state: EntryState::Online,
        devices: Vec::new(),
    };
    let members = simulator
        .store
        .view(|database| may_join(database, &cluster, &node))?;
    let checked = if members.is_empty() {
        vec![node.manage_host().to_owned()]
    } else {
        members.clone()
    };
    let mut answering = None;
    for host in checked {
        if simulator
            .step(&host, &command::glusterd_check())
            .await
            .is_ok()
        {
            answering = Some(host);
            break;
        }
    }
    let answering = answering.ok_or_else(|| {
        if members.is_empty() {
            Refusal::bad_request("New Node doesn't have glusterd running")
        } else {
            Refusal::bad_request("None of the nodes in cluster has glusterd running")
        }
    })?;
    let this = Arc::clone(simulator);
    Ok(simulator.in_background(async move {
        if !members.is_empty() {
            this.step(&answering, &command::probe(node.storage_host()))
                .await?;
        }
        let id = node.id.clone();
        this.store.update(|database| {
            let cluster = database.clusters.get_mut(&cluster);
            cluster
                .ok_or_else(|| StepError("Id not found".to_owned()))?
                .nodes
                .push(node.id.clone());
            database.nodes.insert(node.id.clone(), node);
            Ok::<_, StepError>(())
        })?;
        Ok(Outcome::SeeOther(format!("/nodes/{id}")))
    }))
}

/// Answers with the hosts that are in the cluster already.
fn may_join(database: &Database, cluster: &Id, node: &Node) -> Result<Vec<String>, Refusal> {
    if !database.clusters.contains_key(cluster) {
        return Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "Cluster id does not exist",
        ));
    }
    let taken = |known: &Node| {
        let (manage, storage) = (node.manage_host(), node.storage_host());
        [known.manage_host(), known.storage_host()]
            .into_iter()
            .find(|name| [manage, storage].contains(name))
            .map(str::to_owned)
    };
    if let Some((name, id)) = database
        .nodes
        .values()
        .find_map(|known| taken(known).map(|name| (name, known.id.clone())))
    {
        let text = format!("Hostname {name} already used by node with id {id}\n");
        return Err(Refusal::conflict(text));
    }
    Ok(database
        .nodes_of(cluster)
        .map(|node| node.manage_host().to_owned())
        .collect())
}

fn delete_node<E: Executor>(simulator: &Arc<Simulator<E>>, id: &Id) -> Answered {
    let (node, peer) = simulator.store.view(|database| {
        let node = database.nodes.get(id).ok_or_else(Refusal::not_found)?;
        if !node.devices.is_empty() {
            let text = format!("Unable to delete node [{id}] because it contains devices");
            return Err(Refusal::conflict(text));
        }
        let peer = database
            .nodes_of(&node.cluster)
            .find(|other| other.id != node.id);
        Ok((node.clone(), peer.map(|peer| peer.manage_host().to_owned())))
    })?;
    let this = Arc::clone(simulator);
    Ok(simulator.in_background(async move {
        if let Some(peer) = peer {
            this.step(&peer, &command::detach(node.storage_host()))
                .await?;
        }
        this.store.update(|database| {
            if let Some(cluster) = database.clusters.get_mut(&node.cluster) {
                cluster.nodes.retain(|id| *id != node.id);
            }
            database.nodes.remove(&node.id);
            Ok::<_, StepError>(())
        })?;
        Ok(Outcome::NoContent)
    }))
}

fn set_node_state<E: Executor>(simulator: &Arc<Simulator<E>>, id: &Id, body: &[u8]) -> Answered {
    let wanted = parse::<StateChange>(body)?.check()?;
    simulator
        .store
        .view(|db| db.nodes.get(id).map(|_| ()))
        .ok_or_else(Refusal::not_found)?;
    let (this, id) = (Arc::clone(simulator), id.clone());
    Ok(simulator.in_background(async move {
        this.store.update(|database| {
            let node = database
                .nodes
                .get(&id)
                .ok_or_else(|| StepError("Id not found".to_owned()))?;
            let state = next_state("node", node.state, wanted, &id)?;
            let devices = node.devices.clone();
            if state == EntryState::Failed {
                for device in devices {
                    give_up(database, &device)?;
                }
            }
            if let Some(node) = database.nodes.get_mut(&id) {
                node.state = state;
            }
            Ok::<_, StepError>(Outcome::NoContent)
        })
    }))
}

fn set_device_state<E: Executor>(simulator: &Arc<Simulator<E>>, id: &Id, body: &[u8]) -> Answered {
    let wanted = parse::<StateChange>(body)?.check()?;
    simulator
        .store
        .view(|db| db.devices.get(id).map(|_| ()))
        .ok_or_else(Refusal::not_found)?;
    let (this, id) = (Arc::clone(simulator), id.clone());
    Ok(simulator.in_background(async move {
        this.store.update(|database| {
            let device = database
                .devices
                .get_mut(&id)
                .ok_or_else(|| StepError("Id not found".to_owned()))?;
            match next_state("device", device.state, wanted, &id)? {
                EntryState::Failed => give_up(database, &id)?,
                state @ (EntryState::Online | EntryState::Offline) => device.state = state,
            }
            Ok::<_, StepError>(Outcome::NoContent)
        })
    }))
}

/// Decides a change of state.
///
/// | now     | wanted  | verdict                                             |
/// |---------|---------|-----------------------------------------------------|
/// | failed  | online  | refused                                             |
/// | failed  | offline | nodes: refused; devices: allowed                    |
/// | online  | failed  | refused: it must be offline first                   |
/// | other   |         | as wanted                                           |
fn next_state(
    kind: &str,
    now: EntryState,
    wanted: EntryState,
    id: &Id,
) -> Result<EntryState, StepError> {
    match (now, wanted) {
        (EntryState::Failed, EntryState::Online) => Err(StepError(format!(
            "Cannot move a failed/removed {kind} to online state"
        ))),
        (EntryState::Failed, EntryState::Offline) if kind == "node" => Err(StepError(format!(
            "Cannot move a failed/removed {kind} to offline state"
        ))),
        (EntryState::Online, EntryState::Failed) => {
            let title = if kind == "node" { "Node" } else { "Device" };
            let text = "must be offline before remove operation is performed";
            Err(StepError(format!("{title} {text}, {kind}:{id}")))
        }
        (EntryState::Online | EntryState::Offline | EntryState::Failed, wanted) => Ok(wanted),
    }
}

/// Gives a device up. heketi moves its bricks to others; this simulator only knows the case that there are none.
fn give_up(database: &mut Database, id: &Id) -> Result<(), StepError> {
    let Some(device) = database.devices.get_mut(id) else {
        return Ok(());
    };
    if !device.bricks.is_empty() {
        let text = "No Replacement was found for resource requested to be removed";
        return Err(StepError(format!(
            "Unable to delete device [{id}] as no device was found to replace it: {text}"
        )));
    }
    device.state = EntryState::Failed;
    Ok(())
}

fn add_device<E: Executor>(simulator: &Arc<Simulator<E>>, body: &[u8]) -> Answered {
    let request: DeviceAdd = parse(body)?;
    request.check()?;
    let node = simulator
        .store
        .view(|db| db.nodes.get(&Id::requested(&request.node)).cloned());
    let node = node.ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, "Node id does not exist"))?;
    let this = Arc::clone(simulator);
    Ok(simulator.in_background(async move {
        let asked = command::free_space(&this.settings.bricks_root);
        let text = this.step(node.manage_host(), &asked).await?;
        let kib = text
            .lines()
            .nth(1)
            .and_then(|line| line.trim().parse().ok());
        let kib =
            kib.ok_or_else(|| StepError(format!("cannot read the size of {}", request.name)))?;
        let device = Device {
            id: Id::random(),
            node: node.id.clone(),
            name: request.name,
            tags: request.tags,
            state: EntryState::Online,
            storage: Storage::empty(kib),
            bricks: Vec::new(),
        };
        this.store.update(|database| {
            let node = database.nodes.get_mut(&node.id);
            node.ok_or_else(|| StepError("Id not found".to_owned()))?
                .devices
                .push(device.id.clone());
            database.devices.insert(device.id.clone(), device);
            Ok::<_, StepError>(Outcome::NoContent)
        })
    }))
}

fn delete_device<E: Executor>(simulator: &Arc<Simulator<E>>, id: &Id) -> Answered {
    let device = simulator
        .store
        .view(|db| db.devices.get(id).cloned())
        .ok_or_else(Refusal::not_found)?;
    if device.state != EntryState::Failed {
        return Err(Refusal::bad_request(format!(
            "device: {id} is not in failed state"
        )));
    }
    if !device.bricks.is_empty() {
        let text = format!("Unable to delete device [{id}] because it contains bricks");
        return Err(Refusal::conflict(text));
    }
    let this = Arc::clone(simulator);
    Ok(simulator.in_background(async move {
        this.store.update(|database| {
            if let Some(node) = database.nodes.get_mut(&device.node) {
                node.devices.retain(|id| *id != device.id);
            }
            database.devices.remove(&device.id);
            Ok::<_, StepError>(Outcome::NoContent)
        })
    }))
}
