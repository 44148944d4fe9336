//! What gluster-block's messages mean.
//!
//! The number beside a message is one of three kinds (errno, gluster-block's own, RPC status), and the kinds overlap: 2 is
//! three different things, 4 and 5 are also RPC states, 255 is nearly everything. So the words decide, and the
//! number only confirms.

use crate::vocabulary::{HostAddress, VolumeId};
use crate::wire::excerpt;

/// What a failing answer says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    NoAnswer,
    DaemonDown,
    BlockMissing,
    VolumeMissing,
    Exists,
    NameTaken(Vec<HostAddress>),
    NoSpace,
    HostDown(HostAddress),
    HostOld(HostAddress, String),
    HostsFailed(Vec<HostAddress>),
    Unconfigured,
    SameSize,
    Shrink(String),
    VolumeTrouble,
    Refused,
    Unknown,
}

/// Finds the meaning of a failure of the block (or, for `list`, the volume) that was asked about.
///
/// The first row that fits counts.
///
/// | words                                                          | number | meaning                     |
/// |----------------------------------------------------------------|--------|-----------------------------|
/// | `Did not receive any response from gluster-block daemon`       |        | no answer                   |
/// | `RPC: Remote system error`, `Connection failed. Please check…` |        | the daemon does not run     |
/// | `Version check failed` … `the capability 'C' … on host H`      |        | H is too old for C          |
/// | `Version check failed` … `host H returned N`                   |        | H is down                   |
/// | `block V/B doesn't exist`, of this block                       | 2      | the block is missing        |
/// | `Volume V does not exist`, of this volume                      | 2      | the volume is missing       |
/// | `Some of the nodes are missing configuration`                  |        | a host has no configuration |
/// | `… already EXIST`                                              | 17     | a block of that name exists |
/// | `failed to configure on H … (Hint: may be hosted`              |        | H has that name already     |
/// | `Low space on the volume`                                      |        | no space (28, or 255)       |
/// | `failed to configure on H`                                     |        | H failed                    |
/// | `block volume resize failed: H:[size]`                         |        | H failed                    |
/// | `request size (S) is same as current size`                     |        | same size                   |
/// | `Shrink size ?` … `[current size S`                            |        | would shrink from S         |
/// | `Not able to`, `Check if volume`, `Transport endpoint`         |        | the volume cannot be used   |
/// | anything                                                       | 107    | the volume cannot be used   |
/// | usage, the grammar of a command, complaints about arguments    |        | the request is refused      |
/// | `not aligned`                                                  | 22     | the request is refused      |
/// | anything else                                                  |        | unknown                     |
pub(super) fn meaning(
    code: Option<i64>,
    words: &str,
    volume: &str,
    id: Option<&VolumeId>,
) -> Meaning {
    let has = |part: &str| words.contains(part);
    let missing_block = id.is_some_and(|id| words_are(words, &format!("block {id} doesn't exist")));
    if has("Did not receive any response from gluster-block daemon") {
        return Meaning::NoAnswer;
    }
    if has("RPC: Remote system error")
        || has("Connection failed. Please check if gluster-block daemon")
    {
        return Meaning::DaemonDown;
    }
    if has("Version check failed") {
        return version_check(words);
    }
    if missing_block && code == Some(2) {
        return Meaning::BlockMissing;
    }
    if words_are(words, &format!("Volume {volume} does not exist")) && code == Some(2) {
        return Meaning::VolumeMissing;
    }
    if has("Some of the nodes are missing configuration") {
        return Meaning::Unconfigured;
    }
    if has("already EXIST") && code == Some(17) {
        return Meaning::Exists;
    }
    if has("(Hint: may be hosted on a different block-hosting volume)") {
        let lines = words
            .lines()
            .filter(|line| line.contains("(Hint: may be hosted"));
        return Meaning::NameTaken(
            lines
                .flat_map(|line| hosts_after(line, CONFIGURE))
                .collect(),
        );
    }
    if has("Low space on the volume") {
        return Meaning::NoSpace;
    }
    if has(CONFIGURE) {
        return Meaning::HostsFailed(hosts_after(words, CONFIGURE));
    }
    if let Some((_, table)) = words.split_once("block volume resize failed:") {
        return Meaning::HostsFailed(resize_table(table));
    }
    if has("request size (") && has("is same as current size (") {
        return Meaning::SameSize;
    }
    if has("Shrink size ?") {
        return Meaning::Shrink(
            between(words, "[current size ", ",")
                .unwrap_or_default()
                .to_owned(),
        );
    }
    if code == Some(107)
        || ["Not able to ", "Check if volume ", "Transport endpoint "]
            .into_iter()
            .any(has)
    {
        return Meaning::VolumeTrouble;
    }
    if code == Some(22) || REFUSALS.into_iter().any(has) {
        return Meaning::Refused;
    }
    Meaning::Unknown
}

const CONFIGURE: &str = "failed to configure on ";

/// Complaints of the command line about its arguments.
///
/// Most end with the grammar of their command, whose last word is `[--json*]`; the others are alone.
const REFUSALS: [&str; 13] = [
    " [--json*]",
    "Usage: ",
    "usage: ",
    "gluster-block [timeout ",
    "should contain only aplhanumeric",
    "hostnames are not supported with gluster-block",
    "number of ip's in the list passed are not matching",
    "multipath req: ",
    "Unknown option",
    "unrecognized option",
    "expecting '--json*'",
    "minimum acceptable block size",
    "Inadequate arguments",
];

/// Whether the words are this sentence, maybe with a full stop or white space around.
fn words_are(words: &str, sentence: &str) -> bool {
    words.trim().trim_end_matches('.') == sentence
}

fn version_check(words: &str) -> Meaning {
    let capability = between(words, "the capability '", "'");
    let old = hosts_after(words, "on host ").into_iter().next();
    if let (Some(capability), Some(host)) = (capability, old) {
        return Meaning::HostOld(host, excerpt(capability));
    }
    match hosts_after(words, "host ").into_iter().next() {
        Some(host) => Meaning::HostDown(host),
        None => Meaning::Unknown,
    }
}

/// The address behind each `marker`.
fn hosts_after(words: &str, marker: &str) -> Vec<HostAddress> {
    let address = |rest: &str| {
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        rest.get(..end)?.trim_end_matches('.').parse().ok()
    };
    words.split(marker).skip(1).filter_map(address).collect()
}

/// `10.0.0.1:[1.0 MiB] 10.0.0.2:[1.0 MiB]`
fn resize_table(table: &str) -> Vec<HostAddress> {
    let host = |part: &str| part.rsplit([' ', ',', '\n', ']']).next()?.parse().ok();
    table.split(":[").filter_map(host).collect()
}

fn between<'a>(words: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = words.split_once(before)?;
    rest.split_once(after).map(|(inside, _)| inside)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(code: i64, words: &str) -> Meaning {
        let id: VolumeId = "V/B".parse().unwrap();
        meaning(Some(code), words, "V", Some(&id))
    }

    fn hosts(texts: &[&str]) -> Vec<HostAddress> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn two_alone_is_never_a_missing_block() {
        assert_eq!(of(2, "block V/B doesn't exist"), Meaning::BlockMissing);
        assert_eq!(of(2, "block V/B doesn't exist\n"), Meaning::BlockMissing);
        assert_eq!(of(2, "Volume V does not exist"), Meaning::VolumeMissing);
        assert_eq!(
            of(
                2,
                "Some of the nodes are missing configuration, please check"
            ),
            Meaning::Unconfigured
        );
        assert_eq!(of(2, ""), Meaning::Unknown);
        assert_eq!(of(2, "block V/B2 doesn't exist"), Meaning::Unknown);
        assert_eq!(of(2, "block W/B doesn't exist"), Meaning::Unknown);
        assert_eq!(
            of(
                2,
                "storage file '/block-store/F' doesn't exist in volume V\n"
            ),
            Meaning::Unknown
        );
        assert_eq!(of(255, "block V/B doesn't exist"), Meaning::Unknown);
    }

    #[test]
    fn numbers_that_are_rpc_states_do_not_count_as_errno() {
        let words = "Version check failed between block servers. (host 10.55.0.3 returned 4)";
        assert_eq!(
            of(4, words),
            Meaning::HostDown("10.55.0.3".parse().unwrap())
        );
        assert_eq!(
            of(5, "Check if volume V is operational"),
            Meaning::VolumeTrouble
        );
        assert_eq!(of(5, ""), Meaning::Unknown);
        assert_eq!(of(17, ""), Meaning::Unknown);
        assert_eq!(of(28, ""), Meaning::Unknown);
    }

    #[test]
    fn every_failing_host_is_found() {
        let words = "failed to configure on 10.55.0.2 configure failed\nfailed to configure on 10.55.0.3 : Bad file descriptor\n";
        assert_eq!(
            of(255, words),
            Meaning::HostsFailed(hosts(&["10.55.0.2", "10.55.0.3"]))
        );
        let words = "block volume resize failed: 10.55.0.2:[1.0 MiB] 10.55.0.3:[1.0 MiB]";
        assert_eq!(
            of(255, words),
            Meaning::HostsFailed(hosts(&["10.55.0.2", "10.55.0.3"]))
        );
    }

    #[test]
    fn a_taken_name_names_the_hosts_that_have_it() {
        let words = "failed to configure on 10.55.0.2 configure failed\nfailed to configure on 10.55.0.3 block with name 'b2' already exist (Hint: may be hosted on a different block-hosting volume)\n";
        assert_eq!(of(255, words), Meaning::NameTaken(hosts(&["10.55.0.3"])));
    }

    proptest! {
        #[test]
        fn finding_a_meaning_never_panics(code in prop::option::of(any::<i64>()), words in ".*") {
            let _ = meaning(code, &words, "V", None);
            let _ = of(255, &format!("block volume resize failed:{words}"));
            let _ = of(255, &format!("Version check failed {words}"));
        }
    }
}
