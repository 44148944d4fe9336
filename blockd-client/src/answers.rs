//! What each answer of gluster-block means: one pure function per verb, on exit code, words and keys together.
//!
//! Exit code 0 proves nothing: a bad size prints the usage and exits 0, and a create whose rollback failed says
//! `SUCCESS` and exits 0. What is called a claim here is therefore only that, until `info` confirms it.

use crate::block::BlockInfo;
use crate::error::Error;
use crate::transport::{Reply, Request};
use crate::vocabulary::{BlockName, HostAddress, HostingVolume, Initiator, VolumeId};
use crate::wire::{self, Answer, Said, excerpt};

use self::message::{Meaning, meaning};

mod message;

/// Exit codes of a POSIX shell for a command that it finds but cannot run, or does not find.
const SHELL_CANNOT_RUN: [i32; 2] = [126, 127];

/// Whom, what and about what.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) host: HostAddress,
    pub(crate) verb: &'static str,
    pub(crate) volume: &'a HostingVolume,
    pub(crate) id: Option<&'a VolumeId>,
}

/// What `create` answers.
#[derive(Debug)]
pub(crate) enum Create {
    Claimed,
    Exists,
    Failed(Error),
}

/// What `modify size` answers.
#[derive(Debug)]
pub(crate) enum Resize {
    Claimed,
    SameSize,
    Failed(Error),
}

/// Reads the answer to `create`.
///
/// | exit | JSON                          | `RESULT`  | other keys             | answer                        |
/// |------|-------------------------------|-----------|------------------------|-------------------------------|
/// | any  | yes                           | any       | any `ROLLBACK …`       | failed: partial               |
/// | 0    | yes                           | `SUCCESS` | `IQN` of gluster-block | claimed                       |
/// | any  | yes                           | `FAIL`    | `errCode`, `errMsg`    | by the message; 17: exists    |
/// | any  | no                            |           |                        | by the text                   |
/// | else |                               |           |                        | failed: not understood        |
pub(crate) fn create(asked: Asked<'_>, id: &VolumeId, reply: &Reply) -> Create {
    let answer = Answer::read(reply);
    let Some(created) = answer.shaped::<wire::Created>() else {
        return create_failure(asked, &answer);
    };
    let rollback = [
        &created.rollback_failed_on,
        &created.rollback_success_on,
        &created.rollback_on,
    ];
    if rollback.into_iter().any(Option::is_some) {
        let failed = created
            .rollback_failed_on
            .or(created.rollback_on)
            .unwrap_or_default();
        let done = created.rollback_success_on.unwrap_or_default();
        let said = "create failed and left something behind".to_owned();
        let (failed, done) = (known_hosts(&failed), known_hosts(&done));
        return Create::Failed(Error::Partial {
            id: id.clone(),
            failed,
            done,
            said,
        });
    }
    let is_target = created
        .iqn
        .is_some_and(|iqn| iqn.parse::<crate::vocabulary::Iqn>().is_ok());
    match (answer.exit, answer.result()) {
        (0, Said::Success) if is_target => Create::Claimed,
        _ => create_failure(asked, &answer),
    }
}

fn create_failure(asked: Asked<'_>, answer: &Answer) -> Create {
    match failure(asked, answer) {
        Failed::Exists => Create::Exists,
        Failed::SameSize => Create::Failed(asked.odd("an answer to another question".to_owned())),
        Failed::Other(error) => Create::Failed(error),
    }
}

/// Reads the answer to `delete`, which is never asked for with force.
///
/// | exit | JSON | `RESULT`  | other keys                           | answer                    |
/// |------|------|-----------|--------------------------------------|---------------------------|
/// | 0    | yes  | `SUCCESS` | no `FAILED ON`                       | claimed                   |
/// | any  | yes  | `SUCCESS` | `FAILED ON`                          | partial                   |
/// | any  | yes  | `FAIL`    | no `errCode`, maybe `FAILED ON`      | partial                   |
/// | any  | yes  | `FAIL`    | `errCode`, `errMsg`                  | by the message            |
/// | any  | no   |           |                                      | by the text               |
/// | else |      |           |                                      | not understood            |
pub(crate) fn delete(asked: Asked<'_>, id: &VolumeId, reply: &Reply) -> Result<(), Error> {
    let answer = Answer::read(reply);
    let changed = answer.shaped::<wire::Changed>();
    let (code, words) = answer.failure();
    match (answer.exit, answer.result(), changed) {
        (_, Said::Success | Said::Fail, Some(changed)) if changed.failed.is_some() => {
            Err(partial(id, changed, &words))
        }
        (0, Said::Success, Some(_)) => Ok(()),
        (_, Said::Fail, Some(changed)) if code.is_none() => Err(partial(id, changed, &words)),
        _ => Err(failure(asked, &answer).into_error(asked)),
    }
}

/// Reads the answer to `modify size`, which is never asked for with force.
///
/// | exit | JSON | `RESULT`  | other keys or words                  | answer         |
/// |------|------|-----------|--------------------------------------|----------------|
/// | any  | yes  | any       | `FAILED ON`                          | partial        |
/// | 0    | yes  | `SUCCESS` | no `FAILED ON`                       | claimed        |
/// | any  |      | not `SUCCESS` | `request size … is same as current size` | same size |
/// | any  |      | not `SUCCESS` | else                             | by the message |
pub(crate) fn resize(asked: Asked<'_>, id: &VolumeId, reply: &Reply) -> Resize {
    let answer = Answer::read(reply);
    let (_, words) = answer.failure();
    match (
        answer.exit,
        answer.result(),
        answer.shaped::<wire::Changed>(),
    ) {
        (_, _, Some(changed)) if changed.failed.is_some() => {
            Resize::Failed(partial(id, changed, &words))
        }
        (0, Said::Success, Some(_)) => Resize::Claimed,
        _ => match failure(asked, &answer) {
            Failed::SameSize => Resize::SameSize,
            other @ (Failed::Exists | Failed::Other(_)) => Resize::Failed(other.into_error(asked)),
        },
    }
}

/// Reads the answer to `info`.
///
/// | exit | JSON | `RESULT` | keys                                     | answer         |
/// |------|------|----------|------------------------------------------|----------------|
/// | 0    | yes  | absent   | all of a block, `NAME` and `VOLUME` its  | the block      |
/// | any  | yes  | `FAIL`   | `errCode`, `errMsg`                      | by the message |
/// | any  | no   |          |                                          | by the text    |
/// | else |      |          |                                          | not understood |
pub(crate) fn info(asked: Asked<'_>, id: &VolumeId, reply: &Reply) -> Result<BlockInfo, Error> {
    let answer = Answer::read(reply);
    match (
        answer.exit,
        answer.result(),
        answer.shaped::<wire::Described>(),
    ) {
        (0, Said::Nothing, Some(described)) => {
            describe(id, described).map_err(|reason| asked.odd(reason))
        }
        _ => Err(failure(asked, &answer).into_error(asked)),
    }
}

/// Reads the answer to `list`.
///
/// | exit | JSON | `RESULT`  | keys                | answer         |
/// |------|------|-----------|---------------------|----------------|
/// | 0    | yes  | `SUCCESS` | `blocks`            | the names      |
/// | any  | yes  | `FAIL`    | `errCode`, `errMsg` | by the message |
/// | any  | no   |           |                     | by the text    |
/// | else |      |           |                     | not understood |
///
/// A name that is no [`BlockName`] is refused and not skipped: whoever counts space must not miss a block.
pub(crate) fn list(asked: Asked<'_>, reply: &Reply) -> Result<Vec<BlockName>, Error> {
    let answer = Answer::read(reply);
    match (
        answer.exit,
        answer.result(),
        answer.shaped::<wire::Listed>(),
    ) {
        (0, Said::Success, Some(listed)) => {
            let names = listed.blocks.iter().map(|name| name.parse());
            names
                .collect::<Result<_, crate::vocabulary::Invalid>>()
                .map_err(|invalid| {
                    asked.odd(format!(
                        "it lists a block that this driver did not make: {invalid}"
                    ))
                })
        }
        _ => Err(failure(asked, &answer).into_error(asked)),
    }
}

/// Reads the answer to [`Request::Sessions`]: names, one a line, and `end`.
///
/// The kernel ends each name with a line feed and a NUL byte. Without the last line something is missing, and an
/// initiator that is missing here would be taken for logged out.
pub(crate) fn sessions(host: HostAddress, reply: &Reply) -> Result<Vec<Initiator>, Error> {
    let names = lines_to_end(host, "sessions", reply)?;
    let parsed = names
        .iter()
        .map(|name| name.parse())
        .collect::<Result<Vec<Initiator>, _>>();
    let mut initiators = parsed.map_err(|invalid: crate::vocabulary::Invalid| Error::Protocol {
        host,
        verb: "sessions",
        reason: invalid.to_string(),
    })?;
    initiators.sort();
    initiators.dedup();
    Ok(initiators)
}

/// Reads the answer to [`Request::Ping`].
///
/// | `unix` | `tcp` | answer                                                              |
/// |--------|-------|---------------------------------------------------------------------|
/// | yes    | yes   | both processes of the daemon listen                                 |
/// | yes    | no    | unavailable: the child that serves the other hosts is gone          |
/// | no     | yes   | unavailable: the parent that serves the command line is gone        |
/// | no     | no    | unavailable: the daemon does not run                                |
pub(crate) fn ping(host: HostAddress, reply: &Reply) -> Result<(), Error> {
    let lines = lines_to_end(host, "ping", reply)?;
    let listens = |socket: &str| lines.iter().any(|line| line == socket);
    let reason = match (listens("unix"), listens("tcp")) {
        (true, true) => return Ok(()),
        (true, false) => {
            "gluster-blockd does not listen on TCP 24010; see that rpcbind runs, then restart gluster-blockd"
        }
        (false, true) => {
            "gluster-blockd listens on TCP 24010 and not on its Unix socket: half of it is gone; restart it"
        }
        (false, false) => "gluster-blockd does not run; start it",
    };
    Err(Error::Unavailable {
        host,
        reason: reason.to_owned(),
    })
}

fn lines_to_end(
    host: HostAddress,
    verb: &'static str,
    reply: &Reply,
) -> Result<Vec<String>, Error> {
    let mut lines: Vec<String> = reply
        .stdout
        .split(['\n', '\0'])
        .map(|line| line.trim().to_owned())
        .filter(|line| !line.is_empty())
        .collect();
    match (reply.exit, lines.pop()) {
        (0, Some(last)) if last == "end" => Ok(lines),
        (exit, _) => {
            let words = excerpt(&reply.stderr);
            let reason = format!("exit code {exit}, and the list has no end: {words}");
            Err(Error::Protocol { host, verb, reason })
        }
    }
}

/// What a failing answer comes to.
enum Failed {
    Exists,
    SameSize,
    Other(Error),
}

impl Failed {
    /// For verbs that do not expect the first two.
    fn into_error(self, asked: Asked<'_>) -> Error {
        match self {
            Self::Other(error) => error,
            Self::Exists | Self::SameSize => asked.odd("an answer to another question".to_owned()),
        }
    }
}

impl Asked<'_> {
    fn odd(self, reason: String) -> Error {
        Error::Protocol {
            host: self.host,
            verb: self.verb,
            reason,
        }
    }
}

/// Turns the meaning of a failing answer's message into an error. See [`meaning`] for the table.
fn failure(asked: Asked<'_>, answer: &Answer) -> Failed {
    let Asked {
        host, volume, id, ..
    } = asked;
    let (code, words) = answer.failure();
    if answer.result() == Said::Success || (answer.is_json() && answer.result() == Said::Nothing) {
        let reason = format!(
            "exit code {} with keys that do not belong together",
            answer.exit
        );
        return Failed::Other(asked.odd(reason));
    }
    let missing_confirmed = answer.exit == 2;
    let unavailable = |reason: String| Error::Unavailable { host, reason };
    if !answer.is_json() && SHELL_CANNOT_RUN.contains(&answer.exit) {
        let reason = format!("the command cannot be run there ({})", excerpt(&words));
        return Failed::Other(unavailable(reason));
    }
    let error = match (meaning(code, &words, volume.as_str(), id), id) {
        (Meaning::Exists, Some(_)) => return Failed::Exists,
        (Meaning::SameSize, Some(_)) => return Failed::SameSize,
        (Meaning::BlockMissing, Some(id)) if missing_confirmed => Error::BlockMissing { id: id.clone() },
        (Meaning::VolumeMissing, _) if missing_confirmed => {
            Error::VolumeMissing { hosting_volume: volume.clone() }
        }
        (Meaning::NoAnswer, _) => Error::Busy { host },
        (Meaning::DaemonDown, _) => unavailable("gluster-blockd does not run; start it".to_owned()),
        (Meaning::NameTaken(hosts), Some(id)) => Error::NameTaken { id: id.clone(), hosts },
        (Meaning::NoSpace, _) => Error::NoSpace { hosting_volume: volume.clone() },
        (Meaning::HostDown(host), _) => Error::HostDown { host },
        (Meaning::HostOld(host, capability), _) => Error::Unsupported { host, capability },
        (Meaning::HostsFailed(failed), Some(id)) => {
            Error::Partial { id: id.clone(), failed, done: Vec::new(), said: excerpt(&words) }
        }
        (Meaning::Unconfigured, _) => unavailable(
            "some hosts lack the configuration of the block; see `gluster-block info` and reload it there".to_owned(),
        ),
        (Meaning::Shrink(current), Some(id)) => Error::Shrink { id: id.clone(), current },
        (Meaning::VolumeTrouble, _) => unavailable(format!(
            "hosting volume {volume} cannot be used there; see that it is started and its bricks run ({})",
            excerpt(&words)
        )),
        (Meaning::Refused, _) => Error::InvalidRequest { reason: excerpt(&words) },
        _ => {
            let number = code.map_or_else(|| "none".to_owned(), |code| code.to_string());
            let exit = answer.exit;
            asked.odd(format!("exit code {exit}, errCode {number}: {}", excerpt(&words)))
        }
    };
    Failed::Other(error)
}

fn partial(id: &VolumeId, changed: wire::Changed, words: &str) -> Error {
    let mut done = changed.successful;
    done.extend(changed.skipped);
    Error::Partial {
        id: id.clone(),
        failed: known_hosts(&changed.failed.unwrap_or_default()),
        done: known_hosts(&done),
        said: excerpt(words),
    }
}

fn describe(id: &VolumeId, described: wire::Described) -> Result<BlockInfo, String> {
    let wire::Described {
        name,
        volume,
        gbid,
        size,
        ha,
        password,
        ..
    } = described;
    if name != id.block.as_str() || volume != id.hosting_volume.as_str() {
        return Err("it describes another block".to_owned());
    }
    let host = |text: &str| {
        text.parse::<HostAddress>()
            .map_err(|invalid| invalid.to_string())
    };
    let hosts = |texts: &[String]| {
        texts
            .iter()
            .map(|text| host(text))
            .collect::<Result<Vec<_>, _>>()
    };
    let lagging = described.resize_failed_on.into_iter();
    Ok(BlockInfo {
        id: id.clone(),
        gbid: gbid
            .parse()
            .map_err(|invalid: crate::vocabulary::Invalid| invalid.to_string())?,
        printed_size: match size {
            wire::Size::Printed(text) => text.trim().to_owned(),
            wire::Size::Bytes(bytes) => bytes.to_string(),
        },
        ha,
        exported_on: hosts(&described.exported_on)?,
        failing: hosts(&described.failures_on)?,
        lagging: lagging
            .map(|(at, size)| Ok((host(&at)?, size)))
            .collect::<Result<_, String>>()?,
        password: match password.as_str() {
            "" => None,
            text => Some(
                text.parse()
                    .map_err(|invalid: crate::vocabulary::Invalid| invalid.to_string())?,
            ),
        },
    })
}

/// The addresses among `texts`. They only go into an error, so an odd one may be left out.
fn known_hosts(texts: &[String]) -> Vec<HostAddress> {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

impl<'a> Asked<'a> {
    /// About a block.
    pub(crate) fn block(host: HostAddress, request: &Request, id: &'a VolumeId) -> Self {
        Self {
            host,
            verb: request.verb(),
            volume: &id.hosting_volume,
            id: Some(id),
        }
    }

    /// About a hosting volume.
    pub(crate) fn volume(host: HostAddress, request: &Request, volume: &'a HostingVolume) -> Self {
        Self {
            host,
            verb: request.verb(),
            volume,
            id: None,
        }
    }
}

#[cfg(test)]
mod tests;
