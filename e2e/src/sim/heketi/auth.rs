//! The token check: every request carries its own, and it is looked at in heketi's order.
//!
//! | the request has                              | answer                                              |
//! |----------------------------------------------|-----------------------------------------------------|
//! | a malformed `Authorization` header           | 400                                                 |
//! | no `Authorization` header                    | 401 `Required authorization token not found`        |
//! | a token that cannot be read or whose key or algorithm is not known | 401 `Invalid JWT token: …`    |
//! | a token out of its time, or wrongly signed   | 401 `Invalid JWT token: …`; the signature has the last word |
//! | a token for another method or path           | 401 `Invalid qsh claim in token`                    |
//! | a user's token, and any path but `/volumes`  | 401 `Administrator access required`                 |
//!
//! `reference/heketi-gd2.md` §1.2.

use aws_lc_rs::hmac;
use serde::Deserialize;

use super::refusal::Refusal;
pub use crate::sim::jwt::request_hash;
use crate::sim::jwt::{algorithm, decode, go_duration, raw};

/// The two keys; which one counts is decided by the `iss` claim.
#[derive(Clone)]
pub struct Keys {
    admin: Vec<u8>,
    user: Vec<u8>,
}

impl Keys {
    /// Keys for the two issuers.
    #[must_use]
    pub fn new(admin: &str, user: &str) -> Self {
        Self {
            admin: admin.as_bytes().to_vec(),
            user: user.as_bytes().to_vec(),
        }
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

/// How tokens are checked.
#[derive(Debug, Clone)]
pub struct Check {
    /// The issuers' keys.
    pub keys: Keys,
    /// By how many seconds `iat` may lie in the future. `exp` has no such room.
    pub iat_leeway: i64,
}

#[derive(Deserialize)]
struct Header {
    alg: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Claims {
    iss: String,
    iat: i64,
    exp: i64,
    nbf: i64,
    qsh: String,
}

impl Check {
    /// Judges the `Authorization` header of a request at `now` (Unix seconds).
    ///
    /// # Errors
    ///
    /// The refusal that heketi would send.
    pub fn judge(
        &self,
        header: Option<&str>,
        method: &str,
        path: &str,
        now: i64,
    ) -> Result<(), Refusal> {
        let token = token_of(header)?;
        let claims = self.verify(token, now).map_err(|reason| invalid(&reason))?;
        if claims.qsh != request_hash(method, path) {
            return Err(Refusal::unauthorized("Invalid qsh claim in token"));
        }
        if claims.iss == "user" && path != "/volumes" {
            return Err(Refusal::unauthorized("Administrator access required"));
        }
        Ok(())
    }

    fn verify(&self, token: &str, now: i64) -> Result<Claims, String> {
        let mut segments = token.split('.');
        let (Some(head), Some(body), Some(signature), None) = (
            segments.next(),
            segments.next(),
            segments.next(),
            segments.next(),
        ) else {
            return Err("token contains an invalid number of segments".to_owned());
        };
        let header: Header = decode(head)?;
        let claims: Claims = decode(body)?;
        let algorithm = algorithm(header.alg.as_deref())?;
        let key = match claims.iss.as_str() {
            "admin" => &self.keys.admin,
            "user" => &self.keys.user,
            "" => return Err("Token missing iss claim".to_owned()),
            _ => return Err("Unknown user".to_owned()),
        };
        // A bad signature hides a bad time, as in heketi: the library reports the last thing it looked at.
        let signed = format!("{head}.{body}");
        let signature = raw(signature)?;
        hmac::verify(
            &hmac::Key::new(algorithm, key),
            signed.as_bytes(),
            &signature,
        )
        .map_err(|_| "signature is invalid".to_owned())?;
        self.in_time(&claims, now)?;
        Ok(claims)
    }

    /// The last rule broken is the one reported.
    fn in_time(&self, claims: &Claims, now: i64) -> Result<(), String> {
        if claims.nbf != 0 && now < claims.nbf {
            return Err("token is not valid yet".to_owned());
        }
        if now < claims.iat.saturating_sub(self.iat_leeway) {
            return Err("Token used before issued".to_owned());
        }
        if claims.exp == 0 || now > claims.exp {
            let late = now.saturating_sub(claims.exp);
            return Err(format!("Token is expired by {}", go_duration(late)));
        }
        Ok(())
    }
}

fn token_of(header: Option<&str>) -> Result<&str, Refusal> {
    let header = header.unwrap_or_default();
    if header.is_empty() {
        return Err(Refusal::unauthorized(
            "Required authorization token not found",
        ));
    }
    let mut words = header.split_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some(scheme), Some(token), None) if scheme.eq_ignore_ascii_case("bearer") => Ok(token),
        _ => Err(Refusal::bad_request(
            "Authorization header format must be Bearer {token}",
        )),
    }
}

fn invalid(reason: &str) -> Refusal {
    let hint = match reason {
        "signature is invalid" => " (client and server secrets may not match)",
        "Token used before issued" => " (client and server clocks may differ)",
        _ => "",
    };
    Refusal::unauthorized(format!("Invalid JWT token: {reason}{hint}"))
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use serde_json::{Value, json};

    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn check() -> Check {
        Check {
            keys: Keys::new("admin key", "user key"),
            iat_leeway: 120,
        }
    }

    fn sign(header: &Value, claims: &Value, key: &str) -> String {
        let algorithm = match header["alg"].as_str() {
            Some("HS512") => hmac::HMAC_SHA512,
            Some("HS384") => hmac::HMAC_SHA384,
            _ => hmac::HMAC_SHA256,
        };
        let [head, body] = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let tag = hmac::sign(
            &hmac::Key::new(algorithm, key.as_bytes()),
            format!("{head}.{body}").as_bytes(),
        );
        format!("{head}.{body}.{}", URL_SAFE_NO_PAD.encode(tag.as_ref()))
    }

    fn claims(issuer: &str) -> Value {
        let qsh = request_hash("GET", "/clusters");
        json!({"iss": issuer, "iat": NOW, "exp": NOW + 300, "qsh": qsh})
    }

    fn verdict(token: &str) -> String {
        let header = format!("bearer {token}");
        match check().judge(Some(&header), "GET", "/clusters", NOW) {
            Ok(()) => "ok".to_owned(),
            Err(refusal) => refusal.to_string(),
        }
    }

    fn with(change: impl FnOnce(&mut Value)) -> String {
        let mut claims = claims("admin");
        change(&mut claims);
        verdict(&sign(&json!({"alg": "HS256"}), &claims, "admin key"))
    }

    #[test]
    fn the_three_hmac_algorithms_are_accepted() {
        for alg in ["HS256", "HS384", "HS512"] {
            assert_eq!(
                verdict(&sign(&json!({"alg": alg}), &claims("admin"), "admin key")),
                "ok"
            );
        }
    }

    #[test]
    fn each_wrong_token_has_its_own_text() {
        let signed =
            |claims: &Value, key: &str| verdict(&sign(&json!({"alg": "HS256"}), claims, key));
        let texts = [
            with(|c| c["iat"] = json!(NOW + 121)),
            with(|c| c["exp"] = json!(NOW - 3723)),
            with(|c| c["nbf"] = json!(NOW + 1)),
            with(|c| c["qsh"] = json!(request_hash("POST", "/clusters"))),
            with(|c| c["iss"] = json!("root")),
            with(|c| c["iss"] = json!("")),
            signed(&claims("admin"), "user key"),
            signed(&claims("user"), "user key"),
            verdict(&sign(
                &json!({"alg": "none"}),
                &claims("admin"),
                "admin key",
            )),
            verdict(&sign(&json!({"alg": "HS1"}), &claims("admin"), "admin key")),
            verdict(&sign(&json!({}), &claims("admin"), "admin key")),
            verdict("a.b"),
        ];
        insta::assert_snapshot!(texts.join("\n"), @r"
    401 Unauthorized: Invalid JWT token: Token used before issued (client and server clocks may differ)
    401 Unauthorized: Invalid JWT token: Token is expired by 1h2m3s
    401 Unauthorized: Invalid JWT token: token is not valid yet
    401 Unauthorized: Invalid qsh claim in token
    401 Unauthorized: Invalid JWT token: Unknown user
    401 Unauthorized: Invalid JWT token: Token missing iss claim
    401 Unauthorized: Invalid JWT token: signature is invalid (client and server secrets may not match)
    401 Unauthorized: Administrator access required
    401 Unauthorized: Invalid JWT token: Unexpected signing method: none
    401 Unauthorized: Invalid JWT token: signing method (alg) is unavailable.
    401 Unauthorized: Invalid JWT token: signing method (alg) is unspecified.
    401 Unauthorized: Invalid JWT token: token contains an invalid number of segments
    ");
    }

    #[test]
    fn a_clock_ahead_by_two_minutes_is_forgiven_but_expiry_is_not() {
        assert_eq!(with(|c| c["iat"] = json!(NOW + 120)), "ok");
        assert_eq!(with(|c| c["exp"] = json!(NOW)), "ok");
        assert!(with(|c| c["exp"] = json!(NOW - 1)).ends_with("Token is expired by 1s"));
    }

    #[test]
    fn a_token_without_iat_passes_and_one_without_exp_does_not() {
        assert_eq!(with(|c| c["iat"] = Value::from(0)), "ok");
        assert!(with(|c| c["exp"] = Value::from(0)).contains("Token is expired by"));
    }

    #[test]
    fn no_header_and_a_malformed_one_differ() {
        let ask = |header| {
            check()
                .judge(header, "GET", "/clusters", NOW)
                .expect_err("refused")
                .to_string()
        };
        assert!(ask(None).starts_with("401"));
        assert!(ask(Some("Basic abc")).starts_with("400"));
        assert!(ask(Some("bearer a b")).starts_with("400"));
    }
}
