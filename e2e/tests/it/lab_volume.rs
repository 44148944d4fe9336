//! Volumes on the whole system in the lab: their life, crashes at chosen points, faults, secrets, csi-sanity.
//!
//! All of them share the lab that `.ci/test` boots and names in `LAB_ID`; each starts the system on it and leaves it
//! as it found it, which the last check of every test proves.

use std::time::{Duration, Instant};

use e2e::kubernetes::{Access, Claim, PublishContext, Volume};
use e2e::lab::{Hold, Lab, LabOptions, Moment};
use e2e::settings;
use e2e::system::{STATE_DIR, Settings, System};
use tonic::Code;

mod crash;
mod faults;
mod life;
mod paths;
mod sanity;

const PATIENCE: Duration = Duration::from_mins(3);
const MIB: i64 = 1 << 20;
const POD: &str = "pod-1";

async fn system() -> System {
    let lab = if let Some(id) = settings::lab_id() {
        Lab::attach(&id).expect("the lab named by LAB_ID")
    } else {
        let mut options = LabOptions::new("volumes").expect("options");
        options.fast_timers = true;
        Lab::up(options).await.expect("a lab")
    };
    System::start(lab, Settings::default())
        .await
        .expect("the system starts")
}

fn claim(name: &str, access: Access) -> Claim {
    Claim {
        name: name.to_owned(),
        bytes: 320 * MIB,
        parameters: [("prealloc".to_owned(), "no".to_owned())].into(),
        access,
    }
}

/// A volume that is created, attached, staged and published on a node.
async fn in_use(system: &System, claim: &Claim, node: &str) -> (Volume, PublishContext) {
    let volume = system
        .sidecars()
        .create(claim, PATIENCE)
        .await
        .expect("create");
    let context = attach(system, &volume, node).await;
    let kubelet = system.kubelet(node).expect("node");
    kubelet
        .stage(&volume, &context, PATIENCE)
        .await
        .expect("stage");
    kubelet
        .publish(&volume, &context, POD, false)
        .await
        .expect("publish");
    (volume, context)
}

async fn attach(system: &System, volume: &Volume, node: &str) -> PublishContext {
    let id = system.node_id(node).expect("node").to_owned();
    system
        .sidecars()
        .attach(volume, &id, PATIENCE)
        .await
        .expect("attach")
}

/// Everything backwards, and nothing left.
async fn put_away(system: System, volume: &Volume, node: &str) {
    let kubelet = system.kubelet(node).expect("node");
    kubelet
        .unpublish(volume, POD, PATIENCE)
        .await
        .expect("unpublish");
    kubelet.unstage(volume, PATIENCE).await.expect("unstage");
    let id = system.node_id(node).expect("node").to_owned();
    system
        .sidecars()
        .detach(&volume.id, &id, PATIENCE)
        .await
        .expect("detach");
    system
        .sidecars()
        .delete(&volume.id, PATIENCE)
        .await
        .expect("delete");
    clean(system).await;
}

async fn clean(system: System) {
    let mut left = system.residue().await.expect("guests answer");
    left.extend(system.blocks().await.expect("gluster-block answers"));
    assert!(left.is_empty(), "left behind:\n{}", left.join("\n"));
    let lab = system.stop().await;
    if settings::lab_id().is_none() {
        lab.down().await.expect("down");
    }
}

/// Writes the switch file of gluster-block's simulator on all storage hosts.
async fn switch(system: &System, line: &str) {
    for guest in system.lab().storage() {
        let script = format!("printf '%s\\n' '{line}' > /run/gluster-block-sim/faults");
        guest.run(&script).await.expect("the switch file");
    }
}

async fn run(system: &System, guest: &str, script: &str) -> String {
    let guest = system.lab().guest(guest).expect("guest");
    guest
        .run_within(PATIENCE, script)
        .await
        .unwrap_or_else(|error| panic!("{error}"))
}
