//! The life of a volume, played as Kubernetes would, on real iSCSI, real multipath and real gluster.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use clap::Parser;
use e2e::failover;
use e2e::kubernetes::{Access, Claim, Volume};
use e2e::lab::{Lab, LabOptions};
use e2e::system::{Settings, System};

/// Plays the life of a volume in a lab of its own and leaves nothing behind.
///
/// Brings up three storage hosts and two nodes, starts the controller beside them and the node plugin in both nodes, and goes
/// from class parameters to a mounted file system, through the death of the storage host that serves it, an online
/// expansion and a move to the other node, to deletion. Needs root; takes some minutes, the first time a few more.
#[derive(Debug, Parser)]
#[command(name = "demo", version)]
struct Args {
    /// File system of the volume: xfs or ext4.
    #[arg(long, default_value = "xfs", value_parser = ["xfs", "ext4"])]
    fs: String,
    /// Name of the lab.
    #[arg(long, default_value = "demo")]
    id: String,
}

const GIB: i64 = 1 << 30;
const PATIENCE: Duration = Duration::from_mins(5);
const POD: &str = "0c1d5b7e-pod";

#[tokio::main]
async fn main() -> ExitCode {
    // The lab goes with the value that holds it, and so also at Ctrl-C.
    let outcome = tokio::select! {
        outcome = play(Args::parse()) => outcome,
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\ndemo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn play(args: Args) -> anyhow::Result<()> {
    let show = Show::default();
    let mut options = LabOptions::new(&args.id)?;
    options.fast_timers = true;
    let lab = show
        .step("boot three storage hosts and two nodes", Lab::up(options))
        .await?;
    let start = System::start(lab, Settings::default());
    let mut system = show
        .step("start heketi, the controller and two node plugins", start)
        .await?;
    if let Err(error) = live(&show, &system, &args.fs).await {
        eprintln!("\n{}", system.last_logs(15).await);
        return Err(error);
    }
    system.kill_controller().await;
    let lab = system.stop().await;
    show.step("take down the lab", lab.down()).await?;
    show.end();
    Ok(())
}

/// The volume's life, from a claim to nothing.
async fn live(show: &Show, system: &System, fs: &str) -> anyhow::Result<()> {
    let fs: &'static str = if fs == "ext4" { "ext4" } else { "xfs" };
    let claim = Claim {
        name: "pvc-7d3c0a52-demo".to_owned(),
        bytes: GIB,
        parameters: [
            ("haCount", "3"),
            ("chapAuthEnabled", "true"),
            ("prealloc", "no"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into(),
        access: Access::Mount(fs),
    };
    let parameters = claim
        .parameters
        .iter()
        .map(|(key, value)| format!("{key}={value}"));
    note(&format!(
        "StorageClass: {}, fstype={fs}",
        parameters.collect::<Vec<_>>().join(", ")
    ));
    let create = system.sidecars().create(&claim, PATIENCE);
    let volume = show
        .step(
            "CreateVolume of 1 GiB (makes a hosting volume first)",
            create,
        )
        .await?;
    note(&format!("volume {}", volume.id));

    attach(show, system, &volume, "n1").await?;
    let sums = write_files(show, system, &volume).await?;
    survive(show, system, &volume).await?;
    expand(show, system, &volume).await?;
    detach(show, system, &volume, "n1").await?;

    attach(show, system, &volume, "n2").await?;
    let target = volume.target_path(POD);
    let check = format!(
        "cd {} && sha256sum --quiet --check sums && sha256sum sums",
        target.display()
    );
    let there = show
        .step(
            "compare the checksums on n2",
            guest_run(system, "n2", check),
        )
        .await?;
    ensure!(
        there.split(' ').next() == sums.split(' ').next(),
        "the checksums differ"
    );
    detach(show, system, &volume, "n2").await?;

    show.step(
        "DeleteVolume",
        system.sidecars().delete(&volume.id, PATIENCE),
    )
    .await?;
    let left = show.step("look for what is left", left(system)).await?;
    ensure!(left.is_empty(), "this is left:\n{}", left.join("\n"));
    note(
        "no session, record, map, device, mount, target, backstore, LUN, file or journal entry is left;",
    );
    note("no Secret was ever made: the CHAP password travelled sealed");
    Ok(())
}

async fn attach(show: &Show, system: &System, volume: &Volume, node: &str) -> anyhow::Result<()> {
    let kubelet = system.kubelet(node)?;
    let id = system.node_id(node)?.to_owned();
    let attach = system.sidecars().attach(volume, &id, PATIENCE);
    let context = show
        .step(&format!("ControllerPublishVolume to {node}"), attach)
        .await?;
    let stage = kubelet.stage(volume, &context, PATIENCE);
    show.step(
        &format!("NodeStageVolume on {node}: login, map, file system, mount"),
        stage,
    )
    .await?;
    let publish = kubelet.publish(volume, &context, POD, false);
    show.step(&format!("NodePublishVolume on {node}"), publish)
        .await?;
    let paths = guest_run(
        system,
        node,
        "multipath -ll | grep -c ' active ready' || true".to_owned(),
    )
    .await?;
    note(&format!("{paths} paths active and ready"));
    Ok(())
}

async fn detach(show: &Show, system: &System, volume: &Volume, node: &str) -> anyhow::Result<()> {
    let kubelet = system.kubelet(node)?;
    let id = system.node_id(node)?.to_owned();
    show.step(
        &format!("NodeUnpublishVolume on {node}"),
        kubelet.unpublish(volume, POD, PATIENCE),
    )
    .await?;
    let unstage = kubelet.unstage(volume, PATIENCE);
    show.step(
        &format!("NodeUnstageVolume on {node}: flush, remove, log out"),
        unstage,
    )
    .await?;
    let detach = system.sidecars().detach(&volume.id, &id, PATIENCE);
    show.step(&format!("ControllerUnpublishVolume from {node}"), detach)
        .await?;
    Ok(())
}

/// Writes 64 MiB with checksums; answers the checksum of the list of checksums.
async fn write_files(show: &Show, system: &System, volume: &Volume) -> anyhow::Result<String> {
    let target = volume.target_path(POD);
    let script = format!(
        "cd {} && for i in 1 2 3 4; do dd if=/dev/urandom of=data$i bs=1M count=16 conv=fsync status=none; done && \
         sha256sum data1 data2 data3 data4 > sums && sync -f . && sha256sum sums",
        target.display()
    );
    show.step(
        "write 64 MiB with checksums",
        guest_run(system, "n1", script),
    )
    .await
}

/// Kills the storage host of the active path under fio, and shows how long I/O stood still.
async fn survive(show: &Show, system: &System, volume: &Volume) -> anyhow::Result<()> {
    let fio = failover::fio(&volume.target_path(POD), 35);
    let node = system.lab().guest("n1")?;
    let writer = node.clone();
    let running =
        tokio::spawn(async move { writer.run_within(Duration::from_mins(4), &fio).await });
    tokio::time::sleep(Duration::from_secs(5)).await;
    let host = failover::serving(system.lab(), &node).await?;
    let step = format!(
        "pull the plug of {}, which serves the volume, under fio",
        host.name()
    );
    show.step(&step, host.kill()).await?;
    let ended = async { anyhow::Ok(running.await??) };
    show.step("fio goes on and verifies all it wrote", ended)
        .await?;
    let stall = failover::longest_wait(&node).await?;
    note(&format!("longest wait of a write: {stall:.1} s; no error"));
    show.step(&format!("boot {} again", host.name()), host.start())
        .await?;
    let wait = "for i in $(seq 90); do [ $(multipath -ll | grep -c ' active ready') = 3 ] && exit 0; sleep 1; done; multipath -ll; exit 1";
    show.step(
        "all three paths are back",
        guest_run(system, "n1", wait.to_owned()),
    )
    .await?;
    Ok(())
}

async fn expand(show: &Show, system: &System, volume: &Volume) -> anyhow::Result<()> {
    let grow = system.sidecars().expand(volume, 2 * GIB, PATIENCE);
    let (bytes, on_node) = show
        .step("ControllerExpandVolume to 2 GiB, mounted", grow)
        .await?;
    ensure!(
        bytes == 2 * GIB && on_node,
        "the controller answered {bytes} bytes"
    );
    let kubelet = system.kubelet("n1")?;
    let grow = kubelet.expand(volume, POD, bytes, PATIENCE);
    show.step("NodeExpandVolume: paths, map, file system", grow)
        .await?;
    let size = format!(
        "df -h --output=size {} | tail -1",
        volume.target_path(POD).display()
    );
    note(&format!(
        "the pod sees {}",
        guest_run(system, "n1", size).await?.trim()
    ));
    Ok(())
}

async fn left(system: &System) -> anyhow::Result<Vec<String>> {
    let mut left = system.residue().await?;
    left.extend(
        system
            .blocks()
            .await?
            .into_iter()
            .map(|block| format!("block {block}")),
    );
    Ok(left)
}

async fn guest_run(system: &System, guest: &str, script: String) -> anyhow::Result<String> {
    Ok(system
        .lab()
        .guest(guest)?
        .run_within(Duration::from_mins(3), &script)
        .await?)
}

/// Tells what happens: a line and a time a step, and a clock while one is waited for.
struct Show {
    start: Instant,
}

impl Default for Show {
    fn default() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl Show {
    async fn step<T, E>(
        &self,
        what: &str,
        work: impl Future<Output = Result<T, E>>,
    ) -> anyhow::Result<T>
    where
        E: Into<anyhow::Error>,
    {
        let begun = Instant::now();
        let live = std::io::stdout().is_terminal();
        tokio::pin!(work);
        loop {
            let second = tokio::time::sleep(Duration::from_secs(1));
            tokio::select! {
                outcome = &mut work => {
                    let outcome = outcome.map_err(Into::into).with_context(|| what.to_owned())?;
                    let (at, took) = (self.start.elapsed().as_secs_f32(), begun.elapsed().as_secs_f32());
                    say(&format!("{}{at:6.1} s  {what}  ({took:.1} s)\n", if live { "\r\x1b[K" } else { "" }));
                    return Ok(outcome);
                }
                () = second => if live {
                    let at = self.start.elapsed().as_secs_f32();
                    say(&format!("\r\x1b[K{at:6.1} s  {what}  … {} s", begun.elapsed().as_secs()));
                }
            }
        }
    }

    fn end(&self) {
        say(&format!(
            "{:6.1} s  done\n",
            self.start.elapsed().as_secs_f32()
        ));
    }
}

/// A line below a step, as far in as the steps' words are.
fn note(text: &str) {
    say(&format!("{:10}{text}\n", ""));
}

fn say(text: &str) {
    let mut out = std::io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
