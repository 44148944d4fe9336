//! The coordinator's side: the program behind the local socket, which does the file and metadata work and tells the
//! hosts what to do.

use std::path::PathBuf;

use super::answer::{Answer as Keys, Failure};
use super::faults::{Faults, Struck};
use super::json::{Form, Json};
use super::metadata::{Metadata, State};
use super::protocol::{CliCall, CliRequest, Reply};
use super::rpc::{Answer, CLI_PROGRAM};
use super::serve::Program;
use super::size;
use super::sysconfig::Sysconfig;
use super::volume::{MetaLock, Volume};
use super::volumes::Volumes;

mod auth;
mod cleanup;
mod create;
mod genconfig;
mod peers;
mod replace;
mod resize;

pub(crate) use peers::Peers;

/// One daemon's local socket.
#[derive(Debug)]
pub(crate) struct CliProgram {
    pub(crate) faults: Faults,
    pub(crate) volumes: Volumes,
    pub(crate) sysconfig: PathBuf,
    pub(crate) peers: Peers,
}

/// Why a request ends early.
#[derive(Debug)]
enum Stop {
    /// With an answer that says so.
    Failure(Failure),
    /// Without any answer, leaving everything as it is (a fault).
    Abandon,
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<Struck> for Stop {
    fn from(struck: Struck) -> Self {
        match struck {
            Struck::Fail => Self::Failure(Failure::new(255, "failed by a fault")),
            Struck::Abandon => Self::Abandon,
        }
    }
}

impl Program for CliProgram {
    const NUMBER: u32 = CLI_PROGRAM;

    fn run(&mut self, procedure: u32, arguments: &[u8]) -> Option<Answer> {
        let call = match CliCall::decode(procedure, arguments) {
            None => return Some(Answer::ProcedureUnavailable),
            Some(Err(_)) => return Some(Answer::GarbageArguments),
            Some(Ok(call)) => call,
        };
        let (verb, block) = (call.request.verb(), call.request.block().to_owned());
        let done = self.faults.pass(verb, "start", &block).map_err(Stop::from);
        let done = done.and_then(|()| self.act(&call));
        let reply = match done {
            Ok(reply) => reply,
            Err(Stop::Failure(failure)) if verb == "info" => failure.reply_bare(call.form),
            Err(Stop::Failure(failure)) => failure.reply(call.form),
            Err(Stop::Abandon) => return None,
        };
        tracing::info!(verb, block, exit = reply.exit, "done");
        self.faults.pass(verb, "end", &block).ok()?;
        Some(Answer::Success(reply.encode()))
    }
}

impl CliRequest {
    fn verb(&self) -> &'static str {
        match self {
            Self::Create(_) => "create",
            Self::List { .. } => "list",
            Self::Info { .. } => "info",
            Self::Delete { .. } => "delete",
            Self::Auth { .. } => "auth",
            Self::Replace { .. } => "replace",
            Self::Resize { .. } => "resize",
            Self::Genconfig { .. } => "genconfig",
            Self::Reload { .. } => "reload",
        }
    }

    fn block(&self) -> &str {
        match self {
            Self::Create(create) => &create.block,
            Self::Info { block, .. }
            | Self::Delete { block, .. }
            | Self::Auth { block, .. }
            | Self::Replace { block, .. }
            | Self::Resize { block, .. }
            | Self::Reload { block, .. } => block,
            Self::List { .. } | Self::Genconfig { .. } => "",
        }
    }
}

impl CliProgram {
    fn act(&mut self, call: &CliCall) -> Result<Reply, Stop> {
        let form = call.form;
        match &call.request {
            CliRequest::Create(request) => self.create(request, form),
            CliRequest::List { volume } => self.list(volume, form),
            CliRequest::Info { volume, block } => {
                let work = self.begin("info", volume, block, form)?;
                Ok(info(block, &work.existing()?, form))
            }
            CliRequest::Delete {
                volume,
                block,
                unlink,
                force,
            } => self
                .begin("delete", volume, block, form)?
                .delete(*unlink, *force),
            CliRequest::Auth {
                volume,
                block,
                enable,
            } => self.begin("auth", volume, block, form)?.auth(*enable),
            CliRequest::Resize {
                volume,
                block,
                size,
                force,
            } => self
                .begin("resize", volume, block, form)?
                .resize(*size, *force),
            CliRequest::Replace {
                volume,
                block,
                old,
                new,
                force,
            } => self
                .begin("replace", volume, block, form)?
                .replace(old, new, *force),
            CliRequest::Reload {
                volume,
                block,
                force,
            } => self.begin("reload", volume, block, form)?.reload(*force),
            CliRequest::Genconfig { volumes, address } => Ok(self.genconfig(volumes, address)),
        }
    }

    fn open(&mut self, volume: &str) -> Result<Volume, Failure> {
        let lru_count = Sysconfig::read(&self.sysconfig).map_or(5, |read| read.lru_count);
        self.volumes.open(volume, lru_count)
    }

    /// Opens the volume and takes its lock, for as long as the returned value lives.
    fn begin<'a>(
        &'a mut self,
        verb: &'static str,
        volume: &str,
        block: &'a str,
        form: Form,
    ) -> Result<Work<'a>, Stop> {
        let volume = self.open(volume)?;
        let lock = volume.lock().map_err(|error| volume.failure(&error))?;
        self.faults.pass(verb, "locked", block)?;
        let (faults, peers, server) = (&self.faults, &self.peers, self.server());
        Ok(Work {
            faults,
            peers,
            server,
            volume,
            _lock: lock,
            verb,
            block,
            form,
        })
    }

    /// "SERVER is `GB_BHV_VOLSERVER` of the *coordinating* daemon" (reference §3.2).
    fn server(&self) -> String {
        Sysconfig::read(&self.sysconfig)
            .map_or_else(|_| "localhost".to_owned(), |read| read.volume_server)
    }

    fn list(&mut self, volume: &str, form: Form) -> Result<Reply, Stop> {
        let work = self.begin("list", volume, "", form)?;
        let blocks = work.io(work.volume.blocks())?;
        if !form.is_json() {
            let lines = blocks
                .iter()
                .fold(String::new(), |text, name| text + name + "\n");
            let text = if lines.is_empty() {
                "*Nil*\n".to_owned()
            } else {
                lines
            };
            return Ok(Reply::new(0, text));
        }
        let mut answer = Keys::default();
        answer
            .json("blocks", Json::texts(blocks))
            .text("RESULT", "SUCCESS");
        Ok(answer.reply(0, form))
    }
}

/// One command on one block, with the volume's lock held.
#[derive(Debug)]
struct Work<'a> {
    faults: &'a Faults,
    peers: &'a Peers,
    server: String,
    volume: Volume,
    _lock: MetaLock,
    verb: &'static str,
    block: &'a str,
    form: Form,
}

impl Work<'_> {
    fn pass(&self, point: &str) -> Result<(), Struck> {
        self.faults.pass(self.verb, point, self.block)
    }

    fn io<T>(&self, result: std::io::Result<T>) -> Result<T, Failure> {
        result.map_err(|error| self.volume.failure(&error))
    }

    /// The metadata of a block that must exist.
    fn existing(&self) -> Result<Metadata, Failure> {
        // An empty name would be the directory itself (reference §1.2: fails in the daemon, 255).
        if self.block.is_empty() || self.block.contains(['/', '.']) {
            return Err(Failure::new(255, "block name is empty or not a name"));
        }
        self.io(self.volume.metadata(self.block))?.ok_or_else(|| {
            Failure::new(
                2,
                format!("block {}/{} doesn't exist", self.volume.name(), self.block),
            )
        })
    }

    fn journal(&self, lines: &str) -> Result<(), Failure> {
        self.io(self.volume.append(self.block, lines))
    }

    fn note(&self, host: &str, state: State) {
        if let Err(failure) = self.journal(&format!("{host}: {state}\n")) {
            tracing::warn!(host, message = failure.message, "cannot write the journal");
        }
    }
}

/// The answer of `info` (reference §2.5): no `RESULT`, size rounded, hosts by their last journal state.
fn info(block: &str, read: &Metadata, form: Form) -> Reply {
    let mut answer = Keys::default();
    answer
        .text("NAME", block)
        .text("VOLUME", &read.volume)
        .text("GBID", &read.gbid);
    answer
        .text("SIZE", size::print(read.size))
        .json("HA", Json::Number(i64::from(read.ha)));
    answer.text("IOTIMEOUT", format!("{} Seconds", read.io_timeout));
    answer.text("PASSWORD", &read.password);
    answer.json(
        "EXPORTED ON",
        Json::texts(read.hosts_where(State::is_valid)),
    );
    let lagging = read.hosts.iter().filter(|host| host.state.is_lagging());
    let lagging: Vec<(String, Json)> = lagging
        .map(|host| {
            (
                host.address.clone(),
                Json::text(size::print(read.exported_size(host))),
            )
        })
        .collect();
    if !lagging.is_empty() {
        answer.json("RESIZE FAILED ON", Json::Map(lagging));
    }
    answer.some_list(
        "ENCOUNTERED FAILURES ON",
        &read.hosts_where(State::is_failure),
    );
    answer.reply(0, form)
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOURNAL: &str = "VOLUME: hostvol\nGBID: 7f9aa1b2-aba7-4c77-9a5b-02a3ed562b15\nHA: 3\n\
        SIZE: 1048576\nIOTIMEOUT: 44\nENTRYCREATE: SUCCESS\n10.0.0.1: CONFIGSUCCESS\n\
        10.0.0.2: CONFIGSUCCESS\n10.0.0.3: CONFIGFAIL\nSIZE: 2097152\n10.0.0.1: RSSUCCESS-2097152\n\
        10.0.0.2: RSFAIL-2097152\n";

    #[test]
    fn info_shows_the_new_size_and_who_still_has_the_old_one() {
        // reference §2.5, §3.7
        let reply = info("b1", &Metadata::parse(JOURNAL), Form::Spaced);
        assert_eq!(reply.exit, 0);
        assert_eq!(
            reply.out,
            "{ \"NAME\": \"b1\", \"VOLUME\": \"hostvol\", \"GBID\": \
             \"7f9aa1b2-aba7-4c77-9a5b-02a3ed562b15\", \"SIZE\": \"2.0 MiB\", \"HA\": 3, \"IOTIMEOUT\": \
             \"44 Seconds\", \"PASSWORD\": \"\", \"EXPORTED ON\": [ \"10.0.0.1\", \"10.0.0.2\" ], \
             \"RESIZE FAILED ON\": { \"10.0.0.2\": \"1.0 MiB\" }, \"ENCOUNTERED FAILURES ON\": [ \
             \"10.0.0.3\" ] }\n"
        );
    }

    #[test]
    fn info_of_a_block_half_made_exports_nowhere() {
        let reply = info(
            "b1",
            &Metadata::parse("VOLUME: hostvol\nGBID: x\nHA: 3\n"),
            Form::Plain,
        );
        assert!(reply.out.contains("\"EXPORTED ON\":[]"), "{}", reply.out);
    }
}
