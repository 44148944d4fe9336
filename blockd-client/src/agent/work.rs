//! What the handlers have done: changes as operations, and views cut to the caller's role.

use std::sync::Arc;

use crate::block::BlockInfo;
use crate::blocks::Blocks;
use crate::error::Error;
use crate::schema::{Block, Component, Health, Operation, Problem, Progress, SessionList};
use crate::vocabulary::{Iqn, VolumeId};

use super::Agent;
use super::operations::Change;
use super::roles::Role;

impl<B: Blocks> Agent<B> {
    /// Accepts a change as an operation.
    pub(super) fn accept(self: &Arc<Self>, change: Change) -> Result<Operation, Problem> {
        let agent = Arc::clone(self);
        self.operations
            .accept(self.host, change, |change| async move {
                let outcome = agent.perform(change).await;
                settle(outcome, |block| agent.machine.measure(block))
            })
    }

    async fn perform(&self, change: Change) -> Outcome {
        match change {
            Change::Create(wanted) => match self.blocks.create(self.host, &wanted).await {
                Ok(block) => Outcome::Made(block),
                Err(error) => Outcome::of_failed_create(error),
            },
            Change::Delete(id) => match self.blocks.delete(self.host, &id).await {
                Ok(()) => Outcome::Gone,
                Err(error) => Outcome::Failed(error),
            },
            Change::Resize(id, size) => match self.blocks.resize(self.host, &id, size).await {
                Ok(block) => Outcome::Resized(block),
                Err(error) => Outcome::Failed(error),
            },
        }
    }

    /// The block as this caller may see it.
    ///
    /// A node gets the same refusal whether the block is there or not.
    pub(super) async fn find(&self, role: &Role, id: &VolumeId) -> Result<Block, Problem> {
        let found = self.blocks.info(self.host, id).await;
        if role.sees_passwords() {
            return Ok(self.machine.measure(found?.into()));
        }
        let found = match found {
            Err(Error::BlockMissing { .. } | Error::VolumeMissing { .. }) => None,
            found => Some(found?),
        };
        let logged_in = match &found {
            Some(found) => self.blocks.sessions(self.host, &found.gbid.iqn()).await?,
            None => Vec::new(),
        };
        role.require_attached(&logged_in)?;
        let found = found.ok_or_else(|| Error::BlockMissing { id: id.clone() })?;
        Ok(self.machine.measure(Block::from(found).without_password()))
    }

    /// Who is logged in to a target, as far as this caller may know.
    pub(super) async fn sessions(&self, role: &Role, iqn: &Iqn) -> Result<SessionList, Problem> {
        let initiators = self.blocks.sessions(self.host, iqn).await?;
        let addresses = match role.require_controller() {
            Ok(()) => self.machine.portal_peers().unwrap_or_default(),
            Err(_) => std::collections::BTreeSet::new(),
        };
        Ok(SessionList {
            initiators: role.visible(initiators),
            addresses: addresses.into_iter().collect(),
        })
    }

    pub(super) async fn health(&self) -> Health {
        let daemon = match self.blocks.ping(self.host).await {
            Ok(()) => None,
            Err(Error::Unavailable { reason, .. }) => Some(reason),
            Err(other) => Some(Problem::from(other).detail),
        };
        Health {
            daemon: Component::new(daemon),
            tcmu_runner: self.machine.tcmu_runner(),
            target: self.machine.target(),
        }
    }
}

/// How a change ended.
#[derive(Debug)]
enum Outcome {
    Made(BlockInfo),
    Found(BlockInfo),
    Resized(BlockInfo),
    Gone,
    Failed(Error),
}

impl Outcome {
    /// A block that is there, complete and as wanted, is what a repeated `PUT` is after.
    fn of_failed_create(error: Error) -> Self {
        if let Error::Exists { found, .. } = error {
            return Self::Found(*found);
        }
        Self::Failed(error)
    }
}

/// What an operation ends with.
///
/// | outcome | state     | `made` | `result`  |
/// |---------|-----------|--------|-----------|
/// | made    | succeeded | true   | the block |
/// | found   | succeeded | false  | the block |
/// | resized | succeeded |        | the block |
/// | gone    | succeeded |        |           |
/// | failed  | failed    |        |           |
fn settle(outcome: Outcome, measure: impl FnOnce(Block) -> Block) -> Progress {
    let (made, block) = match outcome {
        Outcome::Failed(error) => {
            return Progress::Failed {
                problem: Box::new(error.into()),
            };
        }
        Outcome::Made(block) => (Some(true), Some(block)),
        Outcome::Found(block) => (Some(false), Some(block)),
        Outcome::Resized(block) => (None, Some(block)),
        Outcome::Gone => (None, None),
    };
    let result = block.map(|block| Box::new(measure(block.into())));
    Progress::Succeeded { made, result }
}
