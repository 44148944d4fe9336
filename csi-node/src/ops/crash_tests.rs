//! The process dies around every effect of stage and unstage; the next process ends well (C10, T01, D17).

use std::path::Path;

use super::fixture::{Bench, STAGING};
use crate::host::fake::Crash;

/// Dies around the effect at `crash`; `None` when the operation has fewer effects.
async fn die_in_stage(bench: &Bench, crash: Crash) -> bool {
    bench.host.crash(crash);
    let (operations, wanted) = (bench.operations(), bench.wanted());
    let outcome = tokio::spawn(async move { operations.stage(&wanted).await }).await;
    let died = bench.host.is_dead();
    assert_eq!(outcome.is_err(), died, "{crash:?}");
    bench.host.heal();
    died
}

async fn die_in_unstage(bench: &Bench, crash: Crash) -> bool {
    bench.host.crash(crash);
    let operations = bench.operations();
    let wanted = super::unstage::UnstageVolume {
        id: super::fixture::volume(),
        staging_path: STAGING.into(),
    };
    let outcome = tokio::spawn(async move { operations.unstage(&wanted).await }).await;
    let died = bench.host.is_dead();
    assert_eq!(outcome.is_err(), died, "{crash:?}");
    bench.host.heal();
    died
}

fn crashes() -> impl Iterator<Item = Crash> {
    (0..64).flat_map(|effect| [Crash::Before(effect), Crash::After(effect)])
}

#[tokio::test(start_paused = true)]
async fn a_stage_that_died_anywhere_is_finished_by_the_next_one() {
    let mut points = 0;
    for crash in crashes() {
        let bench = Bench::new();
        if !die_in_stage(&bench, crash).await {
            break;
        }
        points += 1;
        bench
            .stage()
            .await
            .unwrap_or_else(|error| panic!("{crash:?}: {error:?}"));
        assert_eq!(
            bench.host.mounts_on(Path::new(STAGING)).len(),
            1,
            "{crash:?}"
        );
        assert!(bench.host.formats(bench.disk) <= 2, "{crash:?}");
        bench
            .unstage()
            .await
            .unwrap_or_else(|error| panic!("{crash:?}: {error:?}"));
        bench.assert_clean(&format!("{crash:?}")).await;
    }
    assert!(points >= 20, "only {points} points");
}

#[tokio::test(start_paused = true)]
async fn a_stage_that_died_anywhere_is_undone_by_an_unstage() {
    for crash in crashes() {
        let bench = Bench::new();
        if !die_in_stage(&bench, crash).await {
            break;
        }
        bench
            .unstage()
            .await
            .unwrap_or_else(|error| panic!("{crash:?}: {error:?}"));
        bench.assert_clean(&format!("{crash:?}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_unstage_that_died_anywhere_is_finished_by_the_next_one() {
    let mut points = 0;
    for crash in crashes() {
        let bench = Bench::new();
        bench.stage().await.unwrap();
        if !die_in_unstage(&bench, crash).await {
            break;
        }
        points += 1;
        bench
            .unstage()
            .await
            .unwrap_or_else(|error| panic!("{crash:?}: {error:?}"));
        bench.assert_clean(&format!("{crash:?}")).await;
    }
    assert!(points >= 16, "only {points} points");
}

#[tokio::test(start_paused = true)]
async fn an_unstage_that_died_anywhere_may_be_followed_by_a_stage() {
    for crash in crashes() {
        let bench = Bench::new();
        bench.stage().await.unwrap();
        if !die_in_unstage(&bench, crash).await {
            break;
        }
        bench
            .stage()
            .await
            .unwrap_or_else(|error| panic!("{crash:?}: {error:?}"));
        assert_eq!(bench.host.formats(bench.disk), 1, "{crash:?}");
        bench.unstage().await.unwrap();
        bench.assert_clean(&format!("{crash:?}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_power_cut_anywhere_in_a_stage_leaves_something_to_finish_or_to_undo() {
    for crash in crashes() {
        let bench = Bench::new();
        if !die_in_stage(&bench, crash).await {
            break;
        }
        bench.host.reboot();
        bench
            .stage()
            .await
            .unwrap_or_else(|error| panic!("{crash:?}: {error:?}"));
        bench.host.reboot();
        bench
            .unstage()
            .await
            .unwrap_or_else(|error| panic!("{crash:?}: {error:?}"));
        bench.assert_clean(&format!("{crash:?}")).await;
    }
}
