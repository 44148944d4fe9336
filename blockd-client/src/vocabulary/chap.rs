//! CHAP secrets, as types that cannot be printed.

use std::fmt;
use std::str::FromStr;

use secrecy::{ExposeSecret, SecretString};

use super::{Gbid, Invalid};

/// Longest password taken. No lower cap: gluster-block makes 36 characters, LIO takes more.
const PASSWORD_LIMIT: usize = 255;

/// A CHAP password. Wiped from memory when dropped; neither `Debug` nor `Display` shows it.
///
/// Only `[A-Za-z0-9@%_+-]` is taken: initiator and target tools cut, quote or refuse other characters in
/// ways that show up as a failed login much later.
#[derive(Clone)]
pub struct ChapPassword(SecretString);

impl ChapPassword {
    /// The password in clear. Do not let it reach a log, an error, an argument list or a file others read.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

/// What an initiator must show to log in. gluster-block's CHAP user name is the GBID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChapCredentials {
    /// The user name.
    pub user: Gbid,
    /// The password.
    pub password: ChapPassword,
}

impl FromStr for ChapPassword {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let legal =
            |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'@' | b'%' | b'_' | b'+' | b'-');
        if (1..=PASSWORD_LIMIT).contains(&text.len()) && text.bytes().all(legal) {
            Ok(Self(text.into()))
        } else {
            Err(Invalid::hidden(
                "CHAP password",
                "use 1 to 255 of the characters A-Z a-z 0-9 @ % _ + -",
            ))
        }
    }
}

impl PartialEq for ChapPassword {
    /// Compares every byte whatever comes first, so that the time tells nothing about the content.
    fn eq(&self, other: &Self) -> bool {
        let (mine, theirs) = (self.expose().as_bytes(), other.expose().as_bytes());
        mine.len() == theirs.len()
            && mine
                .iter()
                .zip(theirs)
                .fold(0, |seen, (a, b)| seen | (a ^ b))
                == 0
    }
}

impl Eq for ChapPassword {}

impl fmt::Debug for ChapPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChapPassword(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // C15
    #[test]
    fn a_password_as_gluster_block_makes_it_is_taken() {
        let text = "c0b3b4d6-2a5f-4b1e-9a53-8a6f3d1c7e90";
        assert_eq!(text.parse::<ChapPassword>().unwrap().expose(), text);
    }

    // C01 C02 C03
    #[test]
    fn characters_that_tools_mangle_are_refused() {
        for bad in [
            "", "a!b", "a#b", "a$b", "a^b", "a*b", "a&b", " a", "a ", "a/b", "a\"b", "a\nb", "ä",
        ] {
            let error = bad.parse::<ChapPassword>().unwrap_err().to_string();
            assert!(error.contains("A-Z a-z 0-9 @ % _ + -"), "{error}");
        }
    }

    proptest! {
        // C14
        #[test]
        fn a_password_is_never_shown(text in "[A-Za-z0-9]{12,64}") {
            let user = Gbid::from_uuid(uuid::Uuid::nil());
            let credentials = ChapCredentials { user, password: text.parse().unwrap() };
            let shown = format!("{credentials:?}");
            prop_assert!(!shown.contains(&text));
            let refused = format!("{text}!").parse::<ChapPassword>().unwrap_err();
            let shown = format!("{refused} {refused:?}");
            prop_assert!(!shown.contains(&text));
        }

        #[test]
        fn equality_is_equality_of_text(a in "[a-c]{1,3}", b in "[a-c]{1,3}") {
            let (left, right): (ChapPassword, ChapPassword) = (a.parse().unwrap(), b.parse().unwrap());
            prop_assert_eq!(left == right, a == b);
        }
    }
}
