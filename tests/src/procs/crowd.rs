//! The role `crowd`: several threads, each with its own connections, read and write one database
//! together with other processes, and check what every reader can rely on.
//!
//! Each thread is a *person* with a number. A commit of a person adds one to the person's count,
//! adds an entry to the log, and moves amounts between people. Each check runs in one transaction:
//! the sum of all balances is 0; the log of each person has the last [`KEPT`] entries without a
//! gap; a person finds the own last write; two reads give the same result.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rusqlite::{Connection, ffi, params};

use super::Subject;
use super::subject::{READ_ONLY, READ_WRITE, code, primary};

/// Number of log entries that are kept for each person.
pub const KEPT: i64 = 30;
/// How long to wait for a lock.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(30);
/// Length of a report in bytes.
pub const REPORT: usize = 12;

/// Creates the database for `people` people.
///
/// # Errors
/// Errors of SQLite.
pub fn create(db: &Connection, people: u32) -> rusqlite::Result<()> {
    db.execute_batch(&format!(
        "BEGIN IMMEDIATE;
         CREATE TABLE person(id INTEGER PRIMARY KEY, n INTEGER, balance INTEGER);
         CREATE TABLE log(id INTEGER, n INTEGER, text TEXT, PRIMARY KEY(id, n)) WITHOUT ROWID;
         WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < {people} - 1)
         INSERT INTO person SELECT i, 0, 0 FROM c;
         CREATE TABLE ballast(id INTEGER PRIMARY KEY, n INTEGER, text TEXT);
         WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 300)
         INSERT INTO ballast SELECT i, 0, hex(randomblob(100)) || printf(' ballast %0500d', i) FROM c;
         COMMIT"
    ))
}

/// The log entry of a commit.
fn entry(id: u32, n: i64) -> String {
    let len = (id as usize * 31 + n as usize * 97) % 700;
    let mut text = format!("person {id} commit {n} ");
    while text.len() < len {
        text.push_str(&format!("{} ", n * 7919 + text.len() as i64));
    }
    text
}

/// Asserts the invariants of every transaction. Returns all counts and a hash of the whole content.
///
/// # Errors
/// Errors of SQLite.
///
/// # Panics
/// If an invariant is violated.
pub fn observe(db: &Connection) -> rusqlite::Result<(Vec<i64>, u64)> {
    let mut hash = DefaultHasher::new();
    let (mut counts, mut sum) = (Vec::new(), 0);
    let mut query = db.prepare_cached("SELECT n, balance FROM person ORDER BY id")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let (n, balance): (i64, i64) = (row.get(0)?, row.get(1)?);
        (n, balance).hash(&mut hash);
        counts.push(n);
        sum += balance;
    }
    drop(rows);
    assert_eq!(sum, 0, "the sum of all balances");
    let mut query = db.prepare_cached("SELECT id, n, text FROM log ORDER BY id, n")?;
    let mut rows = query.query([])?;
    let mut found = vec![0i64; counts.len()];
    while let Some(row) = rows.next()? {
        let (id, n): (u32, i64) = (row.get(0)?, row.get(1)?);
        let text = row.get_ref(2)?.as_str().expect("text");
        let count = counts[id as usize];
        assert!(
            n > count - KEPT && n <= count,
            "person {id} of count {count} has entry {n}"
        );
        assert_eq!(text, entry(id, n), "entry {n} of person {id}");
        found[id as usize] += 1;
        text.hash(&mut hash);
    }
    drop(rows);
    for (id, (found, count)) in found.iter().zip(&counts).enumerate() {
        assert_eq!(
            *found,
            (*count).min(KEPT),
            "entries of person {id}, whose count is {count}"
        );
    }
    let mut query = db.prepare_cached("SELECT n, text FROM ballast ORDER BY id")?;
    let mut rows = query.query([])?;
    let mut ballast = 0;
    while let Some(row) = rows.next()? {
        ballast += 1;
        row.get::<_, i64>(0)?.hash(&mut hash);
        row.get_ref(1)?.as_str().expect("text").hash(&mut hash);
    }
    assert_eq!(ballast, 300, "rows of ballast");
    Ok((counts, hash.finish()))
}

/// The state shared by all threads of a process.
struct Crowd {
    subject: Subject,
    path: String,
    settings: String,
    read_only: bool,
    stop: AtomicBool,
}

/// Runs the role.
///
/// Arguments: subject, path, settings (SQL), seed, number of the process, number of threads, access
/// (`rw` or `ro`). After a commit the thread writes the number of the person (4 bytes) and the
/// count (8 bytes) to standard output. The process exits with success when its standard input ends.
/// BUSY is allowed only where plain SQLite would return it: after the busy timeout.
///
/// # Panics
/// If anything fails.
pub fn run(args: &[String]) {
    let [subject, path, settings, seed, process, threads, access] = args else {
        panic!("crowd wants subject, path, settings, seed, process, threads, access");
    };
    let crowd = Crowd {
        subject: subject.parse().expect("subject"),
        path: path.clone(),
        settings: settings.clone(),
        read_only: access == "ro",
        stop: AtomicBool::new(false),
    };
    let (seed, process, threads): (u64, u32, u32) = (
        seed.parse().expect("seed"),
        process.parse().expect("process"),
        threads.parse().expect("threads"),
    );
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let crowd = &crowd;
            let id = process * threads + thread;
            scope.spawn(move || crowd.live(id, seed ^ u64::from(id) << 32));
        }
        // The content does not matter, only the end.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        crowd.stop.store(true, Ordering::Relaxed);
    });
}

impl Crowd {
    fn live(&self, id: u32, seed: u64) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut person = Person {
            id,
            count: None,
            crowd: self,
            rng: SmallRng::seed_from_u64(!seed),
        };
        while !self.stop.load(Ordering::Relaxed) {
            let Some(db) = self.expect(|| self.open(), "open") else {
                continue;
            };
            for _ in 0..rng.random_range(1..30) {
                if self.stop.load(Ordering::Relaxed) {
                    break;
                }
                match rng.random_range(0..10) {
                    0..5 if !self.read_only => person.commit(&db),
                    5 if !self.read_only => person.roll_back(&db),
                    6 => person.hold(&db),
                    7 if !self.read_only => person.checkpoint(&db),
                    _ => person.look(&db),
                }
                // In rollback mode the threads of one process share one lock on the file. If they
                // read without pause, the lock is never free, and no writer of any process can
                // proceed.
                let pause = if self.read_only { 60 } else { 15 };
                std::thread::sleep(Duration::from_millis(rng.random_range(0..pause)));
            }
            db.close().map_err(|(_, e)| e).expect("close");
        }
    }

    fn open(&self) -> rusqlite::Result<Connection> {
        let flags = if self.read_only {
            READ_ONLY
        } else {
            READ_WRITE
        };
        let db = self.subject.open_with(Path::new(&self.path), flags)?;
        db.busy_timeout(BUSY_TIMEOUT)?;
        db.execute_batch(&self.settings)?;
        Ok(db)
    }

    /// Executes something that can be BUSY after the timeout; then it returns `None`.
    fn expect<T>(&self, what: impl FnOnce() -> rusqlite::Result<T>, name: &str) -> Option<T> {
        let begin = Instant::now();
        match what() {
            Ok(value) => Some(value),
            Err(e) => {
                let busy = primary(&e) == ffi::SQLITE_BUSY;
                let waited = begin.elapsed();
                if busy && waited >= BUSY_TIMEOUT.mul_f32(0.9) {
                    return None;
                }
                // A read-only connection cannot roll back or recover the work of a killed writer.
                // Connections that can do so need a moment without locks.
                if self.read_only && primary(&e) == ffi::SQLITE_READONLY {
                    std::thread::sleep(Duration::from_millis(200));
                    return None;
                }
                panic!("{name} after {waited:?}: code {} ({e})", code(&e));
            }
        }
    }
}

struct Person<'a> {
    id: u32,
    /// The last count that this thread committed.
    count: Option<i64>,
    crowd: &'a Crowd,
    rng: SmallRng,
}

impl Person<'_> {
    fn begin(&self, db: &Connection, how: &str) -> bool {
        self.crowd.expect(|| db.execute_batch(how), how).is_some()
    }

    fn end(&self, db: &Connection, how: &str) -> bool {
        let done = self.crowd.expect(|| db.execute_batch(how), how).is_some();
        if !done {
            self.crowd
                .expect(|| db.execute_batch("ROLLBACK"), "ROLLBACK after BUSY");
        }
        done
    }

    fn change(&mut self, db: &Connection) -> rusqlite::Result<i64> {
        let n: i64 = db
            .prepare_cached("SELECT n FROM person WHERE id = ?1")?
            .query_row([self.id], |r| r.get(0))?;
        if let Some(mine) = self.count {
            assert_eq!(
                n, mine,
                "person {} finds another count than they wrote",
                self.id
            );
        }
        let n = n + 1;
        let other = self.rng.random_range(0..self.id + 1);
        let amount = self.rng.random_range(1..100);
        db.prepare_cached("UPDATE person SET n = ?2, balance = balance - ?3 WHERE id = ?1")?
            .execute(params![self.id, n, amount])?;
        db.prepare_cached("UPDATE person SET balance = balance + ?2 WHERE id = ?1")?
            .execute(params![other, amount])?;
        db.prepare_cached("INSERT INTO log VALUES (?1, ?2, ?3)")?
            .execute(params![self.id, n, entry(self.id, n)])?;
        db.prepare_cached("DELETE FROM log WHERE id = ?1 AND n <= ?2")?
            .execute(params![self.id, n - KEPT])?;
        for _ in 0..self.rng.random_range(0..6) {
            let (row, at) = (
                self.rng.random_range(1..=300),
                self.rng.random_range(1..900),
            );
            db.prepare_cached(
                "UPDATE ballast SET n = n + 1, text = substr(text, ?2) || substr(text, 1, ?2 - 1) WHERE id = ?1",
            )?
            .execute(params![row, at])?;
        }
        Ok(n)
    }

    fn commit(&mut self, db: &Connection) {
        if !self.begin(db, "BEGIN IMMEDIATE") {
            return;
        }
        let n = self
            .change(db)
            .unwrap_or_else(|e| panic!("writing: code {} ({e})", code(&e)));
        if !self.end(db, "COMMIT") {
            return;
        }
        self.count = Some(n);
        let mut report = [0; REPORT];
        report[..4].copy_from_slice(&self.id.to_le_bytes());
        report[4..].copy_from_slice(&(n as u64).to_le_bytes());
        // Writing a few bytes to a pipe is atomic, whatever other threads write.
        let mut out = std::io::stdout().lock();
        out.write_all(&report)
            .and_then(|()| out.flush())
            .expect("report");
    }

    fn roll_back(&mut self, db: &Connection) {
        if self.begin(db, "BEGIN IMMEDIATE") {
            self.change(db)
                .unwrap_or_else(|e| panic!("writing: code {} ({e})", code(&e)));
            self.end(db, "ROLLBACK");
        }
    }

    fn check(&self, counts: &[i64]) {
        if let Some(mine) = self.count {
            assert_eq!(
                counts[self.id as usize], mine,
                "person {} lost a commit",
                self.id
            );
        }
    }

    fn look(&mut self, db: &Connection) {
        if !self.begin(db, "BEGIN") {
            return;
        }
        if let Some((counts, _)) = self.crowd.expect(|| observe(db), "reading") {
            self.check(&counts);
        }
        self.end(db, "COMMIT");
    }

    /// Keeps a snapshot while other connections write.
    fn hold(&mut self, db: &Connection) {
        if !self.begin(db, "BEGIN") {
            return;
        }
        if let Some((counts, first)) = self.crowd.expect(|| observe(db), "reading") {
            self.check(&counts);
            for _ in 0..self.rng.random_range(1..4) {
                std::thread::sleep(Duration::from_millis(self.rng.random_range(0..20)));
                let (_, again) = observe(db)
                    .unwrap_or_else(|e| panic!("reading again: code {} ({e})", code(&e)));
                assert_eq!(first, again, "a snapshot changed");
            }
        }
        self.end(db, "COMMIT");
    }

    /// Runs a checkpoint, which other connections can block. The wait is short: a checkpoint that
    /// waits for every reader blocks all connections.
    fn checkpoint(&mut self, db: &Connection) {
        let mode =
            ["PASSIVE", "PASSIVE", "FULL", "RESTART", "TRUNCATE"][self.rng.random_range(0..5)];
        db.busy_timeout(Duration::from_millis(20))
            .expect("busy timeout");
        let done = db.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |r| {
            r.get::<_, i64>(0)
        });
        db.busy_timeout(BUSY_TIMEOUT).expect("busy timeout");
        if let Err(e) = done {
            assert_eq!(
                primary(&e),
                ffi::SQLITE_BUSY,
                "checkpoint {mode}: code {} ({e})",
                code(&e)
            );
        }
    }
}
