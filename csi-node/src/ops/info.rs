//! Who this node is: its name in the cluster and the name under which it logs in (T24).

use blockd_client::vocabulary::{Invalid, NodeId};
use proto::error::{Classify, ErrorKind};

use super::Operations;
use crate::host::{Host, HostError};

impl<H: Host> Operations<H> {
    /// The node id of this host under `name`. Read anew each time: a cloned machine gets its own initiator name late.
    ///
    /// # Errors
    ///
    /// The initiator name cannot be read, or both together are no node id.
    pub async fn node_id(&self, name: &str) -> Result<NodeId, InfoError> {
        let initiator = self
            .host
            .initiator()
            .await
            .map_err(|source| InfoError::Initiator { source })?;
        NodeId::new(name, initiator).map_err(|source| InfoError::Name { source })
    }
}

/// No node id.
#[derive(Debug, thiserror::Error)]
pub enum InfoError {
    /// The initiator name cannot be read.
    #[error("cannot read this node's initiator name")]
    Initiator {
        /// Why.
        #[source]
        source: HostError,
    },
    /// The name does not do.
    #[error("the node's names do not make a node id; see --node-name")]
    Name {
        /// Why.
        #[source]
        source: Invalid,
    },
}

impl Classify for InfoError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Initiator { source } => source.kind(),
            Self::Name { .. } => ErrorKind::FailedPrecondition,
        }
    }
}
