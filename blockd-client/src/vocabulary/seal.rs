//! CHAP credentials for the way from controller to node: sealed, so that nobody in between can read them.
//!
//! AES-256-GCM with a random nonce. The seal is bound to the format version, to the key's id and to the volume id, so
//! a sealed text copied to another volume, or relabelled with another key, does not open.
//!
//! Controller and node read the same key file, one `id:base64(32 bytes)` per line; blank lines and lines that
//! begin with `#` are skipped. The first key seals, every key opens: put a new key below the old one
//! on all nodes, then move it to the top, then remove the old one once no volume is attached with it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use secrecy::zeroize::Zeroizing;
use serde::{Deserialize, Serialize};

use super::{ChapCredentials, Invalid, VolumeId};

const VERSION: &str = "v1";
const KEY_LEN: usize = 32;
const KEY_ID_LIMIT: usize = 32;
const TEXT_LIMIT: usize = 1024;

/// Sealed credentials: `v1.<key id>.<base64 of nonce, ciphertext and tag>`. Opaque without the key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SealedChap {
    key_id: String,
    payload: Vec<u8>,
}

impl SealedChap {
    /// The id of the key that opens it.
    #[must_use]
    pub fn key_id(&self) -> &str {
        &self.key_id
    }
}

/// One key and its id.
pub struct SealingKey {
    id: String,
    key: RandomizedNonceKey,
}

impl SealingKey {
    /// Makes a key from its id and its 32 bytes.
    ///
    /// # Errors
    ///
    /// The id is empty, too long or has other characters than `A-Z a-z 0-9 _ -`; or not 32 bytes.
    pub fn new(id: &str, bytes: &[u8]) -> Result<Self, Invalid> {
        if !is_key_id(id) {
            let rule = "use 1 to 32 of the characters A-Z a-z 0-9 _ -";
            return Err(Invalid::new("sealing key id", id, rule));
        }
        let rule = "expected base64 of exactly 32 bytes, as made by: openssl rand -base64 32";
        if bytes.len() != KEY_LEN {
            return Err(Invalid::hidden("sealing key", rule));
        }
        let key = RandomizedNonceKey::new(&AES_256_GCM, bytes)
            .map_err(|_| Invalid::hidden("sealing key", rule))?;
        Ok(Self {
            id: id.to_owned(),
            key,
        })
    }
}

/// The keys of a key file: the first seals, all open.
#[derive(Debug)]
pub struct SealingKeys {
    first: SealingKey,
    others: Vec<SealingKey>,
}

/// Why a key file could not be read, or credentials not be sealed or opened. Never shows key or plaintext.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The key file could not be read.
    #[error("cannot read the sealing key file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A line of the key file is wrong.
    #[error("line {line} of the sealing key file: expected <id>:<base64 of 32 bytes>")]
    Line {
        /// Counted from one.
        line: usize,
        /// What is wrong.
        #[source]
        source: Invalid,
    },
    /// Two lines of the key file have the same id.
    #[error(
        "line {line} of the sealing key file uses the id {id:?} a second time; give every key an id of its own"
    )]
    Duplicate {
        /// Counted from one.
        line: usize,
        /// The id.
        id: String,
    },
    /// The key file has no key.
    #[error("the sealing key file has no key; add a line <id>:<base64 of 32 bytes>")]
    NoKey,
    /// The credentials were sealed with a key that is not in the file.
    #[error(
        "CHAP credentials were sealed with key {id:?}, which is not in the sealing key file; controller and nodes need the same file"
    )]
    UnknownKey {
        /// The id of the missing key.
        id: String,
    },
    /// The text is not what this key sealed for this volume.
    #[error(
        "sealed CHAP credentials do not open with key {key_id:?} for volume {volume}: altered, meant for another volume, or a different key under the same id"
    )]
    Tampered {
        /// The id of the key tried.
        key_id: String,
        /// The volume they were to be opened for.
        volume: VolumeId,
    },
    /// The random generator or the cipher failed.
    #[error("the cryptographic library failed to seal CHAP credentials")]
    Cipher,
}

impl SealingKeys {
    /// Reads a key file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or a line is wrong; the error names the line.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, SealError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|source| SealError::Read {
            path: path.to_owned(),
            source,
        })?;
        Zeroizing::new(text).parse()
    }

    /// Seals `credentials` for `volume`, differently every time.
    ///
    /// # Errors
    ///
    /// Only if the cryptographic library fails.
    pub fn seal(
        &self,
        volume: &VolumeId,
        credentials: &ChapCredentials,
    ) -> Result<SealedChap, SealError> {
        let SealingKey { id, key } = &self.first;
        let plain = Zeroizing::new(format!(
            "{}:{}",
            credentials.user,
            credentials.password.expose()
        ));
        // Encrypted in place, with room for the tag: no plaintext is left behind by a reallocation.
        let mut sealed = Vec::with_capacity(plain.len() + AES_256_GCM.tag_len());
        sealed.extend_from_slice(plain.as_bytes());
        let nonce = key
            .seal_in_place_append_tag(Aad::from(bound_data(id, volume)), &mut sealed)
            .map_err(|_| SealError::Cipher)?;
        let payload = [nonce.as_ref().as_slice(), &sealed].concat();
        Ok(SealedChap {
            key_id: id.clone(),
            payload,
        })
    }

    /// Opens what [`SealingKeys::seal`] made for the same volume with one of these keys.
    ///
    /// # Errors
    ///
    /// [`SealError::UnknownKey`] if the key is missing; [`SealError::Tampered`] if anything does not fit.
    pub fn open(
        &self,
        volume: &VolumeId,
        sealed: &SealedChap,
    ) -> Result<ChapCredentials, SealError> {
        let id = &sealed.key_id;
        let SealingKey { key, .. } = std::iter::once(&self.first)
            .chain(&self.others)
            .find(|key| key.id == *id)
            .ok_or_else(|| SealError::UnknownKey { id: id.clone() })?;
        let tampered = || SealError::Tampered {
            key_id: id.clone(),
            volume: volume.clone(),
        };
        let (nonce, ciphertext) = sealed
            .payload
            .split_at_checked(NONCE_LEN)
            .ok_or_else(tampered)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| tampered())?;
        let mut plain = Zeroizing::new(ciphertext.to_vec());
        let plain = key
            .open_in_place(nonce, Aad::from(bound_data(id, volume)), &mut plain)
            .map_err(|_| tampered())?;
        let (user, password) = std::str::from_utf8(plain)
            .ok()
            .and_then(|text| text.split_once(':'))
            .ok_or_else(tampered)?;
        let user = user.parse().map_err(|_| tampered())?;
        let password = password.parse().map_err(|_| tampered())?;
        Ok(ChapCredentials { user, password })
    }
}

impl FromStr for SealingKeys {
    type Err = SealError;

    fn from_str(text: &str) -> Result<Self, SealError> {
        let mut keys: Vec<SealingKey> = Vec::new();
        for (line, content) in (1..).zip(text.lines()) {
            let content = content.trim();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let key = parse_key(content).map_err(|source| SealError::Line { line, source })?;
            if keys.iter().any(|known| known.id == key.id) {
                return Err(SealError::Duplicate { line, id: key.id });
            }
            keys.push(key);
        }
        let mut keys = keys.into_iter();
        let first = keys.next().ok_or(SealError::NoKey)?;
        Ok(Self {
            first,
            others: keys.collect(),
        })
    }
}

impl FromStr for SealedChap {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let refused = || Invalid::hidden("sealed CHAP text", "expected v1.<key id>.<base64>");
        let mut parts = text.splitn(3, '.');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(VERSION), Some(key_id), Some(payload))
                if is_key_id(key_id) && text.len() <= TEXT_LIMIT =>
            {
                let payload = URL_SAFE_NO_PAD.decode(payload).map_err(|_| refused())?;
                Ok(Self {
                    key_id: key_id.to_owned(),
                    payload,
                })
            }
            _ => Err(refused()),
        }
    }
}

/// What the seal covers besides the content. No part can contain the separator.
fn bound_data(key_id: &str, volume: &VolumeId) -> String {
    format!("gluster-block chap {VERSION} {key_id} {volume}")
}

fn parse_key(line: &str) -> Result<SealingKey, Invalid> {
    let Some((id, encoded)) = line.split_once(':') else {
        return Err(Invalid::hidden(
            "sealing key",
            "there is no colon between id and key",
        ));
    };
    let rule = "the part after the colon is not base64";
    let bytes = STANDARD
        .decode(encoded.trim())
        .map_err(|_| Invalid::hidden("sealing key", rule))?;
    SealingKey::new(id.trim(), &Zeroizing::new(bytes))
}

fn is_key_id(text: &str) -> bool {
    (1..=KEY_ID_LIMIT).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

impl fmt::Display for SealedChap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{VERSION}.{}.{}",
            self.key_id,
            URL_SAFE_NO_PAD.encode(&self.payload)
        )
    }
}

impl fmt::Debug for SealedChap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealedChap(key {:?})", self.key_id)
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealingKey({:?})", self.id)
    }
}

impl TryFrom<String> for SealedChap {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<SealedChap> for String {
    fn from(sealed: SealedChap) -> Self {
        sealed.to_string()
    }
}

#[cfg(test)]
mod tests;
