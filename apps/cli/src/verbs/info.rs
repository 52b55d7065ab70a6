//! `densite info DB`

use super::objects;
use crate::args::{Common, InfoArgs};
use crate::failure::Outcome;
use crate::gain;
use crate::progress::Bar;
use crate::shown::{self, shown};
use crate::{out, sqlite};
use densite_tools::log::Figures;
use densite_tools::{Form, Info, JournalMode};

/// Figures of the store that other lines already show.
const SAID: [&str; 7] = [
    "page_size",
    "pages",
    "logical_bytes",
    "stored_bytes",
    "live_bytes",
    "dead_bytes",
    "free_bytes",
];

pub(crate) fn run(common: Common, args: &InfoArgs) -> Outcome {
    let bar = Bar::new(common);
    let info = match args.columns {
        true => densite_tools::info_with_objects(sqlite::api()?, &args.db)?,
        false => densite_tools::info(sqlite::api()?, &args.db)?,
    };
    drop(bar);
    for path in &info.leftovers {
        out::message(
            common,
            &format!(
                "{} was left by an interrupted run or belongs to one that is still running; remove it if no run is active",
                path.display()
            ),
        );
    }
    let object = densite_tools::json::info(&info);
    let text = text(&info) + &objects::text(&info, args.columns);
    out::result(common, &object, &text)?;
    Ok(0)
}

/// A summary of the log.
fn log_lines(log: &Result<Figures, String>) -> Vec<(&'static str, String)> {
    let figures = match log {
        Ok(log) => log,
        Err(problem) => return vec![("log", shown(problem))],
    };
    let behind = |rows: u64, bytes: u64| {
        format!(
            "{}, {}",
            out::counted(rows, "row", "rows"),
            out::bytes(bytes)
        )
    };
    let status = &figures.status;
    let mut lines = vec![("log", out::bytes(status.bytes + status.free_segment_bytes))];
    if let Some(misfit) = figures.misfit() {
        lines.push(("", shown(&misfit)));
    }
    if let (Some(rows), Some(bytes)) = (figures.unapplied_rows(), figures.unapplied_bytes) {
        lines.push(("not applied yet", behind(rows, bytes)));
        if figures.is_left_alone() {
            lines.push(("applied by", NOBODY.to_owned()));
        }
    }
    if let Some(rejects) = figures
        .applied
        .as_ref()
        .map(|a| a.rejects)
        .filter(|n| *n > 0)
    {
        lines.push(("rejected rows", out::thousands(rejects)));
    }
    let subscribers = figures.subscribers.len();
    lines.push(("subscribers", out::thousands(subscribers as u64)));
    if let Some(slowest) = figures.slowest() {
        let lag = behind(slowest.rows_behind, slowest.bytes_behind);
        lines.push((
            "slowest subscriber",
            format!("{}: {lag} behind", shown(&slowest.name)),
        ));
    }
    lines
}

/// Shown if rows wait and no process applies them.
pub(super) const NOBODY: &str =
    "no process now: they wait for one that uses ingest and can write to the database";

fn mode(mode: JournalMode) -> &'static str {
    match mode {
        JournalMode::Rollback => "rollback",
        JournalMode::Wal => "wal",
    }
}

fn text(info: &Info) -> String {
    use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
    let form = match info.form {
        Form::Compressed => "compressed (Densite)",
        Form::Plain => "plain SQLite",
        Form::Empty => "empty (becomes a database at the first write)",
    };
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    let mut row = |name: &str, value: String| {
        table.add_row(vec![
            Cell::new(name),
            Cell::new(value).set_alignment(CellAlignment::Left),
        ]);
    };
    row("database", shown::path(&info.path));
    row("form", form.to_string());
    row("logical size", out::bytes(info.logical_bytes));
    row("stored size", out::bytes(info.stored_bytes));
    row("on disk", out::bytes(info.allocated_bytes));
    if let Some(ratio) = info.ratio() {
        row("on disk / logical", format!("{:.1} %", 100.0 * ratio));
    }
    row(
        "pages",
        format!("{} of {} bytes", out::thousands(info.pages), info.page_size),
    );
    row("free pages", out::thousands(info.free_pages));
    row("journal mode", mode(info.journal_mode).to_string());
    if info.journal_bytes > 0 {
        row("journal", out::bytes(info.journal_bytes));
    }
    if info.wal_bytes > 0 {
        row("WAL", out::bytes(info.wal_bytes));
        if !info.wal_readers.is_empty() {
            let readers: Vec<String> = info.wal_readers.iter().map(ToString::to_string).collect();
            row(
                "WAL is read by",
                format!(
                    "{}; it cannot restart until their transactions end",
                    shown(&readers.join(", "))
                ),
            );
        }
    }
    if info.files.len() > 1 {
        let names = info.files.iter().filter_map(|path| path.file_name());
        let names: Vec<String> = names.map(|name| shown(&name.to_string_lossy())).collect();
        row("belong together", names.join(", "));
    }
    for (name, value) in info.log.iter().flat_map(log_lines) {
        row(name, value);
    }
    for (name, value) in info
        .gain
        .iter()
        .flat_map(|g| gain::lines(g, info.store.is_some()))
    {
        row(name, value);
    }
    let more = (info.store.iter().chain(&info.remote))
        .flatten()
        .filter(|(name, _)| !SAID.contains(&name.as_str()));
    for (name, value) in more {
        let shown = if name.ends_with("bytes") {
            out::bytes(*value)
        } else {
            out::thousands(*value)
        };
        row(&name.replace('_', " "), shown);
    }
    format!("{}\n", table.trim_fmt())
}
