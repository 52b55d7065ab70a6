//! `densite restore URL DB`

use crate::args::{Common, RestoreArgs};
use crate::ask::consent;
use crate::failure::{Failure, Outcome};
use crate::out;
use crate::progress::Bar;
use crate::shown;
use crate::sqlite;
use crate::verbs::restore_all;
use densite_tools::Error;
use densite_tools::replica::{At, RestoreReport, restore, time_text, verify};
use serde_json::{Value, json};
use std::path::PathBuf;

pub(crate) fn run(common: Common, args: &RestoreArgs) -> Outcome {
    let api = sqlite::api()?;
    let at = match (args.at, args.number) {
        (Some(time_ms), _) => At::Time(time_ms),
        (None, Some(n)) => At::Number(n),
        (None, None) => At::Newest,
    };
    if let Some(db) = args.db.as_ref().filter(|db| args.force && db.exists()) {
        let what = if db.is_dir() { "databases in " } else { "" };
        consent(common, &format!("Replace {what}{}?", db.display()))?;
    }
    let into_directory = |db: &PathBuf| db.is_dir() || db.to_string_lossy().ends_with('/');
    if args.db.as_ref().is_some_and(into_directory) || (args.db.is_none() && args.all) {
        return restore_all::run(common, args, at);
    }
    let mut bar = Bar::interruptible(common)?;
    let report = match &args.db {
        Some(db) => match restore(api, &args.url, at, db, args.force, &mut bar) {
            Err(Error::Exists { path }) if path == *db => {
                let text = format!(
                    "{} exists already and was not changed; choose another name, or replace it with --force",
                    path.display()
                );
                return Err(Failure::Other("exists", 1, text, json!({ "path": path })));
            }
            done => done?,
        },
        None => verify(api, &args.url, at, &mut bar)?,
    };
    drop(bar);
    tell(common, &report);
    Ok(0)
}

/// The JSON object of a report.
pub(super) fn object(report: &RestoreReport) -> Value {
    let restored = &report.restored;
    json!({
        "verb": "restore",
        "source": report.source,
        "destination": report.destination,
        "generation": restored.generation,
        "restore_point": restored.n,
        "time": time_text(restored.time_ms),
        "time_ms": restored.time_ms,
        "pages": report.pages,
        "bytes": restored.image_len,
        "objects_read": restored.objects,
        "bytes_read": restored.bytes,
        "has_log": report.has_log,
        "rows_waiting": report.rows_waiting,
        "seconds": report.elapsed.as_secs_f64(),
    })
}

/// The same as a line of text.
pub(super) fn line(report: &RestoreReport) -> String {
    let restored = &report.restored;
    let what = match &report.destination {
        Some(path) => format!("{}: restored", shown::path(path)),
        None => format!("{}: verified", shown::path(&report.source)),
    };
    format!(
        "{what}, as of {} (restore point {} of {}); {} pages verified, {} read in {:.1} s",
        time_text(restored.time_ms),
        restored.n,
        restored.generation,
        out::thousands(report.pages),
        indicatif::BinaryBytes(restored.bytes),
        report.elapsed.as_secs_f64(),
    )
}

fn tell(common: Common, report: &RestoreReport) {
    let text = match common.quiet {
        true => String::new(),
        false => line(report) + "\n",
    };
    out::report(common, &object(report), &text, "the database was restored");
    for note in notes(report) {
        out::message(common, &note);
    }
}

/// What the user should know of the log.
pub(super) fn notes(report: &RestoreReport) -> Vec<String> {
    let mut notes = Vec::new();
    if report.rows_waiting > 0 {
        notes.push(format!(
            "{} rows wait in its log (densite_ingest); they are applied when a program opens it for ingest",
            out::thousands(report.rows_waiting)
        ));
    }
    if report.lacks_log {
        notes.push(
            "the database names a log (densite_ingest) that was missing when it was shipped; before ingest is used again, give up the rows that were not applied: DROP TABLE densite_applied".to_owned(),
        );
    }
    notes
}
