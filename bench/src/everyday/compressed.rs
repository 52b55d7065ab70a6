//! What `densite compress` makes of a database: size, speed, and the same size each time.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::databases::Database;
use super::documents;
use crate::connect::Vfs;
use crate::numbers::median;
use crate::outcome::{Compare, Figure};
use crate::result::{About as _, Result};
use crate::sizes;
use crate::stored::{self, Setting};
use crate::work::{Job, What};

/// The largest stored sizes of a database: default and archive, divided by the plain file.
fn targets(name: &str) -> [Option<f64>; 2] {
    match name {
        "sources" => [Some(0.165), Some(0.127)],
        "embeddings" => [Some(0.38), None],
        "search" => [Some(0.33), None],
        "flights" => [Some(0.181), None],
        _ => [None, None],
    }
}

/// The slowest compression with default settings, in MB/s.
const SPEED: f64 = 250.0;
/// The largest stored size of indexes of repeated text keys, divided by their pages.
const INDEXES: f64 = 0.13;

/// Sizes and speed. Leaves the database, compressed with default settings, in `densite`.
pub(super) fn figures(
    database: &Database,
    densite: &Path,
    work: &Path,
    rounds: u64,
) -> Result<Vec<Figure>> {
    let plain = &database.path;
    let bytes = std::fs::metadata(plain).about("read", plain)?.len() as f64;
    let archive = work.join("archive.densite");
    stored::compress(Setting::Archive, plain, &archive)?;
    let (mut compressed, mut copied) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let start = Instant::now();
        stored::compress(Setting::Default, plain, densite)?;
        compressed.push(start.elapsed().as_secs_f64());
        let other = work.join("copy.db");
        let copy = Job {
            other: Some(other.clone()),
            ..Job::new(What::VacuumInto, plain, Vfs::Plain)
        };
        copied.push(copy.in_new_process()?.wall_s);
        remove(&other)?;
    }
    let speed = |times: Vec<f64>| bytes / 1e6 / median(times);
    let [default_most, archive_most] = targets(database.name);
    let mut figures = vec![
        sizes::figure("stored size, MiB", plain, densite, default_most)?,
        sizes::figure("stored size, archive, MiB", plain, &archive, archive_most)?,
        Figure::new(
            "`densite compress`, MB/s; base: VACUUM INTO of plain SQLite",
            Compare::AtLeast,
            speed(copied),
            speed(compressed),
            Some(SPEED),
        ),
        same_length(plain, work)?,
    ];
    if database.name == "flights" {
        figures.push(indexes(plain, densite, work)?);
    }
    if database.name == "sources" {
        figures.extend(documents::figures(plain, [densite, &archive])?);
    }
    remove(&archive)?;
    Ok(figures)
}

/// The lengths of three compressed files: without background threads, with two, and with two beside
/// a busy thread.
fn same_length(plain: &Path, work: &Path) -> Result<Figure> {
    let target = work.join("again.densite");
    let length = |threads: &str| -> Result<f64> {
        if target.exists() {
            remove(&target)?;
        }
        let options = ["compress", "--quiet", "--threads", threads].map(Path::new);
        stored::densite(&[&options[..], &[plain, &target]].concat())?;
        Ok(std::fs::metadata(&target).about("read", &target)?.len() as f64)
    };
    let stop = AtomicBool::new(false);
    let beside = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let beside = length("2");
        stop.store(true, Ordering::Relaxed);
        beside
    })?;
    let lengths = [length("0")?, length("2")?, beside];
    remove(&target)?;
    Ok(Figure::new(
        "longest file of `densite compress` with 0 threads, 2, and 2 beside a busy one, bytes; base: the shortest",
        Compare::Ratio,
        lengths.iter().copied().fold(f64::INFINITY, f64::min),
        lengths.iter().copied().fold(0.0, f64::max),
        Some(1.0),
    ))
}

/// The indexes of repeated text keys: the size of the database with them, less its size without.
fn indexes(plain: &Path, densite: &Path, work: &Path) -> Result<Figure> {
    let (without, compressed) = (work.join("without.db"), work.join("without.densite"));
    std::fs::copy(plain, &without).about("copy to", &without)?;
    let con = Vfs::Plain.open(&without)?;
    con.execute_batch(
        "DROP INDEX flight_tailnum; DROP INDEX flight_dest; DROP INDEX flight_time_hour; VACUUM",
    )?;
    con.close().map_err(|(_, e)| e).about("close", &without)?;
    stored::compress(Setting::Default, &without, &compressed)?;
    let part = |whole: &Path, rest: &Path| -> Result<f64> {
        let bytes = stored::allocated(whole)? as f64 - stored::allocated(rest)? as f64;
        Ok(bytes / 1024.0 / 1024.0)
    };
    let figure = Figure::new(
        "three indexes of repeated text keys: stored size, MiB",
        Compare::Ratio,
        part(plain, &without)?,
        part(densite, &compressed)?,
        Some(INDEXES),
    );
    remove(&without)?;
    remove(&compressed)?;
    Ok(figure)
}

fn remove(file: &Path) -> Result<()> {
    std::fs::remove_file(file).about("remove", file)
}
