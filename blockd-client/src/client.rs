//! The client: each operation asks gluster-block once and then proves by `info` what has become of it.
//!
//! What an answer and its proof come to is decided by the pure functions `settle_create`, `settle_delete` and
//! `settle_resize`; nothing else here decides anything.

use std::time::{Duration, Instant};

use backon::{ConstantBuilder, Retryable};

use crate::answers::{self, Asked, Create, Resize};
use crate::block::{BlockInfo, CreateBlock, Prealloc};
use crate::error::Error;
use crate::transport::{Reply, Request, Transport, TransportError};
use crate::vocabulary::{
    BlockName, Capacity, HostAddress, HostingVolume, Initiator, Iqn, VolumeId,
};

/// How long to wait for each question. `info` and `list` wait behind whatever holds the hosting volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// `create` that fills the file: 16 MiB at a time at worst.
    pub create_full: Duration,
    /// `create` that does not.
    pub create_thin: Duration,
    /// `delete`. gluster-blockd waits up to 300 s for each other host.
    pub delete: Duration,
    /// `modify size`, which fills what it adds if the block was filled.
    pub resize: Duration,
    /// `info`.
    pub info: Duration,
    /// `list`.
    pub list: Duration,
    /// Reading the sessions of a target.
    pub sessions: Duration,
    /// Looking for gluster-blockd's sockets.
    pub ping: Duration,
}

/// How often a change that reached only some hosts is repeated before it is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Persistence {
    /// Repetitions after the first attempt.
    pub repetitions: usize,
    /// Pause before each.
    pub pause: Duration,
}

/// A client of gluster-block on the storage hosts that `T` reaches.
///
/// It holds no state about blocks and no locks: one request in flight per hosting volume, and one per host, is the
/// caller's business (gluster-blockd serves one at a time anyway).
#[derive(Debug)]
pub struct Blockd<T> {
    transport: T,
    timeouts: Timeouts,
    persistence: Persistence,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            create_full: Duration::from_mins(15),
            create_thin: Duration::from_secs(330),
            delete: Duration::from_secs(330),
            resize: Duration::from_mins(15),
            info: Duration::from_mins(1),
            list: Duration::from_mins(1),
            sessions: Duration::from_secs(20),
            ping: Duration::from_secs(10),
        }
    }
}

impl Default for Persistence {
    fn default() -> Self {
        Self {
            repetitions: 2,
            pause: Duration::from_secs(2),
        }
    }
}

impl<T: Transport> Blockd<T> {
    /// A client over `transport`.
    #[must_use]
    pub fn new(transport: T, timeouts: Timeouts) -> Self {
        Self {
            transport,
            timeouts,
            persistence: Persistence::default(),
        }
    }

    /// The same client, repeating partial changes as `persistence` says.
    #[must_use]
    pub fn with_persistence(self, persistence: Persistence) -> Self {
        Self {
            persistence,
            ..self
        }
    }

    /// The transport underneath.
    pub fn transport(&self) -> &T {
        &self.transport
    }

    /// Makes a block, through the daemon on `host`.
    ///
    /// # Guarantees
    ///
    /// Returns a block only if gluster-block claimed to have made it and `info` shows it complete and as asked for. After
    /// every other outcome the error says what is there, as far as it can be known; nothing is removed.
    ///
    /// # Errors
    ///
    /// [`Error::NotMade`] if none is there; [`Error::Exists`], [`Error::Conflict`] or [`Error::Incomplete`] if one is;
    /// [`Error::Unproved`] if that cannot be told; [`Error::InvalidRequest`] if nothing was sent.
    pub async fn create(
        &self,
        host: HostAddress,
        wanted: &CreateBlock,
    ) -> Result<BlockInfo, Error> {
        wanted
            .check()
            .map_err(|reason| Error::InvalidRequest { reason })?;
        let deadline = match wanted.prealloc {
            Prealloc::Full => self.timeouts.create_full,
            Prealloc::No => self.timeouts.create_thin,
        };
        let request = Request::Create(wanted.clone());
        let asked = Asked::block(host, &request, &wanted.id);
        let answer = match self.ask(host, &request, deadline).await {
            Ok(reply) => answers::create(asked, &wanted.id, &reply),
            Err(cause) if cause.never_sent() => {
                let (id, cause) = (wanted.id.clone(), Box::new(cause));
                return Err(Error::Unproved {
                    id,
                    cause,
                    check: None,
                });
            }
            Err(cause) => Create::Failed(cause),
        };
        settle_create(wanted, answer, self.info(host, &wanted.id).await)
    }

    /// Deletes a block, through the daemon on `host`. Never by force.
    ///
    /// # Guarantees
    ///
    /// Succeeds only if `info` says that the hosting volume exists and this block does not. A block that was not
    /// there is thereby a success; a hosting volume that is not there is not.
    ///
    /// # Errors
    ///
    /// [`Error::VolumeMissing`]; [`Error::Partial`] and [`Error::HostDown`] if the block is still there;
    /// [`Error::Unproved`] if that cannot be told.
    pub async fn delete(&self, host: HostAddress, id: &VolumeId) -> Result<(), Error> {
        let request = Request::Delete(id.clone());
        let answer = match self.ask(host, &request, self.timeouts.delete).await {
            Ok(reply) => answers::delete(Asked::block(host, &request, id), id, &reply),
            Err(cause) if cause.never_sent() => return Err(cause),
            Err(cause) => Err(cause),
        };
        settle_delete(id, answer, self.info(host, id).await)
    }

    /// Looks a block up, through the daemon on `host`.
    ///
    /// # Errors
    ///
    /// [`Error::BlockMissing`] if the hosting volume exists and has no such block; [`Error::VolumeMissing`].
    pub async fn info(&self, host: HostAddress, id: &VolumeId) -> Result<BlockInfo, Error> {
        let request = Request::Info(id.clone());
        let reply = self.ask(host, &request, self.timeouts.info).await?;
        answers::info(Asked::block(host, &request, id), id, &reply)
    }

    /// Lists the blocks of a hosting volume, half-made ones too, in no order.
    ///
    /// # Errors
    ///
    /// [`Error::VolumeMissing`]; [`Error::Protocol`] if there is a block whose name this crate cannot hold.
    pub async fn list(
        &self,
        host: HostAddress,
        volume: &HostingVolume,
    ) -> Result<Vec<BlockName>, Error> {
        let request = Request::List(volume.clone());
        let reply = self.ask(host, &request, self.timeouts.list).await?;
        answers::list(Asked::volume(host, &request, volume), &reply)
    }

    /// Grows a block to `size`, through the daemon on `host`. Never shrinks.
    ///
    /// # Guarantees
    ///
    /// Succeeds only if `info` shows the new size and no host that lags behind. A block that has that size already is
    /// a success. Hosts that lag are tried again with the same size, as often as [`Persistence`] says.
    ///
    /// # Errors
    ///
    /// [`Error::Lagging`] or [`Error::Partial`] if some hosts did not follow; [`Error::Shrink`] if the block is larger
    /// already; [`Error::NoSpace`].
    pub async fn resize(
        &self,
        host: HostAddress,
        id: &VolumeId,
        size: Capacity,
    ) -> Result<BlockInfo, Error> {
        let Persistence { repetitions, pause } = self.persistence;
        (|| self.resize_once(host, id, size))
            .retry(
                ConstantBuilder::new()
                    .with_delay(pause)
                    .with_max_times(repetitions),
            )
            .when(|error| matches!(error, Error::Lagging { .. } | Error::Partial { .. }))
            .await
    }

    async fn resize_once(
        &self,
        host: HostAddress,
        id: &VolumeId,
        size: Capacity,
    ) -> Result<BlockInfo, Error> {
        let request = Request::Resize(id.clone(), size);
        let answer = match self.ask(host, &request, self.timeouts.resize).await {
            Ok(reply) => answers::resize(Asked::block(host, &request, id), id, &reply),
            Err(cause) if cause.never_sent() => return Err(cause),
            Err(cause) => Resize::Failed(cause),
        };
        settle_resize(size, answer, self.info(host, id).await)
    }

    /// Says who is logged in to the target `iqn` on `host`. Only that host's sessions: ask each one.
    ///
    /// # Errors
    ///
    /// [`Error::Protocol`] if the kernel's list could not be read to its end.
    pub async fn sessions(&self, host: HostAddress, iqn: &Iqn) -> Result<Vec<Initiator>, Error> {
        let reply = self
            .ask(host, &Request::Sessions(*iqn), self.timeouts.sessions)
            .await?;
        answers::sessions(host, &reply)
    }

    /// Says whether both processes of gluster-blockd on `host` are there to take requests.
    ///
    /// Proves that its Unix socket and its TCP socket listen, in the kernel's tables; nothing is sent to the daemon, so
    /// a busy daemon neither delays the answer nor fails it. A daemon that is stuck passes, too: that shows as
    /// [`Error::Busy`] at the next question.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`], saying which half is missing.
    pub async fn ping(&self, host: HostAddress) -> Result<(), Error> {
        let reply = self.ask(host, &Request::Ping, self.timeouts.ping).await?;
        answers::ping(host, &reply)
    }

    async fn ask(
        &self,
        host: HostAddress,
        request: &Request,
        deadline: Duration,
    ) -> Result<Reply, Error> {
        let start = Instant::now();
        let outcome = self.transport.call(host, request, deadline).await;
        let (verb, elapsed) = (request.verb(), start.elapsed());
        // Never the texts: those of create and info hold CHAP passwords.
        match &outcome {
            Ok(Reply { exit, .. }) => {
                tracing::debug!(%host, verb, exit, ?elapsed, "gluster-block answered");
            }
            Err(error) => {
                tracing::debug!(%host, verb, %error, ?elapsed, "gluster-block did not answer");
            }
        }
        outcome.map_err(unanswered)
    }
}

/// A daemon that is not there is the same by whichever way it was looked for.
fn unanswered(error: TransportError) -> Error {
    if let TransportError::DaemonDown { host, socket, .. } = &error {
        let reason = format!(
            "gluster-blockd does not listen on {}; start it",
            socket.display()
        );
        return Error::Unavailable {
            host: *host,
            reason,
        };
    }
    Error::Transport(error)
}

/// What `create` comes to.
///
/// | answer                 | `info`             | outcome                                         |
/// |------------------------|--------------------|-------------------------------------------------|
/// | claimed                | complete, matches  | the block                                       |
/// | exists, failed         | complete, matches  | `Exists`                                        |
/// | any                    | complete, differs  | `Conflict`                                      |
/// | any                    | not complete       | `Incomplete`                                    |
/// | claimed, exists        | block missing      | `NotMade`: the answer was wrong, or somebody deletes |
/// | failed for good        | block missing      | `NotMade`                                       |
/// | failed, may go on      | block missing      | `Unproved`: it may come yet                     |
/// | any                    | volume missing     | as block missing                                |
/// | any                    | failed             | `Unproved`                                      |
fn settle_create(
    wanted: &CreateBlock,
    answer: Create,
    seen: Result<BlockInfo, Error>,
) -> Result<BlockInfo, Error> {
    let id = wanted.id.clone();
    match (answer, seen) {
        (answer, Ok(found)) if !found.is_complete() => Err(Error::Incomplete {
            found: Box::new(found),
            cause: answer.cause(),
        }),
        (answer, Ok(found)) => match (found.matches(wanted), answer) {
            (Err(mismatch), _) => Err(Error::Conflict {
                found: Box::new(found),
                mismatch,
            }),
            (Ok(()), Create::Claimed) => Ok(found),
            (Ok(()), other) => Err(Error::Exists {
                found: Box::new(found),
                cause: other.cause(),
            }),
        },
        (Create::Failed(cause), Err(Error::BlockMissing { .. } | Error::VolumeMissing { .. }))
            if !cause.may_go_on() =>
        {
            Err(Error::NotMade {
                id,
                cause: Box::new(cause),
            })
        }
        (
            Create::Claimed | Create::Exists,
            Err(missing @ (Error::BlockMissing { .. } | Error::VolumeMissing { .. })),
        ) => Err(Error::NotMade {
            id,
            cause: Box::new(missing),
        }),
        (answer, Err(check)) => Err(unproved(&id, answer.cause(), check)),
    }
}

/// What `delete` comes to.
///
/// | answer           | `info`         | outcome         |
/// |------------------|----------------|-----------------|
/// | any              | block missing  | success         |
/// | any              | volume missing | `VolumeMissing` |
/// | claimed, missing | a block        | `Partial`       |
/// | failed           | a block        | that failure    |
/// | any              | failed         | `Unproved`      |
fn settle_delete(
    id: &VolumeId,
    answer: Result<(), Error>,
    seen: Result<BlockInfo, Error>,
) -> Result<(), Error> {
    match (answer, seen) {
        (_, Err(Error::BlockMissing { .. })) => Ok(()),
        (_, Err(missing @ Error::VolumeMissing { .. })) => Err(missing),
        (Ok(()) | Err(Error::BlockMissing { .. } | Error::VolumeMissing { .. }), Ok(found)) => {
            let said = "it said that the block is gone, and info still shows it".to_owned();
            Err(Error::Partial {
                id: id.clone(),
                failed: found.failing,
                done: Vec::new(),
                said,
            })
        }
        (Err(cause), Ok(_)) => Err(cause),
        (answer, Err(check)) => Err(unproved(id, answer.err().map(Box::new), check)),
    }
}

/// What one attempt at `resize` comes to.
///
/// | answer             | `info`                                  | outcome                |
/// |--------------------|-----------------------------------------|------------------------|
/// | any                | block missing, volume missing           | that                   |
/// | claimed, same size | complete, none lags, prints as wanted   | the block              |
/// | claimed, same size, partial | some host lags                 | `Lagging`: repeat      |
/// | claimed, same size | not complete                            | `Partial`              |
/// | claimed, same size | prints another size                     | `Partial`              |
/// | failed             | else                                    | that failure           |
/// | claimed, same size | failed                                  | that failure           |
fn settle_resize(
    wanted: Capacity,
    answer: Resize,
    seen: Result<BlockInfo, Error>,
) -> Result<BlockInfo, Error> {
    match (answer, seen) {
        (_, Err(missing @ (Error::BlockMissing { .. } | Error::VolumeMissing { .. }))) => {
            Err(missing)
        }
        (Resize::Claimed | Resize::SameSize | Resize::Failed(Error::Partial { .. }), Ok(found))
            if !found.lagging.is_empty() =>
        {
            Err(Error::Lagging {
                found: Box::new(found),
            })
        }
        (Resize::Failed(cause), _) | (Resize::Claimed | Resize::SameSize, Err(cause)) => Err(cause),
        (Resize::Claimed | Resize::SameSize, Ok(found)) => {
            if !found.is_complete() {
                let BlockInfo {
                    id,
                    failing,
                    exported_on,
                    ..
                } = found;
                let said = "info shows hosts that do not export the block".to_owned();
                return Err(Error::Partial {
                    id,
                    failed: failing,
                    done: exported_on,
                    said,
                });
            }
            if !wanted.may_print_as(&found.printed_size) {
                let BlockInfo {
                    id, printed_size, ..
                } = found;
                let said =
                    format!("it said that the size is {wanted}, and info shows {printed_size}");
                return Err(Error::Partial {
                    id,
                    failed: Vec::new(),
                    done: Vec::new(),
                    said,
                });
            }
            Ok(found)
        }
    }
}

fn unproved(id: &VolumeId, cause: Option<Box<Error>>, check: Error) -> Error {
    let id = id.clone();
    match cause {
        Some(cause) => Error::Unproved {
            id,
            cause,
            check: Some(Box::new(check)),
        },
        None => Error::Unproved {
            id,
            cause: Box::new(check),
            check: None,
        },
    }
}

impl Create {
    fn cause(self) -> Option<Box<Error>> {
        match self {
            Self::Failed(cause) => Some(Box::new(cause)),
            Self::Claimed | Self::Exists => None,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
