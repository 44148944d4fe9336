//! Writing while the storage host that serves a volume is lost: the parts that the demo and the benchmark share.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;

use crate::lab::{Guest, Lab};

/// The command for a node that writes blocks of 4 KiB below `directory`, each one on disk before the next, for so many
/// seconds, verifies all of them and leaves its results for [`longest_wait`].
#[must_use]
pub fn fio(directory: &Path, seconds: u32) -> String {
    format!(
        "fio --name=life --directory={} --size=16M --rw=randwrite --bs=4k --direct=1 --sync=1 --rate_iops=40 \
         --time_based --runtime={seconds} --verify=crc32c --verify_fatal=1 --do_verify=1 --output-format=json > /tmp/fio.json",
        directory.display()
    )
}

/// The storage host that serves the only volume on the node: the portal of the path with priority 50 names it.
///
/// # Errors
/// When there is none.
pub async fn serving(lab: &Lab, node: &Guest) -> anyhow::Result<Guest> {
    let serving = node.run(SERVING).await?;
    let host = lab
        .storage()
        .find(|guest| guest.address().to_string() == serving);
    host.cloned()
        .with_context(|| format!("no storage host has the address {serving:?}"))
}

/// The longest completion time of a write of the last [`fio`], in seconds.
///
/// # Errors
/// When fio left no results.
pub async fn longest_wait(node: &Guest) -> anyhow::Result<f64> {
    let nanoseconds = node.run(LONGEST_WAIT).await?;
    let nanoseconds = nanoseconds.parse().context("fio left no results")?;
    Ok(Duration::from_nanos(nanoseconds).as_secs_f64())
}

const SERVING: &str = r#"
d=$(multipathd show paths raw format '%d %p %t' | awk '$2 == 50 && $3 == "active" {print $1}' | head -1)
[ -n $d ] || d=$(multipathd show paths raw format '%d %t' | awk '$2 == "active" {print $1}' | head -1)
h=$(basename $(readlink -f /sys/block/$d/device) | cut -d: -f1)
for s in /sys/class/iscsi_session/session*; do
    [ $(basename $(readlink -f $s/device/..)) = host$h ] && cat $s/device/connection*/iscsi_connection/*/persistent_address
done
true
"#;

const LONGEST_WAIT: &str = r"sed -n '/^{/,$p' /tmp/fio.json | jq -r '.jobs[0].write.clat_ns.max'";
