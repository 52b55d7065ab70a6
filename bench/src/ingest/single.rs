//! One thread, one row in each transaction, compared with the number of syncs that the disk can do.
//!
//! Bare syncs, plain SQLite and ingest take turns of a tenth of a second. Only adjacent turns are
//! compared, because the speed of a shared disk can double from one second to the next.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use clap::Args;
use rusqlite::Connection;

use super::bare::{Bare, Rate};
use super::table::{Rows, Shape};
use super::watch::beside;
use super::writers::{Side, Write};
use super::{Place, child, median};
use crate::connect;
use crate::outcome::{Compare, Figure};
use crate::result::Result;

/// Rows in a second / bare syncs in a second.
const TARGET: f64 = 0.9;
/// Bytes of such a row in the log, with its record's header.
const BYTES: usize = 128;
const TURN: Duration = Duration::from_millis(100);

/// The job of the measured process.
#[derive(Clone, Debug, Args)]
pub(crate) struct Single {
    /// A new database; plain SQLite's is beside it
    #[arg(long)]
    file: std::path::PathBuf,
    #[arg(long)]
    turns: u32,
}

pub(super) fn measure(place: &Place<'_>) -> Result<Vec<Figure>> {
    let turns = if place.quick { 5 } else { 100 };
    let mut probes = Rate::default();
    probes.probe(place.work, true)?;
    let file = place.fresh("single.db")?;
    let got = child(
        "single",
        &[
            ("file", file.display().to_string()),
            ("turns", turns.to_string()),
        ],
    )?;
    probes.probe(place.work, false)?;
    place.clear()?;
    let of = |name: &str| got.get(name).copied().unwrap_or(f64::NAN);
    Ok(vec![
        Figure::new(
            "rows/s over bare syncs/s of the turns before and after, median",
            Compare::AtLeast,
            of("plain_ratio"),
            of("ours_ratio"),
            Some(TARGET),
        ),
        Figure::new(
            "the same, lower quartile",
            Compare::Ours,
            of("plain_quartile"),
            of("ours_quartile"),
            None,
        ),
        Figure::new(
            "rows/s",
            Compare::RatioAtLeast,
            of("plain"),
            of("ours"),
            None,
        ),
        Figure::new(
            "bare data syncs of 128 bytes beside them, in a second",
            Compare::Ours,
            of("bare"),
            of("bare"),
            None,
        ),
        probes.figure(),
    ])
}

/// Runs in the measured process.
pub(super) fn run(job: &Single) -> Result<BTreeMap<String, f64>> {
    connect::load_extension()?;
    let mut bare = Bare::create(&beside(&job.file, ".bare"))?;
    let mut sides = Vec::new();
    for (side, file) in [
        (Side::Full, beside(&job.file, ".plain")),
        (Side::Ingest, job.file.clone()),
    ] {
        let write = Write::new(&file, side, Shape::Votes, 0.0);
        sides.push((write.prepare()?, write, 0u64, Vec::new(), Vec::new()));
    }
    let mut bares = vec![syncs(&mut bare)?];
    for _ in 0..job.turns {
        for (con, write, next, rates, ratios) in &mut sides {
            let before = bares.last().copied().unwrap_or(f64::NAN);
            let rate = rows(con, write, next)?;
            let after = syncs(&mut bare)?;
            bares.push(after);
            rates.push(rate);
            ratios.push(rate * 2.0 / (before + after));
        }
    }
    let mut figures = BTreeMap::from([("bare".to_owned(), median(bares))]);
    for ((_, _, _, rates, ratios), name) in sides.into_iter().zip(["plain", "ours"]) {
        figures.insert(name.to_owned(), median(rates));
        figures.insert(
            format!("{name}_quartile"),
            super::quantile(ratios.clone(), 0.25),
        );
        figures.insert(format!("{name}_ratio"), median(ratios));
    }
    Ok(figures)
}

fn syncs(bare: &mut Bare) -> Result<f64> {
    let (begun, mut count) = (Instant::now(), 0u32);
    while begun.elapsed() < TURN {
        bare.sync(BYTES)?;
        count += 1;
    }
    Ok(f64::from(count) / begun.elapsed().as_secs_f64())
}

fn rows(con: &Connection, write: &Write, next: &mut u64) -> Result<f64> {
    let mut source = Rows::new(write.shape, 0);
    let mut insert = con.prepare_cached(&write.shape.insert(write.side == Side::Ingest))?;
    let (begun, from) = (Instant::now(), *next);
    while begun.elapsed() < TURN {
        source.insert(&mut insert, *next)?;
        *next += 1;
    }
    Ok((*next - from) as f64 / begun.elapsed().as_secs_f64())
}
