//! Names of hosting volumes: `<prefix>_<32 random hex digits>`, never used twice.

use uuid::Uuid;

/// How hosting volumes are made.
#[derive(Debug, Clone)]
pub struct Making {
    /// The first part of their names.
    pub prefix: String,
    /// What is set on each, in the backend's form.
    pub options: Vec<String>,
}

/// Makes and knows names of one prefix.
#[derive(Debug)]
pub(super) struct Naming {
    prefix: String,
}

impl Naming {
    pub(super) fn new(prefix: String) -> Self {
        Self { prefix }
    }

    pub(super) fn fresh(&self) -> String {
        format!("{}_{}", self.prefix, Uuid::new_v4().simple())
    }

    pub(super) fn is_ours(&self, name: &str) -> bool {
        let rest = name
            .strip_prefix(&self.prefix)
            .and_then(|rest| rest.strip_prefix('_'));
        rest.is_some_and(|rest| {
            rest.len() == 32 && rest.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        })
    }
}

#[cfg(test)]
mod tests {
    use blockd_client::vocabulary::HostingVolume;

    use super::*;

    #[test]
    fn our_names_are_of_one_form_and_never_the_same() {
        let naming = Naming::new("gbcsi".to_owned());
        let (one, other) = (naming.fresh(), naming.fresh());
        assert!(naming.is_ours(&one) && one != other);
        assert!(one.parse::<HostingVolume>().is_ok());
        for foreign in [
            "gbcsi_1",
            "vol_x",
            "gbcsi",
            &format!("x{one}"),
            &one.to_uppercase(),
        ] {
            assert!(!naming.is_ours(foreign), "{foreign}");
        }
    }
}
