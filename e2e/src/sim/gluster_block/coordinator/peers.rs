//! Asking the daemons of the hosts: one call, the same call everywhere, and the version check before it.

use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::Duration;

use super::super::answer::Failure;
use super::super::capabilities::Capabilities;
use super::super::protocol::{HostCall, Reply};
use super::super::rpc::{self, CallError};
use super::{Stop, Work};

/// How the other daemons are reached.
#[derive(Debug, Clone)]
pub(crate) struct Peers {
    /// Their port.
    pub(crate) port: u16,
    /// "Remote call timeout is fixed at 300 s" (reference §3.5); tests shorten it.
    pub(crate) timeout: Duration,
}

impl Peers {
    /// Calls the daemon of `host`.
    pub(super) fn call(&self, host: &str, call: &HostCall) -> Result<Reply, CallError> {
        let address: IpAddr = host
            .parse()
            .map_err(|_| CallError::Connect(std::io::ErrorKind::InvalidInput.into()))?;
        let arguments = call.encode().map_err(CallError::Malformed)?;
        let peer = SocketAddr::new(address, self.port);
        let bytes = rpc::call_tcp(peer, call.procedure(), &arguments, self.timeout)?;
        Reply::decode(&bytes).map_err(CallError::Malformed)
    }

    /// Asks every host what it can do (reference §3.9).
    ///
    /// | host | answer |
    /// |---|---|
    /// | no daemon | 255, `Version check failed [host H returned -107] (Hint: …)` (reference §2.3) |
    /// | no answer | the RPC status as code: `… (host H returned 4)` (reference §2.3) |
    /// | lacks something needed | 255, `… the capability 'X' is not supported on host H yet …` |
    pub(super) fn check(
        &self,
        hosts: &[String],
        needed: &[&str],
    ) -> Result<Vec<Capabilities>, Failure> {
        let asked = each_at_once(hosts, |host| self.call(host, &HostCall::Version));
        let mut all = Vec::new();
        for (host, reply) in hosts.iter().zip(asked) {
            match reply {
                Ok(reply) => all.push(Capabilities::decode(&reply.xdata)),
                Err(CallError::Connect(_)) => return Err(unreachable(host)),
                Err(error) => {
                    let status = error.status();
                    return Err(Failure::new(
                        status,
                        format!(
                            "Version check failed between block servers. (host {host} returned {status})"
                        ),
                    ));
                }
            }
        }
        // "If any node lacks load-balance on create, *all* other missing capabilities are ignored too"
        if needed.contains(&"create") && all.iter().any(|host| !host.has("create_load_balance")) {
            return Ok(all);
        }
        for (host, has) in hosts.iter().zip(&all) {
            if let Some(name) = needed.iter().find(|name| !has.has(name)) {
                return Err(Failure::new(
                    255,
                    format!(
                        "Version check failed between block servers. (the capability '{name}' is not \
                         supported on host {host} yet, please upgrade.)"
                    ),
                ));
            }
        }
        Ok(all)
    }
}

fn unreachable(host: &str) -> Failure {
    Failure::new(
        255,
        format!(
            "Version check failed [host {host} returned -107] (Hint: See if all servers are up and \
             running gluster-blockd daemon)"
        ),
    )
}

impl Work<'_> {
    /// Does `act` for every host, at once; one by one when a fault counts the hosts.
    pub(super) fn each<T: Send>(
        &self,
        hosts: &[String],
        act: impl Fn(&str) -> T + Sync,
    ) -> Result<Vec<T>, Stop> {
        if !self.faults.is_stepwise(self.verb, self.block) {
            return Ok(each_at_once(hosts, act));
        }
        let mut results = Vec::new();
        for host in hosts {
            self.pass(&format!("hosts:{}", results.len()))?;
            results.push(act(host));
        }
        self.pass(&format!("hosts:{}", results.len()))?;
        Ok(results)
    }
}

fn each_at_once<T: Send>(hosts: &[String], act: impl Fn(&str) -> T + Sync) -> Vec<T> {
    let act = &act;
    thread::scope(|scope| {
        let asked: Vec<_> = hosts
            .iter()
            .map(|host| scope.spawn(move || act(host)))
            .collect();
        let joined = asked.into_iter().map(thread::ScopedJoinHandle::join);
        joined
            .map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}
