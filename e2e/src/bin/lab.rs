//! The lab from the command line: makes labs, runs commands in them, breaks things in them, removes them.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};
use e2e::lab::{self, Command, Guest, Lab, LabOptions, Ownership, agent, image, state, watchdog};
use e2e::settings;

/// Machines with real iSCSI, multipath and GlusterFS, made of user-mode Linux guests.
///
/// A lab is a network namespace with storage guests s1, s2, s3 (glusterd, LIO, gluster-block) and node guests n1, n2
/// (open-iscsi, multipath-tools). Several can exist side by side, told apart by --id. Needs root.
///
/// A first look:
///   lab up                          boot one (15 s; the first time some minutes for the root image)
///   lab exec n1 multipath -ll       run a command in a guest
///   lab shell s1                    look around in a guest
///   lab cut s1; lab join s1         take a host off the network, and back
///   lab kill s1; lab start s1       pull the plug, and boot again
///   lab down                        remove it
#[derive(Debug, Parser)]
#[command(name = "lab", version, verbatim_doc_comment)]
struct Cli {
    /// Name of the lab; `LAB_ID` gives another default.
    #[arg(long, global = true, default_value_t = settings::lab_id().unwrap_or_else(|| "dev".to_owned()))]
    id: String,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Build the guests' root image, if it is not there yet, and print where it is.
    Image {
        #[command(flatten)]
        overlay: Overlay,
    },
    /// Boot a lab; returns when every service is up.
    Up(Up),
    /// Stop a lab and remove all of it. Labs whose owner is gone are removed too.
    Down,
    /// List labs and their guests.
    Status,
    /// Run a command in a guest; ends with its exit code. A single word is given to a shell.
    #[command(trailing_var_arg = true)]
    Exec {
        /// Guest, such as n1.
        guest: String,
        /// Most it may take, in seconds.
        #[arg(long, default_value_t = 600)]
        limit: u64,
        /// Command and arguments.
        #[arg(required = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Open a shell in a guest.
    Shell {
        /// Guest, such as n1.
        guest: String,
    },
    /// Run a program of this machine in the lab's network, at 10.77.1.1.
    #[command(trailing_var_arg = true)]
    Run {
        /// Command and arguments.
        #[arg(required = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Take a guest off the data networks; packets are lost in silence.
    Cut(Target),
    /// Put a guest back on the data networks.
    Join(Target),
    /// Make a guest hang.
    Pause(Target),
    /// End the hang.
    Resume(Target),
    /// Pull the plug of a guest; its disks stay.
    Kill(Target),
    /// Boot a guest that was killed or stopped.
    Start(Target),
    /// Shut a guest down in good order.
    Stop(Target),
    /// Print a guest's console, or a file under its /var/log.
    Logs {
        /// Guest, such as s1.
        guest: String,
        /// File, such as gluster-blockd.log or glusterfs/glusterd.log.
        file: Option<String>,
    },
    /// Serve the lab inside a guest.
    #[command(hide = true)]
    Agent {
        /// Address to serve on.
        #[arg(long)]
        listen: SocketAddr,
    },
    /// Remove the lab when its owner is gone.
    #[command(hide = true)]
    Watch,
}

#[derive(Debug, Args)]
struct Target {
    /// Guests, such as s1.
    #[arg(required = true)]
    guests: Vec<String>,
}

#[derive(Debug, Args)]
struct Overlay {
    /// Tar archive to lay over the storage guests' root; if it brings usr/sbin/gluster-blockd, that runs instead of the
    /// simulator. `LAB_STORAGE_OVERLAY` by default.
    #[arg(long = "storage-overlay")]
    overlay: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct Up {
    /// Number of storage guests.
    #[arg(long, default_value_t = 3)]
    storage: u8,
    /// Number of node guests.
    #[arg(long, default_value_t = 2)]
    nodes: u8,
    /// Short iSCSI timers: a lost host is noticed within seconds.
    #[arg(long)]
    fast: bool,
    /// Process with which the lab goes; without it the lab stays until `lab down`.
    #[arg(long)]
    owner: Option<u32>,
    /// Memory of a guest in MiB; taken only as it is used.
    #[arg(long, default_value_t = 768)]
    memory: u32,
    /// Folder of host-built programs that guests see as /lab/bin [default: where `lab` is].
    #[arg(long)]
    bin_dir: Option<PathBuf>,
    #[command(flatten)]
    overlay: Overlay,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match act(Cli::parse()).await {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "lab: {error:#}");
            ExitCode::from(125)
        }
    }
}

async fn act(cli: Cli) -> anyhow::Result<ExitCode> {
    let id = cli.id.as_str();
    match cli.action {
        Action::Image { overlay } => {
            let overlay = overlay.overlay.or_else(settings::storage_overlay);
            let image = image::image(&settings::images(), overlay.as_deref()).await?;
            say(&image.path.display().to_string())?;
        }
        Action::Up(wanted) => up(id, wanted).await?,
        Action::Down => {
            lab::remove(id).await?;
            for other in lab::sweep().await {
                say(&format!("removed the abandoned lab {other}"))?;
            }
        }
        Action::Status => status()?,
        Action::Exec {
            guest,
            limit,
            command,
        } => {
            return exec(&guest_of(id, &guest)?, &command, limit).await;
        }
        Action::Shell { guest } => {
            return Ok(code(guest_of(id, &guest)?.ssh().interactive().await?));
        }
        Action::Run { command } => {
            let (program, arguments) = command.split_first().context("no command")?;
            let program = Lab::attach(id)?.program(program).args(arguments);
            return Ok(code(program.interactive().await?));
        }
        Action::Logs { guest, file } => logs(&guest_of(id, &guest)?, file.as_deref()).await?,
        Action::Agent { listen } => agent::serve(listen).await?,
        Action::Watch => watchdog::watch(id).await?,
        Action::Cut(target) => {
            for guest in target.guests(id)? {
                guest.cut().await?;
            }
        }
        Action::Join(target) => {
            for guest in target.guests(id)? {
                guest.join().await?;
            }
        }
        Action::Pause(target) => target.guests(id)?.iter().try_for_each(Guest::pause)?,
        Action::Resume(target) => target.guests(id)?.iter().try_for_each(Guest::resume)?,
        Action::Kill(target) => {
            for guest in target.guests(id)? {
                guest.kill().await?;
            }
        }
        Action::Start(target) => {
            for guest in target.guests(id)? {
                guest.start().await?;
            }
        }
        Action::Stop(target) => {
            for guest in target.guests(id)? {
                guest.stop().await?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl Target {
    fn guests(&self, id: &str) -> anyhow::Result<Vec<Guest>> {
        self.guests.iter().map(|name| guest_of(id, name)).collect()
    }
}

fn guest_of(id: &str, name: &str) -> anyhow::Result<Guest> {
    Ok(Lab::attach(id)?.guest(name)?)
}

async fn up(id: &str, wanted: Up) -> anyhow::Result<()> {
    let start = Instant::now();
    let mut options = LabOptions::new(id)?;
    options.storage = wanted.storage;
    options.nodes = wanted.nodes;
    options.fast_timers = wanted.fast;
    options.memory = wanted.memory;
    options.overlay = wanted.overlay.overlay.or(options.overlay);
    options.owner = wanted.owner.map_or(Ownership::Nobody, Ownership::Process);
    if let Some(folder) = wanted.bin_dir {
        options.bin_dir = folder;
    }
    let lab = Lab::up(options).await?;
    say(&format!(
        "lab {id} is up after {:.1} s",
        start.elapsed().as_secs_f64()
    ))?;
    for guest in lab.guests() {
        say(&format!(
            "  {}  {}  {}",
            guest.name(),
            guest.address(),
            guest.address_on(2)
        ))?;
    }
    say(&format!("  network namespace {}", lab.namespace().name()))?;
    say(&format!("  ssh key           {}", lab.ssh_key().display()))?;
    say(&format!(
        "  known hosts       {}",
        lab.known_hosts().display()
    ))
}

fn status() -> anyhow::Result<()> {
    let labs = state::all()?;
    if labs.is_empty() {
        return say("no lab; `lab up` makes one");
    }
    for (id, folder) in labs {
        let state = match (folder.is_abandoned(), folder.is_ready()) {
            (true, _) => "abandoned",
            (false, true) => "up",
            (false, false) => "booting",
        };
        say(&format!("{id}  {state}"))?;
        if let Ok(lab) = Lab::attach(&id) {
            for guest in lab.guests() {
                let running = if guest.is_running() { "running" } else { "off" };
                say(&format!(
                    "  {}  {}  {running}",
                    guest.name(),
                    guest.address()
                ))?;
            }
        }
    }
    Ok(())
}

async fn exec(guest: &Guest, words: &[String], limit: u64) -> anyhow::Result<ExitCode> {
    let command = match words {
        [script] => Command::new(["sh", "-c", script]),
        argv => Command::new(argv),
    };
    let output = guest
        .command(&command.within(Duration::from_secs(limit)))
        .await?;
    std::io::stdout().write_all(output.stdout.as_bytes())?;
    std::io::stderr().write_all(output.stderr.as_bytes())?;
    Ok(code(output.code))
}

async fn logs(guest: &Guest, file: Option<&str>) -> anyhow::Result<()> {
    match file {
        None => say(&guest.console()),
        Some(file) => {
            let bytes = guest
                .read_file(PathBuf::from("/var/log").join(file))
                .await?;
            Ok(std::io::stdout().write_all(&bytes)?)
        }
    }
}

fn code(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

fn say(line: &str) -> anyhow::Result<()> {
    Ok(writeln!(std::io::stdout(), "{line}")?)
}
