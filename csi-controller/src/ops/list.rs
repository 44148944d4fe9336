//! `ListVolumes` and `ControllerGetVolume`: what gluster-block shows on hosting volumes of ours, in order of id.
//!
//! A token is the last id of the page before it, in hex, so that a page never depends on what this process remembers, and
//! volumes that come and go meanwhile shift nothing. Half-made blocks are no volumes.

use std::fmt::Write as _;

use blockd_client::vocabulary::{Capacity, NodeId, VolumeId};

use super::Operations;
use super::look::Listed;
use crate::blocks::Blocks;
use crate::error::OperationError;
use crate::hosting::HostingVolumes;

/// A page to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListVolumes {
    /// At most so many; none means all.
    pub limit: Option<usize>,
    /// Where the page before ended.
    pub token: Option<String>,
}

/// A volume as listings show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedVolume {
    /// Its id.
    pub id: VolumeId,
    /// What it surely has.
    pub size: Capacity,
    /// Who has it, as far as this process gave it out.
    pub nodes: Vec<NodeId>,
}

/// A page of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The volumes.
    pub volumes: Vec<ListedVolume>,
    /// What to ask with for more.
    pub next: Option<String>,
}

impl<H: HostingVolumes, B: Blocks> Operations<H, B> {
    /// Lists volumes.
    ///
    /// # Errors
    ///
    /// [`OperationError::BadToken`].
    pub async fn list(self, request: ListVolumes) -> Result<Page, OperationError> {
        let after = request.token.as_deref().map(open).transpose()?;
        let mut listings = self.listings().await?;
        listings.sort_by(|a, b| a.hosting.name.cmp(&b.hosting.name));
        let mut volumes = Vec::new();
        let mut next = None;
        for (hosting, id) in listings.iter().flat_map(in_order) {
            if after.as_ref().is_some_and(|after| id <= *after) {
                continue;
            }
            if request.limit.is_some_and(|limit| volumes.len() >= limit) {
                next = volumes.last().map(|last: &ListedVolume| seal(&last.id));
                break;
            }
            if self.shared.ledger.promised(&id).is_none() {
                self.info(hosting, &id).await?;
            }
            // Nothing is promised of half-made blocks, nor of those that went meanwhile.
            if let Some(size) = self.shared.ledger.promised(&id) {
                volumes.push(self.listed(id, size));
            }
        }
        Ok(Page { volumes, next })
    }

    /// One volume.
    ///
    /// # Errors
    ///
    /// [`OperationError::NotFound`].
    pub async fn get(self, id: VolumeId) -> Result<ListedVolume, OperationError> {
        let found = self.find(&id).await?;
        match found.and_then(|_| self.shared.ledger.promised(&id)) {
            Some(size) => Ok(self.listed(id, size)),
            None => Err(OperationError::NotFound { id }),
        }
    }

    fn listed(&self, id: VolumeId, size: Capacity) -> ListedVolume {
        let nodes = self.shared.publications.of(&id).into_keys().collect();
        ListedVolume { id, size, nodes }
    }
}

fn in_order(
    listed: &Listed,
) -> impl Iterator<Item = (&crate::hosting::Hosting, VolumeId)> + use<'_> {
    let mut blocks = listed.blocks.clone();
    blocks.sort();
    let name = &listed.hosting.name;
    blocks
        .into_iter()
        .map(move |block| (&listed.hosting, VolumeId::new(name.clone(), block)))
}

fn seal(id: &VolumeId) -> String {
    let text = id.to_string();
    text.bytes().fold("v1-".to_owned(), |mut token, byte| {
        let _ = write!(token, "{byte:02x}");
        token
    })
}

fn open(token: &str) -> Result<VolumeId, OperationError> {
    let bad = || OperationError::BadToken {
        token: token.chars().take(80).collect(),
    };
    let hex = token.strip_prefix("v1-").ok_or_else(bad)?;
    let digits: Option<Vec<u32>> = hex.chars().map(|c| c.to_digit(16)).collect();
    let digits = digits
        .filter(|digits| digits.len() % 2 == 0)
        .ok_or_else(bad)?;
    let bytes: Result<Vec<u8>, _> = digits
        .chunks(2)
        .map(|pair| u8::try_from(pair.iter().fold(0, |value, digit| value * 16 + digit)))
        .collect();
    let text = String::from_utf8(bytes.map_err(|_| bad())?).map_err(|_| bad())?;
    text.parse().map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_token_opens(text in "[A-Za-z0-9_][A-Za-z0-9_-]{0,62}/[A-Za-z0-9_][A-Za-z0-9_-]{0,62}") {
            let id: VolumeId = text.parse().unwrap();
            prop_assert_eq!(open(&seal(&id)).unwrap(), id);
        }

        #[test]
        fn other_texts_are_no_tokens(text in ".{0,40}") {
            prop_assert!(open(&text).is_err() || text.starts_with("v1-"));
            let _ = open(&format!("v1-{text}"));
        }
    }
}
