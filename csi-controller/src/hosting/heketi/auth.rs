//! Tokens: heketi wants a new one for every request, because method and path are in it.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;

/// The Go client's lifetime of a token; long enough for clocks that are a little apart.
const LIFETIME: Duration = Duration::from_mins(5);

/// The only issuer that may do everything; a `user` token cannot even read the queue.
pub(super) const ISSUER: &str = "admin";

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    iat: u64,
    exp: u64,
    qsh: String,
}

/// A token could not be signed.
#[derive(Debug, thiserror::Error)]
#[error("cannot sign a token for heketi")]
pub(super) struct SigningError(#[source] pub(super) jsonwebtoken::errors::Error);

/// The value of the `Authorization` header for one request.
pub(super) fn authorization(
    key: &SecretString,
    method: &str,
    path: &str,
    now: SystemTime,
) -> Result<SecretString, SigningError> {
    let iat = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let claims = Claims {
        iss: ISSUER,
        iat,
        exp: iat + LIFETIME.as_secs(),
        qsh: query_hash(method, path),
    };
    let key = EncodingKey::from_secret(key.expose_secret().as_bytes()).map_err(SigningError)?;
    let token = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &key)
        .map_err(SigningError)?;
    Ok(format!("bearer {token}").into())
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
        let key = "k".into();
        let token = |path| {
            let token = authorization(&key, "GET", path, UNIX_EPOCH + LIFETIME).unwrap();
            token.expose_secret().to_owned()
        };
        assert!(token("/volumes").starts_with("bearer ey"));
        assert_eq!(token("/volumes").split('.').count(), 3);
        assert_ne!(token("/volumes"), token("/queue/1"));
    }
}
