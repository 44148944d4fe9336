//! The command lines as text, the quoting against a real shell, and the two scripts against small trees.

#![expect(
    clippy::disallowed_methods,
    reason = "the shell itself is what is tested against"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use proptest::prelude::*;

use super::*;
use crate::vocabulary::Capacity;

const IQN: &str = "iqn.2016-12.org.gluster-block:7f9aa1b2-aba7-4c77-9a5b-02a3ed562b15";

fn block() -> CreateBlock {
    CreateBlock {
        id: "hv/b1".parse().unwrap(),
        size: Capacity::from_bytes(1 << 30),
        hosts: ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
            .map(|host| host.parse().unwrap())
            .to_vec(),
        auth: true,
        prealloc: Prealloc::Full,
        block_size: None,
        io_timeout: None,
        ring_buffer: None,
    }
}

fn text(request: &Request) -> String {
    line("gluster-block", request, Duration::from_mins(1))
}

#[test]
fn the_command_lines_are_the_documented_ones() {
    insta::assert_snapshot!(text(&Request::Create(block())), @"gluster-block timeout 61 create hv/b1 ha 3 auth enable prealloc full 10.0.0.1,10.0.0.2,10.0.0.3 1073741824 --json");
    let options = CreateBlock {
        auth: false,
        prealloc: Prealloc::No,
        block_size: Some(4096),
        io_timeout: Some(Duration::from_mins(1)),
        ring_buffer: Some(32),
        ..block()
    };
    insta::assert_snapshot!(text(&Request::Create(options)), @"gluster-block timeout 61 create hv/b1 ha 3 auth disable prealloc no ring-buffer 32 block-size 4096 io-timeout 60 10.0.0.1,10.0.0.2,10.0.0.3 1073741824 --json");
    let id = || block().id;
    insta::assert_snapshot!(text(&Request::Delete(id())), @"gluster-block timeout 61 delete hv/b1 --json");
    insta::assert_snapshot!(text(&Request::Info(id())), @"gluster-block timeout 61 info hv/b1 --json");
    insta::assert_snapshot!(text(&Request::List(id().hosting_volume)), @"gluster-block timeout 61 list hv --json");
    insta::assert_snapshot!(text(&Request::Resize(id(), Capacity::from_bytes(2 << 30))), @"gluster-block timeout 61 modify hv/b1 size 2147483648 --json");
}

#[test]
fn a_program_with_odd_characters_is_one_word() {
    let request = Request::Info(block().id);
    let text = line(
        "/opt/my tools/gluster-block",
        &request,
        Duration::from_millis(1),
    );
    assert_eq!(
        text,
        "'/opt/my tools/gluster-block' timeout 1 info hv/b1 --json"
    );
}

fn shell(text: &str) -> Output {
    Command::new("/bin/sh")
        .arg("-c")
        .arg(text)
        .output()
        .unwrap()
}

/// Runs one of the scripts with its places below `root`.
fn run_script(request: &Request, root: &Path) -> (Option<i32>, String) {
    let root = root.to_str().unwrap();
    let mut words = words("gluster-block", request, Duration::from_secs(1));
    for word in &mut words {
        if word == CONFIGFS || word == PROC {
            *word = format!("{root}{word}");
        }
    }
    let output = shell(
        &words
            .iter()
            .map(|word| quote(word))
            .collect::<Vec<_>>()
            .join(" "),
    );
    (
        output.status.code(),
        String::from_utf8(output.stdout).unwrap(),
    )
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn sessions_of_every_portal_group_are_printed_static_ones_too() {
    let root = tempfile::tempdir().unwrap();
    let target = format!("sys/kernel/config/target/iscsi/{IQN}");
    write(
        root.path(),
        &format!("{target}/tpgt_1/dynamic_sessions"),
        "iqn.1993-08.org.debian:01:a\n\0iqn.1993-08.org.debian:01:b\n\0",
    );
    write(
        root.path(),
        &format!("{target}/tpgt_2/dynamic_sessions"),
        "",
    );
    write(
        root.path(),
        &format!("{target}/tpgt_2/acls/iqn.1993-08.org.debian:c/info"),
        "InitiatorName: iqn.1993-08.org.debian:c\nInitiatorAlias: \n",
    );
    write(
        root.path(),
        &format!("{target}/tpgt_2/acls/iqn.1993-08.org.debian:d/info"),
        "No active iSCSI Session for Initiator Endpoint: iqn.1993-08.org.debian:d\n",
    );
    let (exit, text) = run_script(&Request::Sessions(IQN.parse().unwrap()), root.path());
    let lines: Vec<_> = text
        .split(['\n', '\0'])
        .filter(|line| !line.is_empty())
        .collect();
    let names = [
        "iqn.1993-08.org.debian:01:a",
        "iqn.1993-08.org.debian:01:b",
        "iqn.1993-08.org.debian:c",
        "end",
    ];
    assert_eq!((exit, lines.as_slice()), (Some(0), names.as_slice()));
}

#[test]
fn a_target_that_is_not_there_has_no_sessions() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("sys/kernel/config/target/iscsi")).unwrap();
    let sessions = Request::Sessions(IQN.parse().unwrap());
    assert_eq!(
        run_script(&sessions, root.path()),
        (Some(0), "end\n".to_owned())
    );
}

#[test]
fn a_kernel_without_targets_has_no_sessions_if_its_configfs_is_mounted() {
    let root = tempfile::tempdir().unwrap();
    let sessions = Request::Sessions(IQN.parse().unwrap());
    assert_eq!(run_script(&sessions, root.path()), (Some(1), String::new()));
    let mounts = format!(
        "configfs {}{CONFIGFS} configfs rw,relatime 0 0\n",
        root.path().display()
    );
    write(root.path(), "proc/mounts", &mounts);
    assert_eq!(
        run_script(&sessions, root.path()),
        (Some(0), "end\n".to_owned())
    );
}

#[test]
fn a_target_that_cannot_be_read_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    let group = format!("sys/kernel/config/target/iscsi/{IQN}/tpgt_1");
    fs::create_dir_all(root.path().join(group)).unwrap();
    let (exit, text) = run_script(&Request::Sessions(IQN.parse().unwrap()), root.path());
    assert_eq!((exit, text.as_str()), (Some(1), ""));
}

#[test]
fn ping_finds_listening_sockets_and_no_others() {
    let root = tempfile::tempdir().unwrap();
    let unix = |flags: &str, path: &str| {
        format!(
            "Num       RefCount Protocol Flags    Type St Inode Path\nffff8880: 00000002 00000000 {flags} 0001 01 21543 {path}\n"
        )
    };
    let tcp = |port: &str, state: &str| {
        format!(
            "  sl  local_address rem_address   st tx_queue\n   0: 00000000:{port} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000     0        0 21542 1\n"
        )
    };
    let ping = |unix: &str, tcp: &str| {
        write(root.path(), "proc/net/unix", unix);
        write(root.path(), "proc/net/tcp", tcp);
        run_script(&Request::Ping, root.path())
    };
    let (listening, socket) = ("00010000", "/var/run/gluster-blockd.socket");
    assert_eq!(
        ping(&unix(listening, socket), &tcp("5DCA", "0A")),
        (Some(0), "unix\ntcp\nend\n".to_owned())
    );
    assert_eq!(
        ping(&unix(listening, "/run/gluster-blockd.socket"), ""),
        (Some(0), "unix\nend\n".to_owned())
    );
    assert_eq!(
        ping(&unix("00000000", socket), &tcp("5DCA", "01")),
        (Some(0), "end\n".to_owned())
    );
    assert_eq!(
        ping(&unix(listening, "/run/other.socket"), &tcp("5DCB", "0A")),
        (Some(0), "end\n".to_owned())
    );
    fs::remove_file(root.path().join("proc/net/tcp")).unwrap();
    assert_eq!(run_script(&Request::Ping, root.path()).0, Some(1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_shell_gives_every_word_back(words in prop::collection::vec("[^\0]{0,24}", 1..6)) {
        let quoted: Vec<_> = words.iter().map(|word| quote(word)).collect();
        let output = shell(&format!("printf '%s\\0' {}", quoted.join(" ")));
        prop_assert!(output.status.success());
        let back: Vec<_> = output.stdout.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word)).collect();
        prop_assert_eq!(&back[..words.len()], words.as_slice());
    }

    #[test]
    fn a_shell_gives_nasty_words_back(words in prop::collection::vec("[-'\"$`\\\\ \n\t;&|<>()*?!#~=%a]{1,16}", 1..4)) {
        let quoted: Vec<_> = words.iter().map(|word| quote(word)).collect();
        let output = shell(&format!("printf '%s\\0' {}", quoted.join(" ")));
        let back: Vec<_> = output.stdout.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word)).collect();
        prop_assert_eq!(&back[..words.len()], words.as_slice());
    }
}
