//! The tables: on the terminal, and in `RESULTS.md`, from all results on disk and the notes.

use std::fmt::Write as _;
use std::path::Path;

use clap::ValueEnum as _;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{ContentArrangement, Table};

use crate::headlines;
use crate::measure::Measure;
use crate::numbers::number;
use crate::outcome::{Compare, Figure, Outcome, taken};
use crate::pictures;
use crate::result::{About as _, Result};
use crate::work::name;
use crate::workloads;

const HEAD: [&str; 6] = ["what", "base", "Densite", "figure", "target", ""];
const OTHERS_HEAD: [&str; 7] = [
    "database",
    "plain, MiB",
    "Densite, MiB",
    "codec=zstd, MiB",
    "Densite / plain",
    "Densite / codec=zstd",
    "both ≤ 1.01 ×",
];

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
        Compare::RatioAtLeast => (format!("{} ×", number(figure.value)), " ×"),
        Compare::Difference => (
            format!(
                "{}{}",
                if figure.value >= 0.0 { "+" } else { "−" },
                number(figure.value.abs())
            ),
            "",
        ),
        Compare::Ours | Compare::AtLeast => (number(figure.value), ""),
    };
    let limit = match figure.compare {
        Compare::Difference => "≤ +",
        Compare::AtLeast | Compare::RatioAtLeast => "≥ ",
        Compare::Ratio | Compare::Ours => "≤ ",
    };
    let target = figure
        .target
        .map(|t| format!("{limit}{t}{sign}"))
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

/// The tables for a terminal. Databases of which only the size is measured have a table of their
/// own.
pub(crate) fn terminal(outcomes: &[Outcome]) -> String {
    let table = |head: &[&str], rows: Vec<Vec<String>>| {
        let mut table = Table::new();
        table
            .load_style(UTF8_FULL_CONDENSED)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_header(head)
            .add_rows(rows);
        table.to_string()
    };
    let (others, main): (Vec<&Outcome>, Vec<&Outcome>) =
        outcomes.iter().partition(|o| workloads::is_comparison(o));
    let main: Vec<Vec<String>> = main
        .iter()
        .flat_map(|o| o.figures.iter().map(|f| cells(o, f).to_vec()))
        .collect();
    let others: Vec<Vec<String>> = others.iter().map(|o| other(o).to_vec()).collect();
    [(&HEAD[..], main), (&OTHERS_HEAD[..], others)]
        .into_iter()
        .filter(|(_, rows)| !rows.is_empty())
        .map(|(head, rows)| table(head, rows))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The row of a database of which only the size is measured.
fn other(outcome: &Outcome) -> [String; 7] {
    let of_plain = outcome.figures.first();
    let of_zstd = outcome.figures.get(1);
    let cell =
        |figure: Option<&Figure>, of: fn(&Figure) -> String| figure.map(of).unwrap_or_default();
    let met = outcome.figures.iter().all(|f| f.met != Some(false));
    [
        outcome.data.clone(),
        cell(of_plain, |f| number(f.base)),
        cell(of_plain, |f| number(f.ours)),
        cell(of_zstd, |f| number(f.base)),
        cell(of_plain, |f| format!("{:.3} ×", f.value)),
        cell(of_zstd, |f| format!("{:.3} ×", f.value)),
        if met { "met" } else { "missed" }.to_owned(),
    ]
}

/// The position of a measure in the report.
fn rank(outcome: &Outcome) -> usize {
    Measure::value_variants()
        .iter()
        .position(|m| name(*m) == outcome.measure)
        .unwrap_or(usize::MAX)
}

/// Writes `dir/RESULTS.md` from `dir/results` and `dir/NOTES.md`, the pictures, and the table of
/// figures in the README beside `dir`, if it exists.
pub(crate) fn write(dir: &Path) -> Result<()> {
    let outcomes = Outcome::load_all(dir)?;
    let notes_path = dir.join("NOTES.md");
    let notes = if notes_path.exists() {
        std::fs::read_to_string(&notes_path).about("read", &notes_path)?
    } else {
        String::new()
    };
    let readme = dir.join("../README.md");
    if readme.exists() {
        let text = std::fs::read_to_string(&readme).about("read", &readme)?;
        let written = headlines::readme(&text, &outcomes)?;
        std::fs::write(&readme, written).about("write", &readme)?;
    }
    pictures::write(dir, &outcomes)?;
    let path = dir.join("RESULTS.md");
    std::fs::write(&path, markdown(outcomes, &notes)).about("write", &path)?;
    eprintln!("wrote {}", path.display());
    Ok(())
}

fn markdown(outcomes: Vec<Outcome>, notes: &str) -> String {
    let first = headlines::all(&outcomes);
    let (mut others, mut outcomes): (Vec<Outcome>, Vec<Outcome>) =
        outcomes.into_iter().partition(workloads::is_comparison);
    others.sort_by_key(|o| (workloads::rank(o), o.data.clone()));
    outcomes.sort_by(|a, b| (&a.data, rank(a)).cmp(&(&b.data, rank(b))));
    let mut out = String::from(
        "# Measured results\n\n\
         Written by `make bench` from bench/results/*.json and bench/NOTES.md; do not edit. Base is plain\n\
         SQLite unless a cell says otherwise. Every figure is the median of its rounds. The two sides run\n\
         in turn. Each run is a process of its own, and is measured from before the database is opened\n\
         until after it is closed. The operating system's file cache is hot, the caches of SQLite and\n\
         Densite are empty. Settings are the defaults unless a row says otherwise. Sizes are allocated\n\
         blocks. Data and statements: bench/tpch.sql.\n",
    );
    let _ = write!(
        out,
        "\n## The figures that users ask for\n\n\
         The tables below have these and all others, with targets, machines and days.\n\n{first}"
    );
    for group in outcomes.chunk_by(|a, b| a.data == b.data) {
        let data = group.first().map_or("", |o| o.data.as_str());
        let _ = write!(out, "\n## {data}\n\n{}\n\n", taken(group));
        head(&mut out, &HEAD);
        for outcome in group {
            for figure in &outcome.figures {
                let _ = writeln!(out, "| {} |", cells(outcome, figure).join(" | "));
            }
        }
    }
    if !others.is_empty() {
        let _ = write!(
            out,
            "\n## Stored size of other databases\n\n\
             After `densite compress` with default settings, and with the library's codec=zstd (zstd,\n\
             dictionaries where they pay). Sizes are disk space, everything included. The generators are in\n\
             bench/src/workloads. Databases that they did not make were measured with `make bench DB=path`.\n\
             {}\n\n",
            taken(&others)
        );
        head(&mut out, &OTHERS_HEAD);
        for outcome in &others {
            let _ = writeln!(out, "| {} |", other(outcome).join(" | "));
        }
    }
    if !notes.trim().is_empty() {
        let _ = write!(out, "\n{}", notes.trim_start());
    }
    out
}

/// The head of a table: the first and the last column are aligned left, the others right.
fn head(out: &mut String, head: &[&str]) {
    let numbers = "---:|".repeat(head.len().saturating_sub(2));
    let _ = writeln!(out, "| {} |\n|---|{numbers}---|", head.join(" | "));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_equals_results_and_notes() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR"));
        let read = |name: &str| std::fs::read_to_string(dir.join(name)).expect(name);
        let outcomes = Outcome::load_all(dir).expect("results");
        let written = markdown(outcomes, &read("NOTES.md"));
        assert!(written == read("RESULTS.md"), "run densite-bench report");
    }
}
