//! Log lines on standard error.
//!
//! Purpose: text for people, JSON for machines, one level for our own crates and quiet
//! dependencies.
//! Invariant: the filter depends on the configuration alone (no `RUST_LOG`), and whatever it says,
//! only targets of ours go above `info`. At `debug` and `trace` hyper, h2, rustls, tower and kube
//! write frames, headers and whole requests, tokens included; so the level that shows more of
//! Portcullis must not show what callers send through it. There is deliberately no key to lift
//! this.
//! Upstream counterpart: `k8s.io/component-base/logs`.

use std::fmt;
use std::io::{self, IsTerminal};
use std::str::FromStr;

use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Every crate of ours starts with this word, and no other does.
const OURS: &str = "portcullis";

/// How a log line is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// One line for people, in colour on a terminal unless `NO_COLOR` is set.
    #[default]
    Text,
    /// One JSON object a line: `timestamp`, `level`, `target`, `message` and the event's fields.
    Json,
}

impl FromStr for Format {
    type Err = LogError;

    fn from_str(name: &str) -> Result<Self, LogError> {
        match name {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(LogError::Format(name.to_owned())),
        }
    }
}

/// Why logging could not start.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The format is not one of ours.
    #[error("logging.format: unknown format {0:?}: use text or json")]
    Format(String),
    /// The level is neither a level nor a filter.
    #[error(
        "logging.level: {level:?} cannot be understood ({reason}): use error, warn, info, debug, \
         trace, or a filter such as \"info,portcullis_gateway=debug\""
    )]
    Level {
        /// What was configured.
        level: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Another subscriber is in place.
    #[error("logging was already started in this process")]
    AlreadyStarted,
}

/// Starts logging for the whole process, also for dependencies that use the `log` crate.
///
/// `level` is `error`, `warn`, `info`, `debug` or `trace` (for our crates; dependencies stay at
/// `warn`), or a filter: comma-separated `target=level`, where a bare level again means our crates.
///
/// # Errors
/// If `level` cannot be understood, or logging was started before.
pub fn init(format: Format, level: &str) -> Result<(), LogError> {
    let filter = filter(level)?;
    let colour = io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|no_colour| no_colour.is_empty());
    let started = match format {
        Format::Text => text(filter, colour, io::stderr).try_init(),
        Format::Json => json(filter, io::stderr).try_init(),
    };
    started.map_err(|_taken| LogError::AlreadyStarted)
}

/// Checks a level without starting anything, for `portcullis check`.
///
/// # Errors
/// If `level` cannot be understood.
pub fn check_level(level: &str) -> Result<(), LogError> {
    filter(level).map(drop)
}

fn text<W>(filter: EnvFilter, colour: bool, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    tracing_subscriber::registry()
        .with(filter)
        .with(FilterFn::new(may_be_logged as fn(&Metadata<'_>) -> bool))
        .with(
            tracing_subscriber::fmt::layer()
                .with_ansi(colour)
                .with_writer(writer),
        )
}

fn json<W>(filter: EnvFilter, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_writer(writer);
    tracing_subscriber::registry()
        .with(filter)
        .with(FilterFn::new(may_be_logged as fn(&Metadata<'_>) -> bool))
        .with(lines)
}

/// The cap on dependencies. It is an allow-list: a dependency that joins later is capped too.
fn may_be_logged(metadata: &Metadata<'_>) -> bool {
    *metadata.level() <= Level::INFO || is_ours(metadata.target())
}

/// Whether a target is a module of a crate of ours.
fn is_ours(target: &str) -> bool {
    target
        .strip_prefix(OURS)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['_', ':']))
}

fn filter(level: &str) -> Result<EnvFilter, LogError> {
    let refuse = |reason: &dyn fmt::Display| LogError::Level {
        level: level.to_owned(),
        reason: reason.to_string(),
    };
    let mut directives = format!("warn,{OURS}=info");
    for directive in level.split(',').map(str::trim) {
        if directive.is_empty() {
            return Err(refuse(&"a part is empty"));
        }
        directives.push(',');
        if directive
            .parse::<tracing::level_filters::LevelFilter>()
            .is_ok()
        {
            directives.push_str(OURS);
            directives.push('=');
        } else if !directive.contains('=') {
            // A bare word would mean "everything of that target": more likely a misspelt level.
            return Err(refuse(&format_args!("{directive:?} is no level")));
        }
        directives.push_str(directive);
    }
    EnvFilter::builder()
        .parse(directives)
        .map_err(|error| refuse(&error))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use rstest::rstest;
    use tracing::{debug, info, trace, warn};

    use super::*;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Buffer {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    /// What remains of one event per level from us and from two dependencies.
    fn remaining(level: &str) -> String {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let subscriber = text(filter(level).unwrap(), false, move || writer.clone());
        tracing::subscriber::with_default(subscriber, || {
            warn!(target: "portcullis_gateway", "ours-warn");
            info!(target: "portcullis_gateway::pool", "ours-info");
            debug!(target: "portcullis_gateway", "ours-debug");
            trace!(target: "portcullis", "ours-trace");
            warn!(target: "hyper::proto", "hyper-warn");
            info!(target: "hyper::proto", "hyper-info");
            debug!(target: "hyper::proto", "hyper-debug");
            trace!(target: "hyper::proto", "hyper-trace");
            debug!(target: "portcullisish", "foreign-debug");
        });
        let text = buffer.text();
        let words = text
            .lines()
            .filter_map(|line| line.rsplit_once(' ').map(|(_, word)| word));
        words.collect::<Vec<_>>().join(" ")
    }

    #[rstest]
    // A dependency's warnings stay: they are about the same outages as our errors.
    #[case("error", "hyper-warn")]
    #[case("warn", "ours-warn hyper-warn")]
    #[case("info", "ours-warn ours-info hyper-warn")]
    #[case("debug", "ours-warn ours-info ours-debug hyper-warn")]
    #[case("trace", "ours-warn ours-info ours-debug ours-trace hyper-warn")]
    #[case(
        "warn,portcullis_gateway=debug",
        "ours-warn ours-info ours-debug hyper-warn"
    )]
    #[case("info,hyper=info", "ours-warn ours-info hyper-warn hyper-info")]
    #[case("info,hyper=trace", "ours-warn ours-info hyper-warn hyper-info")]
    #[case("info,portcullisish=trace", "ours-warn ours-info hyper-warn")]
    #[case("off,hyper=off", "")]
    fn a_level_is_for_our_crates_and_dependencies_stay_capped(
        #[case] level: &str,
        #[case] expected: &str,
    ) {
        assert_eq!(remaining(level), expected);
    }

    #[rstest]
    #[case("", "empty")]
    #[case("info,", "empty")]
    #[case("verbose", "\"verbose\" is no level")]
    #[case("info,hyper=loud", "hyper=loud")]
    fn a_level_that_cannot_be_understood_is_refused(#[case] level: &str, #[case] needle: &str) {
        let error = check_level(level).unwrap_err().to_string();
        assert!(
            error.starts_with("logging.level: ") && error.contains(needle),
            "{error}"
        );
        assert!(error.contains("use error, warn, info"), "{error}");
    }

    #[test]
    fn json_lines_are_flat_and_without_colour() {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let subscriber = json(filter("info").unwrap(), move || writer.clone());
        tracing::subscriber::with_default(subscriber, || {
            info!(target: "portcullis", cluster = "a/b", "serving");
        });
        let line = buffer.text();
        assert!(
            line.contains(r#""level":"INFO","message":"serving","cluster":"a/b""#),
            "{line}"
        );
        assert!(line.starts_with('{') && line.ends_with("}\n") && !line.contains('\u{1b}'));
    }

    #[test]
    fn formats_have_names() {
        assert_eq!("json".parse::<Format>().unwrap(), Format::Json);
        assert_eq!("text".parse::<Format>().unwrap(), Format::Text);
        assert!(
            "xml"
                .parse::<Format>()
                .unwrap_err()
                .to_string()
                .contains("use text or json")
        );
    }
}
