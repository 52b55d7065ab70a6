//! A process that writes with several threads, each with its own connection, through ingest or into
//! the table itself.
//!
//! It reports each acknowledgement through its standard output ([`super::record_pipe`]). When the
//! writers are done, it keeps running until its standard input ends, so that the worker can be
//! observed. Both sides run the same loop. Plain SQLite's writers take turns with a mutex, because
//! SQLite itself waits for the write lock by sleeping.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use rusqlite::Connection;

use super::bare::Bare;
use super::record_pipe::{Kind, Pipe, Record, RecordSender};
use super::table::{EACH, FIRST, Rows, Shape};
use crate::connect::{self, Vfs};
use crate::result::{About as _, Failure, Result};

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Side {
    /// Through `densite_ingest`
    Ingest,
    /// Into the table, WAL, synchronous=FULL
    Full,
    /// Into the table, WAL, synchronous=OFF
    Off,
}

/// The job of a writing process.
#[derive(Clone, Debug, Args)]
pub(crate) struct Write {
    #[arg(long)]
    pub(super) file: PathBuf,
    #[arg(long)]
    pub(super) side: Side,
    #[arg(long)]
    pub(super) shape: Shape,
    #[arg(long, default_value_t = 8)]
    pub(super) threads: u16,
    /// Rows of a transaction
    #[arg(long, default_value_t = 400)]
    pub(super) batch: u64,
    #[arg(long)]
    pub(super) seconds: f64,
    /// Rows in a second, of all threads together; 0: no limit
    #[arg(long, default_value_t = 0.0)]
    pub(super) pace: f64,
    /// Bytes that the log keeps unapplied before writers wait (`max_unapplied_bytes`); 0: no limit
    #[arg(long, default_value_t = 0)]
    pub(super) unapplied: u64,
    /// Number of the first row of the first thread
    #[arg(long, default_value_t = FIRST)]
    pub(super) first: u64,
    /// Percentage of operations that read a count instead
    #[arg(long, default_value_t = 0)]
    pub(super) reads: u64,
    /// Bytes that another thread syncs every few milliseconds; 0: no such thread
    #[arg(long, default_value_t = 0)]
    pub(super) bare: usize,
    /// Milliseconds that an acknowledgement can wait before it is sent
    #[arg(long, default_value_t = 0)]
    pub(super) patience: u64,
}

impl Write {
    /// Eight threads, batches of 400, without a limit of the rate.
    pub(super) fn new(file: &Path, side: Side, shape: Shape, seconds: f64) -> Write {
        Write {
            file: file.to_path_buf(),
            side,
            shape,
            threads: 8,
            batch: 400,
            seconds,
            pace: 0.0,
            unapplied: 0,
            first: FIRST,
            reads: 0,
            bare: 0,
            patience: 0,
        }
    }

    /// The command-line arguments of this job.
    pub(super) fn arguments(&self) -> Result<Vec<String>> {
        let file = self.file.to_str().ok_or_else(|| {
            Failure(format!(
                "{} is not valid UTF-8: choose another name",
                self.file.display()
            ))
        })?;
        let pairs = [
            ("file", file.to_owned()),
            ("side", crate::work::name(self.side)),
            ("shape", crate::work::name(self.shape)),
            ("threads", self.threads.to_string()),
            ("batch", self.batch.to_string()),
            ("seconds", self.seconds.to_string()),
            ("pace", self.pace.to_string()),
            ("unapplied", self.unapplied.to_string()),
            ("first", self.first.to_string()),
            ("reads", self.reads.to_string()),
            ("bare", self.bare.to_string()),
            ("patience", self.patience.to_string()),
        ];
        Ok(pairs
            .into_iter()
            .map(|(name, value)| format!("--{name}={value}"))
            .collect())
    }

    fn is_ingest(&self) -> bool {
        self.side == Side::Ingest
    }

    /// A connection with the settings of this side. The table must exist.
    pub(super) fn open(&self) -> Result<Connection> {
        let con = Vfs::Plain.open(&self.file)?;
        con.busy_timeout(Duration::from_secs(20))?;
        let level = if self.side == Side::Off {
            "OFF"
        } else {
            "FULL"
        };
        con.execute_batch(&format!("PRAGMA synchronous={level}"))?;
        if self.is_ingest() {
            con.execute_batch(&self.shape.ingest())?;
        }
        Ok(con)
    }

    /// Sets WAL mode and creates the table, and the log for ingest.
    pub(super) fn prepare(&self) -> Result<Connection> {
        let con = Vfs::Plain.open(&self.file)?;
        con.execute_batch(&format!("PRAGMA journal_mode=WAL; {}", self.shape.schema()))?;
        drop(con);
        let con = self.open()?;
        if self.is_ingest() {
            con.query_row("SELECT densite_wait()", [], |_| Ok(()))?;
            // The log stores this setting; an earlier job can have changed it.
            con.query_row(
                "SELECT densite_config('max_unapplied_bytes', ?1)",
                [self.unapplied.cast_signed()],
                |_| Ok(()),
            )?;
        }
        Ok(con)
    }

    /// The time between two transactions of a thread, so that all threads together keep the pace.
    /// `None` if there is no pace.
    fn interval(&self) -> Option<Duration> {
        let rows = f64::from(self.threads) * self.batch as f64;
        (self.pace > 0.0).then(|| Duration::from_secs_f64(rows / self.pace))
    }
}

/// The state that the threads of a process share.
struct Shared<'a> {
    job: &'a Write,
    pipe: Pipe,
    begun: Instant,
    turn: Mutex<()>,
}

impl Shared<'_> {
    fn until(&self) -> Instant {
        self.begun + Duration::from_secs_f64(self.job.seconds)
    }

    fn sender(&self) -> RecordSender {
        RecordSender::new(self.pipe.clone(), Duration::from_millis(self.job.patience))
    }

    fn record(
        &self,
        kind: Kind,
        thread: u16,
        number: u32,
        from: Instant,
        commit: Duration,
    ) -> Record {
        let (at, took) = (self.begun.elapsed(), from.elapsed());
        Record {
            kind,
            thread,
            number,
            at,
            took,
            commit,
        }
    }

    /// The turn of a writer of plain SQLite; one writes at a time.
    fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        (!self.job.is_ingest()).then(|| self.turn.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Runs the job in this process.
pub(super) fn run(job: &Write) -> Result<()> {
    if job.is_ingest() {
        connect::load_extension()?;
    }
    let first = job.prepare()?;
    let mut connections: Vec<Connection> = (0..job.threads)
        .map(|_| job.open())
        .collect::<Result<_>>()?;
    let bare = (job.bare > 0)
        .then(|| Bare::create(&job.file.with_extension("bare")))
        .transpose()?;
    let pipe = Pipe::stdout()?;
    let shared = Shared {
        job,
        pipe,
        begun: Instant::now(),
        turn: Mutex::new(()),
    };
    let mut sender = shared.sender();
    let mark = |kind| shared.record(kind, 0, 0, shared.begun, Duration::ZERO);
    sender.send(&mark(Kind::Ready))?;
    sender.flush()?;
    std::thread::scope(|scope| {
        let shared = &shared;
        let mut threads: Vec<_> = connections
            .iter_mut()
            .zip(0u16..)
            .map(|(con, thread)| scope.spawn(move || write(shared, con, thread)))
            .collect();
        if let Some(bare) = bare {
            threads.push(scope.spawn(move || sync(shared, bare)));
        }
        let ended = threads.into_iter().map(|t| {
            t.join()
                .unwrap_or_else(|_| Err(Failure("a writing thread panicked".into())))
        });
        ended.collect::<Result<Vec<()>>>()
    })?;
    sender.send(&mark(Kind::Done))?;
    sender.flush()?;
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())
        .about("read from", Path::new("the standard input"))?;
    drop((connections, first));
    Ok(())
}

fn write(shared: &Shared<'_>, con: &mut Connection, thread: u16) -> Result<()> {
    let job = shared.job;
    let mut rows = Rows::new(job.shape, job.first + u64::from(thread));
    let mut insert = con.prepare(&job.shape.insert(job.is_ingest()))?;
    let table = if job.is_ingest() { "vote_in" } else { "vote" };
    // Not all shapes have this column, so the statement is prepared only if it is needed.
    let mut count = match job.reads {
        0 => None,
        _ => Some(con.prepare(&format!("SELECT count(*) FROM {table} WHERE article = ?1"))?),
    };
    let begin = if job.is_ingest() {
        "BEGIN"
    } else {
        "BEGIN IMMEDIATE"
    };
    let mut next = job.first + u64::from(thread) * EACH;
    let mut sender = shared.sender();
    let until = shared.until();
    let interval = job.interval();
    // The threads of a pace start at different times.
    let mut due =
        shared.begun + interval.unwrap_or_default() * u32::from(thread) / u32::from(job.threads);
    for number in 0u32.. {
        let mut wanted = Instant::now();
        if let Some(interval) = interval {
            std::thread::sleep(due.saturating_duration_since(wanted));
            (wanted, due) = (due, due + interval);
        }
        if Instant::now() >= until {
            break;
        }
        if let Some(count) = count.as_mut().filter(|_| rows.percent() < job.reads) {
            count.query_row([rows.article()], |row| row.get::<_, i64>(0))?;
            sender.send(&shared.record(Kind::Read, thread, number, wanted, Duration::ZERO))?;
            continue;
        }
        let turn = shared.turn();
        let commit;
        if job.batch == 1 {
            commit = Instant::now();
            rows.insert(&mut insert, next)?;
        } else {
            con.execute_batch(begin)?;
            for row in next..next + job.batch {
                rows.insert(&mut insert, row)?;
            }
            commit = Instant::now();
            con.execute_batch("COMMIT")?;
        }
        let took = commit.elapsed();
        drop(turn);
        next += job.batch;
        sender.send(&shared.record(Kind::Acknowledged, thread, number, wanted, took))?;
    }
    sender.flush()
}

/// Makes bare syncs while the writers run.
fn sync(shared: &Shared<'_>, mut bare: Bare) -> Result<()> {
    const PAUSE: Duration = Duration::from_millis(5);
    let mut sender = shared.sender();
    let until = shared.until();
    for number in 0u32.. {
        std::thread::sleep(PAUSE);
        if Instant::now() >= until {
            break;
        }
        let from = Instant::now();
        bare.sync(shared.job.bare)?;
        sender.send(&shared.record(Kind::Bare, 0, number, from, Duration::ZERO))?;
    }
    sender.flush()
}
