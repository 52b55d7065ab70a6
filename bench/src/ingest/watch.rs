//! Observes a database from outside while writers run: its write lock, its WAL, its log.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rustix::process::{Flock, FlockOffsetType, FlockType, fcntl_getlk};

use crate::connect::Vfs;
use crate::result::{About as _, Failure, Result};

/// Intervals between readings of the write lock, and of the sizes.
const LOCK_EVERY: Duration = Duration::from_millis(1);
const SIZES_EVERY: Duration = Duration::from_millis(50);
/// If no rows are applied for this time, there are none left. A checkpoint can take seconds.
const STANDSTILL: Duration = Duration::from_secs(8);
/// The byte of the `-shm` file that a writer locks in WAL mode: `WAL_WRITE_LOCK` of SQLite's file
/// format.
const WRITE_LOCK: u64 = 120;

/// What a [`Watch`] observed.
#[derive(Default)]
pub(super) struct Seen {
    /// The longest time that the write lock was held, to a millisecond. It is not underestimated.
    pub(super) held: Duration,
    /// Time, bytes of the WAL, and bytes of the log on disk.
    pub(super) sizes: Vec<(Duration, u64, u64)>,
}

impl Seen {
    /// The largest WAL and log between these times, in MiB.
    pub(super) fn largest(&self, from: Duration, to: Duration) -> (f64, f64) {
        let within = self
            .sizes
            .iter()
            .filter(|(at, _, _)| (from..to).contains(at));
        let most = within.fold((0, 0), |most, (_, wal, log)| {
            (most.0.max(*wal), most.1.max(*log))
        });
        let mib = |bytes: u64| bytes as f64 / 1_048_576.0;
        (mib(most.0), mib(most.1))
    }
}

/// Observes the write lock and the sizes of a database's files until [`Watch::seen`]. It opens the
/// `-shm` file itself. Closing that file drops this process's locks on it, so this process must
/// have no connection to the database.
pub(super) struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Seen>>,
}

impl Watch {
    /// Starts. The database must be open in another process, in WAL mode.
    pub(super) fn start(file: &Path) -> Result<Watch> {
        let shm = beside(file, "-shm");
        let lock = File::open(&shm).about("open", &shm)?;
        let (wals, log) = (
            ["-wal", "-dwal"].map(|end| beside(file, end)),
            beside(file, "-log"),
        );
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let begun = Instant::now();
            let (mut seen, mut since, mut looked) = (Seen::default(), None, None::<Instant>);
            while !stopped.load(Ordering::Relaxed) {
                let now = Instant::now();
                if is_locked(&lock)? {
                    let since = *since.get_or_insert(now);
                    seen.held = seen.held.max(since.elapsed());
                } else if let Some(since) = since.take() {
                    seen.held = seen.held.max(since.elapsed());
                }
                if looked.is_none_or(|t| t.elapsed() >= SIZES_EVERY) {
                    looked = Some(now);
                    let wal = (wals.iter())
                        .map(|wal| std::fs::metadata(wal).map_or(0, |m| m.len()))
                        .sum();
                    seen.sizes.push((begun.elapsed(), wal, taken(&log)));
                }
                std::thread::sleep(LOCK_EVERY);
            }
            Ok(seen)
        });
        Ok(Watch { stop, thread })
    }

    pub(super) fn seen(self) -> Result<Seen> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .unwrap_or_else(|_| Err(Failure("the thread that watches panicked".into())))
    }
}

/// A file or folder beside the database, with this ending.
pub(super) fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Whether another process holds the write lock.
fn is_locked(shm: &File) -> Result<bool> {
    let wanted = Flock {
        start: WRITE_LOCK,
        length: 1,
        pid: None,
        typ: FlockType::WriteLock,
        offset_type: FlockOffsetType::Set,
    };
    let found = fcntl_getlk(shm, &wanted)
        .map_err(|e| Failure(format!("cannot ask for the write lock: {e}")))?;
    Ok(found.is_some())
}

/// Disk space of the files in a folder. Files that are removed meanwhile do not count.
fn taken(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|e| e.metadata().ok())
        .map(|m| m.blocks() * 512)
        .sum()
}

/// Reads how far rows are applied.
pub(super) struct Applied(Connection);

impl Applied {
    pub(super) fn open(file: &Path) -> Result<Applied> {
        let con = Vfs::Plain.open(file)?;
        con.busy_timeout(Duration::from_secs(20))?;
        Ok(Applied(con))
    }

    pub(super) fn now(&self) -> Result<u64> {
        let seq: i64 = self
            .0
            // Includes rows behind `seq` that are applied in another order.
            .prepare_cached("SELECT seq + clustered_done FROM densite_applied")?
            .query_row([], |row| row.get(0))?;
        Ok(seq.unsigned_abs())
    }

    /// Rows applied per second, over `time`, including checkpoints. Ends earlier if no rows are
    /// left.
    pub(super) fn rate(&self, time: Duration) -> Result<f64> {
        let (begun, from) = (Instant::now(), self.now()?);
        let mut last = (from, Duration::ZERO);
        let standstill = STANDSTILL.min(time / 2);
        // Even if `time` is short, a checkpoint can come first.
        let waits = |last: Duration| last.is_zero() && begun.elapsed() < STANDSTILL;
        while waits(last.1) || begun.elapsed() < time && begun.elapsed() - last.1 < standstill {
            std::thread::sleep(Duration::from_millis(20));
            let now = self.now()?;
            if now != last.0 {
                last = (now, begun.elapsed());
            }
        }
        // If it ended early, it counts up to the last batch.
        let over = if begun.elapsed() < time {
            last.1
        } else {
            time.max(last.1)
        };
        match over.is_zero() {
            true => Err(Failure("no rows were applied; run it again".into())),
            false => Ok((last.0 - from) as f64 / over.as_secs_f64()),
        }
    }

    /// Waits until no rows were applied for this time.
    pub(super) fn rest(&self, patience: Duration) -> Result<()> {
        let mut last = (self.now()?, Instant::now());
        while last.1.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(20));
            let now = self.now()?;
            if now != last.0 {
                last = (now, Instant::now());
            }
        }
        Ok(())
    }
}
