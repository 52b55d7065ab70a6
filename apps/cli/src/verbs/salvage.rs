//! `densite salvage SRC DST`

use crate::args::{Common, SalvageArgs};
use crate::failure::Outcome;
use crate::progress::Bar;
use crate::shown::{self, shown};
use crate::{out, sqlite};
use densite_tools::{ConvertOptions, Form, Missing, Salvaged};
use std::fmt::Write as _;

/// The most lines about what is missing.
const SHOWN: usize = 40;

pub(crate) fn run(common: Common, args: &SalvageArgs) -> Outcome {
    let api = sqlite::api()?;
    let mut bar = Bar::interruptible(common)?;
    let options = ConvertOptions {
        wait: args.lock.timeout,
        ..ConvertOptions::default()
    };
    let saved = densite_tools::salvage(api, &args.src, &args.dst, &options, &mut bar);
    drop(bar);
    let saved = saved?;
    let code = if saved.is_complete() { 0 } else { 5 };
    let object = densite_tools::json::salvaged(&saved);
    let text = match common.quiet && saved.is_complete() {
        true => String::new(),
        false => text(&saved),
    };
    Ok(out::verdict(common, &object, &text, code)?)
}

fn text(saved: &Salvaged) -> String {
    let mut s = String::new();
    let lines = lines(saved);
    for line in lines.iter().take(SHOWN) {
        let _ = writeln!(s, "{line}");
    }
    if lines.len() > SHOWN {
        let more = out::thousands((lines.len() - SHOWN) as u64);
        let _ = writeln!(s, "and {more} more lines; --json has all");
    }
    let rows = saved.tables.iter().map(|table| table.rows).sum();
    let _ = writeln!(
        s,
        "{}: {} of {}, {}; {}",
        shown::path(&saved.destination),
        out::counted(rows, "row", "rows"),
        out::counted(saved.tables.len() as u64, "table", "tables"),
        out::bytes(saved.destination_bytes),
        match saved.is_complete() {
            true => "nothing is missing",
            false => "see the lines above",
        }
    );
    if saved.form == Form::Plain {
        s.push_str("a plain file has no checksums: wrong values are not noticed\n");
    }
    s
}

/// What is missing, a line each.
fn lines(saved: &Salvaged) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |of: &str, all: &[Missing]| {
        lines.extend(all.iter().map(|missing| {
            let what = match missing.ids {
                Some((first, last)) => ids(first, last),
                None => "a part".to_owned(),
            };
            let why = shown(&missing.why).to_string();
            format!("missing: {what} of {of} (page {}: {why})", missing.page)
        }));
    };
    add("the schema", &saved.schema_missing);
    for table in &saved.tables {
        add(&shown(&table.name).to_string(), &table.missing);
    }
    add("something unknown", &saved.unknown);
    for table in saved.tables.iter().filter(|table| table.found_again > 0) {
        lines.push(format!(
            "found all the same, below these pages: {} of {}",
            out::counted(table.found_again, "row", "rows"),
            shown(&table.name)
        ));
    }
    for table in saved.tables.iter().filter(|table| table.refused > 0) {
        lines.push(format!(
            "refused by {}: {} ({})",
            shown(&table.name),
            out::counted(table.refused, "row", "rows"),
            shown(table.why_refused.as_deref().unwrap_or_default())
        ));
    }
    if saved.by_frames {
        lines.push(
            "commits or parts of the page map cannot be read: pages were looked for in the whole file, and rows can be of an earlier moment, or of a transaction that was not committed"
                .to_owned(),
        );
    }
    for what in &saved.not_made {
        lines.push(format!("not made: {}", shown(what)));
    }
    if let Some((name, rows)) = &saved.found {
        lines.push(format!(
            "in {name}: {} that no table takes",
            out::counted(*rows, "row", "rows")
        ));
    }
    lines
}

/// Row ids, as far as the pages around them tell.
fn ids(first: i64, last: i64) -> String {
    match (first, last) {
        (i64::MIN, i64::MAX) => "all rows".to_owned(),
        (first, last) if first == last => format!("row {first}"),
        (i64::MIN, last) => format!("rows up to {last}"),
        (first, i64::MAX) => format!("rows from {first}"),
        (first, last) => format!("rows {first} to {last}"),
    }
}
