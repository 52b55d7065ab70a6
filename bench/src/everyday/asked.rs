//! One statement, run on one side in a process of its own: twice on the same connection, and once
//! more, unmeasured, to compare the answers.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use clap::Args;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use rusqlite::Connection;
use rusqlite::types::{Value, ValueRef};

use super::statements::{self, Form, LOOKUPS, Statement};
use crate::connect::{self, Vfs};
use crate::outcome::{Compare, Figure};
use crate::result::{Failure, Result};
use crate::work::{Answer, Sample, cpu_time, name, peak_rss_kib, sample_of, this_program};

/// The figures of both runs of a sample.
const CPU: [&str; 2] = ["first run, CPU, ms", "second run, CPU, ms"];
const WALL: [&str; 2] = ["first run, wall, ms", "second run, wall, ms"];

/// The job of the process.
#[derive(Debug, Args)]
pub(crate) struct Job {
    #[arg(long)]
    database: String,
    /// The name of a statement
    #[arg(long)]
    statement: String,
    /// The database to ask
    #[arg(long)]
    file: PathBuf,
    /// The VFS that opens it
    #[arg(long)]
    vfs: Vfs,
    /// The plain database, from which the keys of lookups are read
    #[arg(long)]
    plain: PathBuf,
}

/// Runs the job in this process.
pub(crate) fn run(job: &Job) -> Result<Sample> {
    let statement = statements::find(&job.database, &job.statement)?;
    if job.vfs == Vfs::Densite {
        connect::load_extension()?;
    }
    let keys = match statement.form {
        Form::Query => vec![],
        Form::Lookups { keys, .. } => some_of(keys, &job.plain)?,
    };
    let mut figures = BTreeMap::new();
    let mut open = None;
    for run in 0..2 {
        let (cpu, start) = (cpu_time(), Instant::now());
        let con = match open.take() {
            None => job.vfs.open(&job.file)?,
            Some(con) => con,
        };
        ask(&con, statement, &keys, &mut read)?;
        let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
        figures.insert(WALL[run].to_owned(), ms(start.elapsed()));
        figures.insert(CPU[run].to_owned(), ms(cpu_time().saturating_sub(cpu)));
        open = Some(con);
    }
    let mut answer = Answer::default();
    if let Some(con) = open {
        ask(&con, statement, &keys, &mut |value| {
            answer.rows += 1;
            answer.add(value);
        })?;
    }
    Ok(Sample {
        wall_s: figures[WALL[0]] / 1e3,
        cpu_s: figures[CPU[0]] / 1e3,
        peak_rss_kib: peak_rss_kib()?,
        syncs: 0,
        rows: answer.rows,
        digest: answer.digest(),
        figures,
    })
}

/// Random keys of those that a statement selects from the plain database; the same in each run.
fn some_of(sql: &str, plain: &Path) -> Result<Vec<Value>> {
    let con = Vfs::Plain.open(plain)?;
    let all: Vec<Value> = con
        .prepare(sql)?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let some = (0..LOOKUPS).map(|_| all[random.random_range(0..all.len())].clone());
    Ok(some.collect())
}

/// Runs a statement, and gives each value of its answer to `each`.
fn ask(
    con: &Connection,
    statement: &Statement,
    keys: &[Value],
    each: &mut impl FnMut(ValueRef<'_>),
) -> Result<()> {
    let mut prepared = con.prepare(statement.sql)?;
    let columns = prepared.column_count();
    let mut once = |parameters: &[&Value]| -> Result<()> {
        let mut rows = prepared.query(rusqlite::params_from_iter(parameters))?;
        while let Some(row) = rows.next()? {
            for i in 0..columns {
                each(row.get_ref(i)?);
            }
        }
        Ok(())
    };
    match statement.form {
        Form::Query => once(&[]),
        Form::Lookups {
            in_one_transaction, ..
        } => {
            if in_one_transaction {
                con.execute_batch("BEGIN")?;
            }
            keys.iter().try_for_each(|key| once(&[key]))?;
            if in_one_transaction {
                con.execute_batch("COMMIT")?;
            }
            Ok(())
        }
    }
}

/// Reads each byte of a value, as cheaply as a program can.
fn read(value: ValueRef<'_>) {
    if let ValueRef::Text(bytes) | ValueRef::Blob(bytes) = value {
        let (words, rest) = bytes.as_chunks::<8>();
        let sum = words.iter().fold(0u64, |sum, word| {
            sum.wrapping_add(u64::from_le_bytes(*word))
        });
        black_box((sum, rest));
    }
}

/// Takes the samples of a statement on both sides in turn, and compares the answers.
///
/// # Errors
/// If a process fails, or if the answers differ.
pub(super) fn compare(
    statement: &Statement,
    plain: &Path,
    densite: &Path,
    rounds: u64,
) -> Result<Vec<Figure>> {
    let (mut base, mut ours) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let mut sides = [(plain, Vfs::Plain), (densite, Vfs::Densite)];
        if round % 2 == 1 {
            sides.reverse();
        }
        for (file, vfs) in sides {
            let mut command = Command::new(this_program()?);
            command
                .args(["run-everyday", "ask"])
                .args(["--database", statement.database])
                .args(["--statement", statement.name])
                .args(["--vfs", &name(vfs)])
                .arg("--file")
                .arg(file)
                .arg("--plain")
                .arg(plain);
            let sample = sample_of(&mut command, statement.name)?;
            match vfs {
                Vfs::Plain => base.push(sample),
                Vfs::Densite => ours.push(sample),
            }
        }
    }
    let answers = base.iter().chain(&ours);
    let mut answers = answers.map(|sample| (&sample.digest, sample.rows));
    let first = answers.next();
    if answers.any(|answer| Some(answer) != first) {
        return Err(Failure(format!(
            "plain SQLite and Densite gave different answers to {} of {}",
            statement.name, statement.database
        )));
    }
    let figure = |of: &str, target| {
        Figure::medians(
            &format!("{}, {of}", statement.name),
            Compare::Ratio,
            &base,
            &ours,
            |sample| sample.figure(of),
            target,
        )
    };
    Ok(vec![
        figure(CPU[0], statement.targets[0]),
        figure(CPU[1], statement.targets[1]),
        figure(WALL[0], None),
        figure(WALL[1], None),
    ])
}
