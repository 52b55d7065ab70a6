//! `densite load DB TABLE FILE`

use super::sql::{failure, open};
use crate::args::{Common, LoadArgs};
use crate::failure::{Failure, Outcome};
use crate::load::insert::{Loaded, Options, Stop, load};
use crate::load::{Bad, format_of, open as open_file};
use crate::progress::Bar;
use crate::{out, sqlite};
use densite::Progress;
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
                "{}: the name does not tell the format; give --format csv, jsonl or parquet",
                args.file.display()
            ),
            json!({}),
        ));
    };
    let mut source = open_file(args, format).map_err(|bad| input(args, "line", bad))?;
    sqlite::api()?;
    let db = open(&args.db)?;
    // Who is told that rows are loaded may throw the file away: without a WAL FULL leaves a journal that a power cut may bring back.
    db.pragma_update(None, "synchronous", "EXTRA")
        .map_err(|e| failure(&args.db, None, &e))?;
    let mut bar = Bar::interruptible(common)?;
    let bytes = std::fs::metadata(&args.file).map_or(0, |m| m.len());
    bar.phase("load", bytes);
    let options = Options {
        table: &args.table,
        skip_errors: args.skip_errors,
        by_order: args.no_header,
        memory: args.memory << 20,
    };
    let done = load(&db, source.as_mut(), &options, &mut bar);
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
    // The last close writes what WAL mode left to do; what fails there fails the command.
    db.close().map_err(|(_, e)| failure(&args.db, None, &e))?;
    for bad in &loaded.bad {
        out::message(common, &format!("left out: {}", sentence(args, unit, bad)));
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
    out::result(common, &object, &text(common, args, &loaded, seconds))?;
    Ok(0)
}

fn text(common: Common, args: &LoadArgs, loaded: &Loaded, seconds: f64) -> String {
    if common.quiet {
        return String::new();
    }
    let mut text = format!(
        "{}: {} rows into {} in {seconds:.1} s",
        args.db,
        out::thousands(loaded.rows),
        args.table,
    );
    if loaded.created {
        text += ", which was made";
    }
    if loaded.skipped > 0 {
        let _ = write!(text, "; {} left out", out::thousands(loaded.skipped));
    }
    text + "\n"
}

/// File, place, column, value, and what is wrong.
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
        text += ", --skip-errors leaves such rows out";
    }
    Failure::Other("input", 1, text, details(args, unit, &bad))
}
