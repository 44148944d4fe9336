//! The client against storage hosts that misbehave: what it says must be what is there.

use proptest::prelude::*;

use self::fake::{Fault, Hosts};
use self::log::Log;
use super::*;

pub(crate) mod fake;
mod log;

fn id() -> VolumeId {
    "hv/b1".parse().unwrap()
}

fn host(last: u8) -> HostAddress {
    format!("10.0.0.{last}").parse().unwrap()
}

fn gib(count: u64) -> Capacity {
    Capacity::from_bytes(count << 30)
}

fn wanted() -> CreateBlock {
    CreateBlock {
        id: id(),
        size: gib(1),
        hosts: vec![host(1), host(2), host(3)],
        auth: true,
        prealloc: Prealloc::No,
        block_size: None,
        io_timeout: None,
        ring_buffer: None,
    }
}

fn client(faults: &[Fault]) -> Blockd<Hosts> {
    let _ = Log::of_process();
    Blockd::new(Hosts::with_faults(faults), Timeouts::default()).with_persistence(Persistence {
        repetitions: 2,
        pause: Duration::ZERO,
    })
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(future)
}

fn asked(client: &Blockd<Hosts>) -> Vec<&'static str> {
    client.transport().state.lock().unwrap().asked.clone()
}

#[test]
fn a_block_is_made_and_proved() {
    let client = client(&[]);
    let block = run(client.create(host(1), &wanted())).unwrap();
    assert!(block.is_complete() && block.credentials().is_some());
    assert_eq!(asked(&client), ["create", "info"]);
}

#[test]
fn making_it_again_finds_it_to_adopt() {
    let client = client(&[]);
    let made = run(client.create(host(1), &wanted())).unwrap();
    match run(client.create(host(2), &wanted())) {
        Err(Error::Exists { found, cause: None }) => assert_eq!(*found, made),
        other => panic!("{other:?}"),
    }
}

#[test]
fn another_size_under_the_same_name_is_a_conflict() {
    let client = client(&[]);
    run(client.create(host(1), &wanted())).unwrap();
    let error = run(client.create(
        host(1),
        &CreateBlock {
            size: gib(2),
            ..wanted()
        },
    ))
    .unwrap_err();
    assert!(
        matches!(
            error,
            Error::Conflict {
                mismatch: crate::Mismatch::Size { .. },
                ..
            }
        ),
        "{error:?}"
    );
}

#[test]
fn success_after_a_failed_rollback_is_a_half_made_block() {
    let error = run(client(&[Fault::RollbackFails]).create(host(1), &wanted())).unwrap_err();
    assert!(
        matches!(&error, Error::Incomplete { found, cause: Some(_) } if found.exported_on.len() == 2),
        "{error:?}"
    );
    assert!(error.outcome_unknown());
}

#[test]
fn a_host_that_failed_and_was_rolled_back_leaves_nothing() {
    let error = run(client(&[Fault::HostFails]).create(host(1), &wanted())).unwrap_err();
    assert!(matches!(&error, Error::NotMade { .. }), "{error:?}");
    assert!(matches!(error.cause(), Error::Partial { failed, .. } if *failed == [host(3)]));
    assert!(!error.outcome_unknown());
}

#[test]
fn a_host_that_is_down_leaves_nothing() {
    let error = run(client(&[Fault::HostDown]).create(host(1), &wanted())).unwrap_err();
    assert!(matches!(error.cause(), Error::HostDown { host: down } if *down == host(3)));
    assert!(!error.outcome_unknown());
}

#[test]
fn a_create_that_nobody_answered_may_come_yet() {
    let client = client(&[Fault::Late]);
    let error = run(client.create(host(1), &wanted())).unwrap_err();
    assert!(
        matches!(&error, Error::Unproved { check: Some(_), .. }),
        "{error:?}"
    );
    assert!(error.outcome_unknown());
    let retry = run(client.create(host(1), &wanted())).unwrap_err();
    assert!(matches!(retry, Error::Exists { .. }), "{retry:?}");
}

#[test]
fn a_create_whose_answer_was_lost_is_found_complete() {
    let error = run(client(&[Fault::LostAfter]).create(host(1), &wanted())).unwrap_err();
    assert!(
        matches!(&error, Error::Exists { cause: Some(_), .. }),
        "{error:?}"
    );
    assert!(matches!(error.cause(), Error::Transport(_)));
}

#[test]
fn a_daemon_that_died_halfway_leaves_a_half_made_block() {
    let error = run(client(&[Fault::DiesHalfway]).create(host(1), &wanted())).unwrap_err();
    assert!(
        matches!(&error, Error::Incomplete { found, .. } if found.exported_on == [host(1)]),
        "{error:?}"
    );
}

#[test]
fn a_claim_without_a_block_is_not_believed() {
    let error = run(client(&[Fault::Lies]).create(host(1), &wanted())).unwrap_err();
    assert!(matches!(&error, Error::NotMade { .. }), "{error:?}");
}

#[test]
fn a_host_that_cannot_be_reached_proves_nothing() {
    let client = client(&[Fault::Unreachable]);
    let error = run(client.create(host(1), &wanted())).unwrap_err();
    assert!(
        matches!(&error, Error::Unproved { check: None, .. }),
        "{error:?}"
    );
    assert!(error.outcome_unknown());
    assert_eq!(asked(&client), ["create"]);
}

#[test]
fn a_missing_hosting_volume_is_told_apart() {
    let client = client(&[]);
    let id: VolumeId = "other/b1".parse().unwrap();
    let error = run(client.create(
        host(1),
        &CreateBlock {
            id: id.clone(),
            ..wanted()
        },
    ))
    .unwrap_err();
    assert!(
        matches!(error.cause(), Error::VolumeMissing { .. }),
        "{error:?}"
    );
    assert!(!error.outcome_unknown());
    assert!(matches!(
        run(client.info(host(1), &id)),
        Err(Error::VolumeMissing { .. })
    ));
    assert!(matches!(
        run(client.list(host(1), &id.hosting_volume)),
        Err(Error::VolumeMissing { .. })
    ));
    assert!(matches!(
        run(client.delete(host(1), &id)),
        Err(Error::VolumeMissing { .. })
    ));
}

#[test]
fn a_wrong_request_is_refused_before_it_is_sent() {
    let client = client(&[]);
    let error = run(client.create(
        host(1),
        &CreateBlock {
            size: Capacity::from_bytes(1),
            ..wanted()
        },
    ))
    .unwrap_err();
    assert!(matches!(&error, Error::InvalidRequest { .. }), "{error:?}");
    assert!(!error.outcome_unknown());
    assert!(asked(&client).is_empty());
}

#[test]
fn deleting_what_is_not_there_is_a_success() {
    run(client(&[]).delete(host(1), &id())).unwrap();
}

#[test]
fn a_claimed_delete_that_left_the_block_is_no_success() {
    let client = client(&[]);
    run(client.create(host(1), &wanted())).unwrap();
    client
        .transport()
        .state
        .lock()
        .unwrap()
        .faults
        .push_back(Fault::Lies);
    let error = run(client.delete(host(1), &id())).unwrap_err();
    assert!(matches!(error, Error::Partial { .. }), "{error:?}");
}

#[test]
fn a_delete_whose_answer_was_lost_is_proved_by_info() {
    let client = client(&[]);
    run(client.create(host(1), &wanted())).unwrap();
    client
        .transport()
        .state
        .lock()
        .unwrap()
        .faults
        .push_back(Fault::LostAfter);
    run(client.delete(host(1), &id())).unwrap();
}

#[test]
fn a_delete_with_a_host_down_changes_nothing() {
    let client = client(&[]);
    run(client.create(host(1), &wanted())).unwrap();
    client
        .transport()
        .state
        .lock()
        .unwrap()
        .faults
        .push_back(Fault::HostDown);
    let error = run(client.delete(host(1), &id())).unwrap_err();
    assert!(matches!(error, Error::HostDown { .. }), "{error:?}");
}

#[test]
fn hosts_that_lag_are_tried_again_with_the_same_size() {
    let client = client(&[]);
    run(client.create(host(1), &wanted())).unwrap();
    client
        .transport()
        .state
        .lock()
        .unwrap()
        .faults
        .push_back(Fault::HostFails);
    let block = run(client.resize(host(1), &id(), gib(2))).unwrap();
    assert!(block.lagging.is_empty());
    assert_eq!(asked(&client)[2..], ["resize", "info", "resize", "info"]);
}

#[test]
fn a_host_that_goes_on_lagging_is_reported() {
    let client = client(&[]);
    run(client.create(host(1), &wanted())).unwrap();
    let faults = [
        Fault::HostFails,
        Fault::None,
        Fault::HostFails,
        Fault::None,
        Fault::HostFails,
    ];
    client
        .transport()
        .state
        .lock()
        .unwrap()
        .faults
        .extend(faults);
    let error = run(client.resize(host(1), &id(), gib(2))).unwrap_err();
    assert!(
        matches!(&error, Error::Lagging { found } if found.lagging.contains_key(&host(3))),
        "{error:?}"
    );
}

#[test]
fn a_block_that_has_the_size_already_is_a_success() {
    let client = client(&[]);
    run(client.create(host(1), &wanted())).unwrap();
    run(client.resize(host(1), &id(), gib(2))).unwrap();
    assert_eq!(
        run(client.resize(host(1), &id(), gib(2)))
            .unwrap()
            .printed_size,
        "2.0 GiB"
    );
}

#[test]
fn a_block_is_never_made_smaller() {
    let client = client(&[]);
    run(client.create(
        host(1),
        &CreateBlock {
            size: gib(2),
            ..wanted()
        },
    ))
    .unwrap();
    let error = run(client.resize(host(1), &id(), gib(1))).unwrap_err();
    assert!(
        matches!(&error, Error::Shrink { current, .. } if current == "2.0 GiB"),
        "{error:?}"
    );
}

#[test]
fn a_resize_that_info_does_not_confirm_is_no_success() {
    let client = client(&[]);
    run(client.create(host(1), &wanted())).unwrap();
    let lies = [
        Fault::Lies,
        Fault::None,
        Fault::Lies,
        Fault::None,
        Fault::Lies,
    ];
    client.transport().state.lock().unwrap().faults.extend(lies);
    let error = run(client.resize(host(1), &id(), gib(2))).unwrap_err();
    assert!(matches!(error, Error::Partial { .. }), "{error:?}");
}

#[test]
fn each_message_of_a_chain_stands_by_itself() {
    let error = run(client(&[Fault::HostFails]).create(host(1), &wanted())).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(
        !error.to_string().contains(&source),
        "{error} repeats {source}"
    );
}

// C14
#[test]
fn no_password_reaches_a_log_or_an_error() {
    let client = client(&[Fault::RollbackFails]);
    let half_made = run(client.create(host(1), &wanted())).unwrap_err();
    let still_there = run(client.create(host(1), &wanted())).unwrap_err();
    run(client.delete(host(1), &id())).unwrap();
    let made = run(client.create(host(1), &wanted())).unwrap();
    let shown = format!("{half_made} {half_made:?} {still_there} {still_there:?} {made:?}");
    assert!(!shown.contains(fake::PASSWORD), "{shown}");
    let log = Log::of_process().text();
    assert!(
        log.contains("verb=\"create\"") && log.contains("answered"),
        "{log}"
    );
    assert!(!log.contains(fake::PASSWORD), "{log}");
}

fn any_fault() -> impl Strategy<Value = Fault> {
    prop::sample::select(vec![
        Fault::None,
        Fault::Unreachable,
        Fault::LostBefore,
        Fault::LostAfter,
        Fault::Late,
        Fault::HostFails,
        Fault::RollbackFails,
        Fault::DiesHalfway,
        Fault::HostDown,
        Fault::Lies,
    ])
}

proptest! {
    #[test]
    fn what_create_says_is_what_is_there(faults in prop::collection::vec(any_fault(), 0..4)) {
        let client = client(&faults);
        let outcome = run(client.create(host(1), &wanted()));
        client.transport().settle();
        let there = client.transport().block(&id());
        match outcome {
            Ok(_) | Err(Error::Exists { .. }) => prop_assert_eq!(there.unwrap().hosts.len(), 3),
            Err(Error::Incomplete { .. }) => prop_assert!(there.unwrap().hosts.len() < 3),
            Err(error) => prop_assert!(there.is_none() || error.outcome_unknown(), "{:?}", error),
        }
    }

    #[test]
    fn what_delete_says_is_what_is_there(faults in prop::collection::vec(any_fault(), 0..4)) {
        let client = client(&[]);
        run(client.create(host(1), &wanted())).unwrap();
        client.transport().state.lock().unwrap().faults.extend(faults);
        let outcome = run(client.delete(host(1), &id()));
        if outcome.is_ok() {
            prop_assert!(client.transport().block(&id()).is_none());
        }
    }

    #[test]
    fn a_resize_that_succeeds_leaves_nobody_behind(faults in prop::collection::vec(any_fault(), 0..6)) {
        let client = client(&[]);
        run(client.create(host(1), &wanted())).unwrap();
        client.transport().state.lock().unwrap().faults.extend(faults);
        if run(client.resize(host(1), &id(), gib(2))).is_ok() {
            let block = client.transport().block(&id()).unwrap();
            prop_assert!(block.lagging.is_empty() && block.size == gib(2));
        }
    }

    #[test]
    fn create_and_delete_end_right_once_the_faults_end(faults in prop::collection::vec(any_fault(), 0..8)) {
        let client = client(&faults);
        for _ in 0..8 {
            match run(client.create(host(1), &wanted())) {
                Ok(_) | Err(Error::Exists { .. }) => break,
                Err(Error::Incomplete { .. }) => drop(run(client.delete(host(1), &id()))),
                Err(_) => {}
            }
        }
        client.transport().state.lock().unwrap().faults.clear();
        let last = run(client.create(host(1), &wanted()));
        prop_assert!(matches!(&last, Ok(_) | Err(Error::Exists { .. } | Error::Incomplete { .. })), "{:?}", last);
        run(client.delete(host(1), &id())).unwrap();
        prop_assert!(client.transport().block(&id()).is_none());
    }
}
