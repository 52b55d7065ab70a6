//! `densite load DB TABLE FILE`

use crate::args::{Common, FileFormat, LoadArgs, Types};
use crate::failure::{Failure, Outcome};
use crate::load::file_failure::{details, doubt, input, sentence};
use crate::load::insert::{Loaded, Options, Stop, load};
use crate::load::{format_of, not_loaded, open as open_file};
use crate::progress::Bar;
use crate::shown::shown;
use crate::sql::failure::{At, failure};
use crate::sql::open::{Access, Opened};
use crate::{out, sqlite};
use densite_tools::Progress;
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Instant;

pub(crate) fn run(common: Common, args: &LoadArgs) -> Outcome {
    let begin = Instant::now();
    let Some(format) = format_of(args) else {
        if let Some(bad) = not_loaded(&args.file) {
            return Err(input(&args.file, "line", bad));
        }
        return Err(Failure::Other(
            "usage",
            2,
            format!(
                "{}: the format is not clear from the name; give --format csv, json, jsonl or parquet",
                args.file.display()
            ),
            json!({}),
        ));
    };
    if let Some(option) = useless(args, format) {
        return Err(Failure::Other(
            "usage",
            2,
            format!(
                "{option} has no meaning for the format {}; leave it out",
                format.name()
            ),
            json!({}),
        ));
    }
    if args.table.is_empty() {
        let text = "TABLE is empty; name a table".to_owned();
        return Err(Failure::Other("usage", 2, text, json!({})));
    }
    if ["", ":memory:"].contains(&args.db.as_str()) {
        return Err(Failure::Other(
            "usage",
            2,
            "DB is a temporary database, which would be gone at the end; name a file".to_string(),
            json!({}),
        ));
    }
    let mut source = open_file(args, format).map_err(|bad| input(&args.file, "line", bad))?;
    sqlite::api()?;
    // Signals are handled before there is anything to undo.
    let mut bar = Bar::interruptible(common)?;
    let opened = Opened::new(&args.db, Access::Create)?;
    let db = opened.get()?;
    // The user can delete the file after a successful load. In rollback mode, FULL leaves the
    // removal of the journal unsynced, so a power cut could undo the load; EXTRA prevents this.
    db.pragma_update(None, "synchronous", "EXTRA")
        .map_err(|e| failure(&args.db, At::Database, &e))?;
    let bytes = std::fs::metadata(&args.file).map_or(0, |m| m.len());
    bar.phase("load", bytes);
    let options = Options {
        schema: "main",
        table: &args.table,
        skip_errors: args.skip_errors,
        by_order: args.no_header && format == FileFormat::Csv,
        reads_spelled: true,
        types: (format == FileFormat::Csv).then_some(&args.types),
        upsert: &args.upsert,
        memory: args.memory << 20,
    };
    let done = load(&db, source.as_mut(), &options, &mut bar);
    drop(db);
    bar.rest();
    let unit = source.unit();
    let loaded = match done {
        Ok(loaded) => loaded,
        Err(Stop::Input(bad)) => return Err(input(&args.file, unit, bad)),
        Err(Stop::Table(reason)) => {
            let text = format!("{}: {reason}", args.db);
            return Err(Failure::Other("input", 1, text, json!({ "path": args.db })));
        }
        Err(Stop::Sql(e)) => return Err(failure(&args.db, At::Database, &e)),
        Err(Stop::Interrupted) => {
            let text = "interrupted; nothing was loaded".to_owned();
            return Err(Failure::Other("interrupted", 130, text, json!({})));
        }
    };
    bar.phase("closing", 0);
    // The last close finishes the work of WAL mode. An error there is an error of the command, but
    // the rows are committed.
    opened
        .keep()
        .map_err(|e| not_closed(&args.db, loaded.rows, &e))?;
    for bad in &loaded.bad {
        out::message(
            common,
            &format!("skipped: {}", sentence(&args.file, unit, bad)),
        );
    }
    if loaded.created
        && let Some(doubt) = doubt(&args.file, unit, source.as_ref())
    {
        out::message(common, &doubt);
    }
    let seconds = begin.elapsed().as_secs_f64();
    let object = json!({
        "verb": "load",
        "path": args.db,
        "table": args.table,
        "file": args.file.to_string_lossy(),
        "format": format.name(),
        "created": loaded.created,
        "rows": loaded.rows,
        "ignored": loaded.ignored,
        "skipped": loaded.skipped,
        "skipped_first": loaded.bad.iter().map(|bad| details(&args.file, unit, bad)).collect::<Vec<_>>(),
        "sorted": loaded.sorted,
        "file_bytes": bytes,
        "seconds": seconds,
    });
    let text = text(common, args, &loaded, seconds);
    let done = format!("{}: the rows were loaded", args.db);
    out::report(common, &object, &text, &done);
    Ok(0)
}

/// An option that was given and that the format does not have. Without its effect, other rows would
/// be loaded than the user expects.
fn useless(args: &LoadArgs, format: FileFormat) -> Option<&'static str> {
    let is_csv = format == FileFormat::Csv;
    let is_text = format != FileFormat::Parquet;
    let given = [
        ("--null", args.null.is_some(), is_csv),
        ("--no-header", args.no_header, is_csv),
        ("--delimiter", args.delimiter.is_some(), is_csv),
        ("--quote", args.quote.byte().is_none(), is_csv),
        ("--types", args.types != Types::default(), is_csv),
        ("--encoding", args.encoding.is_some(), is_text),
    ];
    let useless = given
        .iter()
        .find(|(_, is_given, has_it)| *is_given && !has_it);
    useless.map(|(option, ..)| *option)
}

/// The failure to close a database that has the loaded rows. A program that took it for a failed
/// load would load them twice.
fn not_closed(db: &str, rows: u64, e: &rusqlite::Error) -> Failure {
    match failure(db, At::Database, e) {
        Failure::Other(kind, code, text, mut details) => {
            if let Value::Object(fields) = &mut details {
                fields.insert("rows".to_owned(), json!(rows));
            }
            let rows = out::thousands(rows);
            let text = format!(
                "the {rows} rows were loaded, but closing the database failed: {text}; do not load the file again"
            );
            Failure::Other(kind, code, text, details)
        }
        other => other,
    }
}

fn text(common: Common, args: &LoadArgs, loaded: &Loaded, seconds: f64) -> String {
    if common.quiet {
        return String::new();
    }
    let mut text = format!(
        "{}: {} into the {}table {} in {seconds:.1} s",
        shown(&args.db),
        out::counted(loaded.rows, "row", "rows"),
        if loaded.created { "new " } else { "" },
        shown(&args.table),
    );
    if loaded.ignored > 0 {
        let ignored = out::thousands(loaded.ignored);
        let _ = write!(text, "; {ignored} dropped by the rules of the table");
    }
    if loaded.skipped > 0 {
        let _ = write!(text, "; {} left out", out::thousands(loaded.skipped));
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    #[test]
    fn an_error_of_the_last_close_says_that_the_rows_were_loaded() {
        for (code, exit_code, kind) in [
            (ffi::SQLITE_IOERR, 1, "sql"),
            (ffi::SQLITE_BUSY, 3, "locked"),
            (ffi::SQLITE_FULL, 4, "no_space"),
            (ffi::SQLITE_CORRUPT, 5, "damaged"),
        ] {
            let e = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            let Failure::Other(said_kind, said_code, text, details) = not_closed("a.db", 1234, &e)
            else {
                panic!("another failure");
            };
            assert_eq!((said_kind, said_code), (kind, exit_code));
            assert!(
                text.starts_with("the 1,234 rows were loaded, but"),
                "{text}"
            );
            assert!(text.ends_with("do not load the file again"), "{text}");
            assert_eq!(details["rows"], 1234);
        }
    }
}
