//! The work of the driver done by hand: shell scripts with the bare commands, as an administrator would write them.
//!
//! They prove nothing: no identity of a path, no emptiness of a device, no journal, no second look. The difference to the
//! driver is the price of those proofs. Timers of sessions and flags of mkfs are the driver's in the lab, so that the same is
//! made.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use crate::lab::Guest;

/// Where a volume is mounted by hand, and bound to.
const STAGING: &str = "/mnt/by-hand/volume";
const TARGET: &str = "/mnt/by-hand/pod";
const LIMIT: Duration = Duration::from_mins(3);

/// A block as `gluster-block info` shows it to an administrator: where to log in, and with what.
#[derive(Clone, Deserialize)]
pub struct Block {
    #[serde(rename = "GBID")]
    gbid: String,
    #[serde(rename = "PASSWORD")]
    password: String,
    #[serde(rename = "EXPORTED ON")]
    hosts: Vec<String>,
}

/// Shown without the password.
impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Block")
            .field("gbid", &self.gbid)
            .field("hosts", &self.hosts)
            .finish_non_exhaustive()
    }
}

impl Block {
    /// Asks gluster-block on a storage host about `VOLUME/BLOCK`.
    ///
    /// # Errors
    /// When it does not say.
    pub async fn look_up(storage: &Guest, id: &str) -> anyhow::Result<Self> {
        let printed = storage
            .run(&format!("gluster-block info {id} --json"))
            .await?;
        // Its words hold a password: not for an error.
        serde_json::from_str(&printed)
            .ok()
            .with_context(|| format!("gluster-block info {id} has another form"))
    }

    /// The storage hosts that export it.
    #[must_use]
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Records, login, map, file system, mount, bind mount.
    fn stage_script(&self, fs: &str, format: bool) -> String {
        let mkfs = match (format, fs) {
            (false, _) => "",
            (true, "ext4") => "mkfs.ext4 -q -E nodiscard,lazy_journal_init=0 $map",
            (true, _) => "mkfs.xfs -q -K $map",
        };
        self.fill(&STAGE.replace("@FS@", fs).replace("@MKFS@", mkfs))
    }

    /// The way back, with no record left.
    fn unstage_script(&self) -> String {
        self.fill(UNSTAGE)
    }

    fn fill(&self, script: &str) -> String {
        let digits: String = self.gbid.replace('-', "").chars().take(25).collect();
        let iqn = format!("iqn.2016-12.org.gluster-block:{}", self.gbid);
        script
            .replace("@IQN@", &iqn)
            .replace("@HOSTS@", &self.hosts.join(" "))
            .replace("@PATHS@", &self.hosts.len().to_string())
            .replace("@USER@", &self.gbid)
            .replace("@PASSWORD@", &self.password)
            .replace("@WWID@", &format!("36001405{digits}"))
            .replace("@STAGING@", STAGING)
            .replace("@TARGET@", TARGET)
    }

    /// Stages and publishes it on a node; answers how long that took.
    ///
    /// # Errors
    /// When a command fails, or there is no map after a minute.
    pub async fn stage(&self, node: &Guest, fs: &str, format: bool) -> anyhow::Result<Duration> {
        timed(node, &self.stage_script(fs, format), "stage by hand").await
    }

    /// Takes it off a node; answers how long that took.
    ///
    /// # Errors
    /// When a command fails.
    pub async fn unstage(&self, node: &Guest) -> anyhow::Result<Duration> {
        timed(node, &self.unstage_script(), "unstage by hand").await
    }
}

/// Makes a block as the controller does; answers how long that took.
///
/// # Errors
/// When gluster-block refuses.
pub async fn create(
    storage: &Guest,
    id: &str,
    hosts: &[String],
    bytes: i64,
) -> anyhow::Result<Duration> {
    let command = format!(
        "gluster-block create {id} ha {} auth enable prealloc no {} {bytes} --json",
        hosts.len(),
        hosts.join(",")
    );
    timed(storage, &command, "create by hand").await
}

/// Deletes a block; answers how long that took.
///
/// # Errors
/// When gluster-block refuses.
pub async fn delete(storage: &Guest, id: &str) -> anyhow::Result<Duration> {
    let command = format!("gluster-block delete {id} --json");
    timed(storage, &command, "delete by hand").await
}

/// Runs a script, whose text and output may hold a password and stay out of errors but for the last line.
async fn timed(guest: &Guest, script: &str, what: &str) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    let output = guest.exec_within(LIMIT, ["sh", "-c", script]).await?;
    let took = begun.elapsed();
    ensure!(
        output.code == 0,
        "{what} on {} ended with {}: {}",
        guest.name(),
        output.code,
        output.stderr.lines().last().unwrap_or_default()
    );
    Ok(took)
}

const STAGE: &str = r#"
set -e
iqn=@IQN@ map=/dev/mapper/@WWID@
for host in @HOSTS@; do
    iscsiadm -m node -T $iqn -p $host:3260,-1 -o new > /dev/null
    iscsiadm -m node -T $iqn -p $host:3260 -o update \
        -n node.startup -v manual -n node.session.timeo.replacement_timeout -v 5 \
        -n 'node.conn[0].timeo.login_timeout' -v 5 -n 'node.conn[0].timeo.noop_out_interval' -v 2 \
        -n 'node.conn[0].timeo.noop_out_timeout' -v 3 -n node.session.auth.authmethod -v CHAP \
        -n node.session.auth.username -v @USER@ -n node.session.auth.password -v @PASSWORD@
done
iscsiadm -m node -T $iqn --login > /dev/null
complete() {
    [ -e $map ] || return 1
    for uuid in /sys/block/dm-*/dm/uuid; do
        read -r found < $uuid && [ "$found" = mpath-@WWID@ ] || continue
        set -- ${uuid%/dm/uuid}/slaves/*
        [ $# = @PATHS@ ] && return 0
    done
    return 1
}
tries=0
until complete; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || { echo 'no map with all paths' >&2; exit 1; }
    sleep 0.1
done
@MKFS@
mkdir -p @STAGING@ @TARGET@
mount -t @FS@ $map @STAGING@
mount --bind @STAGING@ @TARGET@
"#;

const UNSTAGE: &str = r"
set -e
iqn=@IQN@
umount @TARGET@
umount @STAGING@
rmdir @TARGET@ @STAGING@
tries=0
# udev looks at a device that was just unmounted and holds it for moments.
until multipath -f @WWID@ > /dev/null; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || { echo 'the map stays' >&2; exit 1; }
    sleep 0.1
done
iscsiadm -m node -T $iqn --logout > /dev/null
iscsiadm -m node -T $iqn -o delete
";

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = r#"{ "NAME": "pvc-1", "VOLUME": "hv", "GBID": "7f9aa1b2-aba7-4c77-9a5b-02a3ed562b15", "SIZE": "1.0 GiB",
        "HA": 2, "PASSWORD": "se-cret", "EXPORTED ON": [ "10.0.0.2", "10.0.0.1" ] }"#;

    #[test]
    fn nothing_is_left_to_fill_in() {
        let block: Block = serde_json::from_str(INFO).unwrap();
        for script in [
            block.stage_script("xfs", false),
            block.stage_script("ext4", true),
            block.unstage_script(),
        ] {
            assert!(!script.contains('@'), "{script}");
        }
    }

    #[test]
    fn the_map_is_named_by_the_wwid_that_follows_from_the_gbid() {
        let block: Block = serde_json::from_str(INFO).unwrap();
        let script = block.stage_script("xfs", false);
        assert!(script.contains("map=/dev/mapper/360014057f9aa1b2aba74c779a5b02a3e\n"));
        assert!(script.contains("for host in 10.0.0.2 10.0.0.1; do"));
    }

    #[test]
    fn only_the_first_stage_formats() {
        let block: Block = serde_json::from_str(INFO).unwrap();
        assert!(!block.stage_script("xfs", false).contains("mkfs"));
        assert!(block.stage_script("xfs", true).contains("mkfs.xfs -q -K"));
        assert!(block.stage_script("ext4", true).contains("mkfs.ext4 -q"));
    }

    #[test]
    fn a_block_is_shown_without_its_password() {
        let block: Block = serde_json::from_str(INFO).unwrap();
        assert!(!format!("{block:?}").contains("se-cret"));
    }
}
