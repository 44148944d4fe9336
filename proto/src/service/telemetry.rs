//! What a process says about itself: structured lines on stderr, whose filter can be changed while it runs.
//!
//! CSI allows a plugin its standard streams and no log files. Colours are for terminals only.

use std::backtrace::Backtrace;
use std::fmt;
use std::io::{self, IsTerminal as _};
use std::str::FromStr;

use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};
use tracing_subscriber::{EnvFilter, Layer as _, Registry, reload};

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// One JSON object a line: for clusters.
    Json,
    /// For people.
    #[default]
    Text,
}

/// A format that does not exist.
#[derive(Debug, thiserror::Error)]
#[error("log format {0:?} is neither \"json\" nor \"text\"")]
pub struct UnknownFormat(String);

/// Why nothing will be logged.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter is not one.
    #[error("log filter {filter:?} is not valid")]
    Filter {
        /// What was given.
        filter: String,
        /// What is wrong with it.
        #[source]
        source: ParseError,
    },
    /// The process logs already.
    #[error("logging was set up before")]
    Taken(#[source] TryInitError),
    /// The process no longer logs.
    #[error("logging has ended")]
    Ended(#[source] reload::Error),
}

/// Reads and changes the filter of the running process.
#[derive(Debug, Clone)]
pub struct LogControl {
    handle: reload::Handle<EnvFilter, Registry>,
}

/// Logs from now on, panics included. `filter` is in the syntax of `RUST_LOG`; an empty one means `info`.
///
/// # Errors
///
/// When the filter is not valid, or the process logs already.
pub fn init(format: LogFormat, filter: &str) -> Result<LogControl, TelemetryError> {
    let colours = io::stderr().is_terminal();
    let (subscriber, control) = subscriber(format, filter, io::stderr, colours)?;
    subscriber.try_init().map_err(TelemetryError::Taken)?;
    std::panic::set_hook(Box::new(|panic| {
        let backtrace = Backtrace::capture();
        tracing::error!(%panic, %backtrace, "panic");
    }));
    Ok(control)
}

impl LogControl {
    /// The filter in force.
    ///
    /// # Errors
    ///
    /// When the process no longer logs.
    pub fn filter(&self) -> Result<String, TelemetryError> {
        self.handle
            .with_current(ToString::to_string)
            .map_err(TelemetryError::Ended)
    }

    /// Replaces the filter.
    ///
    /// # Errors
    ///
    /// When it is not valid: then the old one stays.
    pub fn set_filter(&self, filter: &str) -> Result<(), TelemetryError> {
        let parsed = parse(filter)?;
        self.handle.reload(parsed).map_err(TelemetryError::Ended)?;
        tracing::info!(filter, "log filter changed");
        Ok(())
    }
}

impl FromStr for LogFormat {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "json" => Ok(Self::Json),
            "text" => Ok(Self::Text),
            other => Err(UnknownFormat(other.to_owned())),
        }
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Json => "json",
            Self::Text => "text",
        })
    }
}

fn parse(filter: &str) -> Result<EnvFilter, TelemetryError> {
    EnvFilter::builder()
        .with_default_directive(LevelFilter::INFO.into())
        .parse(filter)
        .map_err(|source| TelemetryError::Filter {
            filter: filter.to_owned(),
            source,
        })
}

fn subscriber<W>(
    format: LogFormat,
    filter: &str,
    writer: W,
    colours: bool,
) -> Result<(impl Subscriber + Send + Sync + use<W>, LogControl), TelemetryError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let (filter, handle) = reload::Layer::new(parse(filter)?);
    let lines = tracing_subscriber::fmt::layer().with_writer(writer);
    let lines = match format {
        // The whole list of spans: the innermost alone would not name the call and the volume.
        LogFormat::Json => {
            let json = lines.json().flatten_event(true);
            json.with_current_span(false).with_span_list(true).boxed()
        }
        LogFormat::Text => lines.with_ansi(colours).boxed(),
    };
    let subscriber = tracing_subscriber::registry().with(filter).with(lines);
    Ok((subscriber, LogControl { handle }))
}

/// Logging that a test can read.
#[cfg(test)]
pub(super) mod captured {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// What was logged.
    #[derive(Debug, Clone, Default)]
    pub(in crate::service) struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Lines {
        pub(in crate::service) fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A subscriber, the control of its filter, and what it will have written.
    pub(in crate::service) fn subscriber(
        format: LogFormat,
        filter: &str,
    ) -> (impl Subscriber + Send + Sync, LogControl, Lines) {
        let lines = Lines::default();
        let writer = lines.clone();
        let (subscriber, control) =
            super::subscriber(format, filter, move || writer.clone(), false).unwrap();
        (subscriber, control, lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log_with(format: LogFormat, filter: &str, what: impl FnOnce(&LogControl)) -> String {
        let (subscriber, control, lines) = captured::subscriber(format, filter);
        tracing::subscriber::with_default(subscriber, || what(&control));
        lines.text()
    }

    #[test]
    fn json_lines_name_the_call_and_the_volume() {
        let text = log_with(LogFormat::Json, "info", |_| {
            let span = tracing::info_span!("rpc", rpc = "NodeStageVolume", volume.id = "hv/a");
            span.in_scope(|| tracing::info!(step = "login", "did it"));
        });

        for part in [
            r#""message":"did it""#,
            r#""step":"login""#,
            r#""rpc":"NodeStageVolume""#,
            r#""volume.id":"hv/a""#,
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn text_without_a_terminal_has_no_escapes() {
        let text = log_with(LogFormat::Text, "info", |_| {
            tracing::info!(name = "\u{1b}[31mred", "hello");
        });

        assert!(text.contains("hello"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn the_filter_can_be_changed_while_running() {
        let text = log_with(LogFormat::Text, "warn", |control| {
            tracing::info!("before");
            control.set_filter("info").unwrap();
            assert_eq!(control.filter().unwrap(), "info");
            tracing::info!("after");
        });

        assert!(!text.contains("before") && text.contains("after"), "{text}");
    }

    #[test]
    fn a_wrong_filter_leaves_the_old_one() {
        log_with(LogFormat::Text, "warn", |control| {
            let refused = control.set_filter("proto=loud").unwrap_err();

            assert!(matches!(refused, TelemetryError::Filter { .. }));
            assert_eq!(control.filter().unwrap(), "warn");
        });
    }

    #[test]
    fn an_empty_filter_means_info() {
        let text = log_with(LogFormat::Text, "", |_| {
            tracing::info!("shown");
            tracing::debug!("hidden");
        });

        assert!(text.contains("shown") && !text.contains("hidden"), "{text}");
    }

    #[test]
    fn a_format_reads_back_from_what_it_displays() {
        for format in [LogFormat::Json, LogFormat::Text] {
            assert_eq!(format.to_string().parse::<LogFormat>().unwrap(), format);
        }
        assert!("xml".parse::<LogFormat>().is_err());
    }
}
