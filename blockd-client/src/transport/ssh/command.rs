//! The command line of each request.
//!
//! sshd hands a command to the user's shell as one text, so an argument list has to become one. That
//! happens in [`quote`] and nowhere else.

use std::time::Duration;

use crate::block::{CreateBlock, Prealloc};
use crate::transport::Request;

const CONFIGFS: &str = "/sys/kernel/config";
const PROC: &str = "/proc";

/// Prints who is logged in to target `$2` below the configfs `$1`, and `end`.
///
/// A target that is not there has no sessions; a configfs that is not mounted is an error, for then nothing can be said. Static
/// entries print `InitiatorName:` only while logged in. A target that vanishes midway makes it fail, which is right.
const SESSIONS: &str = r#"
base=$1/target/iscsi
[ -d "$base" ] || grep -qs " $1 configfs " "$3/mounts" || { echo "configfs is not mounted" >&2; exit 1; }
for tpg in "$base/$2"/tpgt_*; do
  [ -d "$tpg" ] || continue
  cat "$tpg/dynamic_sessions" || exit 1
  for info in "$tpg"/acls/*/info; do
    [ -f "$info" ] || continue
    sed -n 's/^InitiatorName: *//p' "$info" || exit 1
  done
done
echo end
"#;

/// Prints which of gluster-blockd's sockets listen, by the kernel's tables below `$1`, and `end`.
///
/// In the table of Unix sockets a listening one has the flag 00010000; in the one of TCP sockets the state 0A, and 24010 is
/// 5DCA. Nothing is sent to the daemon. A stale socket file is no listening socket.
const PING: &str = r#"
look() {
  grep -Eqi "$2" "$3"
  case $? in 0) echo "$1";; 1) ;; *) exit 1;; esac
}
look unix ' 00010000 0001 01 +[0-9]+ (/var)?/run/gluster-blockd\.socket$' "$1/net/unix"
look tcp '^ *[0-9]+: [0-9A-F]+:5DCA [0-9A-F]+:0000 0A ' "$1/net/tcp"
echo end
"#;

/// The shell command line for `request`, to be given up just after `deadline`.
pub(super) fn line(program: &str, request: &Request, deadline: Duration) -> String {
    let words = words(program, request, deadline);
    words
        .iter()
        .map(|word| quote(word))
        .collect::<Vec<_>>()
        .join(" ")
}

fn words(program: &str, request: &Request, deadline: Duration) -> Vec<String> {
    let arguments = match request {
        Request::Create(block) => create(block),
        Request::Delete(id) => vec!["delete".to_owned(), id.to_string()],
        Request::Info(id) => vec!["info".to_owned(), id.to_string()],
        Request::List(volume) => vec!["list".to_owned(), volume.to_string()],
        Request::Resize(id, size) => {
            vec![
                "modify".to_owned(),
                id.to_string(),
                "size".to_owned(),
                size.bytes().to_string(),
            ]
        }
        Request::Sessions(iqn) => return script(SESSIONS, &[CONFIGFS, &iqn.to_string(), PROC]),
        Request::Ping => return script(PING, &[PROC]),
    };
    // `timeout` must be the first word and `--json` the last. The daemon's own setting, where there is one, beats it.
    let patience = deadline.as_secs().saturating_add(1).to_string();
    let mut words = vec![program.to_owned(), "timeout".to_owned(), patience];
    words.extend(arguments);
    words.push("--json".to_owned());
    words
}

fn create(block: &CreateBlock) -> Vec<String> {
    let CreateBlock {
        id,
        size,
        hosts,
        auth,
        prealloc,
        block_size,
        io_timeout,
        ring_buffer,
    } = block;
    let auth = if *auth { "enable" } else { "disable" };
    let prealloc = match prealloc {
        Prealloc::Full => "full",
        Prealloc::No => "no",
    };
    let mut words = vec!["create".to_owned(), id.to_string()];
    let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
    option("ha", hosts.len().to_string());
    option("auth", auth.to_owned());
    option("prealloc", prealloc.to_owned());
    if let Some(megabytes) = ring_buffer {
        option("ring-buffer", megabytes.to_string());
    }
    if let Some(bytes) = block_size {
        option("block-size", bytes.to_string());
    }
    if let Some(timeout) = io_timeout {
        option("io-timeout", timeout.as_secs().to_string());
    }
    let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    words.extend([hosts.join(","), size.bytes().to_string()]);
    words
}

fn script(text: &str, arguments: &[&str]) -> Vec<String> {
    let mut words = vec![
        "sh".to_owned(),
        "-c".to_owned(),
        text.to_owned(),
        "sh".to_owned(),
    ];
    words.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    words
}

/// One word for a POSIX shell, which takes it as it is.
///
/// Between single quotes everything means itself but the single quote. A NUL byte cannot be in an argument
/// and none of our types holds one; it is left out.
fn quote(word: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_-./:,@%+=".contains(&b);
    if !word.is_empty() && word.bytes().all(plain) && !word.contains('=') {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\0', "").replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests;
