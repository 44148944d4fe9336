//! Who a caller is, and what it may do.

use crate::schema::{Problem, What};
use crate::vocabulary::Initiator;

/// The subject alternative name (a URI) of the controller's certificate.
pub const CONTROLLER_URI: &str = "urn:gluster-block:controller";

/// What a node's subject alternative name begins with; its initiator name follows.
pub const NODE_URI_PREFIX: &str = "urn:gluster-block:node:";

/// Who a caller is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Role {
    /// May do everything.
    Controller,
    /// May look at what it is logged in to.
    Node(Initiator),
    /// Known to the certificate authority, and to nobody else.
    Stranger,
}

impl Role {
    /// The role in the URIs of a certificate.
    ///
    /// | URIs of ours                                | role       |
    /// |---------------------------------------------|------------|
    /// | the controller's, alone                     | controller |
    /// | a node's with a valid initiator name, alone | that node  |
    /// | none, several, or one that is not valid     | stranger   |
    pub(super) fn of<'a>(uris: impl IntoIterator<Item = &'a str>) -> Self {
        let mut ours = uris
            .into_iter()
            .filter(|uri| *uri == CONTROLLER_URI || uri.starts_with(NODE_URI_PREFIX));
        let (Some(uri), None) = (ours.next(), ours.next()) else {
            return Self::Stranger;
        };
        match uri.strip_prefix(NODE_URI_PREFIX).map(str::parse) {
            None => Self::Controller,
            Some(Ok(initiator)) => Self::Node(initiator),
            Some(Err(_)) => Self::Stranger,
        }
    }

    /// Lets the controller pass.
    pub(super) fn require_controller(&self) -> Result<(), Problem> {
        match self {
            Self::Controller => Ok(()),
            Self::Node(_) => Err(forbidden(
                "a node may only look at blocks to which it is logged in",
            )),
            Self::Stranger => Err(forbidden(&stranger())),
        }
    }

    /// Lets the controller pass, and a node that is among those who are logged in.
    pub(super) fn require_attached(&self, logged_in: &[Initiator]) -> Result<(), Problem> {
        match self {
            Self::Node(initiator) if logged_in.contains(initiator) => Ok(()),
            Self::Node(initiator) => Err(forbidden(&format!(
                "{initiator} has no session with that block on this host"
            ))),
            Self::Controller | Self::Stranger => self.require_controller(),
        }
    }

    /// Lets everybody pass whom the certificate names.
    pub(super) fn require_known(&self) -> Result<(), Problem> {
        match self {
            Self::Controller | Self::Node(_) => Ok(()),
            Self::Stranger => self.require_controller(),
        }
    }

    /// Those of `initiators` that this caller may see.
    pub(super) fn visible(&self, initiators: Vec<Initiator>) -> Vec<Initiator> {
        match self {
            Self::Controller => initiators,
            Self::Node(own) => initiators.into_iter().filter(|name| name == own).collect(),
            Self::Stranger => Vec::new(),
        }
    }

    /// Whether passwords may be shown.
    pub(super) const fn sees_passwords(&self) -> bool {
        matches!(self, Self::Controller)
    }
}

fn stranger() -> String {
    format!(
        "the certificate needs exactly one of these as a URI among its subject alternative names: {CONTROLLER_URI}, or {NODE_URI_PREFIX} and an initiator name"
    )
}

fn forbidden(reason: &str) -> Problem {
    let what = What::Forbidden {
        reason: reason.to_owned(),
    };
    Problem::new(what, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "iqn.1993-08.org.debian:01:a";

    fn node(name: &str) -> Role {
        Role::Node(name.parse().unwrap())
    }

    #[test]
    fn a_role_is_one_uri_and_nothing_else_of_ours() {
        let a = &format!("{NODE_URI_PREFIX}{A}");
        assert_eq!(Role::of([CONTROLLER_URI]), Role::Controller);
        assert_eq!(
            Role::of(["https://example.org", CONTROLLER_URI]),
            Role::Controller
        );
        assert_eq!(Role::of([a.as_str()]), node(A));
        for uris in [
            &[][..],
            &["urn:gluster-block:controllers"],
            &[CONTROLLER_URI, a],
            &[CONTROLLER_URI, CONTROLLER_URI],
            &["urn:gluster-block:node:"],
            &["urn:gluster-block:node:not-an-initiator"],
        ] {
            assert_eq!(Role::of(uris.iter().copied()), Role::Stranger, "{uris:?}");
        }
    }

    #[test]
    fn only_the_controller_writes() {
        assert_eq!(Role::Controller.require_controller(), Ok(()));
        for other in [node(A), Role::Stranger] {
            assert_eq!(other.require_controller().unwrap_err().status, 403);
            assert!(!other.sees_passwords());
        }
    }

    #[test]
    fn a_node_sees_what_it_is_logged_in_to() {
        let b = "iqn.1993-08.org.debian:01:b".parse().unwrap();
        let both = vec![A.parse().unwrap(), b];
        assert_eq!(node(A).require_attached(&both), Ok(()));
        assert_eq!(
            node(A).require_attached(&both[1..]).unwrap_err().status,
            403
        );
        assert_eq!(Role::Controller.require_attached(&[]), Ok(()));
        assert_eq!(
            Role::Stranger.require_attached(&both).unwrap_err().status,
            403
        );
        assert_eq!(node(A).visible(both.clone()), both[..1]);
        assert_eq!(Role::Controller.visible(both.clone()), both);
        assert_eq!(Role::Stranger.visible(both), []);
    }
}
