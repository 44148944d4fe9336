//! Storage hosts in memory: blocks with the state of each host, the replies of the real thing, and faults to inject.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a fault that a verb does not know acts as none"
)]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};

use crate::block::CreateBlock;
use crate::transport::{Reply, Request, Transport, TransportError};
use crate::vocabulary::{Capacity, HostAddress, VolumeId};

/// What goes wrong with one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// The host cannot be reached.
    Unreachable,
    /// The connection is lost; the daemon never saw the request.
    LostBefore,
    /// The connection is lost after the daemon did the work.
    LostAfter,
    /// The command gives up; the daemon does the work later, after the next request.
    Late,
    /// The last host fails, and is rolled back.
    HostFails,
    /// The last host fails, and so does the rollback: success is claimed.
    RollbackFails,
    /// The daemon dies halfway: only the first host is done, nobody answers.
    DiesHalfway,
    /// The daemon says that another host is down and does nothing.
    HostDown,
    /// Success is claimed and nothing done.
    Lies,
}

#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub(crate) size: Capacity,
    pub(crate) ha: usize,
    pub(crate) hosts: Vec<HostAddress>,
    pub(crate) lagging: BTreeMap<HostAddress, Capacity>,
    pub(crate) auth: bool,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) volumes: BTreeMap<String, BTreeMap<String, Block>>,
    pub(crate) faults: VecDeque<Fault>,
    pub(crate) late: Option<Request>,
    pub(crate) asked: Vec<&'static str>,
    /// The initiators that are logged in to every target.
    pub(crate) sessions: Vec<String>,
    /// The sockets that listen.
    pub(crate) sockets: Vec<&'static str>,
}

pub(crate) struct Hosts {
    pub(crate) state: Mutex<State>,
}

pub(crate) const PASSWORD: &str = "c0b3b4d6-2a5f-4b1e-9a53-8a6f3d1c7e90";
pub(crate) const GBID: &str = "7f9aa1b2-aba7-4c77-9a5b-02a3ed562b15";

impl Hosts {
    /// One hosting volume `hv`, and the faults of the next requests.
    pub(crate) fn with_faults(faults: &[Fault]) -> Self {
        let volumes = BTreeMap::from([("hv".to_owned(), BTreeMap::new())]);
        let faults = faults.iter().copied().collect();
        Self {
            state: Mutex::new(State {
                volumes,
                faults,
                ..State::default()
            }),
        }
    }

    pub(crate) fn block(&self, id: &VolumeId) -> Option<Block> {
        let state = self.state.lock().unwrap();
        state
            .volumes
            .get(id.hosting_volume.as_str())?
            .get(id.block.as_str())
            .cloned()
    }

    /// Lets the daemon finish what it was late with.
    pub(crate) fn settle(&self) {
        let mut state = self.state.lock().unwrap();
        if let Some(request) = state.late.take() {
            state.perform(&request, Fault::None);
        }
    }
}

impl Transport for Hosts {
    async fn call(
        &self,
        host: HostAddress,
        request: &Request,
        deadline: Duration,
    ) -> Result<Reply, TransportError> {
        let mut state = self.state.lock().unwrap();
        state.asked.push(request.verb());
        let fault = state.faults.pop_front().unwrap_or(Fault::None);
        let late = state.late.take();
        let lost = || TransportError::Lost {
            host,
            source: "reset".into(),
        };
        let answer = match fault {
            Fault::Unreachable => Err(TransportError::Connect {
                host,
                port: 22,
                source: "refused".into(),
            }),
            Fault::LostBefore => Err(lost()),
            Fault::LostAfter => {
                state.perform(request, Fault::None);
                Err(lost())
            }
            Fault::DiesHalfway => {
                state.perform(request, fault);
                Err(TransportError::Deadline {
                    host,
                    deadline,
                    started: true,
                })
            }
            Fault::Late => {
                state.late = Some(request.clone());
                let stderr = "Did not receive any response from gluster-block daemon. Please check log files to find the reason\n";
                Ok(Reply {
                    exit: 255,
                    stdout: String::new(),
                    stderr: stderr.to_owned(),
                })
            }
            Fault::None
            | Fault::HostFails
            | Fault::RollbackFails
            | Fault::HostDown
            | Fault::Lies => Ok(state.perform(request, fault)),
        };
        if let Some(late) = late {
            state.perform(&late, Fault::None);
        }
        answer
    }
}

impl State {
    fn perform(&mut self, request: &Request, fault: Fault) -> Reply {
        let (volume, name) = match request {
            Request::Create(CreateBlock { id, .. })
            | Request::Delete(id)
            | Request::Info(id)
            | Request::Resize(id, _) => (id.hosting_volume.as_str(), id.block.as_str()),
            Request::List(volume) => (volume.as_str(), ""),
            Request::Sessions(_) => {
                return ok_text(&format!("{}\nend\n", self.sessions.join("\n")));
            }
            Request::Ping => return ok_text(&format!("{}\nend\n", self.sockets.join("\n"))),
        };
        if fault == Fault::HostDown {
            return fail(
                255,
                "Version check failed [host 10.0.0.3 returned -107] (Hint: See if all servers are up and running gluster-blockd daemon)",
            );
        }
        let Some(blocks) = self.volumes.get_mut(volume) else {
            return fail(2, &format!("Volume {volume} does not exist"));
        };
        match request {
            Request::Create(wanted) => create(blocks, name, wanted, fault),
            Request::List(_) => {
                let names: Vec<_> = blocks.keys().collect();
                ok(&json!({ "blocks": names, "RESULT": "SUCCESS" }))
            }
            _ => match blocks.get_mut(name) {
                None => fail(2, &format!("block {volume}/{name} doesn't exist")),
                Some(block) => match request {
                    Request::Info(_) => ok(&describe(block, volume, name)),
                    Request::Resize(_, size) => resize(block, *size, fault),
                    _ => delete(blocks, name, fault),
                },
            },
        }
    }
}

fn create(
    blocks: &mut BTreeMap<String, Block>,
    name: &str,
    wanted: &CreateBlock,
    fault: Fault,
) -> Reply {
    if blocks.contains_key(name) {
        return fail(17, &format!("BLOCK with name: '{name}' already EXIST\n"));
    }
    let (last, others) = wanted.hosts.split_last().unwrap();
    let mut block = Block {
        size: wanted.size,
        ha: wanted.hosts.len(),
        hosts: wanted.hosts.clone(),
        lagging: BTreeMap::new(),
        auth: wanted.auth,
    };
    let iqn = format!("iqn.2016-12.org.gluster-block:{GBID}");
    match fault {
        Fault::HostFails => {
            return fail(
                255,
                &format!("failed to configure on {last} configure failed"),
            );
        }
        Fault::RollbackFails => {
            block.hosts = others.to_vec();
            blocks.insert(name.to_owned(), block);
            return ok(&json!({ "IQN": iqn, "ROLLBACK FAILED ON": [last], "RESULT": "SUCCESS" }));
        }
        Fault::DiesHalfway => block.hosts.truncate(1),
        Fault::Lies => return ok(&json!({ "IQN": iqn, "RESULT": "SUCCESS" })),
        _ => {}
    }
    blocks.insert(name.to_owned(), block);
    ok(&json!({ "IQN": iqn, "RESULT": "SUCCESS" }))
}

fn delete(blocks: &mut BTreeMap<String, Block>, name: &str, fault: Fault) -> Reply {
    let block = blocks.get_mut(name).unwrap();
    match fault {
        Fault::HostFails | Fault::RollbackFails | Fault::DiesHalfway => {
            block.hosts.truncate(1);
            let left = block.hosts.clone();
            Reply {
                exit: 255,
                stdout: String::new(),
                stderr: json!({ "FAILED ON": left, "RESULT": "FAIL" }).to_string(),
            }
        }
        Fault::Lies => ok(&json!({ "RESULT": "SUCCESS" })),
        _ => {
            blocks.remove(name);
            ok(&json!({ "RESULT": "SUCCESS" }))
        }
    }
}

fn resize(block: &mut Block, size: Capacity, fault: Fault) -> Reply {
    if size < block.size {
        let text = format!(
            "Shrink size ?\nuse 'force' option [current size {}, request size {}]",
            block.size.printed(),
            size.printed()
        );
        return fail(255, &text);
    }
    if size == block.size && block.lagging.is_empty() {
        let printed = size.printed();
        return fail(
            255,
            &format!("request size ({printed}) is same as current size ({printed}) ]"),
        );
    }
    let old = std::mem::replace(&mut block.size, size);
    match fault {
        Fault::HostFails | Fault::RollbackFails | Fault::DiesHalfway => {
            let last = *block.hosts.last().unwrap();
            block.lagging.insert(last, old);
            let text = format!("block volume resize failed: {last}:[{}]", old.printed());
            let body =
                json!({ "FAILED ON": [last], "RESULT": "FAIL", "errCode": 255, "errMsg": text });
            Reply {
                exit: 255,
                stdout: String::new(),
                stderr: body.to_string(),
            }
        }
        Fault::Lies => {
            block.size = old;
            ok(&json!({ "SIZE": size.printed(), "RESULT": "SUCCESS" }))
        }
        _ => {
            block.lagging.clear();
            ok(&json!({ "SIZE": size.printed(), "RESULT": "SUCCESS" }))
        }
    }
}

fn describe(block: &Block, volume: &str, name: &str) -> Value {
    let password = if block.auth { PASSWORD } else { "" };
    let mut body = json!({
        "NAME": name, "VOLUME": volume, "GBID": GBID, "SIZE": block.size.printed(), "HA": block.ha,
        "PASSWORD": password, "EXPORTED ON": block.hosts,
    });
    if !block.lagging.is_empty() {
        let lagging: BTreeMap<String, String> = block
            .lagging
            .iter()
            .map(|(host, size)| (host.to_string(), size.printed()))
            .collect();
        body["RESIZE FAILED ON"] = json!(lagging);
    }
    body
}

fn ok(body: &Value) -> Reply {
    ok_text(&format!("{body}\n"))
}

fn ok_text(text: &str) -> Reply {
    Reply {
        exit: 0,
        stdout: text.to_owned(),
        stderr: String::new(),
    }
}

fn fail(code: i32, message: &str) -> Reply {
    let body = json!({ "RESULT": "FAIL", "errCode": code, "errMsg": message });
    Reply {
        exit: code,
        stdout: String::new(),
        stderr: format!("{body}\n"),
    }
}
