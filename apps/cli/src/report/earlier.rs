//! The figures of earlier reports in the same page.

use super::history::{History, Run};
use super::html_text::{change, share, size};
use chrono::DateTime;
use std::fmt::Write as _;

/// Reports whose figures are shown at first.
const SHOWN: usize = 6;

pub(super) fn section(history: &History, page: &mut String) {
    let runs = history.runs();
    if runs.len() < 2 {
        return;
    }
    let highest = runs.iter().map(|r| r.stored).max().unwrap_or(0).max(1);
    page.push_str("<section>\n<h2>Over time</h2>\n<p class=\"legend\">The file at each report: <span><i class=\"key live\"></i>live</span> <span><i class=\"key dead\"></i>dead</span> <span><i class=\"key free\"></i>free</span> <span><i class=\"key slack\"></i>unallocated</span></p>\n<div class=\"runs\" role=\"img\" aria-label=\"length of the file at each report; the table below has the figures\">\n");
    for run in runs {
        let known = run.live.saturating_add(run.dead).saturating_add(run.free);
        let part = |class: &str, bytes: u64| match bytes {
            0 => String::new(),
            _ => format!(
                "<i class=\"{class}\" style=\"height:{:.2}%\"></i>",
                100.0 * bytes as f64 / highest as f64
            ),
        };
        let _ = writeln!(
            page,
            "<span title=\"{}: {}\">{}{}{}{}</span>",
            time(run.time),
            size(run.stored),
            part("free", run.free),
            part("dead", run.dead),
            part("slack", run.stored.saturating_sub(known)),
            part("live", run.live.min(run.stored)),
        );
    }
    page.push_str("</div>\n");
    let rows: Vec<String> = (0..runs.len()).rev().filter_map(|i| row(runs, i)).collect();
    let (new, old) = rows.split_at(SHOWN.min(rows.len()));
    table(new, page);
    if !old.is_empty() {
        let _ = writeln!(page, "<details><summary>{} earlier</summary>", old.len());
        table(old, page);
        page.push_str("</details>\n");
    }
    page.push_str("</section>\n");
}

fn table(rows: &[String], page: &mut String) {
    page.push_str("<table class=\"times\">\n<thead><tr><th>report (UTC)</th><th class=\"n\">file</th><th class=\"n\">change</th><th class=\"n\">of SQLite\u{2019}s bytes</th></tr></thead>\n<tbody>\n");
    page.extend(rows.iter().map(String::as_str));
    page.push_str("</tbody>\n</table>\n");
}

/// The row of a report, with the change since the one before it.
fn row(runs: &[Run], i: usize) -> Option<String> {
    let run = runs.get(i)?;
    let before = i.checked_sub(1).and_then(|i| runs.get(i));
    let of = match run.compressed {
        true => format!(
            "{} <small>of {}</small>",
            share(run.stored, run.logical),
            size(run.logical)
        ),
        false => "plain".into(),
    };
    Some(format!(
        "<tr><th scope=\"row\">{}</th><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{of}</td></tr>\n",
        time(run.time),
        size(run.stored),
        before.map_or_else(|| "-".into(), |b| change(b.stored, run.stored)),
    ))
}

/// "2026-05-01 12:30", in UTC.
pub(super) fn time(seconds: i64) -> String {
    DateTime::from_timestamp(seconds, 0).map_or_else(
        || "-".into(),
        |time| time.format("%Y-%m-%d %H:%M").to_string(),
    )
}
