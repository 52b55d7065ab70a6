//! `densite restore URL DB`

use crate::args::{Common, RestoreArgs};
use crate::ask::consent;
use crate::failure::{Failure, Outcome};
use crate::out;
use crate::progress::Bar;
use crate::shown;
use crate::sqlite;
use densite_tools::Error;
use densite_tools::replica::{At, RestoreReport, restore, time_text, verify};
use serde_json::json;

pub(crate) fn run(common: Common, args: &RestoreArgs) -> Outcome {
    let api = sqlite::api()?;
    let at = match (args.at, args.number) {
        (Some(time_ms), _) => At::Time(time_ms),
        (None, Some(n)) => At::Number(n),
        (None, None) => At::Newest,
    };
    if let Some(db) = args.db.as_ref().filter(|db| args.force && db.exists()) {
        consent(common, &format!("Replace {}?", db.display()))?;
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

fn tell(common: Common, report: &RestoreReport) {
    let restored = &report.restored;
    let object = json!({
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
    });
    let what = match &report.destination {
        Some(path) => format!("{}: restored", shown::path(path)),
        None => format!("{}: verified", shown::path(&report.source)),
    };
    let text = format!(
        "{what}, as of {} (restore point {} of {}); {} pages verified, {} read in {:.1} s\n",
        time_text(restored.time_ms),
        restored.n,
        restored.generation,
        out::thousands(report.pages),
        indicatif::BinaryBytes(restored.bytes),
        report.elapsed.as_secs_f64(),
    );
    let text = if common.quiet { String::new() } else { text };
    out::report(common, &object, &text, "the database was restored");
    if report.rows_waiting > 0 {
        let text = format!(
            "{} rows wait in its log (densite_ingest); they are applied when a program opens it for ingest",
            out::thousands(report.rows_waiting)
        );
        out::message(common, &text);
    }
    if report.lacks_log {
        out::message(
            common,
            "the database names a log (densite_ingest) that was missing when it was shipped; before ingest is used again, give up the rows that were not applied: DROP TABLE densite_applied",
        );
    }
}
