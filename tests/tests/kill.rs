//! Killed processes lose nothing that was acknowledged, and leave no partial transaction.
//!
//! After a kill -9, all writes of a process are still in the cache of the operating system. So
//! plain SQLite keeps every commit that returned, whatever `synchronous` is, and Densite must do
//! the same. Plain SQLite runs the same workload as the control.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use densite_tests::procs::child::copy_database;
use densite_tests::procs::ledger::Ledger;
use densite_tests::procs::{Child, Subject, seed, store};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

/// With a small cache, SQLite writes to the database file before transactions commit.
const COMMON: &str = "PRAGMA cache_size=12; PRAGMA wal_autocheckpoint=40;";

const WAL: &str = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;";
const WAL_OFF: &str = "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF;";
const WAL_EXCLUSIVE: &str =
    "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF;";
const DELETE: &str = "PRAGMA journal_mode=DELETE; PRAGMA synchronous=FULL;";
const DELETE_OFF: &str = "PRAGMA journal_mode=DELETE; PRAGMA synchronous=OFF;";
const EXCLUSIVE_OFF: &str =
    "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=DELETE; PRAGMA synchronous=OFF;";
const TRUNCATE: &str = "PRAGMA journal_mode=TRUNCATE; PRAGMA synchronous=EXTRA;";
const PERSIST_OFF: &str = "PRAGMA journal_mode=PERSIST; PRAGMA synchronous=OFF;";

/// One database, its writer, and the promises to the writer.
struct Bench {
    subject: Subject,
    settings: String,
    dir: TempDir,
    rng: SmallRng,
    round: u32,
    plan: u64,
    ledger: Ledger,
    acknowledged: u64,
    kills: u32,
}

impl Bench {
    fn new(subject: Subject, settings: &str, seed: u64) -> Bench {
        Bench {
            subject,
            settings: format!("{settings} {COMMON}"),
            dir: tempfile::tempdir().expect("directory"),
            rng: SmallRng::seed_from_u64(seed),
            round: 0,
            plan: seed,
            ledger: Ledger::new(seed),
            acknowledged: 0,
            kills: 0,
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("app.db")
    }

    fn what(&self) -> String {
        format!("{} {:?} round {}", self.subject, self.settings, self.round)
    }

    /// Starts with a new database, so that kills also hit the creation of a file.
    fn renew(&mut self) {
        for suffix in ["", "-journal", "-wal", "-djournal", "-dwal", "-shm"] {
            let path = format!("{}{suffix}", self.path().display());
            if Path::new(&path).exists() {
                std::fs::remove_file(&path).expect("remove");
            }
        }
        self.plan = self.rng.random();
        self.ledger = Ledger::new(self.plan);
        self.acknowledged = 0;
    }

    fn take_reports(&mut self, writer: &mut Child) {
        for report in writer.take::<8>() {
            let n = u64::from_le_bytes(report);
            // The first report of a process is a new commit, after all acknowledged ones.
            assert!(
                n > self.acknowledged,
                "{}: {n} reported after {}",
                self.what(),
                self.acknowledged
            );
            self.acknowledged = n;
        }
    }

    /// Asserts that the database at `path` has all acknowledged commits. Returns its last commit.
    fn verify(&mut self, path: &Path) -> u64 {
        let what = self.what();
        store::assert_whole(path, &what);
        let db = self
            .subject
            .open(path)
            .unwrap_or_else(|e| panic!("{what}: open: {e}"));
        let (from, to) = (self.acknowledged, self.acknowledged + 1);
        let n = self.ledger.assert_state(&db, from, to, &what);
        db.close().map_err(|(_, e)| e).expect("close");
        store::assert_whole(path, &what);
        n
    }

    /// Copies the files in their current state and verifies the copy.
    fn verify_copy(&mut self) -> u64 {
        let dir = tempfile::tempdir().expect("directory");
        let copy = dir.path().join("app.db");
        copy_database(&self.path(), &copy);
        self.verify(&copy)
    }

    /// Runs a writer and kills it.
    fn round(&mut self) {
        self.round += 1;
        if self.round.is_multiple_of(7) {
            self.renew();
        }
        let limit = if self.rng.random_range(0..6) == 0 {
            20
        } else {
            100_000u64
        };
        let path = self.path().display().to_string();
        let args = [
            "writer",
            &self.subject.to_string(),
            &path,
            &self.settings,
            &self.plan.to_string(),
            &limit.to_string(),
        ];
        let mut writer = Child::start(env!("CARGO_BIN_EXE_worker"), &args, &[]);
        // Some writers are killed while they open and recover, most while they write.
        if self.rng.random_range(0..4) > 0 {
            writer.await_report(8);
        }
        let micros = self.rng.random_range(0..60_000);
        let mut ended = writer.run_for(Duration::from_micros(micros));
        if !ended && self.rng.random_range(0..3) == 0 && writer.stop() {
            // While the writer is stopped, the files are those of an atomic snapshot.
            self.take_reports(&mut writer);
            self.verify_copy();
            writer.go_on();
            ended = writer.run_for(Duration::from_micros(micros / 4));
        }
        if ended {
            writer.finish();
        }
        let killed = !writer.kill();
        self.kills += u32::from(killed);
        self.take_reports(&mut writer);
        // The commit that was running at the kill is now decided and counts from now on. Verifying
        // a copy does not change the original, so the next writer must recover it.
        let path = self.path();
        self.acknowledged = if self.rng.random() {
            self.verify_copy()
        } else {
            self.verify(&path)
        };
    }
}

/// Runs rounds until the time is over, but at least `least`. Returns the number of kills.
fn run(name: &str, subject: Subject, settings: &str, time: Duration, least: u32, seed: u64) -> u64 {
    let mut bench = Bench::new(subject, settings, seed);
    let begin = Instant::now();
    while begin.elapsed() < time || bench.round < least {
        bench.round();
    }
    println!("{name}: {} rounds, {} kills", bench.round, bench.kills);
    assert!(bench.kills * 2 > least, "hardly any writer was killed");
    u64::from(bench.kills)
}

macro_rules! killed {
    ($($name:ident: $subject:ident $settings:ident;)*) => {
        $(#[test]
        fn $name() {
            let millis = if Subject::$subject == Subject::Densite { 2500 } else { 1500 };
            let (name, time) = (stringify!($name), Duration::from_millis(millis));
            run(name, Subject::$subject, $settings, time, 10, seed(name, 20));
        })*

        /// Part of `make crash`: each seed runs all cases above that use Densite.
        #[test]
        #[ignore = "takes DENSITE_MINUTES"]
        fn long_crash_kill() {
            let all = [$((stringify!($name), Subject::$subject, $settings)),*];
            let densite = all.iter().filter(|(_, subject, _)| *subject == Subject::Densite);
            densite_testing::long_run("kills", |seed| {
                let kills = densite.clone().map(|(name, subject, settings)| {
                    run(&format!("{name}, seed {seed}"), *subject, settings, Duration::ZERO, 10, seed)
                });
                kills.sum()
            });
        }
    };
}

killed! {
    wal: Densite WAL;
    wal_synchronous_off: Densite WAL_OFF;
    wal_exclusive: Densite WAL_EXCLUSIVE;
    delete: Densite DELETE;
    delete_synchronous_off: Densite DELETE_OFF;
    exclusive_synchronous_off: Densite EXCLUSIVE_OFF;
    truncate: Densite TRUNCATE;
    persist_synchronous_off: Densite PERSIST_OFF;
    control_wal: Plain WAL;
    control_wal_synchronous_off: Plain WAL_OFF;
    control_delete_synchronous_off: Plain DELETE_OFF;
}
