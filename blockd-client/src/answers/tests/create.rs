//! Replies to `create`.

use super::*;

#[test]
fn success_is_a_claim_in_every_json_form() {
    for name in ["success", "success-auth", "success-plain", "success-pretty"] {
        assert!(matches!(
            &created(&format!("create/{name}.0.stdout")),
            Create::Claimed
        ));
    }
}

#[test]
fn an_omitted_portal_or_text_before_the_json_does_not_matter() {
    assert!(matches!(
        &created("create/success-portal-omitted.0.stdout"),
        Create::Claimed
    ));
    assert!(matches!(
        &created("create/aligned-text-first.0.stdout"),
        Create::Claimed
    ));
}

#[test]
fn rollback_keys_make_success_a_failure() {
    let error = create_error("create/rollback-failed.0.stdout");
    assert!(
        matches!(&error, Error::Partial { failed, done, .. } if *failed == [host(2)] && *done == [host(1), host(3)])
    );
    assert!(
        matches!(&create_error("create/rollback-on-0.3.0.stdout"), Error::Partial { failed, .. } if *failed == [host(2)])
    );
}

#[test]
fn a_taken_name_in_this_volume_is_exists_on_either_channel() {
    assert!(matches!(
        &created("create/exists.17.stderr"),
        Create::Exists
    ));
    assert!(matches!(
        &created("create/exists-0.3.17.stdout"),
        Create::Exists
    ));
}

#[test]
fn seventeen_without_the_words_is_not_exists() {
    let error = create_error("create/rpc-code-17-without-words.17.stderr");
    assert!(matches!(&error, Error::Protocol { reason, .. } if reason.contains("17")));
}

// G14
#[test]
fn a_failing_host_is_named_with_its_words() {
    let error = create_error("create/node-failed.255.stderr");
    assert!(matches!(&error, Error::Partial { failed, .. } if *failed == [host(2)]));
    assert!(
        error.to_string().contains("10.55.0.2 configure failed"),
        "{error}"
    );
    assert!(
        matches!(&create_error("create/node-died.255.stderr"), Error::Partial { failed, .. } if *failed == [host(2)])
    );
    assert!(matches!(
        &create_error("create/fail-exit-zero.0.stdout"),
        Error::Partial { .. }
    ));
}

#[test]
fn a_name_taken_on_a_host_names_the_host() {
    let error = create_error("create/name-taken.255.stderr");
    assert!(matches!(&error, Error::NameTaken { hosts, .. } if *hosts == [host(3)]));
}

#[test]
fn a_host_that_is_down_or_half_dead_is_named() {
    for name in ["create/node-down.255.stderr", "create/half-dead.4.stderr"] {
        assert!(matches!(&create_error(name), Error::HostDown { host: down } if *down == host(3)));
    }
}

#[test]
fn a_host_that_is_too_old_is_named_with_what_it_lacks() {
    let error = create_error("create/too-old.255.stderr");
    assert!(
        matches!(&error, Error::Unsupported { host: old, capability } if *old == host(3) && capability == "create_io_timeout")
    );
}

#[test]
fn no_space_is_no_space() {
    assert!(matches!(
        &create_error("create/no-space.28.stderr"),
        Error::NoSpace { .. }
    ));
}

#[test]
fn a_volume_that_is_not_connected_is_unavailable() {
    for name in [
        "create/not-connected.107.stderr",
        "create/not-initialized.107.stderr",
    ] {
        assert!(
            matches!(&create_error(name), Error::Unavailable { reason, .. } if reason.contains("hostvol"))
        );
    }
}

#[test]
fn a_silent_daemon_may_still_be_at_it() {
    let error = create_error("create/no-answer.255.stderr");
    assert!(matches!(&error, Error::Busy { .. }));
    assert!(error.outcome_unknown() && error.may_go_on());
}

#[test]
fn a_daemon_that_does_not_run_is_unavailable() {
    for name in ["never-started", "stale-socket", "not-operational"] {
        let error = create_error(&format!("create/{name}.255.stderr"));
        assert!(matches!(&error, Error::Unavailable { .. }));
        assert!(!error.may_go_on());
    }
}

#[test]
fn usage_is_a_refusal_whatever_the_exit_code() {
    for name in [
        "usage.0",
        "usage-after-auth.1",
        "bad-size.0",
        "size-below-minimum.0",
        "bad-block-size.0",
        "bad-ring-buffer.0",
        "bad-ring-buffer-auth.1",
        "bad-prealloc.255",
        "too-few-words.255",
        "bad-name.255",
        "hostname.255",
        "ha-count.255",
        "not-last.255",
        "too-few-hosts.255",
    ] {
        let error = create_error(&format!("create/{name}.stderr"));
        assert!(
            matches!(error, Error::InvalidRequest { .. }),
            "{name}: {error:?}"
        );
        assert!(!error.may_go_on(), "{name}");
    }
}

#[test]
fn a_missing_program_is_unavailable() {
    let error = create_error("create/no-such-command.127.stderr");
    assert!(matches!(&error, Error::Unavailable { reason, .. } if reason.contains("not found")));
}

#[test]
fn what_fits_nothing_is_never_success() {
    for name in [
        "create/empty.0.stdout",
        "create/success-exit-255.255.stderr",
        "create/success-without-iqn.0.stdout",
        "replace/fail.0.stdout",
        "replace/skipped.0.stdout",
    ] {
        assert!(matches!(&create_error(name), Error::Protocol { .. }));
    }
}
