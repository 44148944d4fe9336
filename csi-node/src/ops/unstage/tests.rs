//! Unstage on the modelled host: from whatever is there to nothing, in order, or not at all.

use std::path::Path;

use blockd_client::vocabulary::Capacity;
use proto::error::{Classify, ErrorKind};

use super::*;
use crate::host::fake::FakeHost;
use crate::host::{Host, HostError, SessionState};
use crate::ops::fixture::{Bench, GIB, POD, STAGING, ext4, iqn, portal, volume};
use crate::record::{Access, Marker};

fn busy() -> HostError {
    HostError::Busy {
        what: "dm-0".to_owned(),
        detail: "map in use".to_owned(),
    }
}

async fn staged() -> Bench {
    let bench = Bench::new();
    bench.stage().await.unwrap();
    bench.effects();
    bench
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_and_the_order_is_the_safe_one() {
    // D05, S02, C11
    let bench = staged().await;
    bench.unstage().await.unwrap();
    assert_eq!(
        bench.effects(),
        [
            "unmount",
            "flush_map",
            "forget_paths",
            "delete_path",
            "delete_path",
            "logout",
            "logout",
            "delete_record",
            "delete_record",
        ]
    );
    bench.assert_clean("unstage").await;
    bench.unstage().await.unwrap();
    assert_eq!(bench.effects(), Vec::<&str>::new());
}

#[tokio::test(start_paused = true)]
async fn a_failing_step_stops_the_rest_keeps_the_journal_and_a_retry_goes_on() {
    // D06, D14
    for method in [
        "unmount",
        "flush_map",
        "forget_paths",
        "delete_path",
        "logout",
        "delete_record",
    ] {
        let bench = staged().await;
        bench.host.fail(method, 1, busy);
        assert_eq!(
            bench.unstage().await.unwrap_err().kind(),
            ErrorKind::Internal,
            "{method}"
        );
        assert!(bench.record().await.is_some(), "{method}");
        bench.unstage().await.unwrap();
        bench.assert_clean(method).await;
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_failed_flush_the_paths_are_still_there() {
    // D06
    let bench = staged().await;
    bench.host.fail("flush_map", 1, busy);
    bench.unstage().await.unwrap_err();
    assert_eq!(bench.effects(), ["unmount"]);
    assert_eq!(bench.record().await.unwrap().step, Marker::Unmounted);
    assert_eq!(bench.host.session_count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_is_mounted_elsewhere_is_refused_with_the_paths() {
    // T07, T12, D27
    let bench = staged().await;
    bench
        .operations()
        .publish(&bench.published(ext4()))
        .await
        .unwrap();
    bench.effects();
    let error = bench.unstage().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert!(error.to_string().contains(POD), "{error}");
    assert_eq!(bench.effects(), Vec::<&str>::new());
}

#[tokio::test(start_paused = true)]
async fn a_published_block_device_is_in_use_too() {
    let bench = Bench::new();
    bench
        .operations()
        .stage(&bench.wanted_as(Access::Block))
        .await
        .unwrap();
    bench
        .operations()
        .publish(&bench.published(Access::Block))
        .await
        .unwrap();
    assert!(bench.unstage().await.is_err());
    bench.operations().unpublish(Path::new(POD)).await.unwrap();
    bench.unstage().await.unwrap();
    bench.assert_clean("block").await;
}

#[tokio::test(start_paused = true)]
async fn lost_sessions_lost_records_and_cut_portals_do_not_stop_it() {
    // D04, S08, S09, D15
    let breaks: [fn(&Bench); 3] = [
        |bench| bench.host.lose_sessions(),
        |bench| bench.host.lose_records(),
        |bench| {
            for portal in &bench.portals {
                bench.host.set_portal(&bench.iqn, portal, false);
            }
        },
    ];
    for (index, damage) in breaks.iter().enumerate() {
        let bench = staged().await;
        damage(&bench);
        bench.unstage().await.unwrap();
        bench.assert_clean(&format!("damage {index}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn queueing_ends_only_when_no_path_is_left_and_nothing_holds_the_map() {
    // D16
    let bench = staged().await;
    bench.unstage().await.unwrap();
    assert!(!bench.effects().contains(&"stop_queueing"));

    let bench = staged().await;
    for portal in &bench.portals {
        bench.host.set_portal(&bench.iqn, portal, false);
    }
    bench.unstage().await.unwrap();
    let effects = bench.effects();
    let position = |method| effects.iter().position(|effect| *effect == method);
    assert!(
        position("unmount") < position("stop_queueing"),
        "{effects:?}"
    );
    bench.assert_lawful("all paths lost");
}

#[tokio::test(start_paused = true)]
async fn the_map_is_found_by_identity_when_its_number_changed_hands() {
    // W09, W17
    let bench = staged().await;
    let other = iqn("00000000-2222-4222-8333-abcdefabcdef");
    let _ = bench
        .host
        .add_volume(&other, &[portal(13)], Capacity::from_bytes(GIB));
    bench.host.renumber_maps();
    foreign_map(&bench.host, &other).await;
    bench.unstage().await.unwrap();
    assert!(
        bench
            .host
            .map(&other.gbid().wwid())
            .await
            .unwrap()
            .is_some()
    );
    assert!(
        bench
            .host
            .map(&bench.iqn.gbid().wwid())
            .await
            .unwrap()
            .is_none()
    );
    bench.assert_lawful("reused number");
}

/// Another volume's session, path and map, as another driver leaves them.
async fn foreign_map(host: &FakeHost, iqn: &Iqn) {
    host.write_record(iqn, &portal(13), None).await.unwrap();
    host.login(iqn, &portal(13)).await.unwrap();
    let sessions = host.sessions(iqn).await.unwrap();
    host.scan(&sessions[0]).await.unwrap();
    let paths = host.paths(&sessions).await.unwrap();
    host.add_map(&iqn.gbid().wwid(), &paths).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_path_that_came_after_the_stage_is_deleted_too() {
    // W12
    let bench = Bench::new();
    bench.host.set_portal(&bench.iqn, &bench.portals[1], false);
    bench.stage().await.unwrap();
    bench.host.set_portal(&bench.iqn, &bench.portals[1], true);
    bench
        .host
        .login(&bench.iqn, &bench.portals[1])
        .await
        .unwrap();
    let sessions = bench.host.sessions(&bench.iqn).await.unwrap();
    for session in &sessions {
        bench.host.scan(session).await.unwrap();
    }
    let paths = bench.host.paths(&sessions).await.unwrap();
    assert_eq!(paths.len(), 2);
    bench
        .host
        .add_map(&bench.iqn.gbid().wwid(), &paths)
        .await
        .unwrap();

    bench.unstage().await.unwrap();
    bench.assert_clean("late path").await;
}

#[tokio::test(start_paused = true)]
async fn every_layer_on_the_staging_path_goes() {
    // D26
    let bench = staged().await;
    bench.host.mount_foreign(
        Path::new(STAGING),
        DevNumber {
            major: 8,
            minor: 99,
        },
    );
    bench.unstage().await.unwrap();
    bench.assert_clean("two layers").await;
}

#[tokio::test(start_paused = true)]
async fn what_stands_on_the_map_is_named_when_the_flush_fails() {
    // W11, D01
    let bench = staged().await;
    bench.host.set_holders(&["dm-7"]);
    let error = bench.unstage().await.unwrap_err();
    assert!(matches!(error, UnstageError::Held { .. }), "{error}");
    assert!(error.to_string().contains("dm-7"));
    bench.host.set_holders(&[]);
    bench.unstage().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_a_journal_success_needs_proof_that_nothing_is_staged() {
    // T01
    let bench = staged().await;
    bench.journal().remove(&volume()).await.unwrap();
    bench.unstage().await.unwrap();
    bench.assert_clean("lost journal").await;

    bench
        .host
        .mount_foreign(Path::new(STAGING), DevNumber { major: 8, minor: 1 });
    let error = bench.unstage().await.unwrap_err();
    assert!(matches!(error, UnstageError::NotOurs { .. }), "{error}");
    assert_eq!(bench.host.mounts_on(Path::new(STAGING)).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_volume_never_staged_is_unstaged_already() {
    let bench = Bench::new();
    bench.unstage().await.unwrap();
    assert_eq!(bench.effects(), Vec::<&str>::new());
}

#[tokio::test(start_paused = true)]
async fn a_journal_of_a_newer_driver_is_refused_and_nothing_is_touched() {
    let bench = staged().await;
    let path = bench.state.path().join("hv1.pvc-1.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let newer = text.replace("\"formatVersion\": 1", "\"formatVersion\": 2");
    std::fs::write(&path, newer).unwrap();
    assert_eq!(
        bench.unstage().await.unwrap_err().kind(),
        ErrorKind::FailedPrecondition
    );
    assert_eq!(bench.effects(), Vec::<&str>::new());
}

#[test]
fn a_session_to_another_target_is_never_logged_out() {
    // S05
    let ours = iqn("6f3c2a10-1111-4222-8333-abcdefabcdef");
    let theirs = iqn("00000000-2222-4222-8333-abcdefabcdef");
    let known = Known {
        iqn: Some(ours),
        wwid: ours.gbid().wwid(),
        staging_path: STAGING.into(),
        also_at: None,
    };
    let session = Session {
        sid: 1,
        host: 2,
        iqn: theirs,
        portal: portal(11),
        state: SessionState::LoggedIn,
    };
    let seen = Seen {
        sessions: vec![session],
        ..Seen::default()
    };
    let patience = Patience { paths: 4, map: 4 };
    let refusal = next_step(&known, &seen, &Tried::default(), patience).unwrap_err();
    assert!(
        matches!(refusal, UnstageError::ForeignSession { .. }),
        "{refusal}"
    );
}
