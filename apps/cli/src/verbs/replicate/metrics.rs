//! The file of `--metrics`: figures in the text format of Prometheus, for the textfile collector of
//! its node exporter.

use densite_tools::replica::Figures;
use densite_tools::{Error, Result, write_file};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What the file begins with.
const BEGIN: &str = "# HELP densite_replica_";

/// The file is written so often.
const EVERY: Duration = Duration::from_secs(5);

/// See the module's documentation.
pub(super) struct Metrics<'a> {
    file: Option<&'a Path>,
    written: Option<Instant>,
}

/// A metric: its name, its type, its explanation, and its value for a database.
type Metric = (
    &'static str,
    &'static str,
    &'static str,
    fn(&Figures) -> Option<f64>,
);

const METRICS: [Metric; 9] = [
    (
        "densite_replica_restore_point",
        "gauge",
        "Number of the newest restore point in the replica, within its generation.",
        |f| f.point().map(|p| p.n as f64),
    ),
    (
        "densite_replica_restore_point_timestamp_seconds",
        "gauge",
        "When the newest restore point in the replica was taken.",
        |f| f.point().map(|p| p.time_ms as f64 / 1000.0),
    ),
    (
        "densite_replica_complete_timestamp_seconds",
        "gauge",
        "All commits before this moment are in the replica.",
        |f| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
            Some(now.saturating_sub(f.lag()?).as_secs_f64())
        },
    ),
    (
        "densite_replica_lag_seconds",
        "gauge",
        "The age of that moment when the file was written.",
        |f| f.lag().map(|lag| lag.as_secs_f64()),
    ),
    (
        "densite_replica_held_back",
        "gauge",
        "1 while a long transaction holds back the next restore point.",
        |f| Some(f64::from(u8::from(f.is_held_back()))),
    ),
    (
        "densite_replica_failing",
        "gauge",
        "1 while shipping fails.",
        |f| Some(f64::from(u8::from(f.failure().is_some()))),
    ),
    (
        "densite_replica_errors_total",
        "counter",
        "Rounds that failed since the command began.",
        |f| Some(f.errors() as f64),
    ),
    (
        "densite_replica_requests_total",
        "counter",
        "Requests that were sent since the command began.",
        |f| Some(f.sent().0 as f64),
    ),
    (
        "densite_replica_sent_bytes_total",
        "counter",
        "Bytes of objects that were sent since the command began.",
        |f| Some(f.sent().1 as f64),
    ),
];

impl Metrics<'_> {
    /// Writes nothing yet.
    ///
    /// # Errors
    /// If the file exists and has other contents.
    pub(super) fn new(file: Option<&Path>) -> Result<Metrics<'_>> {
        file.map_or(Ok(()), must_be_own)?;
        Ok(Metrics {
            file,
            written: None,
        })
    }

    /// Writes the file, if there is one and it is old enough or this is the last time. It is
    /// replaced as a whole.
    ///
    /// # Errors
    /// A file of other contents is not replaced; those of the file system.
    pub(super) fn write<'f>(
        &mut self,
        figures: impl Iterator<Item = &'f Figures>,
        is_last: bool,
    ) -> Result<()> {
        let Some(file) = self.file else {
            return Ok(());
        };
        if !is_last && self.written.is_some_and(|at| at.elapsed() < EVERY) {
            return Ok(());
        }
        must_be_own(file)?;
        self.written = Some(Instant::now());
        let figures: Vec<&Figures> = figures.collect();
        write_file(file, text(&figures).as_bytes(), true)
    }
}

/// Returns an error if the file exists and is not one that this module wrote: it can be anything, a
/// database or an object of the replica among them.
fn must_be_own(file: &Path) -> Result<()> {
    let mut begin = vec![0; BEGIN.len()];
    let read = File::open(file).and_then(|mut open| open.read_exact(&mut begin));
    let is_own = match read {
        Ok(()) => begin == BEGIN.as_bytes(),
        Err(e) if e.kind() == ErrorKind::NotFound => true,
        Err(_) => std::fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.len() == 0),
    };
    match is_own {
        true => Ok(()),
        false => Err(Error::Setting(format!(
            "{}: --metrics does not replace this file, because it has other contents; choose another name, or remove it",
            file.display()
        ))),
    }
}

/// The contents of the file.
fn text(figures: &[&Figures]) -> String {
    let mut text = String::new();
    for (name, kind, help, value) in METRICS {
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for figures in figures {
            let Some(value) = value(figures) else {
                continue;
            };
            let db = label(&figures.db().to_string_lossy());
            let _ = writeln!(text, "{name}{{database=\"{db}\"}} {value}");
        }
    }
    text
}

/// The value of a label.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_cannot_end_early() {
        assert_eq!(label("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
