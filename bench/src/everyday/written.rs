//! The rows of a database inserted by SQL: in one transaction, and in transactions of 500 rows with
//! a WAL. The files are compared with what `densite compress` makes of the same pages.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use clap::{Args, ValueEnum};
use rusqlite::Connection;

use crate::connect::{self, Vfs, set_journal_mode};
use crate::outcome::{Compare, Figure};
use crate::result::{About as _, Result};
use crate::stored::{self, Setting};
use crate::syncs;
use crate::work::{Sample, cpu_time, name, peak_rss_kib, sample_of, this_program};

/// The rows of a transaction.
const ROWS: i64 = 500;
const MIB: f64 = 1024.0 * 1024.0;

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum How {
    /// In one transaction, journal_mode=DELETE
    Bulk,
    /// In transactions of 500 rows, WAL, synchronous=NORMAL
    By500,
}

impl How {
    fn title(self) -> &'static str {
        match self {
            How::Bulk => "inserted in one transaction",
            How::By500 => "inserted by 500 rows, WAL",
        }
    }

    /// The largest size, divided by that of `compress`.
    fn target(self) -> f64 {
        match self {
            How::Bulk => 1.02,
            How::By500 => 1.05,
        }
    }
}

/// The job of the process.
#[derive(Debug, Args)]
pub(crate) struct Job {
    #[arg(long)]
    how: How,
    /// The plain database, from which the rows come
    #[arg(long)]
    source: PathBuf,
    /// The database to create
    #[arg(long)]
    file: PathBuf,
    /// The VFS that creates it
    #[arg(long)]
    vfs: Vfs,
}

/// Runs the job in this process. It is measured until the database is closed.
pub(crate) fn run(job: &Job) -> Result<Sample> {
    if job.vfs == Vfs::Densite {
        connect::load_extension()?;
    }
    let syncs = syncs::count();
    let (cpu, start) = (cpu_time(), Instant::now());
    let con = job.vfs.open(&job.file)?;
    let rows = write(job.how, &con, &job.source)?;
    con.close().map_err(|(_, e)| e).about("close", &job.file)?;
    Ok(Sample {
        wall_s: start.elapsed().as_secs_f64(),
        cpu_s: cpu_time().saturating_sub(cpu).as_secs_f64(),
        peak_rss_kib: peak_rss_kib()?,
        syncs: syncs::count() - syncs,
        rows,
        digest: String::new(),
        figures: BTreeMap::new(),
    })
}

/// Creates tables and indexes, and then inserts all rows in the order of their ids.
fn write(how: How, con: &Connection, source: &Path) -> Result<u64> {
    if how == How::By500 {
        set_journal_mode(con, "wal")?;
        con.execute_batch("PRAGMA synchronous=NORMAL")?;
    }
    con.execute("ATTACH ? AS source", [Vfs::Plain.uri(source)?])?;
    if how == How::Bulk {
        con.execute_batch("BEGIN")?;
    }
    let tables = pairs(
        con,
        "SELECT s.name, s.sql FROM source.sqlite_schema s JOIN pragma_table_list t
           ON t.schema = 'source' AND t.name = s.name
         WHERE t.type IN ('table', 'virtual') AND s.name NOT LIKE 'sqlite_%' ORDER BY s.rowid",
    )?;
    let indexes = pairs(
        con,
        "SELECT name, sql FROM source.sqlite_schema WHERE type = 'index' AND sql IS NOT NULL",
    )?;
    for (_, sql) in tables.iter().chain(&indexes) {
        con.execute_batch(sql)?;
    }
    let mut rows = 0;
    for (table, _) in &tables {
        let last: Option<i64> =
            con.query_row(&format!("SELECT max(rowid) FROM source.{table}"), [], |r| {
                r.get(0)
            })?;
        let last = last.unwrap_or(0);
        let step = if how == How::Bulk { last.max(1) } else { ROWS };
        let mut insert = con.prepare(&format!(
            "INSERT INTO main.{table} SELECT * FROM source.{table}
             WHERE rowid > ?1 AND rowid <= ?1 + ?2 ORDER BY rowid"
        ))?;
        let mut done = 0;
        while done < last {
            rows += insert.execute([done, step])? as u64;
            done += step;
        }
    }
    if how == How::Bulk {
        con.execute_batch("COMMIT")?;
    }
    con.execute_batch("DETACH source")?;
    Ok(rows)
}

fn pairs(con: &Connection, sql: &str) -> Result<Vec<(String, String)>> {
    let mut statement = con.prepare(sql)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Writes the rows of `plain` in both ways and on both sides.
pub(super) fn figures(plain: &Path, work: &Path) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for how in [How::Bulk, How::By500] {
        let files = ["written.plain", "written.db", "written.densite"].map(|n| work.join(n));
        let [base_file, ours_file, compressed] = &files;
        let taken = |file: &Path, vfs| {
            let mut command = Command::new(this_program()?);
            command
                .args(["run-everyday", "write", "--how", &name(how)])
                .args(["--vfs", &name(vfs)])
                .arg("--source")
                .arg(plain)
                .arg("--file")
                .arg(file);
            sample_of(&mut command, how.title())
        };
        let base = taken(base_file, Vfs::Plain)?;
        let ours = taken(ours_file, Vfs::Densite)?;
        let figure = |of: &str, base, ours, target| {
            let name = format!("{}: {of}", how.title());
            Figure::new(&name, Compare::Ratio, base, ours, target)
        };
        figures.push(figure("CPU time, s", base.cpu_s, ours.cpu_s, None));
        figures.push(figure("wall time, s", base.wall_s, ours.wall_s, None));
        stored::compress(Setting::Default, base_file, compressed)?;
        let mib = |file: &Path| -> Result<f64> { Ok(stored::allocated(file)? as f64 / MIB) };
        let of = "stored size, MiB; base: `densite compress` of the same pages";
        let (least, closed) = (mib(compressed)?, mib(ours_file)?);
        if how == How::Bulk {
            figures.push(figure(of, least, closed, Some(how.target())));
        } else {
            figures.push(figure(of, least, closed, None));
            let con = Vfs::Densite.open(ours_file)?;
            con.execute_batch("PRAGMA densite_maintain")?;
            con.close().map_err(|(_, e)| e).about("close", ours_file)?;
            let of = format!("after maintenance, {of}");
            figures.push(figure(&of, least, mib(ours_file)?, Some(how.target())));
        }
        crate::folder::clear(work)?;
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_rows_and_indexes_are_written() {
        let dir = tempfile::tempdir().expect("a folder");
        let source = dir.path().join("source.db");
        let con = Connection::open(&source).expect("a database");
        con.execute_batch(
            "CREATE TABLE a(x TEXT PRIMARY KEY, y); CREATE INDEX a_y ON a(y);
             CREATE VIRTUAL TABLE f USING fts5(title, body); CREATE TABLE e(x);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1203)
             INSERT INTO a SELECT 'k' || i, i % 7 FROM n;
             INSERT INTO f SELECT x, 'text ' || y FROM a",
        )
        .expect("rows");
        for how in [How::Bulk, How::By500] {
            let job = Job {
                how,
                source: source.clone(),
                file: dir.path().join(name(how)),
                vfs: Vfs::Plain,
            };
            assert_eq!(run(&job).expect("it writes").rows, 2 * 1203);
            let con = Connection::open(&job.file).expect("it opens");
            let found: (i64, i64) = con
                .query_row(
                    "SELECT (SELECT count(*) FROM a INDEXED BY a_y WHERE y = 3),
                            (SELECT count(*) FROM f WHERE f MATCH 'text')",
                    [],
                    |r| Ok((r.get(0)?, r.get(1)?)),
                )
                .expect("rows");
            assert_eq!(found, (172, 1203));
        }
    }
}
