//! The lab keeps its promises: commands, faults, sockets, holds, and that nothing stays.
//!
//! `LAB_ID` names a lab that is up already (`.ci/test` boots one); without it the tests boot their own.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use e2e::lab::process::Program;
use e2e::lab::{Command, Forward, Guest, GuestError, Hold, Lab, LabOptions, Moment};
use e2e::settings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

static LAB: OnceCell<Lab> = OnceCell::const_new();
/// One test at a time breaks things.
static TURN: Mutex<()> = Mutex::const_new(());

async fn lab() -> (&'static Lab, MutexGuard<'static, ()>) {
    let turn = TURN.lock().await;
    let lab = LAB
        .get_or_init(async || match settings::lab_id() {
            Some(id) => Lab::attach(&id).unwrap(),
            None => Lab::up(LabOptions::new(format!("it-{}", std::process::id())).unwrap())
                .await
                .unwrap(),
        })
        .await;
    (lab, turn)
}

async fn answers(from: &Guest, to: &Guest) -> bool {
    let address = to.address().to_string();
    let ping = ["ping", "-c1", "-W1", &address];
    from.exec(ping).await.unwrap().code == 0
}

async fn wait_for(what: &str, limit: Duration, mut holds: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !holds().await {
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn a_command_gives_its_exit_code_and_both_its_outputs() {
    let (lab, _turn) = lab().await;
    let guest = lab.guest("n1").unwrap();
    let command = Command::new(["sh", "-c", "cat; echo \"$WORD\" >&2; exit 7"])
        .env("WORD", "ä 'b'")
        .stdin("in");
    let output = guest.command(&command).await.unwrap();
    assert_eq!(
        (output.code, output.stdout.as_str(), output.stderr.as_str()),
        (7, "in", "ä 'b'\n")
    );
    assert_eq!(
        guest.exec(["sh", "-c", "kill -9 $$"]).await.unwrap().code,
        137
    );
    assert!(matches!(
        guest.exec(["/no/such"]).await,
        Err(GuestError::Refused { .. })
    ));
    assert_eq!(guest.run("hostname").await.unwrap(), "n1");
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_killed_in_the_guest() {
    let (lab, _turn) = lab().await;
    let guest = lab.guest("n1").unwrap();
    let start = Instant::now();
    let late = guest
        .exec_within(Duration::from_secs(1), ["sleep", "4242"])
        .await;
    assert!(matches!(late, Err(GuestError::Deadline { .. })), "{late:?}");
    assert!(start.elapsed() < Duration::from_secs(3));
    wait_for("the sleep is gone", Duration::from_secs(5), async || {
        guest
            .exec(["pgrep", "-f", "sleep 4242"])
            .await
            .unwrap()
            .code
            == 1
    })
    .await;
}

#[tokio::test]
async fn a_daemon_left_behind_does_not_keep_its_command() {
    let (lab, _turn) = lab().await;
    let guest = lab.guest("n1").unwrap();
    let start = Instant::now();
    let output = guest
        .exec(["sh", "-c", "setsid sleep 5 & echo out"])
        .await
        .unwrap();
    assert_eq!(output.stdout, "out\n");
    assert!(start.elapsed() < Duration::from_secs(4));
}

#[tokio::test]
async fn a_background_process_lives_until_it_is_killed() {
    let (lab, _turn) = lab().await;
    let guest = lab.guest("n1").unwrap();
    let log = Path::new("/run/lab-test/background.log");
    guest.remove_file(log).await.unwrap();
    let command = Command::new(["sh", "-c", "echo begun; sleep 4243; echo never"]);
    let process = guest.spawn(&command, log).await.unwrap();
    wait_for("it writes", Duration::from_secs(5), async || {
        process.log().await.unwrap() == "begun\n"
    })
    .await;
    assert!(process.is_running().await.unwrap());
    process.kill().await.unwrap();
    assert!(!process.is_running().await.unwrap());
    assert_eq!(
        guest
            .exec(["pgrep", "-f", "sleep 4243"])
            .await
            .unwrap()
            .code,
        1
    );
}

#[tokio::test]
async fn files_go_in_and_come_back_and_are_shared() {
    let (lab, _turn) = lab().await;
    let guest = lab.guest("n1").unwrap();
    let content: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    guest
        .write_file("/run/lab-test/new/file", 0o640, &content)
        .await
        .unwrap();
    assert_eq!(
        guest.read_file("/run/lab-test/new/file").await.unwrap(),
        content
    );
    assert_eq!(
        guest
            .run("stat -c %a /run/lab-test/new/file")
            .await
            .unwrap(),
        "640"
    );
    guest
        .run("echo from inside > /lab/share/note")
        .await
        .unwrap();
    assert_eq!(
        std::fs::read_to_string(lab.share().join("note")).unwrap(),
        "from inside\n"
    );
    assert!(guest.read_file("/no/such").await.is_err());
}

#[tokio::test]
async fn a_socket_here_leads_to_one_in_a_guest_across_restarts_of_its_server() {
    let (lab, _turn) = lab().await;
    let guest = lab.guest("n1").unwrap();
    let here = lab.run_dir().join("echo.sock");
    let forward = Forward::to_guest_socket(&guest, "/run/echo.sock", &here).unwrap();
    let server = Command::new([
        "socat",
        "UNIX-LISTEN:/run/echo.sock,fork,unlink-early",
        "EXEC:cat",
    ]);
    for round in [b"one", b"two"] {
        let process = guest
            .spawn(&server, Path::new("/run/echo.log"))
            .await
            .unwrap();
        wait_for("the server listens", Duration::from_secs(5), async || {
            guest.connect("/run/echo.sock").await.is_ok()
        })
        .await;
        let mut stream = UnixStream::connect(forward.socket().unwrap())
            .await
            .unwrap();
        stream.write_all(round).await.unwrap();
        let mut back = [0; 3];
        stream.read_exact(&mut back).await.unwrap();
        assert_eq!(&back, round);
        process.kill().await.unwrap();
        assert_eq!(
            stream.read(&mut back).await.unwrap_or(0),
            0,
            "the end is passed on"
        );
    }
}

#[tokio::test]
async fn a_guest_that_is_cut_off_is_silent_to_others_but_not_to_the_lab() {
    let (lab, _turn) = lab().await;
    let (node, storage) = (lab.guest("n1").unwrap(), lab.guest("s1").unwrap());
    assert!(answers(&node, &storage).await);
    storage.cut().await.unwrap();
    assert!(!answers(&node, &storage).await);
    assert_eq!(storage.run("hostname").await.unwrap(), "s1");
    storage.join().await.unwrap();
    wait_for("it answers again", Duration::from_secs(10), async || {
        answers(&node, &storage).await
    })
    .await;
}

#[tokio::test]
async fn a_paused_guest_hangs_and_goes_on() {
    let (lab, _turn) = lab().await;
    let (node, storage) = (lab.guest("n1").unwrap(), lab.guest("s1").unwrap());
    storage.pause().unwrap();
    let hung = storage.exec_within(Duration::from_secs(1), ["true"]).await;
    let silent = !answers(&node, &storage).await;
    storage.resume().unwrap();
    assert!(matches!(hung, Err(GuestError::Deadline { .. })), "{hung:?}");
    assert!(silent);
    assert_eq!(storage.exec(["true"]).await.unwrap().code, 0);
}

#[tokio::test]
async fn a_killed_guest_is_known_to_be_down_and_boots_with_its_disks() {
    let (lab, _turn) = lab().await;
    let guest = lab.guest("n2").unwrap();
    guest.run("echo kept > /root/kept; sync").await.unwrap();
    let waiting = tokio::spawn({
        let guest = guest.clone();
        async move { guest.exec(["sleep", "60"]).await }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    guest.kill().await.unwrap();
    assert!(!guest.is_running());
    let waited = waiting.await.unwrap();
    assert!(
        matches!(
            waited,
            Err(GuestError::Down { .. } | GuestError::Unreachable { .. })
        ),
        "{waited:?}"
    );
    guest.start().await.unwrap();
    assert_eq!(guest.run("cat /root/kept").await.unwrap(), "kept");
}

#[tokio::test]
async fn a_held_tool_stops_before_or_after_it_ran() {
    let (lab, _turn) = lab().await;
    let guest = lab.guest("n1").unwrap();
    let blank = "rm -f /run/disk; truncate -s 64M /run/disk";
    let has_signature = async || guest.run("blkid /run/disk || true").await.unwrap() != "";
    let format = Command::new(["mkfs.ext4", "-q", "/run/disk"]);
    for (moment, done) in [(Moment::Before, false), (Moment::After, true)] {
        guest.run(blank).await.unwrap();
        guest
            .hold(&[Hold {
                moment,
                tool: "mkfs.ext4",
                pattern: "*disk*",
            }])
            .await
            .unwrap();
        let process = guest
            .spawn(&format, Path::new("/run/format.log"))
            .await
            .unwrap();
        guest.held(Duration::from_secs(10)).await.unwrap();
        assert_eq!(has_signature().await, done, "{moment:?}");
        assert!(process.is_running().await.unwrap());
        guest.release().await.unwrap();
        wait_for("it goes on", Duration::from_secs(10), async || {
            !process.is_running().await.unwrap()
        })
        .await;
        assert!(has_signature().await);
    }
    guest.run(blank).await.unwrap();
    guest
        .hold(&[Hold {
            moment: Moment::Before,
            tool: "mkfs.ext4",
            pattern: "*disk*",
        }])
        .await
        .unwrap();
    let process = guest
        .spawn(&format, Path::new("/run/format.log"))
        .await
        .unwrap();
    guest.held(Duration::from_secs(10)).await.unwrap();
    guest.kill_held().await.unwrap();
    assert!(!process.is_running().await.unwrap());
    assert!(!has_signature().await, "it never ran");
}

#[tokio::test]
async fn the_storage_guests_form_one_pool_and_open_to_the_labs_key() {
    let (lab, _turn) = lab().await;
    for guest in lab.storage() {
        let pool = guest.run("gluster --mode=script pool list").await.unwrap();
        assert_eq!(
            pool.matches("Connected").count(),
            lab.storage().count(),
            "{pool}"
        );
        let ssh =
            lab.program("ssh")
                .args(["-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes"]);
        let known = format!("UserKnownHostsFile={}", lab.known_hosts().display());
        let host = format!("root@{}", guest.address());
        let name = ssh
            .args(["-o", &known, "-i"])
            .args([lab.ssh_key()])
            .args([&host, "hostname"]);
        assert_eq!(name.output().await.unwrap().trim(), guest.name());
    }
}

#[tokio::test]
async fn guests_have_the_kernel_parts_and_daemons_of_their_role() {
    let (lab, _turn) = lab().await;
    for guest in lab.storage() {
        guest.run("mkdir -p /sys/kernel/config/target/iscsi /sys/kernel/config/target/core/fileio_0; rmdir /sys/kernel/config/target/core/fileio_0").await.unwrap();
        guest
            .run("grep -q fuse /proc/filesystems && mountpoint -q /bricks && pgrep -x glusterd")
            .await
            .unwrap();
    }
    for guest in lab.nodes() {
        let sessions = guest.exec(["iscsiadm", "-m", "session"]).await.unwrap();
        assert_eq!(
            sessions.code, 21,
            "no session is no failure to ask: {}",
            sessions.stderr
        );
        let status = guest.run("multipathd show status").await.unwrap();
        assert!(status.contains("path checker states"), "{status}");
        guest
            .run("test -d /sys/module/dm_multipath && test -d /sys/module/iscsi_tcp")
            .await
            .unwrap();
        let name = guest
            .run("cat /etc/iscsi/initiatorname.iscsi")
            .await
            .unwrap();
        assert_eq!(name, format!("InitiatorName={}", guest.initiator()));
    }
}

#[tokio::test]
async fn the_daemon_of_a_storage_guest_is_another_after_a_restart() {
    let (lab, _turn) = lab().await;
    let guest = lab.guest("s1").unwrap();
    let daemon = "pid=$(cat /run/lab/blockd.pid); test -d /proc/$pid; echo $pid";
    let before = guest.run(daemon).await.unwrap();
    guest.run("/usr/lib/lab/blockd restart").await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let after = guest.run(daemon).await.unwrap();
    assert_ne!(before, after);
    assert_eq!(
        guest
            .exec(["test", "-d", &format!("/proc/{before}")])
            .await
            .unwrap()
            .code,
        1
    );
    assert!(
        guest
            .run("gluster-block version")
            .await
            .unwrap()
            .contains("gluster-block")
    );
}

/// True when neither a folder, nor a namespace, nor a process of that lab is left.
async fn nothing_is_left_of(id: &str) -> bool {
    let folder = Path::new("/tmp/gbcsi").join(id);
    let namespace = PathBuf::from(format!("/run/netns/gbcsi-{id}"));
    let pattern = format!("[/]tmp/gbcsi/{id}/");
    !folder.try_exists().unwrap()
        && !namespace.try_exists().unwrap()
        && Program::new("pgrep")
            .args(["-f", &pattern])
            .output()
            .await
            .is_err()
}

fn up(id: &str, more: &[&str]) -> Program {
    let small = ["up", "--storage", "0", "--nodes", "1", "--id", id];
    Program::new(env!("CARGO_BIN_EXE_lab"))
        .args(small)
        .args(more)
        .within(Duration::from_mins(2))
}

#[tokio::test]
async fn a_second_lab_lives_beside_the_first_and_goes_with_its_killed_owner() {
    let (first, _turn) = lab().await;
    let id = format!("two-{}", std::process::id());
    let log = first.run_dir().join("owner.log");
    let mut owner = Program::new("sleep")
        .args(["300"])
        .background(&log)
        .unwrap();
    let pid = owner.pid().unwrap().to_string();
    up(&id, &["--owner", &pid]).output().await.unwrap();
    let second = Lab::attach(&id).unwrap();
    let (here, there) = (first.guest("n1").unwrap(), second.guest("n1").unwrap());
    assert_eq!(here.address(), there.address());
    there.run("touch /root/second").await.unwrap();
    assert!(here.read_file("/root/second").await.is_err());
    assert!(up(&id, &[]).output().await.is_err(), "the name is taken");
    owner.kill().await;
    wait_for("all is gone", Duration::from_secs(20), async || {
        nothing_is_left_of(&id).await
    })
    .await;
    assert_eq!(here.run("hostname").await.unwrap(), "n1");
}

#[tokio::test]
async fn a_lab_goes_with_its_value() {
    let id = format!("val-{}", std::process::id());
    let mut options = LabOptions::new(&id).unwrap();
    (options.storage, options.nodes) = (0, 1);
    options.bin_dir = Path::new(env!("CARGO_BIN_EXE_lab"))
        .parent()
        .unwrap()
        .to_owned();
    let lab = Lab::up(options).await.unwrap();
    assert!(lab.guest("n1").unwrap().is_running());
    drop(lab);
    wait_for("all is gone", Duration::from_secs(5), async || {
        nothing_is_left_of(&id).await
    })
    .await;
}

#[tokio::test]
async fn a_lab_whose_builder_is_killed_while_it_boots_leaves_nothing() {
    let id = format!("cut-{}", std::process::id());
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut builder = up(&id, &[]).background(log.path()).unwrap();
    let console = format!("/tmp/gbcsi/{id}/logs/n1.console");
    wait_for("its guest boots", Duration::from_mins(3), async || {
        std::fs::metadata(&console).is_ok_and(|file| file.len() > 0)
    })
    .await;
    builder.kill().await;
    wait_for("all is gone", Duration::from_secs(20), async || {
        nothing_is_left_of(&id).await
    })
    .await;
}
