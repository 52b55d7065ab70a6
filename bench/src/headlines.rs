//! The figures of most interest: the first table of `RESULTS.md`, and those in the README.
//!
//! The README has a table with some of them, between two marks, and figures in its sentences. Both
//! come from the outcomes on disk: the report writes the table, and a test compares the table and
//! the sentences with the outcomes.

use std::fmt::Write as _;

use crate::numbers::{number, readable};
use crate::outcome::{Figure, Outcome};
use crate::result::{Failure, Result};

/// The beginning and the end of the README's table.
const BEGIN: &str = "<!-- written by make bench -->\n";
const END: &str = "<!-- end -->";

const TPCH: &str = "TPC-H SF 1";
const LOG: &str = "Rows acknowledged by the log";
const QUEUE: &str = "Rows that come and go";
const PYTHON: &str = "Bulk rows from Python (1,000,000 rows)";

/// One figure, found by its data, its measure, and the beginning of its name.
#[derive(Clone, Copy)]
struct Headline {
    what: &'static str,
    data: &'static str,
    measure: &'static str,
    figure: &'static str,
    is_in_readme: bool,
}

const fn headline(
    what: &'static str,
    data: &'static str,
    measure: &'static str,
    figure: &'static str,
) -> Headline {
    Headline {
        what,
        data,
        measure,
        figure,
        is_in_readme: false,
    }
}

const fn first(
    what: &'static str,
    data: &'static str,
    measure: &'static str,
    figure: &'static str,
) -> Headline {
    Headline {
        is_in_readme: true,
        ..headline(what, data, measure, figure)
    }
}

/// In the order of the table. A base that is not plain SQLite is named.
const HEADLINES: [Headline; 20] = [
    first(
        "size: TPC-H at scale factor 1, MiB on the disk",
        TPCH,
        "size",
        "disk space",
    ),
    headline(
        "size: the same with `--archive`, MiB",
        TPCH,
        "archive",
        "disk space",
    ),
    headline(
        "size: JSON documents, MiB",
        "JSON documents",
        "workloads",
        "disk space, MiB",
    ),
    headline(
        "size: sensor data (time series), MiB",
        "time series with REAL",
        "workloads",
        "disk space, MiB",
    ),
    headline(
        "size: a full-text index, MiB",
        "FTS5 index over prose",
        "workloads",
        "disk space, MiB",
    ),
    headline(
        "size: incompressible blobs, MiB",
        "blobs that do not compress",
        "workloads",
        "disk space, MiB",
    ),
    first("scan: TPC-H Q1, s", TPCH, "q1", "wall time"),
    headline("join: TPC-H Q8, s", TPCH, "q8", "wall time"),
    first(
        "lookup: 100,000 random rows by key, s",
        TPCH,
        "lookups",
        "wall time",
    ),
    headline(
        "update: 10,000 small transactions, WAL, s",
        TPCH,
        "updates-wal",
        "wall time",
    ),
    headline(
        "update: 10,000 small transactions, DELETE, s",
        TPCH,
        "updates-delete",
        "wall time",
    ),
    headline(
        "load: one transaction, WAL, s",
        TPCH,
        "bulk-load-wal",
        "wall time",
    ),
    headline("memory: TPC-H Q1, peak MiB", TPCH, "q1", "peak memory"),
    headline(
        "vacuum: `densite vacuum` beside VACUUM INTO of plain SQLite, s",
        TPCH,
        "vacuum",
        "wall time",
    ),
    headline(
        "queue: largest file in ten minutes beside a fresh copy, WAL, MiB",
        QUEUE,
        "queue",
        "journal_mode=wal, largest disk space",
    ),
    first(
        "ingest: rows acknowledged per second, into 10 million, by 8 threads",
        LOG,
        "ingest-burst-large",
        "into a table of 10000000 rows: acknowledged rows/s",
    ),
    headline(
        "ingest: the same by one thread, one row in each transaction",
        LOG,
        "ingest-single",
        "rows/s",
    ),
    headline(
        "ingest: rows applied per second, into 10 million",
        LOG,
        "ingest-apply",
        "rows/s",
    ),
    headline(
        "Python: sorted rows inserted beside executemany, M rows/s",
        PYTHON,
        "bulk-insert-sorted",
        "densite, NumPy / executemany, with WAL, M rows/s",
    ),
    headline(
        "Python: rows read beside sqlite3's cursor, M rows/s",
        PYTHON,
        "bulk-read",
        "densite / sqlite3, M rows/s",
    ),
];

/// The figure with this name, or the first whose name begins with it.
pub(crate) fn find<'a>(
    outcomes: &'a [Outcome],
    data: &str,
    measure: &str,
    figure: &str,
) -> Option<&'a Figure> {
    let outcome = outcomes
        .iter()
        .find(|o| o.data == data && o.measure == measure)?;
    let exact = outcome.figures.iter().find(|f| f.name == figure);
    exact.or_else(|| outcome.figures.iter().find(|f| f.name.starts_with(figure)))
}

/// A ratio for tables: two decimals below ten, otherwise three significant digits.
pub(crate) fn ratio(figure: &Figure) -> String {
    let ratio = figure.ours / figure.base;
    match ratio < 10.0 {
        true => format!("{ratio:.2}"),
        false => number(ratio),
    }
}

/// A table of these headlines, without those that have no outcome.
fn table(outcomes: &[Outcome], wanted: impl Fn(&Headline) -> bool, head: &str) -> String {
    let mut out = format!("| {head} | SQLite | Densite | ratio |\n|---|---:|---:|---:|\n");
    for headline in HEADLINES.iter().filter(|h| wanted(h)) {
        let Some(figure) = find(outcomes, headline.data, headline.measure, headline.figure) else {
            continue;
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} × |",
            headline.what,
            readable(figure.base),
            readable(figure.ours),
            ratio(figure)
        );
    }
    out
}

/// The table of all headlines, for `RESULTS.md`.
pub(crate) fn all(outcomes: &[Outcome]) -> String {
    table(outcomes, |_| true, "what")
}

/// The README with a new table from the outcomes.
pub(crate) fn readme(text: &str, outcomes: &[Outcome]) -> Result<String> {
    let missing = || {
        Failure(format!(
            "README.md: the table of figures must stand between {BEGIN:?} and {END:?}"
        ))
    };
    let (before, rest) = text.split_once(BEGIN).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    let head = "measured on two cores, plain SQLite in the same minutes";
    let table = table(outcomes, |h| h.is_in_readme, head);
    Ok(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn tree() -> (Vec<Outcome>, String) {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR"));
        let outcomes = Outcome::load_all(dir).expect("results");
        let readme = std::fs::read_to_string(dir.join("../README.md")).expect("README.md");
        (outcomes, readme)
    }

    #[test]
    fn every_headline_has_an_outcome() {
        let (outcomes, _) = tree();
        for h in HEADLINES {
            let found = find(&outcomes, h.data, h.measure, h.figure);
            assert!(found.is_some(), "{}: {} of {}", h.what, h.figure, h.data);
        }
    }

    #[test]
    fn the_table_of_the_readme_equals_the_results() {
        let (outcomes, text) = tree();
        let written = readme(&text, &outcomes).expect("its marks");
        assert!(written == text, "run densite-bench report:\n{written}");
    }

    #[test]
    fn figures_in_the_sentences_of_the_readme_equal_the_results() {
        let (outcomes, text) = tree();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let figure = |data: &str, measure: &str, name: &str| {
            find(&outcomes, data, measure, name).expect(name).clone()
        };
        let ratio_of = |data: &str, measure: &str, name: &str| ratio(&figure(data, measure, name));
        let tenths = |f: &Figure| format!("{:.1}", f.ours / f.base);
        let loads = ["bulk-load", "bulk-load-wal"];
        let [wall, cpu] = ["wall time", "CPU time"].map(|name| {
            let mut all = loads.map(|load| tenths(&figure(TPCH, load, name)));
            all.sort();
            all
        });
        let mut sizes: Vec<f64> = outcomes
            .iter()
            .filter(|o| o.measure == "workloads" && !o.data.starts_with("blobs"))
            .filter_map(|o| o.figures.first().map(|f| f.value * 100.0))
            .collect();
        sizes.sort_by(f64::total_cmp);
        let mut memory: Vec<f64> = outcomes
            .iter()
            .filter(|o| o.data == TPCH)
            .flat_map(|o| &o.figures)
            .filter(|f| f.name == "peak memory, MiB" && f.ours - f.base > 1.0)
            .map(|f| (f.ours - f.base).round())
            .collect();
        memory.sort_by(f64::total_cmp);
        let archive = figure(TPCH, "archive", "disk space");
        let blobs = figure("blobs that do not compress", "workloads", "disk space");
        let allocate = "densite: SPC, Densite file / SPC, with WAL, M rows/s of CPU";
        let everyday = |of: &[&str], name: &str| -> Vec<f64> {
            let data = of.iter().map(|of| format!("Everyday data: {of}"));
            let data: Vec<String> = data.collect();
            let is_of = |o: &&Outcome| data.iter().any(|data| o.data.starts_with(data));
            let figures = outcomes.iter().filter(is_of).flat_map(|o| &o.figures);
            let mut all: Vec<f64> = figures
                .filter(|f| f.name.ends_with(name))
                .map(|f| f.value)
                .collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let text_loads = everyday(&["events", "packages", "search", "sources"], "wall time, s");
        let first_reads = everyday(&[""], "first run, CPU, ms");
        let said = [
            format!(
                "the ratio is {} ×",
                ratio_of(LOG, "ingest-single", "rows/s")
            ),
            format!(
                "stores TPC-H in {} MiB ({:.2} ×)",
                readable(archive.ours),
                archive.value
            ),
            format!(
                "[{:.0}–{:.0} %]",
                sizes.first().expect("sizes"),
                sizes.last().expect("sizes")
            ),
            format!(
                "of their size, incompressible blobs {:.0} %",
                blobs.value * 100.0
            ),
            format!(
                "takes {:.0} to {:.0} MiB more than plain SQLite",
                memory.first().expect("memory"),
                memory.last().expect("memory")
            ),
            format!(
                "up to {} MiB while it reads and applies",
                readable(figure(LOG, "ingest-memory", "largest resident memory while").ours)
            ),
            format!("A bulk load takes {} to {} times as long", wall[0], wall[1]),
            format!("and {} to {} times the CPU time", cpu[0], cpu[1]),
            format!(
                "of text and documents {:.0} to {:.0} times as long",
                text_loads.first().expect("loads"),
                text_loads.last().expect("loads")
            ),
            format!(
                "First reads cost up to {:.0} times the CPU",
                first_reads.last().expect("reads").ceil()
            ),
            format!(
                "reaches {} × of plain SQLite with a WAL",
                number(figure(PYTHON, "bulk-allocate", allocate).value)
            ),
            format!(
                "reaches {} × of JSON",
                ratio_of(PYTHON, "bulk-keyed", "densite / JSON, M rows/s of CPU")
            ),
        ];
        let missing: Vec<&String> = said.iter().filter(|&s| !text.contains(s)).collect();
        assert!(missing.is_empty(), "README.md does not say: {missing:#?}");
    }

    #[test]
    fn thousands_have_separators() {
        assert_eq!(readable(2_644_120.0), "2,644,120");
        assert_eq!(readable(21_080.0), "21,080");
        assert_eq!(readable(1182.2), "1182");
        assert_eq!(readable(0.693), "0.693");
    }
}
