//! `densite load DB TABLE FILE`

use super::sql::{failure, open};
use crate::args::{Common, LoadArgs};
use crate::failure::{Failure, Outcome};
use crate::load::insert::{Loaded, Options, Stop, load};
use crate::load::{Bad, format_of, open as open_file};
use crate::progress::Bar;
use crate::shown::shown;
use crate::{out, sqlite};
use densite_tools::Progress;
use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Instant;

pub(crate) fn run(common: Common, args: &LoadArgs) -> Outcome {
    let begin = Instant::now();
    let Some(format) = format_of(args) else {
        return Err(Failure::Other(
            "usage",
            2,
            format!(
                "{}: the format is not clear from the name; give --format csv, jsonl or parquet",
                args.file.display()
            ),
            json!({}),
        ));
    };
    if ["", ":memory:"].contains(&args.db.as_str()) {
        return Err(Failure::Other(
            "usage",
            2,
            "DB is a temporary database, which would be gone at the end; name a file".to_string(),
            json!({}),
        ));
    }
    let mut source = open_file(args, format).map_err(|bad| input(args, "line", bad))?;
    sqlite::api()?;
    // Signals are handled before there is anything to undo.
    let mut bar = Bar::interruptible(common)?;
    let is_new = is_missing(&args.db);
    let opened = Opened {
        db: Some(open(&args.db, true)?),
        is_new,
    };
    let db = opened.get()?;
    // The user can delete the file after a successful load. In rollback mode, FULL leaves the
    // removal of the journal unsynced, so a power cut could undo the load; EXTRA prevents this.
    db.pragma_update(None, "synchronous", "EXTRA")
        .map_err(|e| failure(&args.db, None, &e))?;
    let bytes = std::fs::metadata(&args.file).map_or(0, |m| m.len());
    bar.phase("load", bytes);
    let options = Options {
        table: &args.table,
        skip_errors: args.skip_errors,
        by_order: args.no_header,
        memory: args.memory << 20,
    };
    let done = load(db, source.as_mut(), &options, &mut bar);
    drop(bar);
    let unit = source.unit();
    let loaded = match done {
        Ok(loaded) => loaded,
        Err(Stop::Input(bad)) => return Err(input(args, unit, bad)),
        Err(Stop::Table(reason)) => {
            let text = format!("{}: {reason}", args.db);
            return Err(Failure::Other("input", 1, text, json!({ "path": args.db })));
        }
        Err(Stop::Sql(e)) => return Err(failure(&args.db, None, &e)),
        Err(Stop::Interrupted) => {
            let text = "interrupted; nothing was loaded".to_owned();
            return Err(Failure::Other("interrupted", 130, text, json!({})));
        }
    };
    // The last close finishes the work of WAL mode. An error there is an error of the command, but
    // the rows are committed.
    opened
        .keep()
        .map_err(|e| not_closed(&args.db, loaded.rows, &e))?;
    for bad in &loaded.bad {
        out::message(common, &format!("skipped: {}", sentence(args, unit, bad)));
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
        "skipped": loaded.skipped,
        "skipped_first": loaded.bad.iter().map(|bad| details(args, unit, bad)).collect::<Vec<_>>(),
        "sorted": loaded.sorted,
        "file_bytes": bytes,
        "seconds": seconds,
    });
    let text = text(common, args, &loaded, seconds);
    let done = format!("{}: the rows were loaded", args.db);
    out::report(common, &object, &text, &done);
    Ok(0)
}

/// The database that receives the rows. If the command created it, dropping this removes it, unless
/// it is kept.
struct Opened {
    /// `None` after closing.
    db: Option<Connection>,
    is_new: bool,
}

impl Opened {
    fn get(&self) -> Result<&Connection, Failure> {
        let closed = || Failure::Other("sqlite", 1, "the database is closed".to_owned(), json!({}));
        self.db.as_ref().ok_or_else(closed)
    }

    /// Closes the database and keeps the loaded rows.
    fn keep(mut self) -> rusqlite::Result<()> {
        match self.db.take() {
            Some(db) => db.close().map_err(|(_, e)| e),
            None => Ok(()),
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(db) = self.db.take().filter(|_| self.is_new) {
            // If the file cannot be removed, it stays and is empty. The failure itself is more
            // useful to the user.
            remove(&db).ok();
        }
    }
}

/// The failure to close a database that has the loaded rows. A program that took it for a failed
/// load would load them twice.
fn not_closed(db: &str, rows: u64, e: &rusqlite::Error) -> Failure {
    match failure(db, None, e) {
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

/// Whether opening the database creates its file.
fn is_missing(db: &str) -> bool {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if db.starts_with("file:") {
        flags |= OpenFlags::SQLITE_OPEN_URI;
    }
    let opened = Connection::open_with_flags_and_vfs(db, flags, sqlite::VFS);
    opened.is_err_and(|e| e.sqlite_error_code() == Some(ErrorCode::CannotOpen))
}

/// Removes the file of an unused database, under a lock that keeps other connections from starting
/// to use it.
fn remove(db: &Connection) -> rusqlite::Result<()> {
    if !db.is_autocommit() {
        db.execute_batch("ROLLBACK")?;
    }
    // In an empty file, BEGIN EXCLUSIVE starts with a write, which fails on a full disk. In this
    // locking mode the connection keeps the lock that it took for the write.
    db.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    let begun = db.execute_batch("BEGIN EXCLUSIVE");
    let no_room = |e: &rusqlite::Error| {
        let code = e.sqlite_extended_error_code();
        matches!(code, Some(ffi::SQLITE_FULL | ffi::SQLITE_IOERR_WRITE))
    };
    if let Err(e) = begun
        && !no_room(&e)
    {
        return Err(e);
    }
    let is_empty = db.query_row(
        "SELECT NOT EXISTS (SELECT 1 FROM main.sqlite_schema) AND user_version = 0 AND application_id = 0
         FROM pragma_user_version, pragma_application_id",
        [],
        |row| row.get(0),
    );
    if is_empty == Ok(true)
        && let Some(path) = db.path()
    {
        std::fs::remove_file(path).ok();
    }
    if !db.is_autocommit() {
        db.execute_batch("ROLLBACK")?;
    }
    Ok(())
}

fn text(common: Common, args: &LoadArgs, loaded: &Loaded, seconds: f64) -> String {
    if common.quiet {
        return String::new();
    }
    let mut text = format!(
        "{}: {} rows into the {}table {} in {seconds:.1} s",
        shown(&args.db),
        out::thousands(loaded.rows),
        if loaded.created { "new " } else { "" },
        shown(&args.table),
    );
    if loaded.skipped > 0 {
        let _ = write!(text, "; {} left out", out::thousands(loaded.skipped));
    }
    text + "\n"
}

/// A message with file, place, column, value and problem.
fn sentence(args: &LoadArgs, unit: &str, bad: &Bad) -> String {
    let mut text = args.file.display().to_string();
    if let Some(at) = bad.at {
        let _ = write!(text, ", {unit} {at}");
    }
    if let Some(column) = &bad.column {
        let _ = write!(text, ", column {column}");
    }
    if let Some(value) = &bad.value {
        let _ = write!(text, ", value {value}");
    }
    format!("{text}: {}", bad.problem)
}

fn details(args: &LoadArgs, unit: &str, bad: &Bad) -> Value {
    json!({
        "path": args.file.to_string_lossy(),
        "unit": unit,
        "at": bad.at,
        "column": bad.column,
        "value": bad.value,
        "problem": bad.problem,
    })
}

fn input(args: &LoadArgs, unit: &str, bad: Bad) -> Failure {
    let mut text = sentence(args, unit, &bad);
    text += "; nothing was loaded";
    if !bad.is_last {
        text += "; --skip-errors skips such rows";
    }
    let (kind, code) = match bad.is_damaged {
        true => ("damaged", 5),
        false => ("input", 1),
    };
    Failure::Other(kind, code, text, details(args, unit, &bad))
}

#[cfg(test)]
mod tests {
    use super::*;

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
