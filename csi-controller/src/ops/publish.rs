//! `ControllerPublishVolume` and its opposite: who may use a volume, and what that node must know.
//!
//! Publications are remembered in this process only; after a restart the sessions on the targets say who uses a volume (T11).
//! gluster-block cannot keep an initiator out, so this is the only gate there is before two nodes write to one
//! file system.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use blockd_client::BlockInfo;
use blockd_client::vocabulary::{
    Capacity, Initiator, NodeId, PublishContext, SealedChap, VolumeId,
};

use super::Operations;
use crate::blocks::Blocks;
use crate::error::OperationError;
use crate::hosting::HostingVolumes;

/// How a volume is to be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// By whom.
    pub mode: AccessMode,
    /// As a raw device instead of a file system.
    pub raw: bool,
}

/// Who uses a volume, of the modes that are safe on gluster-block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessMode {
    /// One node, writing.
    SingleNodeWriter,
    /// One node, reading.
    SingleNodeReader,
    /// One node, one writer there.
    SingleNodeSingleWriter,
    /// One node, several writers there.
    SingleNodeMultiWriter,
    /// Several nodes, all reading.
    MultiNodeReader,
}

/// A volume to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishVolume {
    /// The volume.
    pub id: VolumeId,
    /// The node.
    pub node: NodeId,
    /// How.
    pub access: Access,
}

/// Who has which volume, as far as this process gave it out.
#[derive(Debug, Default)]
pub(crate) struct Publications {
    // A std mutex: taken for single map operations, never across an await.
    map: Mutex<HashMap<VolumeId, BTreeMap<NodeId, Access>>>,
}

impl Publications {
    pub(super) fn of(&self, id: &VolumeId) -> BTreeMap<NodeId, Access> {
        self.map().get(id).cloned().unwrap_or_default()
    }

    /// Another node that has a volume and the same initiator name.
    fn namesake(&self, node: &NodeId) -> Option<NodeId> {
        let is_namesake =
            |other: &&NodeId| other.initiator() == node.initiator() && other.name() != node.name();
        let map = self.map();
        let mut holders = map.values().flat_map(BTreeMap::keys);
        holders.find(is_namesake).cloned()
    }

    pub(super) fn forget(&self, id: &VolumeId) {
        self.map().remove(id);
    }

    fn add(&self, request: &PublishVolume) {
        let mut map = self.map();
        let nodes = map.entry(request.id.clone()).or_default();
        nodes.insert(request.node.clone(), request.access);
    }

    fn remove(&self, id: &VolumeId, node: Option<&NodeId>) {
        let mut map = self.map();
        match (node, map.get_mut(id)) {
            (Some(node), Some(nodes)) if nodes.len() > 1 || !nodes.contains_key(node) => {
                nodes.remove(node);
            }
            _ => {
                map.remove(id);
            }
        }
    }

    fn map(&self) -> MutexGuard<'_, HashMap<VolumeId, BTreeMap<NodeId, Access>>> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a node may have a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Yes.
    Grant,
    /// It has it in another way already.
    Otherwise,
    /// No; somebody else has it.
    HeldBy(String),
}

/// Decides whether a node may have a volume.
///
/// | it has it already | other nodes have it | others are logged in | wanted for many readers | verdict |
/// |---|---|---|---|---|
/// | the same way | | | | `Grant` |
/// | another way | | | | `Otherwise` |
/// | no | all as many readers | | yes | `Grant` |
/// | no | any | | else | `HeldBy` that node |
/// | no | none | yes | no | `HeldBy` that initiator |
/// | no | none | yes | yes | `Grant`: readers of before a restart |
/// | no | none | no | | `Grant` |
#[must_use]
pub fn decide(
    wanted: &PublishVolume,
    published: &BTreeMap<NodeId, Access>,
    users: &[Initiator],
) -> Verdict {
    match published.get(&wanted.node) {
        Some(access) if *access == wanted.access => return Verdict::Grant,
        Some(_) => return Verdict::Otherwise,
        None => {}
    }
    let shared = |mode: AccessMode| mode == AccessMode::MultiNodeReader;
    let many = shared(wanted.access.mode);
    let in_the_way = published
        .iter()
        .find(|(_, access)| !(many && shared(access.mode)));
    if let Some((node, _)) = in_the_way {
        return Verdict::HeldBy(format!("node {}", node.name()));
    }
    let foreign = users.iter().find(|user| *user != wanted.node.initiator());
    match foreign {
        Some(user) if !many => Verdict::HeldBy(format!("initiator {}", user.as_str())),
        Some(_) | None => Verdict::Grant,
    }
}

impl<H: HostingVolumes, B: Blocks> Operations<H, B> {
    /// Gives a volume to a node.
    ///
    /// # Errors
    ///
    /// [`OperationError::InUse`] if it would get a second writer, [`OperationError::SharedInitiator`] if two nodes have
    /// the same initiator name.
    pub async fn publish(self, request: PublishVolume) -> Result<PublishContext, OperationError> {
        let id = &request.id;
        // Their sessions would end each other, and no target could say which of the two is logged in (T16).
        if let Some(other) = self.shared.publications.namesake(&request.node) {
            return Err(OperationError::SharedInitiator {
                node: request.node.name().to_owned(),
                other: other.name().to_owned(),
                initiator: request.node.initiator().to_string(),
            });
        }
        let not_found = || OperationError::NotFound { id: id.clone() };
        let (_, found) = self.find(id).await?.ok_or_else(not_found)?;
        if found.exported_on.is_empty() {
            return Err(OperationError::NotExported { id: id.clone() });
        }
        let users = self.users(&found).await?;
        match decide(&request, &self.shared.publications.of(id), &users) {
            Verdict::Grant => {}
            Verdict::Otherwise => {
                return Err(OperationError::PublishedOtherwise {
                    id: id.clone(),
                    node: request.node.name().to_owned(),
                });
            }
            Verdict::HeldBy(user) => {
                let id = id.clone();
                return Err(OperationError::InUse { id, user });
            }
        }
        let context = PublishContext {
            iqn: found.gbid.iqn(),
            portals: found.portals(),
            wwid: found.gbid.wwid(),
            capacity: self.expected(&found)?,
            chap: self.seal(&found)?,
        };
        self.shared.publications.add(&request);
        tracing::info!(%id, node = request.node.name(), "published");
        Ok(context)
    }

    /// Takes a volume from a node, or from all. Never fails: what was not published is unpublished.
    pub fn unpublish(&self, id: &VolumeId, node: Option<&NodeId>) {
        self.shared.publications.remove(id, node);
    }

    /// What the node must at least find: exact if known, else the smallest size that prints the same.
    fn expected(&self, found: &BlockInfo) -> Result<Capacity, OperationError> {
        let smallest = || Capacity::smallest_printed_as(&found.printed_size);
        let expected = self.shared.ledger.exact(found).or_else(smallest);
        expected
            .filter(|size| *size > Capacity::ZERO)
            .ok_or_else(|| OperationError::NotExported {
                id: found.id.clone(),
            })
    }

    fn seal(&self, found: &BlockInfo) -> Result<Option<SealedChap>, OperationError> {
        let Some(credentials) = found.credentials() else {
            return Ok(None);
        };
        let keys = self.shared.keys.as_ref();
        let keys = keys.ok_or(OperationError::NoSealingKey)?;
        let id = found.id.clone();
        let sealed = keys.seal(&id, &credentials);
        sealed
            .map(Some)
            .map_err(|source| OperationError::Seal { id, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITER: Access = Access {
        mode: AccessMode::SingleNodeWriter,
        raw: false,
    };
    const READERS: Access = Access {
        mode: AccessMode::MultiNodeReader,
        raw: false,
    };

    fn node(n: u8) -> NodeId {
        format!("n{n}/iqn.1993-08.org.debian:01:{n}")
            .parse()
            .unwrap()
    }

    fn wanted(n: u8, access: Access) -> PublishVolume {
        PublishVolume {
            id: "hv/b".parse().unwrap(),
            node: node(n),
            access,
        }
    }

    // T11
    #[test]
    fn a_second_writer_is_refused_by_memory_and_by_sessions() {
        let held = BTreeMap::from([(node(1), WRITER)]);
        let verdict = decide(&wanted(2, WRITER), &held, &[]);
        assert_eq!(verdict, Verdict::HeldBy("node n1".to_owned()));
        let users = [node(1).initiator().clone()];
        let Verdict::HeldBy(user) = decide(&wanted(2, WRITER), &BTreeMap::new(), &users) else {
            panic!("granted");
        };
        assert!(user.contains("iqn.1993-08.org.debian:01:1"), "{user}");
    }

    #[test]
    fn a_nodes_own_session_is_not_in_its_way() {
        let users = [node(1).initiator().clone()];
        let verdict = decide(&wanted(1, WRITER), &BTreeMap::new(), &users);
        assert_eq!(verdict, Verdict::Grant);
    }

    #[test]
    fn the_same_again_is_granted_and_another_way_is_not() {
        let held = BTreeMap::from([(node(1), WRITER)]);
        assert_eq!(decide(&wanted(1, WRITER), &held, &[]), Verdict::Grant);
        let raw = Access {
            raw: true,
            ..WRITER
        };
        assert_eq!(decide(&wanted(1, raw), &held, &[]), Verdict::Otherwise);
    }

    #[test]
    fn readers_share_with_readers_only() {
        let readers = BTreeMap::from([(node(1), READERS)]);
        let users = [node(1).initiator().clone()];
        assert_eq!(
            decide(&wanted(2, READERS), &readers, &users),
            Verdict::Grant
        );
        let verdict = decide(&wanted(2, WRITER), &readers, &users);
        assert_eq!(verdict, Verdict::HeldBy("node n1".to_owned()));
        let writer = BTreeMap::from([(node(1), WRITER)]);
        let verdict = decide(&wanted(2, READERS), &writer, &users);
        assert_eq!(verdict, Verdict::HeldBy("node n1".to_owned()));
    }

    #[test]
    fn what_is_unpublished_twice_is_unpublished() {
        let publications = Publications::default();
        let one = wanted(1, READERS);
        publications.add(&one);
        publications.add(&wanted(2, READERS));
        publications.remove(&one.id, Some(&node(1)));
        publications.remove(&one.id, Some(&node(1)));
        assert_eq!(
            publications.of(&one.id).into_keys().collect::<Vec<_>>(),
            [node(2)]
        );
        publications.remove(&one.id, None);
        assert!(publications.of(&one.id).is_empty());
    }
}
