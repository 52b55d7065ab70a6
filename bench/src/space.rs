//! Space reclamation without a vacuum: sizes of closed files after deletes, compared with fresh
//! copies of the same rows.
//!
//! A *fresh copy* is what `densite compress` makes of the plain file that `VACUUM INTO` writes.
//! Only the chain runs `densite_maintain`.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::connect::Vfs;
use crate::outcome::{Compare, Figure};
use crate::result::{About as _, Result};
use crate::statements;
use crate::stored::{self, Setting};

const MIB: f64 = 1024.0 * 1024.0;
/// File / fresh copy, after a half is deleted, and after each step of the chain.
const HALF: f64 = 1.13;
const CHAIN: f64 = 1.15;
/// Rounds of the chain.
pub(crate) const ROUNDS: i64 = 6;
/// The distance between the order keys of two rounds of the chain.
const SHIFT: i64 = 1_000_000_000;

/// Deletes the lines that meet `condition` from a copy of a compressed TPC-H database, in WAL mode.
/// Returns the sizes of a fresh copy and of the file.
fn delete(source: &Path, dir: &Path, condition: &str) -> Result<(f64, f64)> {
    let file = dir.join("deleted.db");
    std::fs::copy(source, &file).about("copy to", &file)?;
    let db = Vfs::Densite.open(&file)?;
    db.execute_batch(&format!(
        "PRAGMA journal_mode=WAL; DELETE FROM LINEITEM WHERE {condition}; PRAGMA wal_checkpoint"
    ))?;
    db.close().map_err(|(_, e)| e).about("close", &file)?;
    let sizes = (fresh(&file, dir)?, mib(&file)?);
    remove(&[file])?;
    Ok(sizes)
}

/// Deletes the lines of every second order, and the lines of the first half of the orders.
pub(crate) fn halves(source: &Path, dir: &Path, largest_key: i64) -> Result<Vec<Figure>> {
    let figure = |name: &str, condition: &str| -> Result<Figure> {
        let (base, ours) = delete(source, dir, condition)?;
        Ok(Figure::new(name, Compare::Ratio, base, ours, Some(HALF)))
    };
    Ok(vec![
        figure(
            "every second order's lines deleted: disk space, MiB",
            "(L_ORDERKEY & 1) = 0",
        )?,
        figure(
            "the lines of the first half of the orders deleted: disk space, MiB",
            &format!("L_ORDERKEY <= {}", largest_key / 2),
        )?,
    ])
}

/// Six times: load LINEITEM, delete the lines of every second order of that round, checkpoint,
/// `densite_maintain`, close. Figures are the largest ratio, and the last.
pub(crate) fn chain(plain: &Path, dir: &Path) -> Result<Vec<Figure>> {
    let file = dir.join("chain.db");
    let mut worst = (1.0, 0.0);
    let mut last = worst;
    for round in 0..ROUNDS {
        let db = chain_step(&file, plain, round)?;
        db.close().map_err(|(_, e)| e).about("close", &file)?;
        last = (fresh(&file, dir)?, mib(&file)?);
        eprintln!(
            "round {round}: {:.1} MiB, a fresh copy {:.1}",
            last.1, last.0
        );
        if last.1 / last.0 > worst.1 / worst.0 {
            worst = last;
        }
    }
    remove(&[file])?;
    let name = |which: &str| {
        format!("six times LINEITEM loaded and half of it deleted, {which}: disk space, MiB")
    };
    Ok(vec![
        Figure::new(
            &name("the worst step"),
            Compare::Ratio,
            worst.0,
            worst.1,
            Some(CHAIN),
        ),
        Figure::new(
            &name("the last step"),
            Compare::Ratio,
            last.0,
            last.1,
            Some(CHAIN),
        ),
    ])
}

/// One round of the chain, from opening the database to `densite_maintain`.
pub(crate) fn chain_step(file: &Path, plain: &Path, round: i64) -> Result<Connection> {
    let db = Vfs::Densite.open(file)?;
    if round == 0 {
        db.execute_batch(statements::schema())?;
        db.execute_batch("PRAGMA journal_mode=WAL")?;
    }
    load(&db, plain, round)?;
    db.execute_batch("PRAGMA wal_checkpoint")?;
    db.execute(
        "DELETE FROM LINEITEM WHERE (L_ORDERKEY & 1) = 0 AND L_ORDERKEY > ?",
        [round * SHIFT],
    )?;
    db.execute_batch("PRAGMA wal_checkpoint; PRAGMA densite_maintain")?;
    Ok(db)
}

fn load(db: &Connection, plain: &Path, round: i64) -> Result<()> {
    db.execute("ATTACH ? AS source", [Vfs::Plain.uri(plain)?])?;
    let columns: Vec<String> = db
        .prepare("SELECT name FROM pragma_table_info('LINEITEM', 'source')")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let values: Vec<String> = columns
        .iter()
        .map(|c| {
            if c == "L_ORDERKEY" {
                format!("{c} + {}", round * SHIFT)
            } else {
                c.clone()
            }
        })
        .collect();
    db.execute_batch(&format!(
        "INSERT INTO main.LINEITEM SELECT {} FROM source.LINEITEM; DETACH source",
        values.join(", ")
    ))?;
    Ok(())
}

/// Disk space of a fresh compressed copy, in MiB.
pub(crate) fn fresh(file: &Path, dir: &Path) -> Result<f64> {
    let (plain, small) = (dir.join("fresh.plain"), dir.join("fresh.db"));
    let db = Vfs::Densite.open(file)?;
    db.execute("VACUUM INTO ?", [Vfs::Plain.uri(&plain)?])?;
    drop(db);
    stored::compress(Setting::Default, &plain, &small)?;
    let size = mib(&small)?;
    remove(&[plain, small])?;
    Ok(size)
}

fn mib(file: &Path) -> Result<f64> {
    Ok(stored::allocated(file)? as f64 / MIB)
}

fn remove(files: &[PathBuf]) -> Result<()> {
    for file in files {
        std::fs::remove_file(file).about("remove", file)?;
    }
    Ok(())
}
