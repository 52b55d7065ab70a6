//! `densite log status DB`

use super::stream_status::Stream;
use crate::args::{Common, DbArg};
use crate::failure::Outcome;
use crate::shown::{self, shown};
use crate::{out, sqlite};
use densite_tools::log::{Beside, Figures};
use serde_json::json;
use std::time::Duration;

pub(super) fn run(common: Common, args: &DbArg) -> Outcome {
    let beside = Beside::expect(sqlite::api()?, &args.db)?;
    let figures = beside.figures(sqlite::api()?)?;
    let mut object = densite_tools::json::log(&figures);
    object["verb"] = json!("log status");
    object["path"] = json!(args.db.to_string_lossy());
    let stream = Stream::of(&args.db);
    object["stream"] = json!(stream.as_ref().map(Stream::json));
    if let Some(misfit) = figures.misfit() {
        out::message(common, &format!("{}: {misfit}", args.db.display()));
    }
    out::result(common, &object, &text(&beside, &figures, stream.as_ref()))?;
    Ok(0)
}

fn text(beside: &Beside, figures: &Figures, stream: Option<&Stream>) -> String {
    use comfy_table::{ContentArrangement, Table, presets};
    let status = &figures.status;
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    let mut row = |name: &str, value: String| {
        table.add_row(vec![name.to_owned(), value]);
    };
    row("log", shown::path(&beside.path));
    row(
        "rows",
        match status.last < status.first {
            true => "none".to_owned(),
            false => format!(
                "{} to {}",
                out::thousands(status.first),
                out::thousands(status.last)
            ),
        },
    );
    let segments = out::thousands(status.segments);
    row(
        "segments",
        format!("{segments}, {}", out::bytes(status.bytes)),
    );
    row("free segments", out::bytes(status.free_segment_bytes));
    if let Some(applied) = &figures.applied {
        row("applied up to", out::thousands(applied.position.seq));
        let rows = out::thousands(figures.unapplied_rows().unwrap_or(0));
        let bytes = out::bytes(figures.unapplied_bytes.unwrap_or(0));
        let waits = figures.oldest_unapplied();
        let waits = waits.map_or(String::new(), |time| {
            format!(", the oldest for {}", ago(time))
        });
        row("not applied yet", format!("{rows} rows, {bytes}{waits}"));
        let per_second = out::thousands(applied.per_second.round() as u64);
        row("applied lately", format!("{per_second} rows a second"));
        if figures.is_left_alone() {
            row("applied by", super::super::info::NOBODY.to_owned());
        }
        if !applied.paused.is_empty() {
            let tables: Vec<String> = applied.paused.iter().map(|t| shown(t)).collect();
            row("paused", tables.join(", "));
        }
        row("rejects", out::thousands(applied.rejects));
    }
    let config = &status.config;
    let auto_prune = if config.auto_prune { "on" } else { "off" };
    row("auto_prune", auto_prune.to_owned());
    row(
        "max_unapplied_bytes",
        match config.max_unapplied_bytes {
            0 => "no limit".to_owned(),
            bytes => out::bytes(bytes),
        },
    );
    if config.max_retained_bytes > 0 {
        row("max_retained_bytes", out::bytes(config.max_retained_bytes));
    }
    row("retain_bytes", out::bytes(config.retain_bytes));
    for s in &figures.subscribers {
        let behind = format!(
            "at {}, {} rows behind, {}",
            out::thousands(s.position),
            out::thousands(s.rows_behind),
            out::bytes(s.bytes_behind)
        );
        row(&format!("subscriber {}", shown(&s.name)), behind);
    }
    if let Some(stream) = stream {
        stream.lines(row);
    }
    format!("{}\n", table.trim_fmt())
}

/// A time in the unit that fits it.
fn ago(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        10..120 => format!("{seconds} s"),
        120..7200 => format!("{} minutes", seconds / 60),
        7200..172_800 => format!("{} hours", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}
