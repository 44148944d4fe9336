//! Replies to `list`.

use super::*;

#[test]
fn the_names_are_listed() {
    let names: Vec<_> = listed("list/two.0.stdout")
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(names, ["b1", "b3"]);
    assert!(listed("list/empty.0.stdout").unwrap().is_empty());
}

#[test]
fn a_name_that_cannot_be_ours_is_not_skipped() {
    assert!(
        matches!(&listed("list/foreign-name.0.stdout"), Err(Error::Protocol { reason, .. }) if reason.contains("did not make"))
    );
}

#[test]
fn plain_text_and_missing_keys_are_not_understood() {
    assert!(matches!(
        &listed("list/nil-plain.0.stdout"),
        Err(Error::Protocol { .. })
    ));
    assert!(matches!(
        &listed("list/without-result.0.stdout"),
        Err(Error::Protocol { .. })
    ));
}

#[test]
fn failures_are_told_apart() {
    assert!(matches!(
        &listed("list/volume-missing.2.stderr"),
        Err(Error::VolumeMissing { .. })
    ));
    assert!(matches!(
        &listed("list/stopped.5.stderr"),
        Err(Error::Unavailable { .. })
    ));
}
