//! What the agent and its clients say to each other: the bodies of requests and answers, as `docs/agent-openapi.json` has them.
//!
//! Names, sizes, addresses and secrets are the types of the [vocabulary](crate::vocabulary), so a body that parses holds
//! nothing that gluster-blockd must not get. Requests with unknown members are refused; answers may have more members
//! than a client knows.

use serde::{Deserialize, Serialize};

use crate::vocabulary::{BlockName, Initiator};

mod block;
mod operation;
mod problem;

pub use block::{Block, NewBlock, NewSize, Preallocation};
pub use operation::{Operation, Progress, Verb};
#[cfg(test)]
pub(crate) use problem::tests::every_problem;
pub use problem::{Difference, Problem, What};

/// The media type of a problem.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// The blocks of a hosting volume, half-made ones too, in no order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockList {
    /// Their names.
    pub blocks: Vec<BlockName>,
}

/// Who uses a target on one host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionList {
    /// Initiators that are logged in to the target.
    pub initiators: Vec<Initiator>,
    /// Addresses that are connected to the portal of the host. The kernel does not say to which target; for the controller only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<std::net::Ipv4Addr>,
}

/// What works on a storage host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// gluster-blockd: both of its sockets listen.
    pub daemon: Component,
    /// tcmu-runner: it runs.
    pub tcmu_runner: Component,
    /// The kernel's iSCSI target: it is loaded.
    pub target: Component,
}

/// One part of a storage host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Component {
    /// Whether it works.
    pub well: bool,
    /// What is wrong and what to do; none if it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Component {
    /// One that works, or does not for this reason.
    #[must_use]
    pub fn new(problem: Option<String>) -> Self {
        Self {
            well: problem.is_none(),
            reason: problem,
        }
    }
}
