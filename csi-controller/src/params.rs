//! StorageClass parameters, typed. `docs/parameters.md` is their documentation; a test compares the two.

use std::collections::HashMap;
use std::time::Duration;

use blockd_client::Prealloc;

/// What a StorageClass may say about its blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// `haCount`: how many storage hosts export a block.
    pub ha: usize,
    /// `chapAuthEnabled`: whether nodes log in with CHAP.
    pub auth: bool,
    /// `prealloc`: whether a block takes its space when it is made.
    pub prealloc: Prealloc,
    /// `blockSize`: logical block size in bytes.
    pub block_size: Option<u32>,
    /// `ioTimeout`: how long a target waits for its hosting volume.
    pub io_timeout: Option<Duration>,
    /// `ringBuffer`: MiB of the ring between kernel and tcmu-runner.
    pub ring_buffer: Option<u32>,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            ha: 3,
            auth: true,
            prealloc: Prealloc::Full,
            block_size: None,
            io_timeout: None,
            ring_buffer: None,
        }
    }
}

/// A parameter that is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// There is no such key.
    #[error("parameter {key:?} is not known; allowed are {}", KEYS.join(", "))]
    Unknown {
        /// The key as given.
        key: String,
    },
    /// A key of the old provisioner that has no meaning here.
    #[error("parameter {key:?} of the old provisioner has no meaning here: {advice}")]
    Obsolete {
        /// The key as given.
        key: String,
        /// What to do in its place.
        advice: &'static str,
    },
    /// A value that is not allowed.
    #[error("parameter {key}: {value:?} is not {rule}")]
    Value {
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
        /// What is allowed.
        rule: &'static str,
    },
}

/// The keys, as documented. They are compared without regard to case, as the old provisioner did.
pub const KEYS: [&str; 6] = [
    "haCount",
    "chapAuthEnabled",
    "prealloc",
    "blockSize",
    "ioTimeout",
    "ringBuffer",
];

/// Keys of `gluster.org/glusterblock` that are refused, with what to do in their place.
const OBSOLETE: [(&str, &str); 9] = [
    ("resturl", "give the driver's controller --heketi-url"),
    ("restuser", "give the driver's controller --heketi-user"),
    (
        "restsecretname",
        "mount the key and give the driver's controller --heketi-key-file",
    ),
    (
        "restsecretnamespace",
        "mount the key and give the driver's controller --heketi-key-file",
    ),
    (
        "restauthenabled",
        "leave --heketi-key-file out when heketi runs without authentication",
    ),
    (
        "clusterids",
        "give the driver's controller --heketi-clusters",
    ),
    (
        "opmode",
        "the controller's --backend says who makes hosting volumes",
    ),
    (
        "blockmodeargs",
        "hosting volumes are the controller's own; hosts come from the backend",
    ),
    (
        "volumenameprefix",
        "names come from the claim; see external-provisioner's --volume-name-prefix",
    ),
];

impl TryFrom<&HashMap<String, String>> for Parameters {
    type Error = ParameterError;

    fn try_from(given: &HashMap<String, String>) -> Result<Self, ParameterError> {
        let mut parameters = Self::default();
        for (key, value) in given {
            // What external-provisioner adds with --extra-create-metadata.
            if key.starts_with("csi.storage.k8s.io/") {
                continue;
            }
            parameters.set(key, value)?;
        }
        Ok(parameters)
    }
}

impl Parameters {
    fn set(&mut self, key: &str, value: &str) -> Result<(), ParameterError> {
        match key.to_ascii_lowercase().as_str() {
            "hacount" => {
                self.ha = number("haCount", value, 1..=16, "a number of hosts from 1 to 16")?
            }
            "chapauthenabled" => self.auth = boolean("chapAuthEnabled", value)?,
            "prealloc" => self.prealloc = prealloc(value)?,
            "blocksize" => {
                let size = number("blockSize", value, 512..=4096, BLOCK_SIZE)?;
                if ![512, 1024, 2048, 4096].contains(&size) {
                    return Err(wrong("blockSize", value, BLOCK_SIZE));
                }
                self.block_size = Some(size);
            }
            "iotimeout" => {
                let seconds = number("ioTimeout", value, 43..=129, IO_TIMEOUT)?;
                self.io_timeout = Some(Duration::from_secs(seconds));
            }
            "ringbuffer" => {
                self.ring_buffer =
                    Some(number("ringBuffer", value, 1..=1024, "MiB from 1 to 1024")?);
            }
            lower => {
                let obsolete = OBSOLETE.iter().find(|(name, _)| *name == lower);
                let key = key.to_owned();
                return Err(match obsolete {
                    Some((_, advice)) => ParameterError::Obsolete { key, advice },
                    None => ParameterError::Unknown { key },
                });
            }
        }
        Ok(())
    }
}

const BLOCK_SIZE: &str = "512, 1024, 2048 or 4096 (bytes)";
/// Above gluster's ping timer of 42 s and below the kernel target's command timer of 130 s.
const IO_TIMEOUT: &str = "seconds from 43 to 129";

fn prealloc(value: &str) -> Result<Prealloc, ParameterError> {
    match value.to_ascii_lowercase().as_str() {
        "full" => Ok(Prealloc::Full),
        "no" => Ok(Prealloc::No),
        _ => Err(wrong("prealloc", value, "full or no")),
    }
}

fn boolean(key: &'static str, value: &str) -> Result<bool, ParameterError> {
    match value.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(wrong(key, value, "true or false")),
    }
}

fn number<T: std::str::FromStr + PartialOrd>(
    key: &'static str,
    value: &str,
    range: std::ops::RangeInclusive<T>,
    rule: &'static str,
) -> Result<T, ParameterError> {
    value
        .parse()
        .ok()
        .filter(|number| range.contains(number))
        .ok_or_else(|| wrong(key, value, rule))
}

fn wrong(key: &'static str, value: &str, rule: &'static str) -> ParameterError {
    ParameterError::Value {
        key,
        value: value.to_owned(),
        rule,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Parameters, ParameterError> {
        let map = pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        Parameters::try_from(&map)
    }

    #[test]
    fn keys_of_the_old_provisioner_keep_their_meaning_without_regard_to_case() {
        let parameters = parse(&[("HACOUNT", "2"), ("chapauthenabled", "false")]).unwrap();
        assert_eq!((parameters.ha, parameters.auth), (2, false));
    }

    #[test]
    fn every_obsolete_key_is_refused_with_advice() {
        for (key, advice) in OBSOLETE {
            let error = parse(&[(key, "x")]).unwrap_err();
            assert!(error.to_string().contains(advice), "{error}");
        }
    }

    #[test]
    fn a_misspelt_key_is_refused_and_the_allowed_ones_are_named() {
        let error = parse(&[("preallloc", "no")]).unwrap_err().to_string();
        assert!(
            error.contains("preallloc") && error.contains("prealloc, "),
            "{error}"
        );
    }

    #[test]
    fn values_out_of_range_are_refused_with_the_range() {
        for (key, value) in [
            ("haCount", "0"),
            ("haCount", "17"),
            ("haCount", "three"),
            ("prealloc", "yes"),
            ("blockSize", "8192"),
            ("blockSize", "700"),
            ("ioTimeout", "130"),
            ("ioTimeout", "5"),
            ("ringBuffer", "0"),
            ("chapAuthEnabled", "maybe"),
        ] {
            assert!(
                matches!(parse(&[(key, value)]), Err(ParameterError::Value { .. })),
                "{key}={value}"
            );
        }
    }

    #[test]
    fn what_the_sidecar_adds_is_left_alone() {
        assert_eq!(
            parse(&[("csi.storage.k8s.io/pvc/name", "x")]).unwrap(),
            Parameters::default()
        );
    }

    #[test]
    fn every_documented_key_is_known_and_every_known_key_documented() {
        let page = include_str!("../../docs/parameters.md");
        for key in KEYS {
            assert!(
                page.contains(&format!("| `{key}` |")),
                "{key} is not in docs/parameters.md"
            );
        }
        for (key, _) in OBSOLETE {
            assert!(
                page.contains(&format!("| `{key}` |")),
                "{key} is not in docs/parameters.md"
            );
        }
    }
}
