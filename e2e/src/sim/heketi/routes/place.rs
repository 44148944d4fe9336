//! Paths: which of them exist, and what they name.

/// What a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place<'a> {
    /// `/queue/{id}`
    Queue(&'a str),
    /// `/clusters`
    Clusters,
    /// `/clusters/{id}`
    Cluster(&'a str),
    /// `/clusters/{id}/flags`
    ClusterFlags(&'a str),
    /// `/nodes`
    Nodes,
    /// `/nodes/{id}`
    Node(&'a str),
    /// `/nodes/{id}/state`
    NodeState(&'a str),
    /// `/devices`
    Devices,
    /// `/devices/{id}`
    Device(&'a str),
    /// `/devices/{id}/state`
    DeviceState(&'a str),
    /// `/volumes`
    Volumes,
    /// `/volumes/{id}`
    Volume(&'a str),
    /// `/volumes/{id}/expand`
    VolumeExpand(&'a str),
    /// `/volumes/{id}/block-restriction`
    BlockRestriction(&'a str),
    /// `/blockvolumes`
    BlockVolumes,
    /// `/operations`
    Operations,
    /// `/operations/pending`
    PendingList,
    /// `/operations/pending/{id}`
    Pending(&'a str),
    /// `/operations/pending/cleanup`
    Cleanup,
    /// `/admin`
    Admin,
    /// A path of heketi's that this simulator does not answer.
    NotSimulated,
}

/// Finds what a path names; identifiers are hex digits.
#[must_use]
pub(super) fn place(path: &str) -> Option<Place<'_>> {
    let segments: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    Some(match segments.as_slice() {
        ["queue", id] if is_id(id) => Place::Queue(id),
        ["clusters"] => Place::Clusters,
        ["clusters", id] if is_id(id) => Place::Cluster(id),
        ["clusters", id, "flags"] if is_id(id) => Place::ClusterFlags(id),
        ["nodes"] => Place::Nodes,
        ["nodes", id] if is_id(id) => Place::Node(id),
        ["nodes", id, "state"] if is_id(id) => Place::NodeState(id),
        ["devices"] => Place::Devices,
        ["devices", id] if is_id(id) => Place::Device(id),
        ["devices", id, "state"] if is_id(id) => Place::DeviceState(id),
        ["volumes"] => Place::Volumes,
        ["volumes", id] if is_id(id) => Place::Volume(id),
        ["volumes", id, "expand"] if is_id(id) => Place::VolumeExpand(id),
        ["volumes", id, "block-restriction"] if is_id(id) => Place::BlockRestriction(id),
        ["blockvolumes"] => Place::BlockVolumes,
        ["operations"] => Place::Operations,
        ["operations", "pending"] => Place::PendingList,
        ["operations", "pending", "cleanup"] => Place::Cleanup,
        ["operations", "pending", id] if is_id(id) => Place::Pending(id),
        ["admin"] => Place::Admin,
        ["nodes" | "devices", id, "tags"] | ["devices", id, "resync"] if is_id(id) => {
            Place::NotSimulated
        }
        ["volumes", id, "clone"] | ["blockvolumes", id] | ["blockvolumes", id, "expand"]
            if is_id(id) =>
        {
            Place::NotSimulated
        }
        ["bricks", "to-evict", id] if is_id(id) => Place::NotSimulated,
        ["backup", "db"] | ["db", "dump" | "check"] | ["internal", "logging"] => {
            Place::NotSimulated
        }
        ["internal", "state", "examine", "gluster"] => Place::NotSimulated,
        _ => return None,
    })
}

fn is_id(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hex_digits_name_an_object() {
        assert_eq!(place("/volumes/0aF"), Some(Place::Volume("0aF")));
        assert_eq!(place("/volumes/xyz"), None);
        assert_eq!(place("/volumes/"), None);
        assert_eq!(place("/volumes/0a/1b"), None);
    }

    #[test]
    fn cleanup_is_not_the_id_of_an_operation() {
        assert_eq!(place("/operations/pending/cleanup"), Some(Place::Cleanup));
        assert_eq!(
            place("/operations/pending/abc"),
            Some(Place::Pending("abc"))
        );
    }
}
