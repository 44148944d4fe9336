//! What the driver costs beside the same work done by hand, measured in one run on a lab of its own.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Parser;
use e2e::bench::figures::Comparison;
use e2e::bench::hand::{self, Block};
use e2e::bench::machine::{self, Machine};
use e2e::bench::report::{Footprint, Report, Stall};
use e2e::bench::usage::Usage;
use e2e::failover;
use e2e::kubernetes::{Access, Claim, PublishContext, Volume};
use e2e::lab::{Guest, Lab, LabOptions};
use e2e::system::{Settings, System};

/// Measures the driver beside the bare commands, in turns, and leaves nothing behind.
///
/// Brings up three storage hosts and two nodes, starts the controller beside them and the node plugin in both nodes, and
/// compares, A B A B …, on the same guests and volumes of 1 GiB:
///
///   CreateVolume, DeleteVolume            with gluster-block create, delete
///   NodeStage + NodePublish and back      with a shell script of iscsiadm, multipath and mount
///   the first stage, which formats        with the same script and mkfs
///
/// Then it shows what memory and processor time the plugins took, and kills the storage host that serves a mounted volume
/// under fio to see how long a write waits.
///
/// The tables go to stdout, progress to stderr. Times are seconds of wall clock as a caller on this machine sees them. Guests
/// are slow and share this machine's cores: compare driver and hand within one run, never figures of two machines. Nothing
/// is asserted. Needs root; takes about ten minutes.
///
///   make bench                                            the usual
///   make bench BENCH='--repeat 30 --fs ext4'              with options
///   target/release/bench --repeat 3 --fresh 1             a quick look
#[derive(Debug, Parser)]
#[command(name = "bench", version, verbatim_doc_comment)]
struct Args {
    /// How often each side creates and deletes, stages and unstages.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// How many fresh volumes each side formats.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    fresh: u32,
    /// File system of the volumes: xfs or ext4.
    #[arg(long, default_value = "xfs", value_parser = ["xfs", "ext4"])]
    fs: String,
    /// Name of the lab.
    #[arg(long, default_value = "bench")]
    id: String,
    /// Also write all figures, every single time among them, to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const GIB: i64 = 1 << 30;
const PATIENCE: Duration = Duration::from_mins(5);
const POD: &str = "5f0e8c11-pod";
/// How long fio writes, in seconds.
const UNDISTURBED: u32 = 15;
const DISTURBED: u32 = 35;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    // A run that is cut short drops the lab, which takes itself down; so does its watchdog if this process is killed.
    let outcome = tokio::select! {
        outcome = run(&args) => outcome,
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> anyhow::Result<()> {
    let mut options = LabOptions::new(&args.id)?;
    options.fast_timers = true;
    let load = machine::load()?;
    note("booting a lab");
    let lab = Lab::up(options).await?;
    let machine = Machine::of(&lab, load).await?;
    let system = System::start(lab, Settings::default()).await?;
    let report = match Bench::new(args, &system)?.measure(machine).await {
        Ok(report) => report,
        Err(error) => {
            eprintln!("{}", system.last_logs(30).await);
            return Err(error);
        }
    };
    system.stop().await.down().await?;
    std::io::stdout().write_all(report.text().as_bytes())?;
    if let Some(file) = &args.json {
        std::fs::write(file, report.json()?).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

/// One run on a system that is up.
struct Bench<'a> {
    args: &'a Args,
    system: &'a System,
    fs: &'static str,
    /// The node on which both sides work, and the storage host that does the work by hand.
    node: Guest,
    storage: Guest,
}

impl<'a> Bench<'a> {
    fn new(args: &'a Args, system: &'a System) -> anyhow::Result<Self> {
        Ok(Self {
            args,
            system,
            fs: if args.fs == "ext4" { "ext4" } else { "xfs" },
            node: system.lab().guest("n1")?,
            storage: system.lab().guest("s1")?,
        })
    }

    async fn measure(&self, machine: Machine) -> anyhow::Result<Report> {
        let (controller, node) = (self.controller_usage()?, self.node_usage().await?);
        note("making the hosting volume and a volume on it");
        let volume = self.create("volume").await?;
        let mut comparisons = self.controller(&volume).await?;
        comparisons.extend(self.first_stages().await?);
        comparisons.extend(self.stages(&volume).await?);
        let footprint = |plugin: &str, idle, after| Footprint {
            plugin: plugin.to_owned(),
            idle,
            after,
        };
        let footprints = vec![
            footprint("csi-controller", controller, self.controller_usage()?),
            footprint("csi-node in n1", node, self.node_usage().await?),
        ];
        let stalls = self.stalls(&volume).await?;
        Ok(Report {
            command: self.command(),
            machine,
            comparisons,
            footprints,
            stalls,
        })
    }

    fn command(&self) -> String {
        let Args {
            repeat, fresh, fs, ..
        } = self.args;
        format!("make bench BENCH='--repeat {repeat} --fresh {fresh} --fs {fs}'")
    }

    /// CreateVolume and DeleteVolume on the hosting volume that holds `other`.
    async fn controller(&self, other: &Volume) -> anyhow::Result<Vec<Comparison>> {
        let hosts = Block::look_up(&self.storage, &other.id)
            .await?
            .hosts()
            .to_owned();
        let hosting = other.id.split('/').next().unwrap_or_default();
        let mut create = Comparison::new("CreateVolume / gluster-block create");
        let mut delete = Comparison::new("DeleteVolume / gluster-block delete");
        for turn in 1..=self.args.repeat {
            note(&format!(
                "create and delete, {turn} of {}",
                self.args.repeat
            ));
            let begun = Instant::now();
            let volume = self.create(&format!("driver-{turn}")).await?;
            create.driver.push(begun.elapsed());
            let begun = Instant::now();
            self.delete(&volume).await?;
            delete.driver.push(begun.elapsed());

            let id = format!("{hosting}/by-hand-{turn}");
            create
                .hand
                .push(hand::create(&self.storage, &id, &hosts, GIB).await?);
            delete.hand.push(hand::delete(&self.storage, &id).await?);
        }
        Ok(vec![create, delete])
    }

    /// The first stage of fresh volumes, which formats them.
    async fn first_stages(&self) -> anyhow::Result<Vec<Comparison>> {
        let what = format!(
            "first NodeStage + NodePublish / script, with mkfs.{}",
            self.fs
        );
        let mut first = Comparison::new(what);
        for turn in 1..=self.args.fresh {
            note(&format!("first stage, {turn} of {}", self.args.fresh));
            let volume = self.create(&format!("fresh-driver-{turn}")).await?;
            let context = self.attach(&volume).await?;
            first.driver.push(self.stage(&volume, &context).await?);
            self.unstage(&volume).await?;
            self.detach(&volume).await?;
            self.delete(&volume).await?;

            let volume = self.create(&format!("fresh-hand-{turn}")).await?;
            let block = Block::look_up(&self.storage, &volume.id).await?;
            first
                .hand
                .push(block.stage(&self.node, self.fs, true).await?);
            block.unstage(&self.node).await?;
            self.delete(&volume).await?;
        }
        Ok(vec![first])
    }

    /// Both ways of one volume that is formatted already.
    async fn stages(&self, volume: &Volume) -> anyhow::Result<Vec<Comparison>> {
        let mut there = Comparison::new(format!(
            "NodeStage + NodePublish / script, {} there",
            self.fs
        ));
        let mut back = Comparison::new("NodeUnpublish + NodeUnstage / script");
        let context = self.attach(volume).await?;
        let block = Block::look_up(&self.storage, &volume.id).await?;
        note("formatting the volume");
        self.stage(volume, &context).await?;
        self.unstage(volume).await?;
        for turn in 1..=self.args.repeat {
            note(&format!(
                "stage and unstage, {turn} of {}",
                self.args.repeat
            ));
            there.driver.push(self.stage(volume, &context).await?);
            back.driver.push(self.unstage(volume).await?);
            there
                .hand
                .push(block.stage(&self.node, self.fs, false).await?);
            back.hand.push(block.unstage(&self.node).await?);
        }
        self.detach(volume).await?;
        Ok(vec![there, back])
    }

    /// The longest wait of a write without and with the death of the storage host that serves.
    async fn stalls(&self, volume: &Volume) -> anyhow::Result<Vec<Stall>> {
        let context = self.attach(volume).await?;
        self.stage(volume, &context).await?;
        note("fio without a fault");
        let target = volume.target_path(POD);
        let limit = Duration::from_mins(4);
        self.node
            .run_within(limit, &failover::fio(&target, UNDISTURBED))
            .await?;
        let undisturbed = Stall {
            during: "nothing else happens".to_owned(),
            seconds: failover::longest_wait(&self.node).await?,
        };
        let host = failover::serving(self.system.lab(), &self.node).await?;
        note(&format!(
            "fio while {}, which serves the volume, is killed",
            host.name()
        ));
        let fio = failover::fio(&target, DISTURBED);
        let writing = self.node.run_within(limit, &fio);
        let killing = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            host.kill().await
        };
        tokio::try_join!(writing, killing)?;
        let disturbed = Stall {
            during: "the storage host that serves is killed".to_owned(),
            seconds: failover::longest_wait(&self.node).await?,
        };
        Ok(vec![undisturbed, disturbed])
    }

    async fn create(&self, name: &str) -> anyhow::Result<Volume> {
        let parameters = [
            ("haCount", "3"),
            ("chapAuthEnabled", "true"),
            ("prealloc", "no"),
        ];
        let claim = Claim {
            name: format!("pvc-bench-{name}"),
            bytes: GIB,
            parameters: parameters
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            access: Access::Mount(self.fs),
        };
        let created = self.system.sidecars().create(&claim, PATIENCE).await;
        created.context("CreateVolume")
    }

    async fn delete(&self, volume: &Volume) -> anyhow::Result<()> {
        let deleted = self.system.sidecars().delete(&volume.id, PATIENCE).await;
        deleted.context("DeleteVolume")
    }

    async fn attach(&self, volume: &Volume) -> anyhow::Result<PublishContext> {
        let node = self.system.node_id("n1")?;
        let attached = self.system.sidecars().attach(volume, node, PATIENCE).await;
        attached.context("ControllerPublishVolume")
    }

    async fn detach(&self, volume: &Volume) -> anyhow::Result<()> {
        let node = self.system.node_id("n1")?;
        let detached = self
            .system
            .sidecars()
            .detach(&volume.id, node, PATIENCE)
            .await;
        detached.context("ControllerUnpublishVolume")
    }

    async fn stage(&self, volume: &Volume, context: &PublishContext) -> anyhow::Result<Duration> {
        let kubelet = self.system.kubelet("n1")?;
        let begun = Instant::now();
        let staged = kubelet.stage(volume, context, PATIENCE).await;
        staged.context("NodeStageVolume")?;
        let published = kubelet.publish(volume, context, POD, false).await;
        published.context("NodePublishVolume")?;
        Ok(begun.elapsed())
    }

    async fn unstage(&self, volume: &Volume) -> anyhow::Result<Duration> {
        let kubelet = self.system.kubelet("n1")?;
        let begun = Instant::now();
        let unpublished = kubelet.unpublish(volume, POD, PATIENCE).await;
        unpublished.context("NodeUnpublishVolume")?;
        let unstaged = kubelet.unstage(volume, PATIENCE).await;
        unstaged.context("NodeUnstageVolume")?;
        Ok(begun.elapsed())
    }

    fn controller_usage(&self) -> anyhow::Result<Usage> {
        let pid = self.system.controller_pid().context("no controller")?;
        let text =
            ["status", "stat"].map(|file| std::fs::read_to_string(format!("/proc/{pid}/{file}")));
        let [status, stat] = text;
        Usage::parse(&format!("{}{}", status?, stat?)).context("the controller is gone")
    }

    async fn node_usage(&self) -> anyhow::Result<Usage> {
        let pid = self.system.plugin("n1")?.pid();
        let text = self
            .node
            .run(&format!("cat /proc/{pid}/status /proc/{pid}/stat"))
            .await?;
        Usage::parse(&text).context("the plugin is gone")
    }
}

fn note(text: &str) {
    eprintln!("bench: {text}");
}
