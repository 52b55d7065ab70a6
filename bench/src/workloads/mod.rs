//! Databases other than TPC-H whose stored size is measured. Each has a deterministic generator and
//! some tens of MB.

mod blobs;
mod documents;
mod fts;
mod json;
mod logs;
mod mixed;
mod series;
mod uuids;
mod words;

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use rand::SeedableRng as _;
use rand::rngs::Xoshiro256PlusPlus;
use rusqlite::Connection;

use crate::machine::Machine;
use crate::measure::Measure;
use crate::outcome::Outcome;
use crate::result::{About as _, Result};
use crate::sizes;
use crate::work::name;

/// The generators' source of random numbers.
type Random = Xoshiro256PlusPlus;

/// Increased when a generator changes. Databases of an earlier version are not reused.
const VERSION: u32 = 1;

/// The kinds, in the order of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// Orders and events
    Json,
    /// Full-text index over prose
    Fts,
    /// Measurements with REALs
    Series,
    /// Lines of a log
    Logs,
    /// Random keys, inserted in random order
    Uuids,
    /// All types in one column, columns added later
    Mixed,
    /// Blobs that do not compress
    Blobs,
    /// Rows of several pages
    Documents,
}

impl Workload {
    /// Its name in the report.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Workload::Json => "JSON documents",
            Workload::Fts => "FTS5 index over prose",
            Workload::Series => "time series with REAL",
            Workload::Logs => "log lines",
            Workload::Uuids => "UUID keys, inserted in random order, never vacuumed",
            Workload::Mixed => "all types in one column, columns added later",
            Workload::Blobs => "blobs that do not compress",
            Workload::Documents => "JSON documents and texts of 2 to 20 KB",
        }
    }

    /// Rows of the full-sized database.
    fn rows(self) -> u64 {
        match self {
            Workload::Json => 100_000,
            Workload::Fts => 20_000,
            Workload::Series => 700_000,
            Workload::Logs => 250_000,
            Workload::Uuids => 200_000,
            Workload::Mixed => 1_000_000,
            Workload::Blobs => 4_000,
            Workload::Documents => 4_000,
        }
    }

    /// Creates the schema and fills it with `rows` rows.
    fn fill(self, con: &Connection, rows: u64, random: &mut Random) -> Result<()> {
        match self {
            Workload::Json => json::fill(con, rows, random),
            Workload::Fts => fts::fill(con, rows, random),
            Workload::Series => series::fill(con, rows, random),
            Workload::Logs => logs::fill(con, rows, random),
            Workload::Uuids => uuids::fill(con, rows, random),
            Workload::Mixed => mixed::fill(con, rows, random),
            Workload::Blobs => blobs::fill(con, rows, random),
            Workload::Documents => documents::fill(con, rows, random),
        }
    }

    /// Generates the database with `rows` rows at `path`. The file appears only when it is
    /// complete.
    fn generate(self, rows: u64, path: &Path) -> Result<()> {
        let part = path.with_extension("part");
        if part.exists() {
            std::fs::remove_file(&part).about("remove", &part)?;
        }
        let con = Connection::open(&part).about("create", &part)?;
        // The file is deleted if anything fails, so it needs no journal and no sync.
        con.execute_batch("PRAGMA page_size=4096; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE; PRAGMA cache_size=-262144; BEGIN")?;
        self.fill(&con, rows, &mut Random::seed_from_u64(1 + self as u64))?;
        con.execute_batch("COMMIT")?;
        if self != Workload::Uuids {
            con.execute_batch("VACUUM")?;
        }
        con.close().map_err(|(_, e)| e)?;
        std::fs::rename(&part, path).about("rename a finished file to", path)
    }

    /// The database in `dir`; it is generated if it is missing.
    fn prepare(self, rows: u64, dir: &Path) -> Result<PathBuf> {
        let path = dir.join(format!("{}-{rows}-v{VERSION}.db", name(self)));
        if !path.exists() {
            eprintln!("generating {}", self.title());
            self.generate(rows, &path)?;
        }
        Ok(path)
    }
}

/// Whether an outcome is one of [`sizes::compare`].
pub(crate) fn is_comparison(outcome: &Outcome) -> bool {
    outcome.measure == name(Measure::Workloads)
}

/// The position of a comparison among the others. The generated databases come first.
pub(crate) fn rank(outcome: &Outcome) -> usize {
    Workload::value_variants()
        .iter()
        .position(|w| outcome.data.starts_with(w.title()))
        .unwrap_or(usize::MAX)
}

/// Measures every kind, or with `quick` a tenth of each. Data are in `data`. Each result is saved
/// in `results` at once.
pub(crate) fn measure(
    data: &Path,
    quick: bool,
    machine: &Machine,
    results: &Path,
) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    for kind in Workload::value_variants() {
        let (rows, label) = if quick {
            (kind.rows() / 10, format!("{} (small)", kind.title()))
        } else {
            (kind.rows(), kind.title().to_owned())
        };
        let path = kind.prepare(rows, data)?;
        eprintln!("  {label}");
        let outcome = sizes::compare(&path, &label, data, machine.clone())?;
        outcome.save(results)?;
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generators_are_deterministic_and_databases_valid() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        for kind in Workload::value_variants() {
            let paths = ["a.db", "b.db"].map(|n| dir.path().join(n));
            for path in &paths {
                kind.generate(kind.rows() / 200, path).expect("a database");
            }
            let [a, b] = paths.map(|path| {
                let con = Connection::open(&path).expect("it opens");
                let check: String = con
                    .query_row("PRAGMA integrity_check", [], |r| r.get(0))
                    .expect("a check");
                assert_eq!(check, "ok", "{kind:?}");
                std::fs::read(&path).expect("its bytes")
            });
            assert!(a.len() > 50_000, "{kind:?} has {} bytes", a.len());
            assert!(a == b, "{kind:?} differs");
        }
    }
}
