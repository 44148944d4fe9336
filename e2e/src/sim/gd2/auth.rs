//! The token check, in gd2's order.
//!
//! | the request has | answer |
//! |---|---|
//! | path `/ping` or `/endpoints` | none is asked for |
//! | no `Authorization` header | 401 `'Authorization' header is required` |
//! | one of another form than `Bearer TOKEN` | 401 `'Authorization' header must be of the format - Bearer <TOKEN>` |
//! | no `iss`, `exp` or `qsh` | 401 `token missing X Claim` |
//! | an algorithm that is no HMAC | 401 `unexpected signing method: …` |
//! | an issuer other than `glustercli` | 401 `invalid App ID: …` |
//! | a token for another method or path | 401 `invalid qsh claim in token` |
//! | a wrong signature, or a token out of its time | 401; the signature has the last word |
//!
//! `iat` is not asked for, and gets no leeway where it is there (`reference/heketi-gd2.md` §4.1).

use aws_lc_rs::hmac;
use serde_json::{Map, Value};

use super::refusal::Refusal;
use crate::sim::jwt::{algorithm, decode, raw, request_hash};

/// The only issuer.
const ISSUER: &str = "glustercli";

/// The secret of this daemon.
#[derive(Clone)]
pub struct Check(Vec<u8>);

impl std::fmt::Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Check")
    }
}

impl Check {
    /// Tokens are signed with that secret.
    #[must_use]
    pub fn new(secret: &str) -> Self {
        Self(secret.as_bytes().to_vec())
    }

    /// Judges the `Authorization` header of a request at `now` (Unix seconds).
    ///
    /// # Errors
    ///
    /// The refusal that gd2 would send.
    pub fn judge(
        &self,
        header: Option<&str>,
        method: &str,
        path: &str,
        now: i64,
    ) -> Result<(), Refusal> {
        if matches!(path, "/ping" | "/endpoints") {
            return Ok(());
        }
        let header = header.unwrap_or_default().trim();
        if header.is_empty() {
            let text = "'Authorization' header is required";
            return Err(Refusal::unauthorized(text));
        }
        let parts: Vec<&str> = header.split(' ').collect();
        match parts.as_slice() {
            [scheme, token] if scheme.eq_ignore_ascii_case("bearer") => self
                .verify(token, method, path, now)
                .map_err(Refusal::unauthorized),
            _ => {
                let text = "'Authorization' header must be of the format - Bearer <TOKEN>";
                Err(Refusal::unauthorized(text))
            }
        }
    }

    fn verify(&self, token: &str, method: &str, path: &str, now: i64) -> Result<(), String> {
        let parts: Vec<&str> = token.split('.').collect();
        let [head, body, signature] = parts.as_slice() else {
            return Err("token contains an invalid number of segments".to_owned());
        };
        let header: Map<String, Value> = decode(head)?;
        let claims: Map<String, Value> = decode(body)?;
        let text = |name: &str| claims.get(name).and_then(Value::as_str).unwrap_or_default();
        for name in ["iss", "exp", "qsh"] {
            if !claims.contains_key(name) {
                return Err(format!("token missing {name} Claim"));
            }
        }
        let named = header.get("alg").and_then(Value::as_str);
        let algorithm = algorithm(named).map_err(|_| {
            let named = named.unwrap_or_default();
            format!("unexpected signing method: {named}")
        })?;
        if text("iss") != ISSUER {
            return Err(format!("invalid App ID: {}", text("iss")));
        }
        if text("qsh") != request_hash(method, path) {
            return Err("invalid qsh claim in token".to_owned());
        }
        let signed = format!("{head}.{body}");
        let key = hmac::Key::new(algorithm, &self.0);
        hmac::verify(&key, signed.as_bytes(), &raw(signature)?)
            .map_err(|_| "signature is invalid".to_owned())?;
        let time = |name: &str| claims.get(name).and_then(Value::as_i64);
        if time("exp").is_none_or(|exp| now > exp) {
            return Err("Token is expired".to_owned());
        }
        if time("iat").is_some_and(|iat| now < iat) {
            return Err("Token used before issued".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use serde_json::json;

    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn ask(change: impl FnOnce(&mut Value, &mut Value), secret: &str) -> String {
        let mut header = json!({"alg": "HS256", "typ": "JWT"});
        let qsh = request_hash("GET", "/v1/peers");
        let mut claims = json!({"iss": "glustercli", "exp": NOW + 120, "qsh": qsh});
        change(&mut header, &mut claims);
        let parts = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let signed = parts.join(".");
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let tag = URL_SAFE_NO_PAD.encode(hmac::sign(&key, signed.as_bytes()).as_ref());
        let header = format!("Bearer {signed}.{tag}");
        match Check::new("s").judge(Some(&header), "GET", "/v1/peers", NOW) {
            Ok(()) => "ok".to_owned(),
            Err(refusal) => refusal.message,
        }
    }

    // reference §4.1
    #[test]
    fn each_wrong_token_gets_its_words() {
        assert_eq!(ask(|_, _| (), "s"), "ok");
        assert_eq!(ask(|_, c| c["exp"] = json!(NOW), "s"), "ok");
        assert_eq!(ask(|_, _| (), "t"), "signature is invalid");
        assert_eq!(
            ask(|_, c| c["exp"] = json!(NOW - 1), "s"),
            "Token is expired"
        );
        assert_eq!(
            ask(|_, c| c["exp"] = json!(NOW - 1), "t"),
            "signature is invalid"
        );
        assert_eq!(
            ask(|_, c| c["iat"] = json!(NOW + 1), "s"),
            "Token used before issued"
        );
        assert_eq!(
            ask(|_, c| c["iss"] = json!("admin"), "s"),
            "invalid App ID: admin"
        );
        assert_eq!(
            ask(|_, c| c["qsh"] = json!("x"), "s"),
            "invalid qsh claim in token"
        );
        let missing = |c: &mut Value| c.as_object_mut().expect("claims").remove("qsh");
        assert_eq!(ask(|_, c| drop(missing(c)), "s"), "token missing qsh Claim");
        let none = ask(|h, _| h["alg"] = json!("none"), "s");
        assert_eq!(none, "unexpected signing method: none");
    }

    #[test]
    fn headers_are_of_one_form_and_two_paths_are_open() {
        let ask = |header, path| {
            let judged = Check::new("s").judge(header, "GET", path, NOW);
            judged.map_err(|refusal| refusal.message)
        };
        let required = "'Authorization' header is required";
        assert_eq!(ask(None, "/v1/peers").expect_err("refused"), required);
        for header in ["abc", "Basic abc", "Bearer a b"] {
            let said = ask(Some(header), "/v1/peers").expect_err("refused");
            assert!(said.contains("must be of the format"), "{header}: {said}");
        }
        assert_eq!(ask(None, "/ping"), Ok(()));
        assert_eq!(ask(None, "/version").expect_err("refused"), required);
    }
}
