//! The lab: machines on which the real iSCSI, multipath and GlusterFS run, made of user-mode Linux guests.
//!
//! A [`Lab`] is a network namespace with bridges, storage guests s1, s2, … (glusterd, LIO, gluster-block daemon) and node
//! guests n1, n2, … (open-iscsi, multipath-tools), their disks and one folder. Several can exist side by side, with the
//! same addresses inside. Whoever brings one up owns it: it goes when the value is dropped, and when the owner's process
//! ends in any way, SIGKILL included, because a [`watchdog`] outside of it looks.
//!
//! A [`Guest`] runs commands, gives and takes files, and suffers faults. `docs/lab.md` says what strangers need to know.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub mod agent;
pub mod commands;
pub mod forward;
pub mod guest;
pub mod hold;
pub mod image;
pub mod kernel;
mod keys;
pub mod network;
pub mod options;
pub mod pool;
pub mod process;
pub mod state;
pub mod watchdog;
pub mod wire;

pub use commands::{Command, GuestProcess, Output};
pub use forward::Forward;
pub use guest::{Guest, GuestError, Role};
pub use hold::{Hold, Moment};
pub use options::{BlockdCommand, FAST_GLUSTER_OPTIONS, LabOptions, Ownership};

use guest::Inner;
use image::ImageError;
use network::Namespace;
use process::{ProcessError, Program};
use state::{Folder, Owner, Record};

/// Why there is no lab, or not the wanted one.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The name cannot be used.
    #[error("{id:?} is no name for a lab: 1 to 20 of a-z, 0-9 and \"-\"")]
    BadName {
        /// The name.
        id: String,
    },
    /// There is one of that name.
    #[error("there is a lab {id} already; `lab down --id {id}` removes it")]
    Exists {
        /// Its name.
        id: String,
    },
    /// There is none of that name, or it is not up yet.
    #[error(
        "there is no lab {id} that is up; `lab status` lists all, `lab up --id {id}` makes one"
    )]
    Missing {
        /// Its name.
        id: String,
    },
    /// The lab has no such guest.
    #[error("the lab has no guest {guest:?}; it has {guests}")]
    NoGuest {
        /// The name asked for.
        guest: String,
        /// Those it has.
        guests: String,
    },
    /// The options contradict themselves or the machine.
    #[error("{reason}")]
    Options {
        /// What is wrong.
        reason: String,
    },
    /// No root image.
    #[error("no root image")]
    Image(#[source] ImageError),
    /// A guest did not do its part.
    #[error("a guest failed")]
    Guest(#[source] GuestError),
    /// The storage guests did not become one pool.
    #[error("the storage guests did not find each other: {reason}")]
    Pool {
        /// What they said.
        reason: String,
    },
    /// A program of this machine failed.
    #[error("the lab's machine failed")]
    Program(#[source] ProcessError),
    /// A file of the lab could not be read or written.
    #[error("{path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl LabError {
    fn at(path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::File { path, source }
    }
}

/// A lab that is up.
#[derive(Debug)]
pub struct Lab {
    folder: Folder,
    namespace: Namespace,
    record: Record,
    guests: Vec<Guest>,
    owned: bool,
}

impl Lab {
    /// Brings up a lab: boots all guests, joins the storage guests to one trusted pool, starts their gluster-block daemons.
    ///
    /// # Guarantees
    ///
    /// After an error, and after the end of the owner, nothing is left of it.
    ///
    /// # Errors
    /// When there is one of that name, or a part does not come up.
    pub async fn up(options: LabOptions) -> Result<Self, LabError> {
        options.check()?;
        sweep().await;
        let id = options.id.clone();
        let folder = Folder::of(&id)?;
        if let Some(record) = folder.record()? {
            return Err(LabError::Exists { id: record.id });
        }
        let record = options.record().await?;
        if !folder.create(&record)? {
            return Err(LabError::Exists { id });
        }
        let lab = Self::assemble(folder, record, options.owner == Ownership::Caller);
        match lab.bring_up(&options).await {
            Ok(()) => Ok(lab),
            Err(error) => {
                let _ = remove(&id).await;
                Err(error)
            }
        }
    }

    /// A lab that is up already, made by another process; it stays when this value goes.
    ///
    /// # Errors
    /// When there is none.
    pub fn attach(id: &str) -> Result<Self, LabError> {
        let folder = Folder::of(id)?;
        match folder.record()? {
            Some(record) if folder.is_ready() => Ok(Self::assemble(folder, record, false)),
            _ => Err(LabError::Missing { id: id.to_owned() }),
        }
    }

    /// Ends everything of it and removes it.
    ///
    /// # Errors
    /// When something stays.
    pub async fn down(mut self) -> Result<(), LabError> {
        self.owned = false;
        remove(&self.record.id).await
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.record.id
    }

    /// What it was made from.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The guest with that host name.
    ///
    /// # Errors
    /// When it has none of that name.
    pub fn guest(&self, name: &str) -> Result<Guest, LabError> {
        self.guests
            .iter()
            .find(|guest| guest.name() == name)
            .cloned()
            .ok_or_else(|| {
                let names: Vec<_> = self.guests.iter().map(Guest::name).collect();
                LabError::NoGuest {
                    guest: name.to_owned(),
                    guests: names.join(", "),
                }
            })
    }

    /// All guests, storage first.
    #[must_use]
    pub fn guests(&self) -> &[Guest] {
        &self.guests
    }

    /// The storage guests.
    pub fn storage(&self) -> impl Iterator<Item = &Guest> {
        self.guests
            .iter()
            .filter(|guest| guest.role() == Role::Storage)
    }

    /// The node guests.
    pub fn nodes(&self) -> impl Iterator<Item = &Guest> {
        self.guests
            .iter()
            .filter(|guest| guest.role() == Role::Node)
    }

    /// Its folder; `run` in it is for sockets, state and logs of programs that run beside the lab.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where programs beside the lab keep sockets, state and logs; gone with the lab.
    #[must_use]
    pub fn run_dir(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// A folder that this machine and all guests share; guests see it as `/lab/share`.
    #[must_use]
    pub fn share(&self) -> PathBuf {
        self.folder.share()
    }

    /// The private key that opens every guest's root account.
    #[must_use]
    pub fn ssh_key(&self) -> PathBuf {
        self.folder.client_key()
    }

    /// The guests' host keys, by address and name.
    #[must_use]
    pub fn known_hosts(&self) -> PathBuf {
        self.folder.known_hosts()
    }

    /// Its network namespace.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// A program of this machine that is to run in the lab's network, at 10.77.1.1.
    #[must_use]
    pub fn program(&self, program: impl AsRef<std::ffi::OsStr>) -> Program {
        self.namespace.program(program)
    }

    /// A port of this machine's loopback address that leads to an address inside the lab.
    ///
    /// # Errors
    /// When there is no free port.
    pub async fn forward(&self, inside: SocketAddr) -> io::Result<Forward> {
        Forward::to_address(&self.namespace, inside).await
    }

    fn assemble(folder: Folder, record: Record, owned: bool) -> Self {
        let namespace = Namespace::of(&record.id);
        let guest = |role, number: u8| {
            let (letter, base) = match role {
                Role::Storage => ('s', 10),
                Role::Node => ('n', 20),
            };
            Guest {
                inner: Arc::new(Inner {
                    name: format!("{letter}{number}"),
                    role,
                    number: base + number,
                    folder: folder.clone(),
                    namespace: namespace.clone(),
                    record: record.clone(),
                }),
            }
        };
        let storage = (1..=record.storage).map(|number| guest(Role::Storage, number));
        let nodes = (1..=record.nodes).map(|number| guest(Role::Node, number));
        let guests = storage.chain(nodes).collect();
        Self {
            folder,
            namespace,
            record,
            guests,
            owned,
        }
    }

    async fn bring_up(&self, options: &LabOptions) -> Result<(), LabError> {
        watchdog::start(&self.folder, &self.record)?;
        self.write_conf(options)?;
        let names = self.guests.iter().map(Guest::name);
        let (network, keys) = tokio::join!(
            self.namespace.create(names, self.folder.path()),
            keys::generate(&self.folder, &self.guests),
        );
        network.map_err(LabError::Program)?;
        keys?;
        for guest in &self.guests {
            guest.make_disks().await.map_err(LabError::Guest)?;
            guest.boot().map_err(LabError::Guest)?;
        }
        let storage: Vec<_> = self.storage().cloned().collect();
        let nodes: Vec<_> = self.nodes().cloned().collect();
        let storage = tokio::spawn(async move {
            wait_all(&storage).await?;
            pool::join(&storage).await
        });
        let nodes = tokio::spawn(async move { wait_all(&nodes).await });
        for task in [storage, nodes] {
            task.await.map_err(|error| LabError::Pool {
                reason: error.to_string(),
            })??;
        }
        self.folder.set_ready()
    }

    /// Files that the guests' init reads.
    fn write_conf(&self, options: &LabOptions) -> Result<(), LabError> {
        let conf = self.folder.conf();
        let mut hosts = String::from("127.0.0.1 localhost\n");
        for guest in &self.guests {
            let _ = writeln!(hosts, "{} {}", guest.address(), guest.name());
        }
        let mut files = vec![
            ("hosts", hosts, 0o644),
            (
                "iscsid.conf",
                options::iscsid_conf(self.record.fast_timers),
                0o644,
            ),
        ];
        if let Some(blockd) = &options.blockd {
            files.push(("blockd", script(&blockd.daemon, false), 0o755));
            files.push(("gluster-block", script(&blockd.cli, true), 0o755));
        }
        for (name, text, mode) in files {
            let path = conf.join(name);
            fs::write(&path, text).map_err(LabError::at(&path))?;
            let permissions = fs::Permissions::from_mode(mode);
            fs::set_permissions(&path, permissions).map_err(LabError::at(&path))?;
        }
        Ok(())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if !self.owned {
            return;
        }
        let id = self.record.id.clone();
        // A thread of its own, because the caller's may be inside a runtime.
        let work = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.map(|runtime| runtime.block_on(remove(&id)))
        });
        let _ = work.join();
    }
}

/// Ends everything of a lab and removes it; well when there is none.
///
/// # Errors
/// When something stays.
pub async fn remove(id: &str) -> Result<(), LabError> {
    let folder = Folder::of(id)?;
    Namespace::of(id)
        .remove()
        .await
        .map_err(LabError::Program)?;
    // Nothing is ever mounted below it on this machine.
    Program::new("rm")
        .args(["-rf", "--one-file-system"])
        .args([folder.path()])
        .output()
        .await
        .map(drop)
        .map_err(LabError::Program)
}

/// Removes labs whose owner is gone; answers their names.
pub async fn sweep() -> Vec<String> {
    let mut removed = Vec::new();
    let labs = state::all().unwrap_or_default();
    let abandoned = labs
        .iter()
        .filter(|(_, folder)| folder.is_abandoned())
        .map(|(id, _)| id.clone());
    // A lab's folder is made before its namespace and removed after it.
    let homeless = network::labs_with_namespace()
        .into_iter()
        .filter(|id| Folder::of(id).is_ok_and(|folder| matches!(folder.record(), Ok(None))));
    for id in abandoned.chain(homeless) {
        if remove(&id).await.is_ok() {
            removed.push(id);
        }
    }
    removed
}

/// This process, as an owner.
fn this_process() -> Result<Owner, LabError> {
    Owner::of(std::process::id()).ok_or_else(|| LabError::Options {
        reason: "/proc is not mounted".to_owned(),
    })
}

async fn wait_all(guests: &[Guest]) -> Result<(), LabError> {
    for guest in guests {
        guest
            .wait_ready(Duration::from_mins(3))
            .await
            .map_err(LabError::Guest)?;
    }
    Ok(())
}

/// A shell script that becomes the program; words are quoted.
fn script(argv: &[String], with_arguments: bool) -> String {
    let words: Vec<_> = argv
        .iter()
        .map(|word| format!("'{}'", word.replace('\'', r"'\''")))
        .collect();
    let rest = if with_arguments { " \"$@\"" } else { "" };
    format!("#!/bin/sh\nexec {}{rest}\n", words.join(" "))
}
