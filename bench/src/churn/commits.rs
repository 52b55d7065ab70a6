//! How space reclamation changes the time of commits.

use std::path::Path;
use std::time::Instant;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use rusqlite::Connection;

use super::{Extent, JOURNALS, fill, moved_ratio, update};
use crate::connect::Vfs;
use crate::numbers::median;
use crate::outcome::{Compare, Figure};
use crate::result::{About as _, Failure, Result};

/// 99th percentile of a commit's time, with space reclamation / without.
const LATENCY: f64 = 1.5;
/// The part of the live bytes that must be moved meanwhile.
const MOVED_MEANWHILE: f64 = 0.1;
/// With a WAL, space is reclaimed at checkpoints. With this number, one commit in fifty makes a
/// checkpoint, so the 99th percentile includes them on both sides. (SQLite's default is 1000.)
const CHECKPOINT_PAGES: i64 = 50;
/// With a WAL, this many rows in turn are kept and deleted.
const STRETCH: i64 = 13;

/// Small commits in a database of which half is dead, with and without space reclamation.
pub(super) fn latency(dir: &Path, extent: &Extent) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for journal in JOURNALS {
        let prepared = dir.join("prepared.db");
        {
            let db = open(&prepared, "&maintain=off")?;
            fill(&db, extent.rows * 2, journal)?;
            // The remaining rows are all over the file.
            db.execute_batch(&format!(
                "DELETE FROM t WHERE id / {STRETCH} % 2 = 1; PRAGMA wal_checkpoint"
            ))?;
            db.execute_batch("UPDATE t SET message = message || ' ' WHERE id / 26 % 3 = 1; PRAGMA wal_checkpoint")?;
        }
        let mut p99 = [Vec::new(), Vec::new()];
        let mut moved = Vec::new();
        // The sides alternate, because the speed of a disk changes from minute to minute.
        for round in 0..3 {
            for (side, parameters) in ["&maintain=off", ""].into_iter().enumerate() {
                let file = dir.join("commits.db");
                std::fs::copy(&prepared, &file).about("copy to", &file)?;
                std::fs::File::open(&file)
                    .and_then(|f| f.sync_all())
                    .about("sync", &file)?;
                let db = open(&file, parameters)?;
                let synchronous = if journal == "wal" { "NORMAL" } else { "FULL" };
                db.execute_batch(&format!(
                    "PRAGMA synchronous={synchronous}; PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}"
                ))?;
                let live: i64 = db.query_row(
                    "SELECT value FROM densite_info('main') WHERE name = 'live_bytes'",
                    [],
                    |r| r.get(0),
                )?;
                let mut rng = Xoshiro256PlusPlus::seed_from_u64(round);
                let mut times = Vec::new();
                // A commit with a WAL moves nothing itself.
                let commits = match journal {
                    "wal" => extent.commits * 5,
                    _ => extent.commits,
                };
                for _ in 0..commits {
                    // The row must exist: an update of no row would not commit, and would count as
                    // fast.
                    let nth = rng.random_range(0..extent.rows);
                    let id = nth / STRETCH * (2 * STRETCH) + nth % STRETCH;
                    let begin = Instant::now();
                    update(&db, id, &mut rng)?;
                    times.push(begin.elapsed().as_secs_f64() * 1e3);
                }
                times.sort_by(f64::total_cmp);
                let at = times.len().saturating_sub(1) * 99 / 100;
                let value = times.get(at).copied().unwrap_or(f64::NAN);
                if let Some(values) = p99.get_mut(side) {
                    values.push(value);
                }
                if side == 1 {
                    moved.push(moved_ratio(&db)?.1 / live as f64);
                }
                db.close().map_err(|(_, e)| e).about("close", &file)?;
                std::fs::remove_file(&file).about("remove", &file)?;
            }
        }
        std::fs::remove_file(&prepared).about("remove", &prepared)?;
        let [off, on] = p99.map(median);
        let checkpoints = match journal {
            "wal" => format!(", a checkpoint after every {CHECKPOINT_PAGES} pages"),
            _ => String::new(),
        };
        figures.push(Figure::new(
            &format!("journal_mode={journal}{checkpoints}, 99th percentile of a commit, ms"),
            Compare::Ratio,
            off,
            on,
            Some(LATENCY),
        ));
        figures.push(Figure::new(
            &format!("journal_mode={journal}, bytes moved meanwhile / live bytes"),
            Compare::AtLeast,
            0.0,
            median(moved),
            Some(MOVED_MEANWHILE),
        ));
    }
    Ok(figures)
}

/// Opens the file with additional URI parameters.
fn open(file: &Path, parameters: &str) -> Result<Connection> {
    let uri = Vfs::Densite.uri(file)? + parameters;
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE
        | rusqlite::OpenFlags::SQLITE_OPEN_CREATE
        | rusqlite::OpenFlags::SQLITE_OPEN_URI
        | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(uri, flags)
        .map_err(|e| Failure(format!("cannot open {}: {e}", file.display())))
}
