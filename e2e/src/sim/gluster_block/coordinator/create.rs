//! `create`: metadata, data file, every host at once, and the roll-back that may lie about its success.

use std::os::unix::fs::MetadataExt;

use super::super::answer::{Answer as Keys, Failure, portals};
use super::super::capabilities;
use super::super::json::{Form, Json};
use super::super::metadata::{State, iqn};
use super::super::protocol::{Create, HostCall, HostCreate, Reply};
use super::super::rpc::CallError;
use super::{CliProgram, Stop, Work};

/// "volume free bytes must be >= size + 10 MiB" (reference §1.2).
const RESERVE: u64 = 10 << 20;

impl CliProgram {
    /// Makes a block.
    ///
    /// The order is that of reference §3.2: "Check peers' versions -> open volume -> take lock -> refuse if metadata
    /// exists -> choose preferred path -> write metadata -> create file -> call every host in parallel".
    pub(super) fn create(&mut self, request: &Create, form: Form) -> Result<Reply, Stop> {
        let hosts: Vec<String> = request.hosts.split(',').map(str::to_owned).collect();
        if usize::try_from(request.ha).is_ok_and(|ha| ha > hosts.len()) {
            let message = format!(
                "multipath req: {} > block-hosts: {}\n",
                request.ha, request.hosts
            );
            return Err(Failure::new(255, message).into());
        }
        let needed = capabilities::of_create(request, form.is_json());
        let able = self.peers.check(&hosts, &needed)?;
        let is_balanced = able.iter().all(|host| host.has("create_load_balance"));
        self.begin("create", &request.volume, &request.block, form)?
            .create(request, &hosts, is_balanced)
    }
}

impl Work<'_> {
    fn create(&self, request: &Create, hosts: &[String], is_balanced: bool) -> Result<Reply, Stop> {
        if self.existing_or_none()? {
            // "EEXIST (17) says only that a metadata file of that name exists, possibly a half-made block"
            // (reference §0.5)
            let message = format!("BLOCK with name: '{}' already EXIST\n", self.block);
            return Err(Failure::new(17, message).into());
        }
        let size = self.size_of(request)?;
        let gbid = self.faults.gbid(self.block).to_string();
        let prio_path = if is_balanced {
            self.io(self.volume.choose_prio_path(hosts))?
        } else {
            String::new()
        };
        self.journal(&format!(
            "VOLUME: {}\nGBID: {gbid}\nHA: {}\nENTRYCREATE: INPROGRESS\nPRIOPATH: {prio_path}\n",
            request.volume, request.ha
        ))?;
        self.pass("metadata")?;
        self.make_file(request, &gbid, size)?;
        let password = if request.auth {
            uuid::Uuid::new_v4().to_string()
        } else {
            String::new()
        };
        self.journal(&format!(
            "SIZE: {size}\nRINGBUFFER: {}\nBLKSIZE: {}\nIOTIMEOUT: {}\nENTRYCREATE: SUCCESS\n\
             PASSWORD: {password}\n",
            request.ring_buffer, request.block_size, request.io_timeout
        ))?;
        self.pass("file")?;
        let wanted = HostCreate {
            address: String::new(),
            volume: request.volume.clone(),
            gbid,
            password,
            size,
            block: self.block.to_owned(),
            prio_path,
            hosts: request.hosts.clone(),
            auth: request.auth,
            ring_buffer: request.ring_buffer,
            server: self.server.clone(),
            block_size: u64::from(request.block_size),
            io_timeout: u64::from(request.io_timeout),
        };
        let answers = self.each(hosts, |host| self.configure(host, &wanted))?;
        let failures: Vec<String> = answers.into_iter().filter_map(Result::err).collect();
        if failures.is_empty() {
            return Ok(success(&wanted, hosts, &[], &[], self.form));
        }
        self.roll_back(&wanted, hosts, &failures)
    }

    fn existing_or_none(&self) -> Result<bool, Failure> {
        match self.existing() {
            Ok(_) => Ok(true),
            Err(failure) if failure.code == 2 => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// The size asked for, or that of the file to adopt (reference §3.6: "Adoption demands link count 1").
    fn size_of(&self, request: &Create) -> Result<u64, Failure> {
        if request.storage.is_empty() {
            let free = self.io(self.volume.free())?;
            if free < request.size.saturating_add(RESERVE) {
                let message = format!("Low space on the volume {}\n", request.volume);
                return Err(Failure::new(28, message));
            }
            return Ok(request.size);
        }
        let path = format!("/block-store/{}", request.storage);
        match std::fs::metadata(self.volume.store(&request.storage)) {
            Ok(found) if found.nlink() == 1 => Ok(found.len()),
            Ok(_) => Err(Failure::new(
                16,
                format!("storage file '{path}' is already in use\n"),
            )),
            Err(_) => Err(Failure::new(
                2,
                format!(
                    "storage file '{path}' doesn't exist in volume {}\n",
                    request.volume
                ),
            )),
        }
    }

    fn make_file(&self, request: &Create, gbid: &str, size: u64) -> Result<(), Stop> {
        self.pass("size")?;
        let made = if request.storage.is_empty() {
            let size = self.faults.size(self.verb, self.block, size);
            self.volume.create_store(gbid, size, request.prealloc)
        } else {
            std::fs::hard_link(self.volume.store(&request.storage), self.volume.store(gbid))
        };
        made.map_err(|error| {
            let failure = self.volume.failure(&error);
            let _left_behind = self.volume.remove_store(gbid);
            let _left_behind = self.volume.remove_metadata(self.block);
            failure.into()
        })
    }

    /// Configures one host and notes how it went; the error is the line that the answer shows.
    pub(super) fn configure(&self, host: &str, wanted: &HostCreate) -> Result<(), String> {
        self.note(host, State::ConfigInProgress);
        let call = HostCall::Create(HostCreate {
            address: host.to_owned(),
            ..wanted.clone()
        });
        match self.peers.call(host, &call) {
            Ok(reply) if reply.exit == 0 => {
                self.note(host, State::ConfigSuccess);
                if wanted.auth {
                    self.note(host, State::AuthEnforced);
                }
                Ok(())
            }
            Ok(reply) => {
                self.note(host, State::ConfigFail);
                Err(format!("failed to configure on {host} {}", reply.out))
            }
            Err(error) => {
                self.note(host, State::ConfigFail);
                Err(format!(
                    "failed to configure on {host} : {}",
                    unreliable(&error)
                ))
            }
        }
    }

    /// Undoes a create that failed on some hosts.
    ///
    /// "`create` can say `RESULT: SUCCESS`, exit 0, after a failed create whose rollback also failed. Tell-tale: keys
    /// `ROLLBACK FAILED ON` / `ROLLBACK SUCCESS ON` present" (reference §0.2). "it also leaves the load-balance counter
    /// incremented" (reference §3.2).
    fn roll_back(
        &self,
        wanted: &HostCreate,
        hosts: &[String],
        failures: &[String],
    ) -> Result<Reply, Stop> {
        let cleaned = self.clean_up(&wanted.gbid, hosts)?;
        if cleaned.failed.is_empty() {
            self.io(self.volume.remove_store(&wanted.gbid))?;
            self.io(self.volume.remove_metadata(self.block))?;
            return Err(Failure::new(255, failures.join("\n")).into());
        }
        Ok(success(
            wanted,
            hosts,
            &cleaned.failed,
            &cleaned.succeeded,
            self.form,
        ))
    }
}

/// "where the errno text is unreliable (`Bad file descriptor` in heketi #1584)" (reference §2.3).
fn unreliable(error: &CallError) -> &'static str {
    if matches!(error, CallError::TimedOut) {
        "Connection timed out"
    } else {
        "Bad file descriptor"
    }
}

fn success(
    wanted: &HostCreate,
    hosts: &[String],
    failed: &[String],
    succeeded: &[String],
    form: Form,
) -> Reply {
    let mut answer = Keys::default();
    answer.text("IQN", iqn(&wanted.gbid));
    if wanted.auth {
        answer
            .text("USERNAME", &wanted.gbid)
            .text("PASSWORD", &wanted.password);
    }
    answer.json("PORTAL(S)", Json::texts(portals(hosts)));
    answer
        .some_list("ROLLBACK FAILED ON", failed)
        .some_list("ROLLBACK SUCCESS ON", succeeded);
    answer.text("RESULT", "SUCCESS");
    answer.reply(0, form)
}
