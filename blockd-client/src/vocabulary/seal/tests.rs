//! What opens, and above all what does not.

use proptest::prelude::*;

use super::*;
use crate::vocabulary::Gbid;

fn keys(lines: &[(&str, u8)]) -> SealingKeys {
    let line = |(id, byte): &(&str, u8)| format!("{id}:{}\n", STANDARD.encode([*byte; 32]));
    lines.iter().map(line).collect::<String>().parse().unwrap()
}

fn volume(text: &str) -> VolumeId {
    text.parse().unwrap()
}

fn credentials(password: &str) -> ChapCredentials {
    let user = Gbid::from_uuid(uuid::Uuid::from_u128(7));
    ChapCredentials {
        user,
        password: password.parse().unwrap(),
    }
}

#[test]
fn the_first_key_seals_and_every_key_opens() {
    let (old, rotated) = (keys(&[("a", 1)]), keys(&[("b", 2), ("a", 1)]));
    let sealed = old.seal(&volume("hv/b1"), &credentials("secret")).unwrap();
    assert_eq!(
        rotated.open(&volume("hv/b1"), &sealed).unwrap(),
        credentials("secret")
    );
    assert_eq!(
        rotated
            .seal(&volume("hv/b1"), &credentials("secret"))
            .unwrap()
            .key_id(),
        "b"
    );
}

#[test]
fn another_volume_does_not_open() {
    let keys = keys(&[("a", 1)]);
    let sealed = keys.seal(&volume("hv/b1"), &credentials("secret")).unwrap();
    let error = keys.open(&volume("hv/b2"), &sealed).unwrap_err();
    assert!(matches!(error, SealError::Tampered { .. }), "{error}");
}

#[test]
fn a_missing_key_is_named() {
    let sealed = keys(&[("a", 1)])
        .seal(&volume("hv/b1"), &credentials("secret"))
        .unwrap();
    let error = keys(&[("b", 1)])
        .open(&volume("hv/b1"), &sealed)
        .unwrap_err();
    assert!(
        matches!(&error, SealError::UnknownKey { id } if id == "a"),
        "{error}"
    );
}

#[test]
fn the_same_bytes_under_another_id_do_not_open() {
    let sealed = keys(&[("a", 1)])
        .seal(&volume("hv/b1"), &credentials("secret"))
        .unwrap();
    let relabelled: SealedChap = sealed
        .to_string()
        .replacen(".a.", ".b.", 1)
        .parse()
        .unwrap();
    let error = keys(&[("b", 1)])
        .open(&volume("hv/b1"), &relabelled)
        .unwrap_err();
    assert!(matches!(error, SealError::Tampered { .. }), "{error}");
}

#[test]
fn other_bytes_under_the_same_id_do_not_open() {
    let sealed = keys(&[("a", 1)])
        .seal(&volume("hv/b1"), &credentials("secret"))
        .unwrap();
    let error = keys(&[("a", 2)])
        .open(&volume("hv/b1"), &sealed)
        .unwrap_err();
    assert!(matches!(error, SealError::Tampered { .. }), "{error}");
}

#[test]
fn sealing_twice_gives_two_texts() {
    let keys = keys(&[("a", 1)]);
    let seal = || {
        keys.seal(&volume("hv/b1"), &credentials("secret"))
            .unwrap()
            .to_string()
    };
    assert_ne!(seal(), seal());
}

#[test]
fn a_key_file_says_which_line_is_wrong() {
    let good = STANDARD.encode([1; 32]);
    let short = STANDARD.encode([1; 16]);
    for (text, expected) in [
        (String::new(), "has no key"),
        ("# nothing\n\n".to_owned(), "has no key"),
        (format!("a:{good}\n{good}\n"), "line 2"),
        (format!("a:{good}\n\nb:{short}\n"), "line 3"),
        (format!("a.b:{good}\n"), "line 1"),
        ("a:!!\n".to_owned(), "line 1"),
        (format!("a:{good}\na:{good}\n"), "line 2"),
    ] {
        let error = text.parse::<SealingKeys>().unwrap_err();
        assert!(
            error.to_string().contains(expected),
            "{text:?} gave {error}"
        );
        assert!(
            !format!("{error} {error:?}").contains(&good),
            "the key is in the error"
        );
    }
}

#[test]
fn a_key_file_is_read_with_comments_and_blanks() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        &file,
        format!("# first seals\n\n a : {} \n", STANDARD.encode([1; 32])),
    )
    .unwrap();
    let loaded = SealingKeys::load(file.path()).unwrap();
    let sealed = loaded
        .seal(&volume("hv/b1"), &credentials("secret"))
        .unwrap();
    assert_eq!(
        keys(&[("a", 1)]).open(&volume("hv/b1"), &sealed).unwrap(),
        credentials("secret")
    );
}

#[test]
fn a_missing_key_file_is_named() {
    let error = SealingKeys::load("/nonexistent/keys").unwrap_err();
    assert!(error.to_string().contains("/nonexistent/keys"), "{error}");
}

proptest! {
    #[test]
    fn every_password_comes_back_through_the_text_form(password in "[A-Za-z0-9@%_+-]{1,255}") {
        let keys = keys(&[("k-1", 9)]);
        let sealed = keys.seal(&volume("hv/b1"), &credentials(&password)).unwrap();
        let text = sealed.to_string();
        prop_assert!(!text.contains(&password) || password.len() < 6);
        let read: SealedChap = text.parse().unwrap();
        prop_assert_eq!(keys.open(&volume("hv/b1"), &read).unwrap(), credentials(&password));
    }

    #[test]
    fn one_changed_bit_does_not_open(at in any::<prop::sample::Index>(), bit in 0_u8..8) {
        let keys = keys(&[("a", 1)]);
        let mut sealed = keys.seal(&volume("hv/b1"), &credentials("secret")).unwrap();
        let at = at.index(sealed.payload.len());
        sealed.payload[at] ^= 1 << bit;
        let refused = matches!(keys.open(&volume("hv/b1"), &sealed), Err(SealError::Tampered { .. }));
        prop_assert!(refused);
    }

    #[test]
    fn a_shortened_text_does_not_open(length in 0_usize..60) {
        let keys = keys(&[("a", 1)]);
        let mut sealed = keys.seal(&volume("hv/b1"), &credentials("secret")).unwrap();
        sealed.payload.truncate(length);
        prop_assert!(keys.open(&volume("hv/b1"), &sealed).is_err());
    }

    // C14
    #[test]
    fn nothing_secret_is_in_debug(password in "[A-Za-z0-9]{12,64}") {
        let keys = keys(&[("a", 1)]);
        let sealed = keys.seal(&volume("hv/b1"), &credentials(&password)).unwrap();
        let shown = format!("{sealed:?} {keys:?}");
        prop_assert!(!shown.contains(&password));
        prop_assert!(!shown.contains(&STANDARD.encode([1; 32])));
        prop_assert!(!shown.contains(&URL_SAFE_NO_PAD.encode(&sealed.payload)));
    }

    #[test]
    fn parsing_never_panics(text in ".*") {
        let _ = text.parse::<SealedChap>();
        let _ = format!("v1.a.{text}").parse::<SealedChap>();
        let _ = text.parse::<SealingKeys>();
    }
}
