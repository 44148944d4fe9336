//! Replies to `info`.

use super::*;

#[test]
fn a_complete_block_is_complete_in_any_order_of_hosts() {
    let block = described("info/complete.0.stdout").unwrap();
    assert!(block.is_complete());
    assert_eq!(block.exported_on, [host(3), host(1), host(2)]);
    assert_eq!(block.portals().len(), 3);
    assert_eq!((block.printed_size.as_str(), block.ha), ("1.0 GiB", 3));
    assert_eq!(
        block.gbid.to_string(),
        "7f9aa1b2-aba7-4c77-9a5b-02a3ed562b15"
    );
}

#[test]
fn an_empty_password_means_no_chap() {
    assert_eq!(
        described("info/complete.0.stdout").unwrap().credentials(),
        None
    );
    let block = described("info/auth.0.stdout").unwrap();
    let credentials = block.credentials().unwrap();
    assert_eq!(credentials.user, block.gbid);
    assert_eq!(credentials.password.expose().len(), 36);
    assert!(!format!("{block:?}").contains(credentials.password.expose())); // C14
}

#[test]
fn a_half_made_block_is_not_complete() {
    for name in ["half-made", "nowhere", "failing"] {
        assert!(
            !described(&format!("info/{name}.0.stdout"))
                .unwrap()
                .is_complete(),
            "{name}"
        );
    }
    assert_eq!(
        described("info/failing.0.stdout").unwrap().failing,
        [host(2)]
    );
}

#[test]
fn hosts_that_lag_are_told_with_their_size() {
    let block = described("info/lagging.0.stdout").unwrap();
    assert_eq!(
        block.lagging.get(&host(2)).map(String::as_str),
        Some("1.0 MiB")
    );
}

#[test]
fn a_printed_size_may_be_rounded_up() {
    let size = crate::vocabulary::Capacity::from_bytes(2_104_533_975);
    assert!(size.may_print_as(&described("info/rounded-up.0.stdout").unwrap().printed_size));
}

#[test]
fn the_keys_of_old_servers_are_understood() {
    let (old, older) = (
        described("info/0.3.0.stdout").unwrap(),
        described("info/0.2.0.stdout").unwrap(),
    );
    assert!(old.is_complete() && older.is_complete());
    let size = crate::vocabulary::Capacity::from_bytes(1 << 30);
    assert!(size.may_print_as(&old.printed_size) && size.may_print_as(&older.printed_size));
}

#[test]
fn a_missing_block_and_a_missing_volume_are_told_apart() {
    assert!(matches!(
        &described("info/block-missing.2.stderr"),
        Err(Error::BlockMissing { .. })
    ));
    assert!(matches!(
        &described("info/volume-missing.2.stderr"),
        Err(Error::VolumeMissing { .. })
    ));
}

#[test]
fn a_stopped_volume_is_unavailable_and_a_silent_daemon_busy() {
    assert!(matches!(
        &described("info/stopped.5.stderr"),
        Err(Error::Unavailable { .. })
    ));
    assert!(matches!(
        &described("info/no-answer.255.stderr"),
        Err(Error::Busy { .. })
    ));
}

#[test]
fn what_does_not_describe_this_block_is_not_understood() {
    for name in ["other-block", "with-result", "cut-off"] {
        let error = described(&format!("info/{name}.0.stdout")).unwrap_err();
        assert!(matches!(&error, Error::Protocol { .. }));
        assert!(
            !format!("{error} {error:?}").contains("c0b3b4d6"),
            "{error:?}"
        ); // C14
    }
    assert!(matches!(
        &described("list/two.0.stdout"),
        Err(Error::Protocol { .. })
    ));
}
