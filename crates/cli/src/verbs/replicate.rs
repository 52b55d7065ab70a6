//! `densite replicate DB|DIR URL`

use crate::args::{Common, ReplicateArgs};
use crate::failure::Outcome;
use crate::out;
use crate::progress::Bar;
use crate::sqlite;
use densite_tools::replica::{Replicas, ReplicateOptions, Shipped};
use densite_tools::{Error, Progress};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often the wait for the next round looks for a signal.
const LOOK: Duration = Duration::from_millis(50);
/// A restore point that is held back for so long is reported.
const LATE: Duration = Duration::from_secs(10);

pub(crate) fn run(common: Common, args: &ReplicateArgs) -> Outcome {
    let api = sqlite::api()?;
    let options = ReplicateOptions {
        retain: args.retain,
        base_every: args.base_every,
        takeover: args.takeover,
    };
    let mut replicas = Replicas::new(api, &args.db, &args.url, options)?;
    let mut bar = Bar::interruptible(common)?;
    let mut told = Told::new(common);
    // The last one of a database of several that is not shipped any more.
    let mut failed = None;
    loop {
        let begun = Instant::now();
        let is_last = args.once || bar.cancelled();
        // The last round ships what was committed before the signal.
        let results = match is_last {
            true => replicas.round(&mut Bar::new(common))?,
            false => replicas.round(&mut bar)?,
        };
        for result in results {
            let Some(error) = told.tell(&mut bar, result, is_last) else {
                continue;
            };
            if !replicas.is_directory() {
                return Err(error.into());
            }
            if !is_last {
                bar.message(&error.to_string());
            }
            failed = Some(error);
        }
        if is_last {
            return match told.failed().or(failed) {
                Some(error) => Err(error.into()),
                None => Ok(0),
            };
        }
        while begun.elapsed() < args.interval && !bar.cancelled() {
            std::thread::sleep(LOOK.min(args.interval.saturating_sub(begun.elapsed())));
        }
    }
}

/// Tells the user what changes, once.
struct Told {
    common: Common,
    /// The last failure of each database, until it succeeds.
    failures: BTreeMap<PathBuf, Error>,
    /// Since when a database is held back, and whether that was told.
    held: BTreeMap<PathBuf, (Instant, bool)>,
}

impl Told {
    fn new(common: Common) -> Told {
        Told {
            common,
            failures: BTreeMap::new(),
            held: BTreeMap::new(),
        }
    }

    /// A failure that has not passed.
    fn failed(mut self) -> Option<Error> {
        self.failures.pop_first().map(|(_, error)| error)
    }

    /// Tells one result. Returns a final failure. The failures of the last round are told at the
    /// end.
    fn tell(&mut self, bar: &mut Bar, result: Shipped, is_last: bool) -> Option<Error> {
        match result {
            Shipped::Began {
                db,
                url,
                generation,
                n,
            } => {
                bar.rest();
                self.recovered(bar, &db);
                let text = format!(
                    "{} is replicated to {} (restore point {n} of {generation})",
                    db.display(),
                    url.display()
                );
                let event = json!({ "event": "began", "database": db, "replica": url,
                    "generation": generation, "restore_point": n });
                self.line(bar, &text, &event);
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
                self.event(&json!({ "event": "shipped", "database": db,
                    "restore_point": n, "bytes": bytes, "held_back": is_held_back }));
            }
            Shipped::Compacted { db, bytes } => {
                self.event(&json!({ "event": "compacted", "database": db, "bytes": bytes }));
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
                    self.line(bar, &text, &event);
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
            self.line(bar, &text, &event);
        }
    }

    /// A database is shipped again.
    fn recovered(&mut self, bar: &mut Bar, db: &Path) {
        let late = self.held.remove(db).is_some_and(|(_, is_told)| is_told);
        if self.failures.remove(db).is_some() || late {
            let text = format!("{} is replicated again", db.display());
            self.line(bar, &text, &json!({ "event": "recovered", "database": db }));
        }
    }

    /// A line for people, or an event for programs.
    fn line(&self, bar: &mut Bar, text: &str, event: &serde_json::Value) {
        match self.common.json {
            true => self.event(event),
            false => bar.message(text),
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
