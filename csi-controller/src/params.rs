//! StorageClass parameters: what a class may ask for, and what it must not.
//!
//! | key | value | default | meaning |
//! |---|---|---|---|
//! | `hacount` | a number ≥ 1 | `3` | hosts that export the block; more than there are is refused |
//! | `chapauthenabled` | `true`, `false` | `true` | whether initiators log in with CHAP |
//! | `clusterids` | ids, separated by commas | all | clusters of the backend to use |
//! | `prealloc` | `full`, `no` | `full` | whether the block takes its space at once |
//! | `blockSize` | `512`, `1024`, `2048`, `4096` | the kernel's | bytes of a logical block |
//! | `ioTimeout` | whole seconds ≥ 1, as `43` or `43s` | gluster-block's | how long the target waits for the hosting volume |
//! | `ringBuffer` | `1` to `1024` | the kernel's | megabytes between kernel and tcmu-runner |
//! | `csi.storage.k8s.io/…` | | | added by the sidecars; ignored |
//!
//! Keys are compared without case. The first three are those of the old `gluster.org/glusterblock` provisioner and mean
//! what they meant there, except that an omitted `hacount` really is 3 and that only `true` and `false` are booleans. Its
//! other keys named a server, a Secret or a mode, all of which are the deployment's now: they are refused, and so is
//! everything unknown, because a misspelt key must not be a silent default.

use std::collections::HashMap;
use std::time::Duration;

use blockd_client::Prealloc;
use blockd_client::vocabulary::Capacity;

use crate::hosting::ClusterId;

/// What a StorageClass asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// How many hosts export the block.
    pub ha: usize,
    /// Whether initiators log in with CHAP.
    pub auth: bool,
    /// The clusters to use; none means all.
    pub clusters: Vec<ClusterId>,
    /// Whether the block takes its space at once.
    pub prealloc: Prealloc,
    /// Bytes of a logical block.
    pub block_size: Option<u32>,
    /// How long the target waits for the hosting volume.
    pub io_timeout: Option<Duration>,
    /// Megabytes of the ring buffer.
    pub ring_buffer: Option<u32>,
}

/// Why parameters are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// A key of the old provisioner that means nothing any more.
    #[error("parameter {key:?} is not taken any more: {advice}")]
    Retired {
        /// As given.
        key: String,
        /// What to do instead.
        advice: &'static str,
    },
    /// A key that nobody knows.
    #[error("parameter {key:?} is unknown; {}", suggestion(.nearest.as_deref()))]
    Unknown {
        /// As given.
        key: String,
        /// What was probably meant.
        nearest: Option<String>,
    },
    /// The same key twice, in different case.
    #[error("parameter {key:?} is given twice; keys are compared without case")]
    Twice {
        /// The key.
        key: &'static str,
    },
    /// A value that is not allowed.
    #[error("parameter {key:?} is {value:?}: {rule}")]
    Value {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What is allowed.
        rule: &'static str,
    },
}

const KNOWN: [&str; 7] = [
    "hacount",
    "chapauthenabled",
    "clusterids",
    "prealloc",
    "blockSize",
    "ioTimeout",
    "ringBuffer",
];

const SERVER: &str = "the backend is a setting of the controller (--heketi-url, --heketi-user, --heketi-key-file, or those of gd2)";
const MODE: &str =
    "a driver serves one backend, chosen by the controller's --backend; leave the key out";

/// Keys of the old provisioner, in lower case, that cannot be honoured.
const RETIRED: [(&str, &str); 12] = [
    ("resturl", SERVER),
    ("restuser", SERVER),
    ("restuserkey", SERVER),
    ("restsecretname", SERVER),
    ("restsecretnamespace", SERVER),
    ("restauthenabled", SERVER),
    ("secretname", SERVER),
    ("secretnamespace", SERVER),
    ("clusterid", "the key is now \"clusterids\""),
    ("opmode", MODE),
    ("blockmodeargs", MODE),
    (
        "volumenameprefix",
        "blocks are named after their volume; set --volume-name-prefix of external-provisioner instead",
    ),
];

const SIDECARS: &str = "csi.storage.k8s.io/";

impl Default for Parameters {
    fn default() -> Self {
        Self {
            ha: 3,
            auth: true,
            clusters: Vec::new(),
            prealloc: Prealloc::Full,
            block_size: None,
            io_timeout: None,
            ring_buffer: None,
        }
    }
}

impl Parameters {
    /// The sizes that a block of this class can have are multiples of this.
    #[must_use]
    pub fn granularity(&self) -> Capacity {
        Capacity::from_bytes(self.block_size.map_or(512, u64::from))
    }
}

impl TryFrom<&HashMap<String, String>> for Parameters {
    type Error = ParameterError;

    fn try_from(map: &HashMap<String, String>) -> Result<Self, ParameterError> {
        let mut parameters = Self::default();
        let mut seen = Vec::new();
        // In order, so that the message is the same at every retry.
        let mut keys: Vec<_> = map
            .iter()
            .filter(|(key, _)| !key.starts_with(SIDECARS))
            .collect();
        keys.sort();
        for (given, value) in keys {
            let key = known(given)?;
            if seen.contains(&key) {
                return Err(ParameterError::Twice { key });
            }
            seen.push(key);
            parameters.set(key, value.trim())?;
        }
        Ok(parameters)
    }
}

impl Parameters {
    fn set(&mut self, key: &'static str, value: &str) -> Result<(), ParameterError> {
        let refused = |rule| ParameterError::Value {
            key,
            value: value.chars().take(100).collect(),
            rule,
        };
        match key {
            "hacount" => {
                let ha = value.parse().ok().filter(|ha| (1..=64).contains(ha));
                self.ha = ha.ok_or_else(|| refused("use a number of hosts, 1 or more"))?;
            }
            "chapauthenabled" => {
                self.auth = match value {
                    "true" => true,
                    "false" => false,
                    _ => return Err(refused("use true or false")),
                };
            }
            "clusterids" => self.clusters = clusters(value).map_err(refused)?,
            "prealloc" => {
                self.prealloc = match value {
                    "full" => Prealloc::Full,
                    "no" => Prealloc::No,
                    _ => return Err(refused("use full or no")),
                };
            }
            "blockSize" => {
                let size = value
                    .parse()
                    .ok()
                    .filter(|size| matches!(size, 512 | 1024 | 2048 | 4096));
                self.block_size =
                    Some(size.ok_or_else(|| refused("use 512, 1024, 2048 or 4096 bytes"))?);
            }
            "ioTimeout" => {
                let seconds = value.strip_suffix('s').unwrap_or(value).parse().ok();
                let seconds = seconds.filter(|seconds| (1..=86_400).contains(seconds));
                let seconds = seconds.ok_or_else(|| refused("use whole seconds, 1 to 86400"))?;
                self.io_timeout = Some(Duration::from_secs(seconds));
            }
            _ => {
                let megabytes = value.parse().ok().filter(|mb| (1..=1024).contains(mb));
                self.ring_buffer =
                    Some(megabytes.ok_or_else(|| refused("use 1 to 1024 megabytes"))?);
            }
        }
        Ok(())
    }
}

fn clusters(value: &str) -> Result<Vec<ClusterId>, &'static str> {
    let mut ids = Vec::new();
    for id in value.split(',').map(str::trim) {
        let id = id
            .parse()
            .map_err(|_| "use cluster ids of the backend, separated by commas")?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    Ok(ids)
}

/// The key as we spell it.
fn known(given: &str) -> Result<&'static str, ParameterError> {
    let key = given.to_owned();
    let lower = given.to_ascii_lowercase();
    if let Some(known) = KNOWN.into_iter().find(|k| k.eq_ignore_ascii_case(given)) {
        return Ok(known);
    }
    if let Some((_, advice)) = RETIRED.into_iter().find(|(retired, _)| *retired == lower) {
        return Err(ParameterError::Retired { key, advice });
    }
    let nearest = KNOWN
        .into_iter()
        .map(|k| (distance(&k.to_ascii_lowercase(), &lower), k))
        .filter(|(far, _)| *far <= 3)
        .min();
    Err(ParameterError::Unknown {
        key,
        nearest: nearest.map(|(_, k)| k.to_owned()),
    })
}

fn suggestion(nearest: Option<&str>) -> String {
    let all = KNOWN.join(", ");
    match nearest {
        Some(nearest) => format!("did you mean {nearest:?}? (there are {all})"),
        None => format!("there are {all}"),
    }
}

/// How many letters to add, drop or change to get from one word to the other.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut next = vec![i + 1];
        for (j, y) in b.chars().enumerate() {
            let (above, before) = (
                row.get(j + 1).copied().unwrap_or_default(),
                row.get(j).copied().unwrap_or_default(),
            );
            let left = next.last().copied().unwrap_or_default();
            next.push((before + usize::from(x != y)).min(above + 1).min(left + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(entries: &[(&str, &str)]) -> Result<Parameters, ParameterError> {
        let map = entries
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        Parameters::try_from(&map)
    }

    #[test]
    fn nothing_asked_for_is_three_hosts_with_chap_filled() {
        assert_eq!(parse(&[]).unwrap(), Parameters::default());
        assert_eq!(
            parse(&[("csi.storage.k8s.io/pvc/name", "x")]).unwrap().ha,
            3
        );
    }

    #[test]
    fn every_key_is_taken_in_any_case() {
        let parameters = parse(&[
            ("haCount", "2"),
            ("CHAPAUTHENABLED", "false"),
            ("clusterids", "0a, 0b,0a"),
            ("prealloc", "no"),
            ("blocksize", "4096"),
            ("ioTimeout", "50s"),
            ("ringbuffer", "64"),
        ])
        .unwrap();
        let wanted = Parameters {
            ha: 2,
            auth: false,
            clusters: vec!["0a".parse().unwrap(), "0b".parse().unwrap()],
            prealloc: Prealloc::No,
            block_size: Some(4096),
            io_timeout: Some(Duration::from_secs(50)),
            ring_buffer: Some(64),
        };
        assert_eq!(parameters, wanted);
    }

    #[test]
    fn wrong_values_name_the_key_and_what_is_allowed() {
        for (key, value) in [
            ("hacount", "0"),
            ("hacount", "-1"),
            ("hacount", "three"),
            ("chapauthenabled", "yes"),
            ("clusterids", ""),
            ("clusterids", "a,,b"),
            ("clusterids", "../x"),
            ("prealloc", "maybe"),
            ("blockSize", "100"),
            ("ioTimeout", "0"),
            ("ioTimeout", "1.5"),
            ("ringBuffer", "2000"),
        ] {
            let message = parse(&[(key, value)]).unwrap_err().to_string();
            assert!(
                message.contains(key) && message.contains("use "),
                "{message}"
            );
        }
    }

    #[test]
    fn keys_of_the_old_provisioner_that_mean_nothing_are_refused_with_advice() {
        for (key, advice) in [
            ("restURL", "--heketi-url"),
            ("restuser", "--heketi-user"),
            ("restsecretname", "--heketi-key-file"),
            ("opmode", "--backend"),
            ("blockmodeargs", "--backend"),
            ("volumenameprefix", "--volume-name-prefix"),
            ("clusterid", "clusterids"),
        ] {
            let message = parse(&[(key, "x")]).unwrap_err().to_string();
            assert!(
                message.contains(key) && message.contains(advice),
                "{message}"
            );
        }
    }

    #[test]
    fn a_misspelt_key_is_refused_with_the_nearest_one() {
        let message = parse(&[("hacuont", "2")]).unwrap_err().to_string();
        assert!(message.contains("did you mean \"hacount\"?"), "{message}");
        let message = parse(&[("colour", "red")]).unwrap_err().to_string();
        assert!(message.contains("there are hacount"), "{message}");
    }

    #[test]
    fn the_same_key_in_two_cases_is_refused() {
        let message = parse(&[("hacount", "2"), ("HACOUNT", "3")]).unwrap_err();
        assert_eq!(message, ParameterError::Twice { key: "hacount" });
    }

    proptest! {
        #[test]
        fn parsing_never_panics(key in ".{0,20}", value in ".{0,20}") {
            let _ = parse(&[(&key, &value)]);
        }

        #[test]
        fn an_unknown_key_is_never_ignored(key in "[a-z]{1,12}") {
            prop_assume!(!KNOWN.iter().any(|k| k.eq_ignore_ascii_case(&key)));
            prop_assert!(parse(&[(&key, "1")]).is_err());
        }
    }
}
