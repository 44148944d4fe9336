//! ControllerPublishVolume and its opposite: who may use a volume, and what a node needs for it.

use std::collections::{BTreeMap, BTreeSet};

use blockd_client::BlockInfo;
use blockd_client::vocabulary::{Capacity, Initiator, NodeId, PublishContext, VolumeId};

use super::{OpError, Operations};
use crate::blocks::Blocks;
use crate::hosting::HostingVolumes;
use crate::ledger::Size;

/// A volume to be published to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publish {
    /// The volume.
    pub id: VolumeId,
    /// The node.
    pub node: NodeId,
    /// For reading only.
    pub read_only: bool,
    /// Whether other nodes may have it too: readers only.
    pub shared: bool,
}

/// Decides whether a volume may be published to a node.
///
/// | published to | sessions of | shared | decision |
/// |---|---|---|---|
/// | this node, same access | | | yes |
/// | this node, other access | | | `Incompatible` |
/// | another node | | no | `InUse`, naming the node (T11) |
/// | | another initiator | no | `InUse`, naming the initiator: its node was lost or forgotten (T04) |
/// | else | | | yes |
fn decide(
    wanted: &Publish,
    published: &BTreeMap<NodeId, bool>,
    sessions: &BTreeSet<Initiator>,
) -> Result<(), OpError> {
    let id = wanted.id.clone();
    if published
        .get(&wanted.node)
        .is_some_and(|read_only| *read_only != wanted.read_only)
    {
        return Err(OpError::Incompatible {
            id,
            node: wanted.node.name().to_owned(),
        });
    }
    if wanted.shared {
        return Ok(());
    }
    if let Some(other) = published.keys().find(|node| **node != wanted.node) {
        let how = format!("published to node {}; detach it there first", other.name());
        return Err(OpError::InUse { id, how });
    }
    if let Some(other) = sessions
        .iter()
        .find(|initiator| *initiator != wanted.node.initiator())
    {
        let how = format!(
            "in use: initiator {other} is logged in; unstage it on that node, or fence the node"
        );
        return Err(OpError::InUse { id, how });
    }
    Ok(())
}

impl<H: HostingVolumes, B: Blocks> Operations<H, B> {
    /// Publishes the volume: what the node needs, with the CHAP password sealed (C7).
    ///
    /// # Errors
    /// `InUse` when a volume for one node is on another.
    pub async fn publish(&self, wanted: &Publish) -> Result<PublishContext, OpError> {
        let located = self.existing(&wanted.id).await?;
        let sessions = self.initiators(&located.info).await?;
        decide(wanted, &self.inner.ledger.published(&wanted.id), &sessions)?;
        let context = self.context(&located.info)?;
        self.inner
            .ledger
            .publish(&wanted.id, wanted.node.clone(), wanted.read_only);
        Ok(context)
    }

    /// Takes the volume from the node, or from all when none is named. What is not published is success.
    pub fn unpublish(&self, id: &VolumeId, node: Option<&NodeId>) {
        self.inner.ledger.unpublish(id, node);
    }

    /// Proves that the volume is there.
    ///
    /// # Errors
    /// `NotFound` when it is not.
    pub async fn validate(&self, id: &VolumeId) -> Result<(), OpError> {
        self.existing(id).await.map(drop)
    }

    fn context(&self, info: &BlockInfo) -> Result<PublishContext, OpError> {
        if info.exported_on.is_empty() {
            return Err(OpError::NotExported {
                id: info.id.clone(),
            });
        }
        let chap = match (info.credentials(), &self.inner.keys) {
            (None, _) => None,
            (Some(_), None) => {
                return Err(OpError::NoKey {
                    id: info.id.clone(),
                });
            }
            (Some(credentials), Some(keys)) => {
                Some(keys.seal(&info.id, &credentials).map_err(OpError::Seal)?)
            }
        };
        let capacity = match self.inner.ledger.size(&info.id) {
            Some(Size::Exact(size)) => size,
            _ => Capacity::smallest_printed_as(&info.printed_size).unwrap_or(Capacity::ZERO),
        };
        let mut portals = info.portals();
        portals.sort_unstable();
        Ok(PublishContext {
            iqn: info.gbid.iqn(),
            portals,
            wwid: info.gbid.wwid(),
            capacity,
            chap,
        })
    }

    /// Who is logged in to the block on any of its hosts. A host that is down has no sessions; one that is up must answer.
    pub(super) async fn initiators(
        &self,
        info: &BlockInfo,
    ) -> Result<BTreeSet<Initiator>, OpError> {
        let iqn = info.gbid.iqn();
        let mut found = BTreeSet::new();
        for host in self.alive(&info.exported_on).await.unwrap_or_default() {
            let sessions = self.inner.blocks.sessions(host, &iqn).await;
            found.extend(sessions.map_err(|error| OpError::block("see who uses", error))?);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> NodeId {
        NodeId::new(
            name,
            format!("iqn.1993-08.org.debian:01:{name}").parse().unwrap(),
        )
        .unwrap()
    }

    fn wanted(name: &str) -> Publish {
        Publish {
            id: "hv/pvc-1".parse().unwrap(),
            node: node(name),
            read_only: false,
            shared: false,
        }
    }

    // T11
    #[test]
    fn a_second_node_is_refused_and_the_first_is_named() {
        let published = BTreeMap::from([(node("n1"), false)]);
        let error = decide(&wanted("n2"), &published, &BTreeSet::new()).unwrap_err();
        assert!(error.to_string().contains("node n1"), "{error}");
    }

    // T04
    #[test]
    fn a_node_that_was_forgotten_is_seen_by_its_session() {
        let sessions = BTreeSet::from([node("n1").initiator().clone()]);
        let error = decide(&wanted("n2"), &BTreeMap::new(), &sessions).unwrap_err();
        assert!(error.to_string().contains("debian:01:n1"), "{error}");
        assert!(decide(&wanted("n1"), &BTreeMap::new(), &sessions).is_ok());
    }

    #[test]
    fn the_same_node_again_is_fine_and_with_other_access_is_not() {
        let published = BTreeMap::from([(node("n1"), true)]);
        assert!(matches!(
            decide(&wanted("n1"), &published, &BTreeSet::new()),
            Err(OpError::Incompatible { .. })
        ));
        let again = Publish {
            read_only: true,
            ..wanted("n1")
        };
        assert!(decide(&again, &published, &BTreeSet::new()).is_ok());
    }

    #[test]
    fn readers_may_share() {
        let published = BTreeMap::from([(node("n1"), true)]);
        let reader = Publish {
            read_only: true,
            shared: true,
            ..wanted("n2")
        };
        assert!(decide(&reader, &published, &BTreeSet::new()).is_ok());
    }
}
