//! Several processes with several threads each read and write one database, and some of them are
//! killed. `procs::crowd` describes the checks in each process. This test checks that no reported
//! commit is missing at the end, and that the store is sound. Plain SQLite is the control.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use densite_tests::procs::child::copy_database;
use densite_tests::procs::crowd::{self, REPORT};
use densite_tests::procs::{Child, Subject, seed, store};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const PROCESSES: u32 = 4;
const THREADS: u32 = 4;
/// So few commits prove nothing.
const FEW: u64 = 20;

const WAL: &str = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=10; PRAGMA wal_autocheckpoint=60;";
const DELETE: &str = "PRAGMA journal_mode=DELETE; PRAGMA synchronous=NORMAL; PRAGMA cache_size=10;";
/// A read-only connection does not set the journal mode.
const READER: &str = "PRAGMA cache_size=10;";

struct Bench {
    subject: Subject,
    settings: &'static str,
    path: std::path::PathBuf,
    rng: SmallRng,
    /// The last promised commit of each person.
    promised: BTreeMap<u32, u64>,
    commits: u64,
    kills: u32,
}

impl Bench {
    fn start(&mut self, process: u32, access: &str) -> Child {
        let settings = if access == "ro" {
            READER
        } else {
            self.settings
        };
        let (subject, seed) = (
            self.subject.to_string(),
            self.rng.random::<u64>().to_string(),
        );
        let path = self.path.display().to_string();
        let (process, threads) = (process.to_string(), THREADS.to_string());
        let args = [
            "crowd", &subject, &path, settings, &seed, &process, &threads, access,
        ];
        Child::start(env!("CARGO_BIN_EXE_worker"), &args, &[])
    }

    fn take_reports(&mut self, child: &mut Child) {
        for report in child.take::<REPORT>() {
            let (id, n) = report.split_at(4);
            let id = u32::from_le_bytes(id.try_into().expect("4 bytes"));
            let n = u64::from_le_bytes(n.try_into().expect("8 bytes"));
            let before = self.promised.insert(id, n).unwrap_or(0);
            // A killed process can have committed once more than it reported.
            assert!(
                n == before + 1 || n == before + 2,
                "person {id} reports {n} after {before}"
            );
            self.commits += 1;
        }
    }

    /// Stops all processes at once and verifies a copy of the files, which is like an atomic
    /// snapshot.
    fn snapshot(&mut self, children: &mut [Child], name: &str) {
        for child in &mut *children {
            assert!(
                child.stop(),
                "{name}: a process ended by itself: {}",
                child.errors()
            );
        }
        for child in &mut *children {
            self.take_reports(child);
        }
        let dir = tempfile::tempdir().expect("directory");
        let copy = dir.path().join("app.db");
        copy_database(&self.path, &copy);
        for child in children {
            child.go_on();
        }
        verify(self, &copy, &format!("{name}, a copy"));
    }

    /// Ends one process, by a kill or by its regular end.
    fn end(&mut self, mut child: Child, kill: bool) {
        if kill {
            self.kills += u32::from(!child.kill());
        } else {
            child.hang_up();
            child.finish();
        }
        self.take_reports(&mut child);
    }
}

fn run(name: &str, subject: Subject, settings: &'static str, time: Duration) {
    run_seed(name, subject, settings, time, seed(name, 30));
}

/// Returns the number of kills.
fn run_seed(
    name: &str,
    subject: Subject,
    settings: &'static str,
    time: Duration,
    seed: u64,
) -> u64 {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("app.db");
    let rng = SmallRng::seed_from_u64(seed);
    let mut bench = Bench {
        subject,
        settings,
        path,
        rng,
        promised: BTreeMap::new(),
        commits: 0,
        kills: 0,
    };
    {
        let db = subject.open(&bench.path).expect("open");
        db.execute_batch(settings).expect("settings");
        crowd::create(&db, (PROCESSES + 1) * THREADS).expect("create");
    }
    let begin = Instant::now();
    let mut children: Vec<Child> = (0..PROCESSES)
        .map(|process| bench.start(process, "rw"))
        .collect();
    // One more process, which is read-only and stands for persons who never write.
    children.push(bench.start(PROCESSES, "ro"));
    // On a slow machine the processes need longer to start.
    let is_little = |bench: &Bench| bench.kills < 2 || bench.commits <= FEW;
    let patience = time + Duration::from_secs(120);
    while begin.elapsed() < time || (is_little(&bench) && begin.elapsed() < patience) {
        let pause = bench.rng.random_range(50..500);
        for child in &mut children {
            let ended = child.run_for(Duration::from_millis(pause / u64::from(PROCESSES + 1)));
            bench.take_reports(child);
            if ended {
                child.finish();
                panic!("{name}: a process ended by itself: {}", child.errors());
            }
        }
        if bench.rng.random_range(0..3) == 0 {
            bench.snapshot(&mut children, name);
        }
        let which = bench.rng.random_range(0..children.len());
        let kill = bench.rng.random_range(0..3) > 0;
        let access = if which == PROCESSES as usize {
            "ro"
        } else {
            "rw"
        };
        let old = children.remove(which);
        bench.end(old, kill);
        let next = bench.start(which as u32, access);
        children.insert(which, next);
    }
    for child in children {
        bench.end(child, false);
    }
    verify(&bench, &bench.path, name);
    println!("{name}: {} commits, {} kills", bench.commits, bench.kills);
    assert!(
        bench.commits > FEW,
        "{name}: {} commits, {} kills",
        bench.commits,
        bench.kills
    );
    u64::from(bench.kills)
}

/// Asserts that the database at `path` is sound and has all promised commits.
fn verify(bench: &Bench, path: &Path, name: &str) {
    store::assert_whole(path, name);
    {
        let db = bench.subject.open(path).expect("open");
        let check: String = db
            .query_row("PRAGMA integrity_check", [], |r| r.get(0))
            .expect("integrity_check");
        assert_eq!(check, "ok", "{name}");
        let (counts, _) = crowd::observe(&db).expect("observe");
        for (id, n) in counts.iter().zip(0u32..).map(|(n, id)| (id, *n as u64)) {
            let promised = bench.promised.get(&id).copied().unwrap_or(0);
            assert!(
                n == promised || n == promised + 1,
                "{name}: person {id} was promised {promised} and has {n}"
            );
        }
    }
    store::assert_whole(path, name);
}

#[test]
fn wal() {
    run("several wal", Subject::Densite, WAL, Duration::from_secs(6));
}

#[test]
fn delete() {
    run(
        "several delete",
        Subject::Densite,
        DELETE,
        Duration::from_secs(6),
    );
}

#[test]
fn control_wal() {
    run(
        "several control_wal",
        Subject::Plain,
        WAL,
        Duration::from_secs(3),
    );
}

#[test]
fn control_delete() {
    run(
        "several control_delete",
        Subject::Plain,
        DELETE,
        Duration::from_secs(3),
    );
}

/// Part of `make crash`.
#[test]
#[ignore = "takes DENSITE_MINUTES"]
fn long_crash_several() {
    densite_testing::long_run("kills", |seed| {
        let settings = if seed % 2 == 0 { WAL } else { DELETE };
        let name = format!("several, seed {seed}");
        run_seed(
            &name,
            Subject::Densite,
            settings,
            Duration::from_secs(20),
            seed,
        )
    });
}
