//! From what was typed to what is true, reporting every mistake at once; and the settings that every plugin has.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use super::telemetry::LogFormat;

/// Everything that is wrong with the settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct Mistakes(pub Vec<String>);

/// Collects mistakes and goes on; what it gives in place of a wrong value is never used.
#[derive(Debug, Default)]
pub struct Checker {
    mistakes: Vec<String>,
}

impl Checker {
    /// Notes a mistake in whole words.
    pub fn mistake(&mut self, text: impl Into<String>) {
        self.mistakes.push(text.into());
    }

    /// Notes that the value of a flag breaks its rule.
    pub fn wrong(&mut self, flag: &str, value: &str, rule: &str) {
        self.mistake(format!("{flag}: {value:?} is not {rule}"));
    }

    /// A value by its own `FromStr`; none is a mistake.
    pub fn parse<T: FromStr>(&mut self, flag: &str, value: &str, rule: &str) -> Option<T> {
        let parsed = value.parse().ok();
        if parsed.is_none() {
            self.wrong(flag, value, rule);
        }
        parsed
    }

    /// `--endpoint`, with or without its scheme.
    pub fn socket(&mut self, endpoint: &str) -> PathBuf {
        let path = endpoint
            .strip_prefix("unix://")
            .or_else(|| endpoint.strip_prefix("unix:"));
        let path = PathBuf::from(path.unwrap_or(endpoint));
        // The kernel's limit for the name of a Unix socket.
        let fits = path.as_os_str().len() < 108;
        if !path.is_absolute() || path.file_name().is_none() || !fits {
            let rule = "a Unix socket: unix:///path, of 107 bytes at most";
            self.wrong("--endpoint", endpoint, rule);
        }
        path
    }

    /// `--driver-name`, by CSI's rule with csi-sanity's: a letter at both ends.
    pub fn driver_name(&mut self, name: &str) -> String {
        let inside = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
        let letter = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphabetic());
        let legal = name.len() <= 63
            && name.bytes().all(inside)
            && letter(name.bytes().next())
            && letter(name.bytes().next_back());
        if !legal {
            let rule = "a driver name: 63 characters at most, letters, digits, dashes and dots, \
                        the first and the last a letter";
            self.wrong("--driver-name", name, rule);
        }
        name.to_owned()
    }

    /// `--admin-address`; none when it is empty.
    pub fn admin_address(&mut self, address: &str) -> Option<SocketAddr> {
        if address.is_empty() {
            return None;
        }
        self.parse("--admin-address", address, "an IP:PORT")
    }

    /// `--log-format`.
    pub fn log_format(&mut self, format: &str) -> LogFormat {
        self.parse("--log-format", format, "json or text")
            .unwrap_or_default()
    }

    /// `value`, if it is there and nothing is wrong. Where it is absent a mistake must have been noted.
    ///
    /// # Errors
    ///
    /// All mistakes.
    pub fn finish<T>(self, value: Option<T>) -> Result<T, Mistakes> {
        match value {
            Some(value) if self.mistakes.is_empty() => Ok(value),
            _ => Err(Mistakes(self.mistakes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistakes(check: impl FnOnce(&mut Checker)) -> usize {
        let mut checker = Checker::default();
        check(&mut checker);
        match checker.finish(Some(())) {
            Ok(()) => 0,
            Err(Mistakes(mistakes)) => mistakes.len(),
        }
    }

    #[test]
    fn a_socket_is_an_absolute_path_that_the_kernel_takes() {
        for endpoint in ["unix:///run/a", "unix:/run/a", "/run/a"] {
            let mut checker = Checker::default();
            assert_eq!(checker.socket(endpoint), PathBuf::from("/run/a"));
            assert_eq!(checker.finish(Some(1)), Ok(1));
        }
        let long = format!("/{}", "a".repeat(107));
        for endpoint in ["tcp://0.0.0.0:1", "run/a", "/", "", &long] {
            assert_eq!(
                mistakes(|check| drop(check.socket(endpoint))),
                1,
                "{endpoint}"
            );
        }
    }

    #[test]
    fn a_driver_name_begins_and_ends_with_a_letter() {
        for (name, wrong) in [
            ("gluster-block.csi.gluster.org", 0),
            ("a", 0),
            ("", 1),
            ("-driver", 1),
            ("driver9", 1),
            ("a_b", 1),
        ] {
            assert_eq!(
                mistakes(|check| drop(check.driver_name(name))),
                wrong,
                "{name}"
            );
        }
    }

    #[test]
    fn every_mistake_is_kept() {
        let mut checker = Checker::default();
        assert_eq!(checker.admin_address(""), None);
        checker.admin_address("localhost");
        checker.log_format("xml");
        let Mistakes(mistakes) = checker.finish(None::<()>).unwrap_err();
        assert_eq!(
            mistakes,
            [
                "--admin-address: \"localhost\" is not an IP:PORT",
                "--log-format: \"xml\" is not json or text"
            ]
        );
    }
}
