//! The lab's ssh keys: one for the client, one a guest, and the file of host keys that a client checks against.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::LabError;
use super::guest::Guest;
use super::process::Program;
use super::state::Folder;

/// Makes all keys and the file of host keys.
///
/// # Errors
/// When `ssh-keygen` is missing or the disk refuses.
pub(super) async fn generate(folder: &Folder, guests: &[Guest]) -> Result<(), LabError> {
    let mut known = String::new();
    let keys = folder.conf().join("keys");
    generate_one(&folder.client_key(), "lab").await?;
    for guest in guests {
        let key = keys.join(guest.name());
        generate_one(&key, guest.name()).await?;
        let public = key.with_extension("pub");
        let text = fs::read_to_string(&public).map_err(LabError::at(&public))?;
        let key_text: Vec<_> = text.split_ascii_whitespace().take(2).collect();
        let names: Vec<_> = [0, 1, 2]
            .map(|network| guest.address_on(network).to_string())
            .into();
        let _ = writeln!(
            known,
            "{},{} {}",
            names.join(","),
            guest.name(),
            key_text.join(" ")
        );
    }
    let path = folder.known_hosts();
    fs::write(&path, known).map_err(LabError::at(&path))
}

async fn generate_one(path: &Path, comment: &str) -> Result<(), LabError> {
    Program::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", comment, "-f"])
        .args([path])
        .output()
        .await
        .map(drop)
        .map_err(LabError::Program)
}
