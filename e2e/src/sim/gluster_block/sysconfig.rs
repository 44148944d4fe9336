//! `/etc/sysconfig/gluster-blockd`, which the daemon and the command line both insist on.
//!
//! Reference §5.4: it must exist and be non-empty, "otherwise every CLI call stalls 5+ s and ends with 'Did not
//! receive any response'".

use std::path::Path;
use std::time::Duration;

/// The settings the simulator heeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sysconfig {
    /// `GB_CLI_TIMEOUT`, when not commented out.
    pub(crate) cli_timeout: Option<Duration>,
    /// `GB_GLFS_LRU_COUNT`: hosting volumes kept open, 5 unless set.
    pub(crate) lru_count: usize,
    /// `GB_BHV_VOLSERVER`: the server in the configuration string, `localhost` unless set.
    pub(crate) volume_server: String,
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SysconfigError {
    /// It cannot be read.
    #[error("cannot read the configuration file {path}")]
    Read {
        /// Its path.
        path: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// It holds nothing.
    #[error("the configuration file {0} is empty")]
    Empty(String),
}

impl Sysconfig {
    /// Reads the file.
    pub(crate) fn read(path: &Path) -> Result<Self, SysconfigError> {
        let shown = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) if text.is_empty() => Err(SysconfigError::Empty(shown)),
            Ok(text) => Ok(Self::parse(&text)),
            Err(source) => Err(SysconfigError::Read {
                path: shown,
                source,
            }),
        }
    }

    fn parse(text: &str) -> Self {
        let value = |key: &str| {
            text.lines()
                .filter_map(|line| line.trim().split_once('='))
                .filter(|(name, _)| name.trim() == key)
                .map(|(_, value)| value.trim().trim_matches('"').to_owned())
                .next_back()
        };
        let number = |key: &str| value(key).and_then(|text| text.parse::<u64>().ok());
        Self {
            cli_timeout: number("GB_CLI_TIMEOUT").map(Duration::from_secs),
            lru_count: number("GB_GLFS_LRU_COUNT")
                .and_then(|count| usize::try_from(count).ok())
                .filter(|count| (1..=512).contains(count))
                .unwrap_or(5),
            volume_server: value("GB_BHV_VOLSERVER").unwrap_or_else(|| "localhost".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commented_lines_set_nothing() {
        let read = Sysconfig::parse("# GB_CLI_TIMEOUT=900\n#GB_GLFS_LRU_COUNT=7\n");
        assert_eq!((read.cli_timeout, read.lru_count), (None, 5));
    }

    #[test]
    fn set_values_are_read_and_bad_ones_ignored() {
        let read = Sysconfig::parse(
            "GB_CLI_TIMEOUT=9\nGB_GLFS_LRU_COUNT=1000\nGB_BHV_VOLSERVER=10.0.0.9\n",
        );
        assert_eq!(read.cli_timeout, Some(Duration::from_secs(9)));
        assert_eq!(read.lru_count, 5);
        assert_eq!(read.volume_server, "10.0.0.9");
    }

    #[test]
    fn a_missing_or_empty_file_is_an_error() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let path = directory.path().join("gluster-blockd");
        assert!(matches!(
            Sysconfig::read(&path),
            Err(SysconfigError::Read { .. })
        ));
        std::fs::write(&path, "").expect("write");
        assert!(matches!(
            Sysconfig::read(&path),
            Err(SysconfigError::Empty(_))
        ));
    }
}
