//! Lookups while many rows are not applied yet: their time and memory.
//!
//! Another connection holds the write lock, so that the worker cannot begin. A second figure of
//! memory is for the time in which the worker then applies the rows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use rusqlite::Statement;

use super::bare::Rate;
use super::table::{FIRST, Rows, Shape, key};
use super::writers::{Side, Write};
use super::{Place, child, median};
use crate::connect::{self, Vfs};
use crate::outcome::{Compare, Figure};
use crate::result::{Failure, Result};
use crate::work;

/// Time of a lookup through ingest / in the table alone.
const LOOKUP: f64 = 2.0;
/// MiB of resident memory.
const MEMORY: f64 = 512.0;
/// Rows of a transaction that writes them.
const BATCH: u64 = 10_000;
/// Lookups of a turn.
const LOOKUPS: u64 = 500;

/// The job of the measured process.
#[derive(Clone, Debug, Args)]
pub(crate) struct Unapplied {
    #[arg(long)]
    file: PathBuf,
    #[arg(long)]
    shape: Shape,
    /// Rows to add
    #[arg(long)]
    rows: u64,
    /// Rows that the table already has
    #[arg(long)]
    there: u64,
    /// Turns of lookups
    #[arg(long)]
    turns: u64,
}

impl Unapplied {
    fn in_new_process(&self) -> Result<BTreeMap<String, f64>> {
        let pairs = [
            ("file", self.file.display().to_string()),
            ("shape", work::name(self.shape)),
            ("rows", self.rows.to_string()),
            ("there", self.there.to_string()),
            ("turns", self.turns.to_string()),
        ];
        child("unapplied", &pairs)
    }
}

/// Lookups by key, timed.
pub(super) fn lookups(place: &Place<'_>) -> Result<Vec<Figure>> {
    let mut probes = Rate::default();
    probes.probe(place.work, false)?;
    let rows = place.rows(10_000_000);
    let file = place.start(Shape::Votes, rows)?;
    let turns = if place.quick { 4 } else { 100 };
    let got = Unapplied {
        file,
        shape: Shape::Votes,
        rows,
        there: rows,
        turns,
    }
    .in_new_process()?;
    place.clear()?;
    let of = |name: &str| got.get(name).copied().unwrap_or(f64::NAN);
    Ok(vec![
        Figure::new(
            "key of a row of the table, median, µs; base: from the table alone",
            Compare::Ratio,
            of("base_us"),
            of("through_us"),
            Some(LOOKUP),
        ),
        Figure::new(
            "key of a row that is not applied, median, µs; base: as above",
            Compare::Ratio,
            of("base_us"),
            of("unapplied_us"),
            Some(LOOKUP),
        ),
        first_lookup(of("first_s")),
        Figure::new(
            "rows/s written by one thread, 10,000 in a transaction",
            Compare::Ours,
            0.0,
            of("rate"),
            None,
        ),
    ])
}

fn first_lookup(seconds: f64) -> Figure {
    let name = "first lookup, which reads the log, s";
    Figure::new(name, Compare::Ours, 0.0, seconds, None)
}

/// Resident memory of a process with unapplied rows.
pub(super) fn memory(place: &Place<'_>) -> Result<Vec<Figure>> {
    let rows = place.rows(10_000_000);
    let file = place.start(Shape::Wide, 0)?;
    let got = Unapplied {
        file,
        shape: Shape::Wide,
        rows,
        there: 0,
        turns: 1,
    }
    .in_new_process()?;
    place.clear()?;
    let of = |name: &str| got.get(name).copied().unwrap_or(f64::NAN);
    Ok(vec![
        Figure::new(
            "resident memory, MiB; base: before they were read",
            Compare::Ours,
            of("before_mib"),
            of("resident_mib"),
            Some(MEMORY),
        ),
        Figure::new(
            "largest resident memory until then, MiB",
            Compare::Ours,
            of("before_mib"),
            of("peak_mib"),
            Some(MEMORY),
        ),
        Figure::new(
            "largest resident memory while they are applied and read, MiB",
            Compare::Ours,
            of("before_mib"),
            of("applying_mib"),
            Some(MEMORY),
        ),
        first_lookup(of("first_s")),
    ])
}

/// Runs in the measured process.
pub(super) fn run(job: &Unapplied) -> Result<BTreeMap<String, f64>> {
    connect::load_extension()?;
    let write = Write::new(&job.file, Side::Ingest, job.shape, 0.0);
    let con = write.prepare()?;
    let holder = Vfs::Plain.open(&job.file)?;
    holder.execute_batch("BEGIN IMMEDIATE")?;
    let mut figures = BTreeMap::new();
    let mut set = |name: &str, value: f64| figures.insert(name.to_owned(), value);
    let begun = Instant::now();
    {
        let mut insert = con.prepare(&job.shape.insert(true))?;
        let mut rows = Rows::new(job.shape, 0);
        for number in 0..job.rows {
            if number % BATCH == 0 {
                con.execute_batch("BEGIN")?;
            }
            rows.insert(&mut insert, FIRST + number)?;
            if (number + 1) % BATCH == 0 || number + 1 == job.rows {
                con.execute_batch("COMMIT")?;
            }
        }
    }
    set("rate", job.rows as f64 / begun.elapsed().as_secs_f64());
    set("before_mib", status("VmRSS:")?);
    let sql = |table| format!("SELECT 1 FROM {table} WHERE user = ?1 AND article = ?2");
    let (mut base, mut through) = (con.prepare(&sql("vote"))?, con.prepare(&sql("vote_in"))?);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut turn = |lookup: &mut Statement<'_>, from: u64, rows: u64, count: u64| -> Result<f64> {
        let begun = Instant::now();
        for _ in 0..count {
            let key = key(job.shape, from + random.random_range(0..rows));
            if !lookup.exists(key)? {
                return Err(Failure(format!("the row {key:?} is not found")));
            }
        }
        Ok(begun.elapsed().as_secs_f64() * 1e6 / count as f64)
    };
    set("first_s", turn(&mut through, FIRST, job.rows, 1)? / 1e6);
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..job.turns {
        if job.there > 0 {
            times[0].push(turn(&mut base, 0, job.there, LOOKUPS)?);
            times[1].push(turn(&mut through, 0, job.there, LOOKUPS)?);
        }
        times[2].push(turn(&mut through, FIRST, job.rows, LOOKUPS)?);
    }
    let names = ["base_us", "through_us", "unapplied_us"];
    names.into_iter().zip(times).for_each(|(name, times)| {
        set(name, median(times));
    });
    set("resident_mib", status("VmRSS:")?);
    set("peak_mib", status("VmHWM:")?);
    holder.execute_batch("ROLLBACK")?;
    if job.there == 0 {
        let last: i64 = con.query_row("SELECT densite_log_last()", [], |row| row.get(0))?;
        let reached = || {
            con.query_row("SELECT densite_wait(?1, 0.05)", [last], |row| {
                row.get::<_, i64>(0)
            })
        };
        while reached()? < last {
            turn(&mut through, FIRST, job.rows, 1)?;
        }
        set("applying_mib", status("VmHWM:")?);
    }
    Ok(figures.into_iter().filter(|(_, v)| v.is_finite()).collect())
}

/// A field of the kernel's memory statistics of this process, in MiB.
fn status(field: &str) -> Result<f64> {
    let path = Path::new("/proc/self/status");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix(field));
    let kib = line.and_then(|l| l.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
    kib.map(|k| k / 1024.0)
        .ok_or_else(|| Failure(format!("{} has no {field}", path.display())))
}
