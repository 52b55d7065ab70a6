//! What is said of a restored database.

use crate::out;
use crate::shown;
use densite_tools::replica::{RestoreReport, time_text};
use serde_json::{Value, json};

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
        "warnings": report.warnings,
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

/// What needs attention although the restore succeeded.
pub(super) fn warnings(report: &RestoreReport) -> Vec<String> {
    let path = report.destination.as_ref().unwrap_or(&report.source);
    let of_database = report.warnings.iter();
    let mut warnings: Vec<String> = of_database
        .map(|warning| format!("{}: {warning}", shown::path(path)))
        .collect();
    if let Some(problem) = &report.restored.head_problem {
        warnings.push(format!(
            "{}: the object head {problem}; the restore point was found without it; densite replicate --takeover makes a new one",
            shown::path(&report.source)
        ));
    }
    warnings
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
            "the database names a log (densite_ingest) that was not restored; before ingest is used again, give up the rows that were not applied: DROP TABLE densite_applied".to_owned(),
        );
    }
    notes
}
