//! Tokens: both backends want a new one for every request, because method and path are in it.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;

/// Signs requests for one issuer.
#[derive(Debug)]
pub(super) struct Signer {
    pub(super) issuer: &'static str,
    pub(super) key: SecretString,
    pub(super) lifetime: Duration,
    /// Whether to say when a token was made. A server that allows no leeway then refuses a clock that is ahead of its own.
    pub(super) dated: bool,
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    iat: Option<u64>,
    exp: u64,
    qsh: String,
}

impl Signer {
    /// The value of the `Authorization` header for one request.
    pub(super) fn authorization(
        &self,
        method: &str,
        path: &str,
        now: SystemTime,
    ) -> Result<SecretString, jsonwebtoken::errors::Error> {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let claims = Claims {
            iss: self.issuer,
            iat: self.dated.then_some(now),
            exp: now + self.lifetime.as_secs(),
            qsh: query_hash(method, path),
        };
        let key = EncodingKey::from_secret(self.key.expose_secret().as_bytes())?;
        let token = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &key)?;
        Ok(format!("bearer {token}").into())
    }
}

/// SHA-256 over `METHOD&/path`, in hex. The path alone: no host, no query.
fn query_hash(method: &str, path: &str) -> String {
    let hash = digest::digest(&digest::SHA256, format!("{method}&{path}").as_bytes());
    hash.as_ref().iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signer(dated: bool) -> Signer {
        Signer {
            issuer: "admin",
            key: "k".into(),
            lifetime: Duration::from_mins(5),
            dated,
        }
    }

    fn token(signer: &Signer, path: &str) -> String {
        let token = signer.authorization("GET", path, UNIX_EPOCH).unwrap();
        token.expose_secret().to_owned()
    }

    #[test]
    fn the_hash_is_over_method_and_path() {
        // printf 'POST&/blockvolumes' | sha256sum
        assert_eq!(query_hash("POST", "/blockvolumes").len(), 64);
        assert_ne!(
            query_hash("POST", "/volumes"),
            query_hash("GET", "/volumes")
        );
        assert_eq!(
            query_hash("", ""),
            "951dcee3a7a4f3aac67ec76a2ce4469cc76df650f134bf2572bf60a65c982338"
        );
    }

    #[test]
    fn a_token_has_three_parts_and_differs_by_path() {
        let signer = signer(true);
        assert!(token(&signer, "/volumes").starts_with("bearer ey"));
        assert_eq!(token(&signer, "/volumes").split('.').count(), 3);
        assert_ne!(token(&signer, "/volumes"), token(&signer, "/queue/1"));
    }

    #[test]
    fn only_a_dated_token_says_when_it_was_made() {
        let parts = |dated| token(&signer(dated), "/volumes").len();
        assert!(parts(true) > parts(false));
    }

    #[test]
    fn the_key_is_not_shown() {
        let key = "a very special key";
        let signer = Signer {
            key: key.into(),
            ..signer(true)
        };
        assert!(!format!("{signer:?}").contains(key));
    }
}
