//! Tokens, read by hand on the HMAC primitive alone, so that a simulator shares nothing with the client it is to judge.
//!
//! The words are those of the library that heketi and gd2 share.

use std::fmt::Write as _;

use aws_lc_rs::{digest, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

/// The HMAC of that name; any is taken.
pub(super) fn algorithm(name: Option<&str>) -> Result<hmac::Algorithm, String> {
    match name {
        Some("HS256") => Ok(hmac::HMAC_SHA256),
        Some("HS384") => Ok(hmac::HMAC_SHA384),
        Some("HS512") => Ok(hmac::HMAC_SHA512),
        Some(
            other @ ("none" | "RS256" | "RS384" | "RS512" | "PS256" | "PS384" | "PS512" | "ES256"
            | "ES384" | "ES512"),
        ) => Err(format!("Unexpected signing method: {other}")),
        Some(_) => Err("signing method (alg) is unavailable.".to_owned()),
        None => Err("signing method (alg) is unspecified.".to_owned()),
    }
}

/// The bytes of a segment.
pub(super) fn raw(segment: &str) -> Result<Vec<u8>, String> {
    URL_SAFE_NO_PAD
        .decode(segment)
        .map_err(|_| "illegal base64 data at input byte 0".to_owned())
}

/// The JSON of a segment.
pub(super) fn decode<T: for<'de> Deserialize<'de>>(segment: &str) -> Result<T, String> {
    serde_json::from_slice(&raw(segment)?).map_err(|_| "invalid character in token".to_owned())
}

/// The `qsh` claim a request must carry: SHA-256 of `METHOD&PATH` in lowercase hex.
#[must_use]
pub fn request_hash(method: &str, path: &str) -> String {
    let sum = digest::digest(&digest::SHA256, format!("{method}&{path}").as_bytes());
    sum.as_ref().iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Whole seconds in the form in which their language prints durations: `1h2m3s`, `2m3s`, `3s`.
pub(super) fn go_duration(seconds: i64) -> String {
    let (hours, rest) = (seconds / 3600, seconds % 3600);
    let (minutes, seconds) = (rest / 60, rest % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m{seconds}s"),
    }
}
