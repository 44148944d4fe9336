//! The two files of the transport, checked before libssh2 sees them: its own messages name neither file nor remedy.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use secrecy::zeroize::Zeroizing;

use crate::transport::TransportError;
use crate::vocabulary::HostAddress;

pub(super) const PRIVATE_KEY_SETTING: &str = "ssh private_key_file";
pub(super) const KNOWN_HOSTS_SETTING: &str = "ssh known_hosts_file";

/// What only the owner and, for reading, the group may do. A group may read because that is how a file
/// from a Kubernetes Secret reaches a process that is not root.
const FORBIDDEN_MODE: u32 = 0o037;

/// Longest file taken.
const FILE_LIMIT: u64 = 4 << 20;

/// Reads the private key and makes sure that it is one, unprotected and unshared.
pub(super) fn private_key(path: &Path) -> Result<Zeroizing<String>, TransportError> {
    let setting = PRIVATE_KEY_SETTING;
    let text = Zeroizing::new(read(setting, path)?);
    let metadata = fs::metadata(path).map_err(|source| unreadable(setting, path, source))?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & FORBIDDEN_MODE != 0 {
        let problem =
            format!("is open to others (mode {mode:04o}); make it 0600, or 0640 for a group");
        return Err(problem_with(setting, path, problem));
    }
    match key_problem(&text) {
        None => Ok(text),
        Some(problem) => Err(problem_with(setting, path, problem.to_owned())),
    }
}

/// Reads the list of host keys.
pub(super) fn known_hosts(path: &Path) -> Result<String, TransportError> {
    let setting = KNOWN_HOSTS_SETTING;
    let text = read(setting, path)?;
    if let Some(line) = entries(&text).find(|line| line.starts_with('@')) {
        let marker = line.split_whitespace().next().unwrap_or_default();
        let problem = format!("has a line with {marker}; such lines are not supported, remove it");
        return Err(problem_with(setting, path, problem));
    }
    Ok(text)
}

/// The lines that are neither blank nor comments.
pub(super) fn entries(known_hosts: &str) -> impl Iterator<Item = &str> {
    known_hosts
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The host key methods that fit the keys listed for a host, and for hosts whose names are hashed.
pub(super) fn listed_types(known_hosts: &str, host: HostAddress, port: u16) -> Vec<String> {
    let names = [host.to_string(), format!("[{host}]:{port}")];
    let concerns = |field: &str| {
        field.starts_with("|1|")
            || field
                .split(',')
                .any(|name| names.iter().any(|own| own == name))
    };
    let mut types = Vec::new();
    for line in entries(known_hosts) {
        let mut fields = line.split_whitespace();
        let (Some(field), Some(key_type)) = (fields.next(), fields.next()) else {
            continue;
        };
        if !concerns(field) {
            continue;
        }
        match key_type {
            "ssh-rsa" => {
                types.extend(["rsa-sha2-512", "rsa-sha2-256", "ssh-rsa"].map(str::to_owned));
            }
            other => types.push(other.to_owned()),
        }
    }
    types
}

/// Why a text is not a private key that can be used; none if it is one.
///
/// | text                                        | verdict                       |
/// |---------------------------------------------|-------------------------------|
/// | `-----BEGIN … PRIVATE KEY-----`, unencrypted | can be used                   |
/// | the same, encrypted                         | has a passphrase              |
/// | OpenSSH's, of a hardware token              | cannot be used                |
/// | a public key                                | the wrong half                |
/// | `PuTTY-User-Key-File`                       | another format                |
/// | anything else                               | no key                        |
fn key_problem(text: &str) -> Option<&'static str> {
    let passphrase = "is protected by a passphrase, which nobody could enter; remove it with: ssh-keygen -p -N ''";
    if text.starts_with("PuTTY-User-Key-File") {
        return Some("is in PuTTY's format; export it in OpenSSH's format");
    }
    if text.trim_start().starts_with("ssh-") || text.contains("PUBLIC KEY-----") {
        return Some("is a public key; name the file of the private one");
    }
    let Some((_, body)) = text.split_once("-----BEGIN ") else {
        return Some("is no private key; make one with: ssh-keygen -t ed25519 -N ''");
    };
    if body.contains("ENCRYPTED") {
        return Some(passphrase);
    }
    let body = match body.split_once("PRIVATE KEY-----") {
        Some(("OPENSSH ", body)) => body,
        Some(_) => return None,
        None => return Some("is no private key; make one with: ssh-keygen -t ed25519 -N ''"),
    };
    let encoded: String = body
        .split("-----END")
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let damaged = Some("is a damaged key file; make a new one with: ssh-keygen -t ed25519 -N ''");
    let Ok(decoded) = STANDARD.decode(encoded).map(Zeroizing::new) else {
        return damaged;
    };
    match openssh_header(&decoded) {
        Some((b"none", b"ssh-ed25519" | b"ssh-rsa")) => None,
        Some((b"none", key_type)) if key_type.starts_with(b"ecdsa-sha2-") => None,
        Some((b"none", _)) => Some("is of a type that is not supported; use ed25519 or RSA"),
        Some(_) => Some(passphrase),
        None => damaged,
    }
}

/// The cipher and the key type in a key of OpenSSH's format.
fn openssh_header(key: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = key.strip_prefix(b"openssh-key-v1\0")?;
    let (cipher, rest) = field(rest)?;
    let (_kdf, rest) = field(rest)?;
    let (_kdf_options, rest) = field(rest)?;
    let (_count, rest) = rest.split_at_checked(4)?;
    let (public, _) = field(rest)?;
    let (key_type, _) = field(public)?;
    Some((cipher, key_type))
}

/// A length of four bytes and as many bytes; and what follows.
fn field(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)
}

fn read(setting: &'static str, path: &Path) -> Result<String, TransportError> {
    let metadata = fs::metadata(path).map_err(|source| unreadable(setting, path, source))?;
    if !metadata.is_file() || metadata.len() > FILE_LIMIT {
        return Err(problem_with(
            setting,
            path,
            "is not a file of that kind".to_owned(),
        ));
    }
    fs::read_to_string(path).map_err(|source| unreadable(setting, path, source))
}

fn unreadable(setting: &'static str, path: &Path, source: std::io::Error) -> TransportError {
    let problem = "cannot be read; see that it is there and belongs to the user of this process";
    TransportError::Setting {
        setting,
        path: path.to_owned(),
        problem: problem.to_owned(),
        source: Some(Box::new(source)),
    }
}

fn problem_with(setting: &'static str, path: &Path, problem: String) -> TransportError {
    TransportError::Setting {
        setting,
        path: path.to_owned(),
        problem,
        source: None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn key_types_are_found_under_each_form_of_a_name() {
        let known = "# comment\n\n10.0.0.1 ssh-ed25519 AAAA\n10.0.0.2,10.0.0.1 ecdsa-sha2-nistp256 AAAA\n[10.0.0.1]:2222 ssh-rsa AAAA x\n10.0.0.3 ssh-dss AAAA\n|1|a=|b= ssh-ed448 AAAA\nodd\n";
        let types = listed_types(known, "10.0.0.1".parse().unwrap(), 2222);
        let expected = [
            "ssh-ed25519",
            "ecdsa-sha2-nistp256",
            "rsa-sha2-512",
            "rsa-sha2-256",
            "ssh-rsa",
            "ssh-ed448",
        ];
        assert_eq!(types, expected);
        let other_port = listed_types(known, "10.0.0.1".parse().unwrap(), 22);
        assert!(!other_port.contains(&"ssh-rsa".to_owned()));
    }

    #[test]
    fn what_is_no_key_is_told_apart() {
        for (text, expected) in [
            ("", "no private key"),
            ("ssh-ed25519 AAAA me", "public key"),
            ("-----BEGIN PUBLIC KEY-----\nAAAA\n", "public key"),
            ("PuTTY-User-Key-File-3: ssh-ed25519\n", "PuTTY"),
            (
                "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n",
                "passphrase",
            ),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n",
                "passphrase",
            ),
            (
                "-----BEGIN OPENSSH PRIVATE KEY-----\n!\n-----END",
                "damaged",
            ),
            (
                "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END",
                "damaged",
            ),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n", "no private key"),
        ] {
            let problem = key_problem(text).unwrap_or("none");
            assert!(problem.contains(expected), "{text:?} gave {problem}");
        }
    }

    proptest! {
        #[test]
        fn checking_a_key_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..80), text in ".*") {
            let _ = openssh_header(&bytes);
            let _ = openssh_header(&[b"openssh-key-v1\0".as_slice(), &bytes].concat());
            let _ = key_problem(&text);
            let _ = listed_types(&text, "10.0.0.1".parse().unwrap(), 22);
        }
    }
}
