//! Replies to `delete`.

use super::*;

#[test]
fn success_is_a_claim_with_or_without_hosts() {
    assert!(matches!(&deleted("delete/success.0.stdout"), Ok(())));
    assert!(matches!(
        &deleted("delete/success-without-hosts.0.stdout"),
        Ok(())
    ));
}

#[test]
fn hosts_that_failed_are_told_though_there_is_no_message() {
    let error = deleted("delete/node-failed.255.stderr").unwrap_err();
    assert!(
        matches!(&error, Error::Partial { failed, done, .. } if *failed == [host(2)] && done.len() == 2)
    );
}

#[test]
fn a_fail_that_names_no_failed_host_is_partial() {
    assert!(
        matches!(&deleted("delete/stale-read.255.stderr"), Err(Error::Partial { failed, .. }) if failed.is_empty())
    );
}

#[test]
fn success_beside_failed_hosts_is_no_success() {
    assert!(matches!(
        &deleted("delete/forced-with-node-down.0.stdout"),
        Err(Error::Partial { .. })
    ));
}

#[test]
fn missing_needs_the_words_and_the_exit_code() {
    assert!(matches!(
        &deleted("delete/block-missing.2.stderr"),
        Err(Error::BlockMissing { .. })
    ));
    assert!(matches!(
        &deleted("delete/volume-missing.2.stderr"),
        Err(Error::VolumeMissing { .. })
    ));
    assert!(matches!(
        &deleted("delete/missing-other-exit.255.stderr"),
        Err(Error::Protocol { .. })
    ));
    assert!(matches!(
        &deleted("modify/missing-configuration.2.stderr"),
        Err(Error::Unavailable { .. })
    ));
}

#[test]
fn a_host_that_is_down_stops_it() {
    assert!(
        matches!(&deleted("delete/node-down.255.stderr"), Err(Error::HostDown { host: down }) if *down == host(2))
    );
    assert!(matches!(
        &deleted("delete/no-answer.255.stderr"),
        Err(Error::Busy { .. })
    ));
}

#[test]
fn a_refused_word_that_exits_with_zero_is_no_success() {
    assert!(matches!(
        &deleted("delete/unknown-word.0.stderr"),
        Err(Error::InvalidRequest { .. })
    ));
}
