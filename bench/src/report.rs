//! The tables: on the terminal, and `RESULTS.md` from all results on disk and the notes written by hand.

use std::fmt::Write as _;
use std::path::Path;

use clap::ValueEnum as _;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{ContentArrangement, Table};

use crate::outcome::{Compare, Figure, Outcome};
use crate::result::{About as _, Result};
use crate::suite::Measure;
use crate::work::name;

const HEAD: [&str; 6] = ["what", "base", "Densite", "figure", "target", ""];

/// The cells of a figure: what, base, ours, figure, target, verdict.
fn cells(outcome: &Outcome, figure: &Figure) -> [String; 6] {
    let title = format!("{}: {}", outcome.title, figure.name);
    let base = if outcome.base_label == "plain SQLite" {
        number(figure.base)
    } else {
        format!("{} ({})", number(figure.base), outcome.base_label)
    };
    let (value, sign) = match figure.compare {
        Compare::Ratio => (format!("{:.2} ×", figure.value), " ×"),
        Compare::Difference => (
            format!(
                "{}{}",
                if figure.value >= 0.0 { "+" } else { "−" },
                number(figure.value.abs())
            ),
            "",
        ),
    };
    let target = figure
        .target
        .map(|t| {
            format!(
                "≤ {}{t}{sign}",
                if figure.compare == Compare::Difference {
                    "+"
                } else {
                    ""
                }
            )
        })
        .unwrap_or_default();
    let verdict = match figure.met {
        Some(true) => "met",
        Some(false) => "missed",
        None => "",
    };
    [
        title,
        base,
        number(figure.ours),
        value,
        target,
        verdict.to_owned(),
    ]
}

/// Three digits that matter, whole numbers as they are.
fn number(v: f64) -> String {
    if v.fract() == 0.0 && v.abs() < 1e15 {
        return format!("{v:.0}");
    }
    let digits = match v.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    format!("{v:.digits$}")
}

/// A table for a person at a terminal.
pub(crate) fn terminal(outcomes: &[Outcome]) -> String {
    let mut table = Table::new();
    table
        .load_style(UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(HEAD);
    for outcome in outcomes {
        for figure in &outcome.figures {
            table.add_row(cells(outcome, figure));
        }
    }
    table.to_string()
}

/// Where a measure stands in the report.
fn place(outcome: &Outcome) -> usize {
    Measure::value_variants()
        .iter()
        .position(|m| name(*m) == outcome.measure)
        .unwrap_or(usize::MAX)
}

/// Writes `dir/RESULTS.md` from `dir/results` and `dir/NOTES.md`.
pub(crate) fn write(dir: &Path) -> Result<()> {
    let outcomes = Outcome::load_all(dir)?;
    let notes_path = dir.join("NOTES.md");
    let notes = if notes_path.exists() {
        std::fs::read_to_string(&notes_path).about("read", &notes_path)?
    } else {
        String::new()
    };
    let path = dir.join("RESULTS.md");
    std::fs::write(&path, markdown(outcomes, &notes)).about("write", &path)?;
    eprintln!("wrote {}", path.display());
    Ok(())
}

fn markdown(mut outcomes: Vec<Outcome>, notes: &str) -> String {
    outcomes.sort_by(|a, b| (&a.data, place(a)).cmp(&(&b.data, place(b))));
    let mut out = String::from(
        "# Measured results\n\n\
         Written by `make bench` from bench/results/*.json and bench/NOTES.md; do not edit. Base is plain SQLite unless a cell says otherwise. Every figure is the\n\
         median of its rounds, the two sides taken in turn, each run in a process of its own, from before the database is opened until after it is\n\
         closed, the operating system's file cache hot, SQLite's and Densite's empty, default settings unless said. Sizes are allocated blocks. Data\n\
         and statements: bench/tpch.sql.\n",
    );
    for group in outcomes.chunk_by(|a, b| a.data == b.data) {
        let mut machines: Vec<String> = group.iter().map(|o| o.machine.line()).collect();
        machines.dedup();
        let mut dates: Vec<&str> = group.iter().map(|o| o.machine.date.as_str()).collect();
        dates.sort_unstable();
        dates.dedup();
        let sync = group.iter().map(|o| o.machine.sync_ms).fold(0.0, f64::max);
        let data = group.first().map_or("", |o| o.data.as_str());
        let _ = write!(
            out,
            "\n## {data}\n\nMachine: {}; a sync takes up to {sync:.2} ms. Taken on {}.\n\n",
            machines.join("; and "),
            dates.join(", ")
        );
        let _ = writeln!(
            out,
            "| {} |\n|---|---:|---:|---:|---:|---|",
            HEAD.join(" | ")
        );
        for outcome in group {
            for figure in &outcome.figures {
                let _ = writeln!(out, "| {} |", cells(outcome, figure).join(" | "));
            }
        }
    }
    if !notes.trim().is_empty() {
        let _ = write!(out, "\n{}", notes.trim_start());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits() {
        assert_eq!(number(1234.5), "1234");
        assert_eq!(number(12.345), "12.3");
        assert_eq!(number(1.2345), "1.23");
        assert_eq!(number(0.01234), "0.012");
        assert_eq!(number(40001.0), "40001");
    }
}
