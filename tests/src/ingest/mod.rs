//! Ingest on a simulated disk that has the database and its log, with writers in several processes,
//! the worker, takeover, a subscriber, checkpoints, pruning, and a disk that is sometimes full. The
//! power is cut at any change of the disk.
//!
//! Every acknowledged row is in its table once, or among the rejects once. Other transactions are
//! present as a whole or not at all; rolled back rows are missing. The subscriber finds all rows
//! behind its acknowledged position. The database is sound, and ingest continues. A seed does not
//! determine the scheduling of the threads; a failure prints the last calls.

mod actors;
mod ledger;
mod site;
mod verify;

pub use actors::SUBSCRIBER;
pub use ledger::{Ledger, Told};
pub use site::{LOG, PATH, Process, Site, Under, options};
pub use verify::{At, verify};

use actors::{Stage, keeper, subscriber, writer};
use densite_disk::sync::RwLock;
use densite_log::Log;
use densite_sim_disk::{Capture, SimDisk};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// The settings of a run.
#[derive(Debug, Clone, Copy)]
pub struct Workload {
    /// The seed of all random choices.
    pub seed: u64,
    /// `WAL` or `DELETE`.
    pub journal: &'static str,
    /// Whether the disk is sometimes full.
    pub fills: bool,
}

/// What was checked.
#[derive(Debug, Default, Clone, Copy)]
pub struct Tally {
    /// Number of cuts.
    pub cuts: usize,
    /// Number of acknowledged transactions.
    pub acknowledged: usize,
    /// Runs that ended with a log whose first rows were pruned.
    pub pruned: u64,
    /// Number of disks with an incomplete clustered apply: some rows were applied while earlier
    /// rows of the log were not.
    pub clustered: u64,
    /// Number of pages that checkpoints outside of the worker wrote in the runs that are cut.
    pub beside: usize,
    /// Number of cuts between two of these pages, which are a few per cent.
    pub between: usize,
}

/// Two pages that one checkpoint writes in a row have at most this many other changes between them.
const NEAR: u64 = 20;

const TABLES: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, w INT, n INT, u INT UNIQUE, pad TEXT, CHECK (n % 10 <> 7)); CREATE INDEX by_n ON t(w, n);
    CREATE TABLE bare(w INT, n INT, pad TEXT); CREATE TABLE clustered(k INT PRIMARY KEY, w INT, n INT, pad TEXT); CREATE INDEX by_pad ON clustered(pad)";

impl Site {
    /// Starts the machine on a disk that has the database, durably, and no log.
    ///
    /// # Panics
    /// If SQLite cannot create it.
    pub fn begin(&self, journal: &'static str) -> SimDisk {
        let workload = Workload {
            seed: 1,
            journal,
            fills: false,
        };
        let disk = workload.prepared(self).snapshot();
        self.boot(&disk);
        disk
    }
}

impl Workload {
    /// A disk that has the database, durably, and no log.
    fn prepared(&self, site: &Site) -> SimDisk {
        // Copies of the disk are of the same kind.
        let disk = SimDisk::of_seed(self.seed);
        site.boot(&disk);
        let con = site.process().plain().expect("opens");
        con.execute_batch(&format!("PRAGMA journal_mode = {}; {TABLES}", self.journal))
            .expect("the tables");
        con.close().expect("closes");
        disk.snapshot()
    }

    /// Runs the workload on this disk, to its end or until the power is cut.
    pub fn run(&self, site: &Site, disk: &SimDisk) -> Ledger {
        site.boot(disk);
        let ledger = Ledger::default();
        let stage = Stage {
            disk,
            ledger: &ledger,
            over: AtomicBool::new(false),
            room: RwLock::default(),
            transactions: 25,
        };
        let processes: Vec<Process> = (0..4).map(|_| site.process()).collect();
        std::thread::scope(|s| {
            let writers: Vec<_> = (0..2)
                .map(|w| {
                    let (stage, process) = (&stage, &processes[w]);
                    let seed = self.seed.wrapping_mul(31) + w as u64;
                    s.spawn(move || writer(stage, process, w as i64 + 1, seed))
                })
                .collect();
            s.spawn(|| subscriber(&stage, &processes[2], self.seed ^ 0x51));
            s.spawn(|| keeper(&stage, &processes[3], self.seed ^ 0x72, self.fills));
            for writer in writers {
                writer.join().expect("no panic");
            }
            stage.over.store(true, Ordering::Release);
        });
        disk.set_capacity(None);
        ledger
    }

    /// Runs once with `cuts` captures of the result of a cut, and checks these and the end. Then
    /// makes runs that are really cut.
    ///
    /// # Panics
    /// If a promise is broken.
    pub fn crash(&self, site: &Site, cuts: u64, real_cuts: u64) -> Tally {
        let mut tally = Tally::default();
        let prepared = self.prepared(site);
        // The number of changes differs from run to run. This is about the smallest one.
        let changes = 900;
        let disk = prepared.snapshot();
        let mut rng = SmallRng::seed_from_u64(self.seed ^ 0xc0);
        for _ in 0..cuts {
            let seed = rng.random();
            // The beginning of a run, where the database starts to name its log, is short and has
            // its own promises.
            let last = if rng.random_ratio(1, 4) { 120 } else { changes };
            disk.capture_at(rng.random_range(1..last), Capture::Cut(seed));
        }
        disk.set_trace(true);
        let ledger = self.run(site, &disk);
        let (trace, captures) = (disk.take_trace(), disk.take_captures());
        let written = site.beside();
        let beside = |c: u64| {
            let pairs = written.iter().zip(written.iter().skip(1));
            pairs
                .filter(|(from, to)| to.saturating_sub(**from) < NEAR)
                .any(|(from, to)| (*from..*to).contains(&c))
        };
        tally.beside += written.len();
        tally.between += captures.iter().filter(|c| beside(c.change)).count();
        self.judge(site, &disk, At(None), &ledger, "the end", &trace);
        tally.acknowledged += ledger.acknowledged();
        tally.pruned += u64::from(first_row(&disk) > 1);
        for c in captures {
            let until = usize::try_from(c.change)
                .unwrap_or(usize::MAX)
                .min(trace.len());
            let what = format!(
                "a cut at change {} of {}, {:?}",
                c.change,
                trace.len(),
                c.how
            );
            tally.clustered += self.judge(
                site,
                &c.disk,
                At(Some(c.change)),
                &ledger,
                &what,
                &trace[..until],
            );
            tally.cuts += 1;
        }
        for _ in 0..real_cuts {
            let disk = prepared.snapshot();
            disk.cut_at_change(rng.random_range(1..changes));
            disk.set_trace(true);
            let ledger = self.run(site, &disk);
            let seed = rng.random();
            let what = format!("a real cut at change {}, cut seed {seed}", disk.changes());
            let after = disk.power_cut(seed);
            tally.clustered +=
                self.judge(site, &after, At(None), &ledger, &what, &disk.take_trace());
            tally.cuts += 1;
            tally.acknowledged += ledger.acknowledged();
        }
        tally
    }

    /// Restores the database to its state at some moments of a run, and keeps the log of the end.
    /// Returns the number of refusals, the number of complete recoveries, and how many of these had
    /// an incomplete clustered apply.
    ///
    /// # Panics
    /// If the database is refused although the log has the missing rows, or is accepted although it
    /// does not, or if another promise is broken.
    pub fn restored(&self, site: &Site, moments: u64) -> (usize, usize, u64) {
        let disk = self.prepared(site).snapshot();
        let mut rng = SmallRng::seed_from_u64(self.seed ^ 0xba);
        for _ in 0..moments {
            disk.capture_at(rng.random_range(1..900), Capture::Snapshot);
        }
        let ledger = self.run(site, &disk);
        let (mut refused, mut caught_up, mut clustered) = (0, 0, 0);
        for old in disk.take_captures() {
            let what = format!("restored as it was at change {}", old.change);
            let now = disk.snapshot();
            for ending in ["", "-wal", "-journal", "-dwal", "-djournal"] {
                let path = format!("{PATH}{ending}");
                match old.disk.contents(&path) {
                    Some(bytes) => now.put_file(&path, &bytes),
                    None => drop(now.remove(&path)),
                }
            }
            site.boot(&now);
            let first = first_row(&now);
            let applied = {
                let con = site.process().plain().expect("opens");
                con.query_row("SELECT seq FROM densite_applied", [], |row| {
                    row.get::<_, i64>(0)
                })
            };
            let reaches_back = applied
                .as_ref()
                .is_ok_and(|seq| first <= seq.cast_unsigned() + 1);
            if reaches_back {
                clustered += self.judge(site, &now, At(None), &ledger, &what, &[]);
                caught_up += 1;
                continue;
            }
            let said = site.process().ingest().expect_err(&what).to_string();
            let why = match applied {
                Ok(_) => "restored from an older backup",
                // The state is from before the database had a log.
                Err(_) => "does not name",
            };
            assert!(
                said.contains(why),
                "DENSITE_SEED={} {what}: {said}",
                self.seed
            );
            refused += 1;
        }
        (refused, caught_up, clustered)
    }

    fn judge(
        &self,
        site: &Site,
        disk: &SimDisk,
        at: At,
        ledger: &Ledger,
        what: &str,
        trace: &[String],
    ) -> u64 {
        let what = format!("DENSITE_SEED={} {self:?}: {what}", self.seed);
        let watched = watch(what.clone());
        let wrong = ledger.wrong.lock().first().cloned();
        let verdict = match wrong {
            Some(wrong) => Err(wrong),
            None => {
                disk.set_capacity(None);
                verify(site, disk, at, ledger)
            }
        };
        drop(watched);
        verdict.map(u64::from).unwrap_or_else(|wrong| {
            let from = trace.len().saturating_sub(40);
            panic!(
                "{what}: {wrong}\nthe disk was asked last:\n{}",
                trace[from..].join("\n")
            );
        })
    }
}

/// The number of the first row in the log.
///
/// # Panics
/// If the log has no readable row.
pub fn first_row(disk: &SimDisk) -> u64 {
    let dir = Arc::new(disk.dir(LOG));
    let id = densite_log::id_in(dir.clone())
        .expect("reads")
        .expect("a log");
    let log = Log::open_read_only(dir, id).expect("opens");
    log.status().expect("a status").first
}

/// Ends the program if a step takes minutes. Otherwise an endless wait would not show its seed.
fn watch(what: String) -> Sender<()> {
    let (done, wait) = channel();
    std::thread::spawn(move || {
        if wait.recv_timeout(Duration::from_secs(120)) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{what}: it does not end");
            std::process::abort();
        }
    });
    done
}
