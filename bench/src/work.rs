//! A measurement: its job, which runs in this process or in a new one.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Statement, ToSql};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::codec;
use crate::connect::{self, Vfs, set_journal_mode};
use crate::result::{About as _, Failure, Result};
use crate::statements::{order_key, statement};
use crate::{syncs, uuids};

/// The jobs that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum What {
    /// Q1, a scan
    Q1,
    /// Q8, a join of eight tables
    Q8,
    /// Random orders by key, each in its own transaction
    Lookups,
    /// As above, all in one transaction
    LookupsInOne,
    /// Small updates of random orders in WAL mode, synchronous=NORMAL
    UpdatesWal,
    /// As above, with journal_mode=DELETE, synchronous=FULL
    UpdatesDelete,
    /// One lookup
    Open,
    /// VACUUM INTO `other`
    VacuumInto,
    /// Copy all tables of `other` into a new database in one transaction
    BulkLoad,
    /// As above, in WAL mode
    BulkLoadWal,
    /// Insert `count` rows with a UUID key and two indexes, in one transaction
    Uuids,
    /// As above, in WAL mode, 500 rows in each transaction
    UuidsWal,
    /// A small program: a scan of all orders and a few lookups
    Small,
    /// Leaf pages encoded and decoded by the typed codec, without SQLite
    CodecTyped,
    /// As above, with zstd and a dictionary
    CodecZstd,
}

/// The job of one measurement.
#[derive(Clone, Debug, Args)]
pub(crate) struct Job {
    #[arg(long)]
    pub(crate) what: What,
    /// The database worked on
    #[arg(long)]
    pub(crate) file: PathBuf,
    /// The VFS that opens it
    #[arg(long)]
    pub(crate) vfs: Vfs,
    /// The destination of VACUUM INTO, the source of a bulk load
    #[arg(long)]
    pub(crate) other: Option<PathBuf>,
    /// The VFS that opens the other one
    #[arg(long, default_value = "plain")]
    pub(crate) other_vfs: Vfs,
    /// The number of lookups or updates
    #[arg(long, default_value_t = 1)]
    pub(crate) count: u64,
    /// The number of orders in the data
    #[arg(long, default_value_t = 1)]
    pub(crate) orders: i64,
    /// Seed of the random keys
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// The result of a job, measured from before the database is opened until after it is closed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) wall_s: f64,
    /// User and system time of all threads
    pub(crate) cpu_s: f64,
    /// Largest resident memory of the process so far
    pub(crate) peak_rss_kib: u64,
    /// Calls of fsync and fdatasync
    pub(crate) syncs: u64,
    /// Result rows, or rows changed
    pub(crate) rows: u64,
    /// Hash of all result rows, to compare the answers of two runs
    pub(crate) digest: String,
    /// Other figures of the job, by name
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) figures: BTreeMap<String, f64>,
}

impl Sample {
    /// Another figure of the job; NaN if there is none.
    pub(crate) fn figure(&self, name: &str) -> f64 {
        self.figures.get(name).copied().unwrap_or(f64::NAN)
    }
}

impl Job {
    /// A job that needs only one file.
    pub(crate) fn new(what: What, file: &Path, vfs: Vfs) -> Self {
        Job {
            what,
            file: file.to_path_buf(),
            vfs,
            other: None,
            other_vfs: Vfs::Plain,
            count: 1,
            orders: 1,
            seed: 1,
        }
    }

    /// Runs this job in a new process.
    ///
    /// # Errors
    /// If the process cannot start, fails, or prints no sample. The process prints its own message.
    pub(crate) fn in_new_process(&self) -> Result<Sample> {
        sample_of(&mut self.command()?, &self.described())
    }

    /// The job in words.
    pub(crate) fn described(&self) -> String {
        format!(
            "{} on {} through {}",
            name(self.what),
            self.file.display(),
            name(self.vfs)
        )
    }

    /// The command that runs this job and prints a sample.
    pub(crate) fn command(&self) -> Result<Command> {
        let mut command = Command::new(this_program()?);
        command
            .arg("run-one")
            .arg("--what")
            .arg(name(self.what))
            .arg("--file")
            .arg(&self.file)
            .arg("--vfs")
            .arg(name(self.vfs));
        if let Some(other) = &self.other {
            command
                .arg("--other")
                .arg(other)
                .arg("--other-vfs")
                .arg(name(self.other_vfs));
        }
        command.args([
            "--count",
            &self.count.to_string(),
            "--orders",
            &self.orders.to_string(),
            "--seed",
            &self.seed.to_string(),
        ]);
        Ok(command)
    }
}

/// Runs a command that starts this program, and returns the sample that it prints.
///
/// # Errors
/// If the process cannot start, fails, or prints no sample. The process prints its own message.
pub(crate) fn sample_of(command: &mut Command, what: &str) -> Result<Sample> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .about("run", Path::new(command.get_program()))?;
    if !output.status.success() {
        return Err(Failure(format!("{what} failed")));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The path of this program.
pub(crate) fn this_program() -> Result<PathBuf> {
    std::env::current_exe().about("find", Path::new("this program"))
}

/// The name of a value on the command line.
pub(crate) fn name(value: impl ValueEnum) -> String {
    value
        .to_possible_value()
        .map(|v| v.get_name().to_owned())
        .unwrap_or_default()
}

/// The number and the hash of the rows of an answer.
#[derive(Default)]
pub(crate) struct Answer {
    pub(crate) rows: u64,
    hasher: DefaultHasher,
}

impl Answer {
    /// Adds a value of a row.
    pub(crate) fn add(&mut self, value: ValueRef<'_>) {
        match value {
            ValueRef::Null => 0u8.hash(&mut self.hasher),
            ValueRef::Integer(v) => (1u8, v).hash(&mut self.hasher),
            ValueRef::Real(v) => (2u8, v.to_bits()).hash(&mut self.hasher),
            ValueRef::Text(v) => (3u8, v).hash(&mut self.hasher),
            ValueRef::Blob(v) => (4u8, v).hash(&mut self.hasher),
        }
    }

    /// The hash of all rows.
    pub(crate) fn digest(&self) -> String {
        format!("{:016x}", self.hasher.finish())
    }

    fn query(&mut self, statement: &mut Statement<'_>, parameters: &[&dyn ToSql]) -> Result<()> {
        let columns = statement.column_count();
        let mut rows = statement.query(parameters)?;
        while let Some(row) = rows.next()? {
            self.rows += 1;
            for i in 0..columns {
                self.add(row.get_ref(i)?);
            }
        }
        Ok(())
    }
}

/// The hash of all result rows of a query.
pub(crate) fn digest(con: &Connection, sql: &str) -> Result<String> {
    let mut answer = Answer::default();
    answer.query(&mut con.prepare(sql)?, &[])?;
    Ok(answer.digest())
}

/// Random keys of existing orders, with uniform distribution.
struct Keys {
    rng: Xoshiro256PlusPlus,
    orders: i64,
}

impl Keys {
    fn next(&mut self) -> i64 {
        order_key(self.rng.random_range(1..=self.orders))
    }
}

/// Runs the job in this process.
pub(crate) fn run(job: &Job) -> Result<Sample> {
    if job.vfs == Vfs::Densite || job.other_vfs == Vfs::Densite {
        connect::load_extension()?;
    }
    // Made before the measurement, because both sides would pay for it.
    let rows = match job.what {
        What::Uuids | What::UuidsWal => uuids::rows(job.count),
        _ => vec![],
    };
    let syncs = syncs::count();
    let cpu = cpu_time();
    let start = Instant::now();
    let mut answer = Answer::default();
    let mut figures = BTreeMap::new();
    if matches!(job.what, What::CodecTyped | What::CodecZstd) {
        let typed = job.what == What::CodecTyped;
        let done = codec::run(&job.file, typed, job.seed, cpu_time)?;
        (answer.rows, figures) = (done.pages, done.figures);
    } else {
        let con = job.vfs.open(&job.file)?;
        perform(job, &con, &rows, &mut answer)?;
        con.close().map_err(|(_, e)| e).about("close", &job.file)?;
    }
    Ok(Sample {
        wall_s: start.elapsed().as_secs_f64(),
        cpu_s: cpu_time().saturating_sub(cpu).as_secs_f64(),
        peak_rss_kib: peak_rss_kib()?,
        syncs: syncs::count() - syncs,
        rows: answer.rows,
        digest: answer.digest(),
        figures,
    })
}

fn perform(job: &Job, con: &Connection, rows: &[uuids::Row], answer: &mut Answer) -> Result<()> {
    let mut keys = Keys {
        rng: Xoshiro256PlusPlus::seed_from_u64(job.seed),
        orders: job.orders,
    };
    match job.what {
        What::Q1 => answer.query(&mut con.prepare(statement("Q1"))?, &[]),
        What::Q8 => answer.query(&mut con.prepare(statement("Q8"))?, &[]),
        What::Lookups | What::LookupsInOne | What::Open => {
            let mut lookup = con.prepare(statement("lookups"))?;
            if job.what == What::LookupsInOne {
                con.execute_batch("BEGIN")?;
            }
            for _ in 0..job.count {
                answer.query(&mut lookup, &[&keys.next()])?;
            }
            if job.what == What::LookupsInOne {
                con.execute_batch("COMMIT")?;
            }
            Ok(())
        }
        What::Small => {
            answer.query(
                &mut con.prepare("SELECT count(*), sum(O_TOTALPRICE) FROM ORDERS")?,
                &[],
            )?;
            let mut lookup = con.prepare(statement("lookups"))?;
            for _ in 0..job.count {
                answer.query(&mut lookup, &[&keys.next()])?;
            }
            Ok(())
        }
        What::Uuids | What::UuidsWal => {
            uuids::insert(con, rows, job.what == What::UuidsWal)?;
            answer.rows = job.count;
            Ok(())
        }
        What::UpdatesWal | What::UpdatesDelete => {
            let (mode, level) = if job.what == What::UpdatesWal {
                ("wal", "NORMAL")
            } else {
                ("delete", "FULL")
            };
            set_journal_mode(con, mode)?;
            con.execute_batch(&format!("PRAGMA synchronous={level}"))?;
            let mut update = con.prepare(statement("updates"))?;
            for _ in 0..job.count {
                answer.rows += update.execute([keys.next()])? as u64;
            }
            Ok(())
        }
        What::VacuumInto => {
            con.execute("VACUUM INTO ?", [other(job)?])?;
            Ok(())
        }
        What::BulkLoad | What::BulkLoadWal => {
            if job.what == What::BulkLoadWal {
                set_journal_mode(con, "wal")?;
            }
            con.execute("ATTACH ? AS source", [other(job)?])?;
            con.execute_batch("BEGIN")?;
            let tables: Vec<(String, String)> = con
                .prepare("SELECT name, sql FROM source.sqlite_schema WHERE type = 'table' ORDER BY rootpage")?
                .query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?
                .collect::<rusqlite::Result<_>>()?;
            for (table, sql) in tables {
                con.execute_batch(&sql)?;
                answer.rows += con.execute(
                    &format!("INSERT INTO main.{table} SELECT * FROM source.{table}"),
                    [],
                )? as u64;
            }
            con.execute_batch("COMMIT; DETACH source")?;
            Ok(())
        }
        What::CodecTyped | What::CodecZstd => Err(Failure(
            "the codecs are measured without a connection".into(),
        )),
    }
}

fn other(job: &Job) -> Result<String> {
    let other = job
        .other
        .as_ref()
        .ok_or_else(|| Failure(format!("{} needs --other", name(job.what))))?;
    job.other_vfs.uri(other)
}

/// The user and system time of all threads of this process.
pub(crate) fn cpu_time() -> Duration {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(t.tv_sec.unsigned_abs(), t.tv_nsec.unsigned_abs() as u32)
}

/// The peak of resident memory, from the kernel's statistics of this process. `getrusage` would
/// begin with the peak of the process that started this one.
pub(crate) fn peak_rss_kib() -> Result<u64> {
    let path = Path::new("/proc/self/status");
    let status = std::fs::read_to_string(path).about("read", path)?;
    status
        .lines()
        .find_map(|l| {
            l.strip_prefix("VmHWM:")?
                .trim()
                .strip_suffix("kB")?
                .trim()
                .parse()
                .ok()
        })
        .ok_or_else(|| {
            Failure(format!(
                "{} names no peak of resident memory",
                path.display()
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(job: &Job) -> Sample {
        run(job).expect("the job runs")
    }

    #[test]
    fn every_job_runs_on_plain_sqlite() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let file = dir.path().join("t.db");
        crate::tpch::generate(0.01, &file).expect("the data are generated");
        let job = |what| Job {
            count: 50,
            orders: crate::tpch::orders(0.01),
            ..Job::new(what, &file, Vfs::Plain)
        };
        assert_eq!(sample(&job(What::Q1)).rows, 4);
        assert!(sample(&job(What::Q8)).rows <= 2);
        let lookups = sample(&job(What::Lookups));
        assert_eq!(lookups.rows, 50);
        assert_eq!(lookups.digest, sample(&job(What::Lookups)).digest);
        assert_ne!(
            lookups.digest,
            sample(&Job {
                seed: 2,
                ..job(What::Lookups)
            })
            .digest
        );
        let in_one = sample(&job(What::LookupsInOne));
        assert_eq!(lookups.digest, in_one.digest);
        assert_eq!(sample(&job(What::Small)).rows, 51);
        for (what, name) in [(What::Uuids, "uuids.db"), (What::UuidsWal, "uuids-wal.db")] {
            let insert = Job {
                count: 1201,
                ..Job::new(what, &dir.path().join(name), Vfs::Plain)
            };
            assert_eq!(sample(&insert).rows, 1201);
            let con = Vfs::Plain.open(&insert.file).expect("it opens");
            let found: i64 = con
                .query_row("SELECT count(DISTINCT id) FROM purchase", [], |r| r.get(0))
                .expect("a count");
            assert_eq!(found, 1201);
        }
        assert_eq!(sample(&job(What::UpdatesWal)).rows, 50);
        let updates = sample(&job(What::UpdatesDelete));
        assert_eq!(updates.rows, 50);
        assert!(updates.syncs >= 3 * 50, "{} syncs", updates.syncs);
        let copy = dir.path().join("copy.db");
        sample(&Job {
            other: Some(copy.clone()),
            ..job(What::VacuumInto)
        });
        for (what, name) in [(What::BulkLoad, "load.db"), (What::BulkLoadWal, "wal.db")] {
            let load = Job {
                other: Some(copy.clone()),
                ..Job::new(what, &dir.path().join(name), Vfs::Plain)
            };
            assert!(sample(&load).rows > 80_000);
        }
        assert!(run(&job(What::VacuumInto)).is_err());
    }
}
