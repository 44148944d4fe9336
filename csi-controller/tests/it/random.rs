//! Random lives of volumes, with faults, against a model of what a caller may conclude from each answer.
//!
//! Checked after every step, whatever went wrong in it:
//!
//! - no two blocks of one name, and no block that no answer accounts for;
//! - no hosting volume holds more than 98 % of its size (C4);
//! - after a final error of `CreateVolume` nothing of the block is there (C2);
//! - what was said to be made, deleted, grown or published is (C5), and nobody gets a second writer (T11).
//!
//! At the end everything is mended: every repeat must succeed, and deleting all leaves nothing.
//! `PROPTEST_CASES` sets the number of lives and `PROPTEST_RNG_SEED` other ones; a failing one is shrunk, and its steps are
//! printed.

use std::collections::BTreeMap;
use std::time::Duration;

use blockd_client::vocabulary::{BlockName, Capacity, VolumeId};
use csi_controller::blocks::fake::Fault;
use csi_controller::hosting::fake::{Fault as HostingFault, Verb};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner, contextualize_config};
use tonic::{Code, Status};

use crate::fixture::{Cluster, GIB, hosts, is_final, node, request};

/// A step of a life.
#[derive(Debug, Clone)]
enum Step {
    Create(u8, i64, Option<Fault>),
    Delete(u8, Option<Fault>),
    Expand(u8, i64, Option<Fault>),
    Publish(u8, u8),
    Unpublish(u8, u8),
    /// Creates of that many names at once.
    Burst(u8),
    /// The next request to the backend goes wrong so.
    Backend(Verb, HostingFault),
    Host(usize, bool),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0_u8..5;
    let create_fault = proptest::option::weighted(
        0.4,
        prop_oneof![
            Just(Fault::HostDown),
            Just(Fault::NoSpace),
            Just(Fault::RolledBack),
            Just(Fault::Half),
            Just(Fault::LostAnswer),
            Just(Fault::Silence),
            Just(Fault::Late),
        ],
    );
    let other_fault = proptest::option::weighted(
        0.3,
        prop_oneof![
            Just(Fault::HostDown),
            Just(Fault::Half),
            Just(Fault::LostAnswer),
            Just(Fault::Silence),
        ],
    );
    let backend = (
        prop_oneof![Just(Verb::List), Just(Verb::Create), Just(Verb::Room)],
        prop_oneof![
            Just(HostingFault::Unreachable),
            Just(HostingFault::LostAnswer)
        ],
    );
    prop_oneof![
        5 => (name.clone(), 1_i64..7, create_fault).prop_map(|(n, size, fault)| Step::Create(n, size, fault)),
        3 => (name.clone(), other_fault.clone()).prop_map(|(n, fault)| Step::Delete(n, fault)),
        2 => (name.clone(), 1_i64..9, other_fault).prop_map(|(n, size, fault)| Step::Expand(n, size, fault)),
        2 => (name.clone(), 1_u8..3).prop_map(|(n, node)| Step::Publish(n, node)),
        2 => (name.clone(), 1_u8..3).prop_map(|(n, node)| Step::Unpublish(n, node)),
        1 => name.prop_map(Step::Burst),
        1 => backend.prop_map(|(verb, fault)| Step::Backend(verb, fault)),
        1 => (0_usize..3, any::<bool>()).prop_map(|(host, down)| Step::Host(host, down)),
        1 => Just(Step::Restart),
    ]
}

/// What a caller knows of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Known {
    /// A create ended without a final answer.
    Maybe,
    /// It is there, with at least that size; exactly that one if it was never grown.
    There(There),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct There {
    id: VolumeId,
    gib: i64,
    grown: bool,
    /// A delete failed: what is left may be half a block.
    dying: bool,
    holder: Option<u8>,
}

struct Life {
    cluster: Cluster,
    known: BTreeMap<u8, Known>,
}

type Checked = Result<(), TestCaseError>;

fn name(n: u8) -> String {
    format!("pvc-{n}")
}

impl Life {
    async fn live(&mut self, step: &Step) -> Checked {
        match step {
            Step::Create(n, gib, fault) => self.create(*n, *gib, *fault).await?,
            Step::Delete(n, fault) => self.delete(*n, *fault).await?,
            Step::Expand(n, gib, fault) => self.expand(*n, *gib, *fault).await?,
            Step::Publish(n, node) => self.publish(*n, *node).await?,
            Step::Unpublish(n, node) => self.unpublish(*n, *node).await?,
            Step::Burst(to) => self.burst(*to).await?,
            Step::Backend(verb, fault) => self.cluster.hosting.fail(*verb, *fault),
            Step::Host(host, down) => self.cluster.blocks.set_down(hosts()[*host], *down),
            Step::Restart => self.cluster = self.cluster.restart().await,
        }
        self.cluster.blocks.clear_faults();
        self.check()
    }

    fn blocks_of(&self, n: u8) -> Vec<VolumeId> {
        let block = BlockName::derive(&name(n));
        let all = self.cluster.blocks.blocks();
        all.into_iter().filter(|id| id.block == block).collect()
    }

    /// What must hold at any time.
    fn check(&self) -> Checked {
        self.cluster.assert_never_overcommitted();
        for n in 0..5 {
            let blocks = self.blocks_of(n);
            prop_assert!(blocks.len() <= 1, "twice: {blocks:?}");
            match self.known.get(&n) {
                None => prop_assert!(blocks.is_empty(), "nobody knows of {blocks:?}"),
                Some(Known::There(there)) if !there.dying => {
                    prop_assert_eq!(&blocks[..], std::slice::from_ref(&there.id));
                    let size = self.cluster.blocks.size(&there.id).map(Capacity::bytes);
                    let least = there.gib.unsigned_abs() * GIB.unsigned_abs();
                    let right =
                        size.is_some_and(|size| size >= least && (there.grown || size == least));
                    prop_assert!(right, "{size:?} and not {least}");
                }
                Some(Known::There(_) | Known::Maybe) => {}
            }
        }
        Ok(())
    }

    async fn create(&mut self, n: u8, gib: i64, fault: Option<Fault>) -> Checked {
        if let Some(fault) = fault {
            self.cluster.blocks.fail("create", fault);
        }
        let outcome = self.cluster.create(request(&name(n), gib)).await;
        let id = outcome.map(|volume| crate::fixture::id(&volume));
        self.note_created(n, gib, id)
    }

    fn note_created(&mut self, n: u8, gib: i64, outcome: Result<VolumeId, Status>) -> Checked {
        let known = self.known.get(&n).cloned();
        match (outcome, known) {
            (Ok(id), Some(Known::There(there))) if !there.dying => {
                prop_assert_eq!(&id, &there.id, "another one");
                prop_assert!(there.grown || there.gib == gib, "not what was asked for");
            }
            (Ok(id), _) => {
                let there = There {
                    id,
                    gib,
                    grown: false,
                    dying: false,
                    holder: None,
                };
                self.known.insert(n, Known::There(there));
            }
            (Err(status), Some(Known::There(there))) if !there.dying => {
                let differs = there.grown || there.gib != gib;
                let right = !is_final(&status) || (status.code() == Code::AlreadyExists && differs);
                prop_assert!(right, "it is there: {status:?}");
            }
            (Err(status), known) if is_final(&status) => {
                let blocks = self.blocks_of(n);
                if status.code() == Code::AlreadyExists {
                    prop_assert!(
                        known.is_some() && blocks.len() == 1,
                        "nothing differs: {status:?}"
                    );
                } else {
                    prop_assert!(blocks.is_empty(), "final, and yet there: {status:?}");
                    self.known.remove(&n);
                }
            }
            (Err(_), _) => {
                self.known.insert(n, Known::Maybe);
            }
        }
        Ok(())
    }

    async fn burst(&mut self, to: u8) -> Checked {
        let creates = (0..=to).map(|n| {
            let mut client = self.cluster.client.clone();
            tokio::spawn(async move {
                let answer = client.create_volume(request(&name(n), 2)).await?;
                Ok(crate::fixture::id(&answer.into_inner().volume.unwrap()))
            })
        });
        let creates: Vec<_> = creates.collect();
        for (n, create) in (0..=to).zip(creates) {
            self.note_created(n, 2, create.await.unwrap())?;
        }
        Ok(())
    }

    fn there(&self, n: u8) -> Option<There> {
        match self.known.get(&n) {
            Some(Known::There(there)) => Some(there.clone()),
            Some(Known::Maybe) | None => None,
        }
    }

    fn there_mut(&mut self, n: u8) -> Option<&mut There> {
        match self.known.get_mut(&n) {
            Some(Known::There(there)) => Some(there),
            Some(Known::Maybe) | None => None,
        }
    }

    async fn delete(&mut self, n: u8, fault: Option<Fault>) -> Checked {
        let Some(there) = self.there(n) else {
            return Ok(());
        };
        if let Some(fault) = fault {
            self.cluster.blocks.fail("delete", fault);
        }
        let outcome = self.cluster.delete(&there.id.to_string()).await;
        if there.holder.is_some() {
            prop_assert!(outcome.is_err(), "deleted while in use");
            return Ok(());
        }
        match outcome {
            Ok(()) => {
                prop_assert_eq!(self.blocks_of(n), []);
                self.known.remove(&n);
            }
            Err(_) => self.there_mut(n).unwrap().dying = true,
        }
        Ok(())
    }

    async fn expand(&mut self, n: u8, gib: i64, fault: Option<Fault>) -> Checked {
        let Some(there) = self.there(n).filter(|there| !there.dying) else {
            return Ok(());
        };
        if let Some(fault) = fault {
            self.cluster.blocks.fail("resize", fault);
        }
        let outcome = self
            .cluster
            .expand(&there.id.to_string(), gib * GIB, 0)
            .await;
        let there = self.there_mut(n).unwrap();
        there.grown = true;
        if let Ok(bytes) = outcome {
            prop_assert!(bytes >= gib * GIB, "only {bytes}");
            there.gib = there.gib.max(gib);
        }
        Ok(())
    }

    async fn publish(&mut self, n: u8, to: u8) -> Checked {
        let Some(there) = self.there(n).filter(|there| !there.dying) else {
            return Ok(());
        };
        let to_node = node(to);
        let outcome = self.cluster.publish(&there.id.to_string(), &to_node).await;
        let free = there.holder.is_none_or(|holder| holder == to);
        match outcome {
            Ok(_) => {
                prop_assert!(free, "two writers");
                if there.holder.is_none() {
                    self.cluster.blocks.log_in(&there.id, to_node.initiator());
                }
                self.there_mut(n).unwrap().holder = Some(to);
            }
            // For a while it may not even be known who holds it.
            Err(status) if !free => prop_assert!(
                matches!(status.code(), Code::FailedPrecondition | Code::Unavailable),
                "{status:?}"
            ),
            Err(_) => {}
        }
        Ok(())
    }

    async fn unpublish(&mut self, n: u8, from: u8) -> Checked {
        let Some(there) = self.there(n).filter(|there| there.holder == Some(from)) else {
            return Ok(());
        };
        let from_node = node(from);
        self.cluster
            .blocks
            .log_out_of(&there.id, from_node.initiator());
        let outcome = self
            .cluster
            .unpublish(&there.id.to_string(), &from_node.to_string())
            .await;
        prop_assert!(outcome.is_ok());
        self.there_mut(n).unwrap().holder = None;
        Ok(())
    }

    /// Everything is mended; what is wanted comes, and goes.
    async fn end(&mut self) -> Checked {
        for host in hosts() {
            self.cluster.blocks.set_down(host, false);
        }
        self.cluster.hosting.clear_faults();
        for n in 0..5 {
            for from in 1..3 {
                self.unpublish(n, from).await?;
            }
            match self.known.get(&n).cloned() {
                None => continue,
                Some(Known::Maybe) => self.finish(n).await?,
                Some(Known::There(_)) => {}
            }
            self.delete(n, None).await?;
            prop_assert_eq!(self.known.get(&n), None, "it cannot be deleted");
        }
        prop_assert_eq!(self.cluster.blocks.blocks(), []);
        let made = self.cluster.hosting.volumes().len();
        prop_assert!(made <= 4, "{made} hosting volumes");
        Ok(())
    }

    /// Repeats a create as external-provisioner would, until it is known how it ended.
    async fn finish(&mut self, n: u8) -> Checked {
        for gib in 1..7 {
            self.create(n, gib, None).await?;
            match self.known.get(&n) {
                Some(Known::Maybe) => {}
                Some(Known::There(_)) | None => return Ok(()),
            }
        }
        Err(TestCaseError::fail("it never ends"))
    }
}

async fn live(steps: Vec<Step>) -> Checked {
    let mut life = Life {
        cluster: Cluster::start().await,
        known: BTreeMap::new(),
    };
    for step in &steps {
        life.live(step).await?;
    }
    life.end().await
}

// T11
#[test]
fn whatever_goes_wrong_no_block_is_lost_doubled_or_left_behind() {
    let config = contextualize_config(Config {
        cases: 100,
        rng_seed: RngSeed::Fixed(1),
        max_shrink_time: 60_000,
        failure_persistence: None,
        ..Config::default()
    });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let steps = proptest::collection::vec(step(), 1..40);
    let outcome = TestRunner::new(config).run(&steps, |steps| {
        runtime.block_on(async {
            let life = tokio::time::timeout(Duration::from_mins(1), live(steps));
            life.await
                .unwrap_or_else(|_| Err(TestCaseError::fail("it hangs")))
        })
    });
    outcome.unwrap();
}
