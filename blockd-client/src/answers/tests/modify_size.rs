//! Replies to `modify size`.

use super::*;

#[test]
fn success_is_a_claim_also_with_skipped_hosts() {
    assert!(matches!(
        &resized("modify/success.0.stdout"),
        Resize::Claimed
    ));
    assert!(matches!(
        &resized("modify/success-skipped.0.stdout"),
        Resize::Claimed
    ));
}

#[test]
fn a_partial_resize_names_the_hosts() {
    for name in [
        "modify/partial.255.stderr",
        "modify/partial-plain.255.stderr",
    ] {
        assert!(
            matches!(&resize_error(name), Error::Partial { failed, .. } if *failed == [host(2)])
        );
    }
}

#[test]
fn the_same_size_is_told_apart() {
    assert!(matches!(
        &resized("modify/same-size.255.stderr"),
        Resize::SameSize
    ));
}

#[test]
fn a_shrink_tells_the_current_size() {
    assert!(
        matches!(&resize_error("modify/shrink.255.stderr"), Error::Shrink { current, .. } if current == "2.0 MiB")
    );
}

#[test]
fn other_refusals_are_told_apart() {
    for name in ["not-aligned.22", "bad-size.255", "size-below-minimum.255"] {
        assert!(matches!(
            &resize_error(&format!("modify/{name}.stderr")),
            Error::InvalidRequest { .. }
        ));
    }
    assert!(matches!(
        &resize_error("modify/no-space.255.stderr"),
        Error::NoSpace { .. }
    ));
    assert!(matches!(
        &resize_error("modify/missing-configuration.2.stderr"),
        Error::Unavailable { .. }
    ));
    assert!(matches!(
        &resize_error("modify/block-missing.2.stderr"),
        Error::BlockMissing { .. }
    ));
    assert!(matches!(
        &resize_error("modify/node-down.255.stderr"),
        Error::HostDown { .. }
    ));
}
