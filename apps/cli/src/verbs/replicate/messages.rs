//! What `densite replicate` says: lines on stderr by level, or events on stdout.

use crate::args::{Common, LogLevel};
use crate::out;
use crate::progress::Bar;
use densite_tools::replica::Shipped;
use densite_tools::{Error, Progress};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A restore point that is held back for so long is reported.
const LATE: Duration = Duration::from_secs(10);

/// Tells the user what changes, once.
pub(super) struct Told {
    common: Common,
    level: LogLevel,
    /// The last failure of each database, until it succeeds.
    failures: BTreeMap<PathBuf, Error>,
    /// Since when a database is held back, and whether that was told.
    held: BTreeMap<PathBuf, (Instant, bool)>,
    /// The newest restore point of the round, of each database that has a new one.
    newest: BTreeMap<PathBuf, u64>,
    /// Whether the failure to write the metrics was told.
    has_no_metrics: bool,
    /// Whether it was told that there is no database.
    has_nothing: bool,
}

impl Told {
    pub(super) fn new(common: Common, level: LogLevel) -> Told {
        Told {
            common,
            level,
            failures: BTreeMap::new(),
            held: BTreeMap::new(),
            newest: BTreeMap::new(),
            has_no_metrics: false,
            has_nothing: false,
        }
    }

    /// A failure that has not passed.
    pub(super) fn failed(mut self) -> Option<Error> {
        self.failures.pop_first().map(|(_, error)| error)
    }

    /// The results of a round, before they are told one by one.
    pub(super) fn round(&mut self, results: &[Shipped]) {
        let points = results.iter().filter_map(|result| match result {
            Shipped::Point { db, n, .. } => Some((db.clone(), *n)),
            _ => None,
        });
        self.newest = points.collect();
    }

    /// Tells one result. Returns a final failure. The failures of the last round are told at the
    /// end.
    pub(super) fn tell(&mut self, bar: &mut Bar, result: Shipped, is_last: bool) -> Option<Error> {
        match result {
            Shipped::Began {
                db,
                url,
                generation,
                n,
                lacks_log,
                warnings,
            } => {
                bar.rest();
                self.recovered(bar, &db);
                // What is new was sent in the same round.
                let newest = self.newest.get(&db).copied().unwrap_or(n);
                let text = format!(
                    "{} is replicated to {} (restore point {newest} of {generation})",
                    db.display(),
                    densite_tools::replica::described(&url)
                );
                let event = json!({ "event": "began", "database": db, "replica": url,
                    "generation": generation, "restore_point": n, "warnings": warnings });
                self.line(bar, LogLevel::Info, &text, &event);
                if lacks_log {
                    let warning = format!(
                        "{}: the database names a log (densite_ingest) that is not beside it; rows that waited in it are not replicated",
                        db.display()
                    );
                    self.message(bar, LogLevel::Warn, &warning);
                }
                for warning in warnings {
                    let warning = format!("{}: {warning}", db.display());
                    self.message(bar, LogLevel::Warn, &warning);
                }
            }
            Shipped::Point {
                db,
                n,
                bytes,
                is_held_back,
            } => {
                if !is_held_back {
                    self.recovered(bar, &db);
                }
                let text = format!("{}: restore point {n}, {bytes} bytes", db.display());
                let event = json!({ "event": "shipped", "database": db,
                    "restore_point": n, "bytes": bytes, "held_back": is_held_back });
                self.line(bar, LogLevel::Debug, &text, &event);
            }
            Shipped::Compacted { db, bytes } => {
                let text = format!("{}: merged deltas into {bytes} bytes", db.display());
                let event = json!({ "event": "compacted", "database": db, "bytes": bytes });
                self.line(bar, LogLevel::Debug, &text, &event);
            }
            Shipped::HeldBack { db, since_ms } => self.held_back(bar, db, since_ms),
            Shipped::Failed {
                db,
                error,
                is_final,
            } => {
                let is_new = self
                    .failures
                    .get(&db)
                    .is_none_or(|old| old.to_string() != error.to_string());
                if is_new && !is_final && !is_last {
                    let text = format!("{error}; it is tried again");
                    let event = json!({ "event": "failed", "database": db,
                        "message": error.to_string() });
                    self.line(bar, LogLevel::Warn, &text, &event);
                }
                if is_final {
                    return Some(error);
                }
                self.failures.insert(db, error);
            }
            _ => {}
        }
        None
    }

    fn held_back(&mut self, bar: &mut Bar, db: PathBuf, since_ms: u64) {
        let (since, is_told) = self
            .held
            .entry(db.clone())
            .or_insert((Instant::now(), false));
        if since.elapsed() >= LATE && !*is_told {
            *is_told = true;
            let text = format!(
                "{}: a long transaction of another connection holds back the next restore point; end it",
                db.display()
            );
            let event = json!({ "event": "held_back", "database": db,
                "newest_time_ms": since_ms });
            self.line(bar, LogLevel::Warn, &text, &event);
        }
    }

    /// A database is shipped again.
    fn recovered(&mut self, bar: &mut Bar, db: &Path) {
        let late = self.held.remove(db).is_some_and(|(_, is_told)| is_told);
        if self.failures.remove(db).is_some() || late {
            let text = format!("{} is replicated again", db.display());
            let event = json!({ "event": "recovered", "database": db });
            self.line(bar, LogLevel::Info, &text, &event);
        }
    }

    /// A database of several is not shipped any more.
    pub(super) fn ended(&self, bar: &mut Bar, error: &Error) {
        self.message(bar, LogLevel::Error, &error.to_string());
    }

    /// The metrics were written, or not.
    pub(super) fn metrics(&mut self, bar: &mut Bar, written: Result<(), Error>) {
        match written {
            Ok(()) => self.has_no_metrics = false,
            Err(error) if !self.has_no_metrics => {
                self.has_no_metrics = true;
                let text = format!("the metrics cannot be written: {error}");
                self.message(bar, LogLevel::Warn, &text);
            }
            Err(_) => {}
        }
    }

    /// Tells once that a directory has no databases.
    pub(super) fn nothing(&mut self, bar: &mut Bar, dir: &Path) {
        if !std::mem::replace(&mut self.has_nothing, true) {
            let text = format!(
                "{}: there is no compressed database here (densite compress makes one); nothing is replicated",
                dir.display()
            );
            self.message(bar, LogLevel::Warn, &text);
        }
    }

    /// A line for people, if its level is wanted, or an event for programs.
    fn line(&self, bar: &mut Bar, level: LogLevel, text: &str, event: &serde_json::Value) {
        match self.common.json {
            true => self.event(event),
            false => self.message(bar, level, text),
        }
    }

    /// A line for people, if its level is wanted.
    fn message(&self, bar: &mut Bar, level: LogLevel, text: &str) {
        if level <= self.level {
            bar.message(text);
        }
    }

    /// An event for programs: a JSON object on a line of its own.
    fn event(&self, event: &serde_json::Value) {
        if self.common.json {
            // A reader that has gone stops no shipping.
            let _ = out::event(event);
        }
    }
}
