//! What the real heketi needs: a configuration, and guests that look as if systemd ran them.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::json;

use crate::lab::process::Program;
use crate::lab::{Guest, GuestError, Lab};

/// The guests' spare disk, of which heketi makes a volume group.
pub(super) const DEVICE: &str = "/dev/ubdc";

/// heketi asks `systemctl status glusterd` before it uses a host; guests have no systemd. Its bricks are thin volumes.
const PREPARE: &str = r#"set -e
cat > /usr/local/sbin/systemctl <<'S'
#!/bin/sh
[ "$*" = "status glusterd" ] && exec pgrep -x glusterd
exit 3
S
chmod 755 /usr/local/sbin/systemctl
modprobe dm-thin-pool
touch /etc/fstab
"#;

/// Makes a storage guest fit for heketi.
pub(super) async fn prepare(guest: &Guest) -> Result<(), GuestError> {
    guest.run(PREPARE).await.map(drop)
}

/// heketi with its ssh executor, its state in `folder`.
pub(super) fn program(
    lab: &Lab,
    folder: &Path,
    port: u16,
    heketi: &Path,
    key: &str,
) -> io::Result<Program> {
    let config = json!({
        "port": port.to_string(),
        "jwt": {"admin": {"key": key}, "user": {"key": format!("{key}-user")}},
        "glusterfs": {
            "executor": "ssh",
            "db": folder.join("heketi.db"),
            "loglevel": "info",
            "auto_create_block_hosting_volume": false,
            "sshexec": {"keyfile": lab.ssh_key(), "user": "root", "port": "22", "fstab": "/etc/fstab"},
        },
    });
    let path = folder.join("heketi-config.json");
    fs::write(&path, config.to_string())?;
    let known_hosts = lab.known_hosts();
    Ok(lab
        .program(heketi)
        .env("SSH_KNOWN_HOSTS", known_hosts)
        .args(["--config".as_ref(), path.as_os_str()]))
}
