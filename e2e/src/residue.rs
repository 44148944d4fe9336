//! What a volume leaves behind on a node and on a storage host: looked for in the kernel, in folders and in mounts.
//!
//! The scripts name everything of gluster-block or of the driver that they find, a line each. No line is a clean host.

/// Lists on a node: sessions, node records, SCSI devices, maps, kubelet mounts and targets, journal entries.
///
/// `@STATE@` stands for the node plugin's state folder.
const NODE: &str = r#"
for s in /sys/class/iscsi_session/session*; do
    [ -e "$s" ] && echo "session $(cat "$s/targetname")"
done
[ -d /etc/iscsi/nodes ] && find /etc/iscsi/nodes -mindepth 1 -maxdepth 1 -name 'iqn.2016-12.org.gluster-block:*' -printf 'record %f\n'
for d in /sys/block/sd*; do
    [ -e "$d" ] && echo "device ${d##*/}"
done
for d in /sys/block/dm-*; do
    [ -e "$d" ] && echo "map $(cat "$d/dm/name")"
done
while read -r _ _ _ _ target _; do
    case $target in /var/lib/kubelet/*) echo "mount $target" ;; esac
done < /proc/self/mountinfo
[ -d /var/lib/kubelet/pods ] && find /var/lib/kubelet/pods -mindepth 5 -name mount -printf 'target %p\n'
[ -d /var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/publish ] &&
    find /var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/publish -mindepth 2 -printf 'target %p\n'
[ -d @STATE@ ] && find @STATE@ -type f ! -name '*.lock' -printf 'journal %f\n'
true
"#;

/// Lists on a storage host: iSCSI targets and the backstores behind them.
const STORAGE: &str = r"
for t in /sys/kernel/config/target/iscsi/iqn.2016-12.org.gluster-block:*; do
    [ -e $t ] && echo target ${t##*/}
done
for b in /sys/kernel/config/target/core/*_*/*; do
    [ -d $b ] && case ${b##*/} in alua|statistics|wwn|attrib|pr|hba_info) ;; *) echo backstore ${b##*/} ;; esac
done
true
";

/// The script that lists what is left on a node whose plugin keeps its journal in `state_dir`.
#[must_use]
pub fn node_script(state_dir: &str) -> String {
    NODE.replace("@STATE@", state_dir)
}

/// The script that lists what is left on a storage host.
#[must_use]
pub fn storage_script() -> String {
    STORAGE.to_owned()
}

/// The findings in a script's output.
#[must_use]
pub fn findings(output: &str) -> Vec<String> {
    output
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_answer_is_a_clean_host() {
        assert!(findings("\n  \n").is_empty());
    }

    #[test]
    fn every_line_is_a_finding() {
        assert_eq!(
            findings("map mpatha\ndevice sda\n"),
            ["map mpatha", "device sda"]
        );
    }
}
