//! The concurrent users of the database: writers in separate processes, a subscriber, and a keeper
//! that checkpoints, prunes, fills the disk and closes connections.

use super::ledger::{Ledger, Row, Told, Txn};
use super::site::Process;
use densite_disk::sync::RwLock;
use densite_sim_disk::SimDisk;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rusqlite::Connection;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The subscriber's name.
pub const SUBSCRIBER: &str = "indexer";

/// State shared by the actors of a run.
pub(super) struct Stage<'a> {
    /// The machine's disk.
    pub disk: &'a SimDisk,
    /// The record of events.
    pub ledger: &'a Ledger,
    /// Set when the writers are done.
    pub over: AtomicBool,
    /// Locked for writing while the disk is full, and for reading by actors that need free space.
    pub room: RwLock<()>,
    /// Number of transactions of each writer.
    pub transactions: i64,
}

impl Stage<'_> {
    /// Repeats an action until it succeeds or the machine is dead. A full disk is temporary.
    fn insist<T>(&self, what: impl Fn() -> rusqlite::Result<T>) -> Option<T> {
        for _ in 0..2000 {
            match what() {
                Ok(done) => return Some(done),
                Err(_) if self.disk.is_dead() => return None,
                Err(e) if is_of_the_disk(&e) => std::thread::sleep(Duration::from_millis(2)),
                Err(e) => {
                    self.ledger.note(format!("refused: {e}"));
                    return None;
                }
            }
        }
        self.ledger
            .note("a full disk that is not full any more is still one".to_owned());
        None
    }

    /// Records an error, unless the disk or a lock causes it. After a power cut no errors are
    /// recorded.
    fn unless_of_the_disk(&self, e: &rusqlite::Error, what: &str) {
        if !is_of_the_disk(e) && !self.disk.is_dead() {
            self.ledger.note(format!("{what}: {e}"));
        }
    }
}

/// Whether the error comes from a full disk, a lock, or a machine without power.
fn is_of_the_disk(e: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode as Code;
    matches!(
        e.sqlite_error_code(),
        Some(
            Code::DiskFull
                | Code::SystemIoFailure
                | Code::CannotOpen
                | Code::DatabaseBusy
                | Code::DatabaseLocked
        )
    )
}

/// Writes transactions. Sometimes it closes everything and starts again, so another process becomes
/// the applier.
pub(super) fn writer(stage: &Stage<'_>, process: &Process, w: i64, seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let Some(mut con) = stage.insist(|| process.ingest()) else {
        return;
    };
    for x in 0..stage.transactions {
        if stage.disk.is_dead() {
            return;
        }
        if rng.random_ratio(1, 8) {
            drop(con);
            match stage.insist(|| process.ingest()) {
                Some(fresh) => con = fresh,
                None => return,
            }
        }
        transaction(stage, &mut con, w, x, &mut rng);
        if rng.random_ratio(1, 6) {
            std::thread::sleep(Duration::from_millis(rng.random_range(0..12)));
        }
    }
}

fn insert(sql: &mut String, row: &Row, rng: &mut SmallRng) {
    let (table, w, n) = row;
    let pad = "x".repeat(rng.random_range(0..80));
    let values = match *table {
        "t" => format!(
            "{}, {w}, {n}, {}, '{pad}'",
            w * 100_000 + n,
            w * 100_000 + n
        ),
        // Keys in no order.
        "clustered" => format!(
            "{}, {w}, {n}, '{pad}'",
            (w * 100_000 + n) * 700_001 % 1_000_003
        ),
        _ => format!("{w}, {n}, '{pad}'"),
    };
    let _ = write!(sql, "INSERT INTO {table}_in VALUES ({values});");
}

fn transaction(stage: &Stage<'_>, con: &mut Connection, w: i64, x: i64, rng: &mut SmallRng) {
    let some = |rng: &mut SmallRng, from: i64| -> Vec<Row> {
        let rows = rng.random_range(1..6);
        let table = |rng: &mut SmallRng| ["t", "t", "bare"][rng.random_range(0..3)];
        (0..rows)
            .map(|i| (table(rng), w, x * 20 + from + i))
            .collect()
    };
    let from = rng.random_range(0..4);
    let rows = match rng.random_ratio(2, 5) {
        // Enough rows of one table for a clustered apply.
        true => (0..8)
            .map(|i| ("clustered", w, x * 20 + from + i))
            .collect(),
        false => some(rng, from),
    };
    let mut taken_back = Vec::new();
    let mut sql = "BEGIN;".to_owned();
    rows.iter().for_each(|row| insert(&mut sql, row, rng));
    let how = rng.random_range(0..10);
    if how == 0 {
        taken_back = some(rng, 12);
        sql.push_str("SAVEPOINT s;");
        taken_back.iter().for_each(|row| insert(&mut sql, row, rng));
        sql.push_str("ROLLBACK TO s;");
    }
    // A refused COMMIT is stored in the state of the log, which needs free space.
    let room = (how == 1).then(|| stage.room.read());
    sql.push_str(if how == 2 { "ROLLBACK" } else { "COMMIT" });
    if how == 1 {
        con.commit_hook(Some(|| true)).expect("a hook");
    }
    let (done, when) = Ledger::when(stage.disk, || con.execute_batch(&sql));
    if how == 1 {
        con.commit_hook(None::<fn() -> bool>).expect("no hook");
    }
    let told = match done {
        Ok(()) if how == 2 => Told::Nothing,
        Ok(()) => {
            let last = con.query_row("SELECT densite_last_seq()", [], |r| r.get::<_, i64>(0));
            Told::Committed(last.unwrap_or(0).cast_unsigned())
        }
        Err(_) if stage.disk.is_dead() => Told::Unknown,
        Err(e) => {
            if how != 1 && !is_of_the_disk(&e) {
                stage.ledger.note(format!("{sql}: {e}"));
            }
            Told::Nothing
        }
    };
    drop(room);
    if !con.is_autocommit() {
        con.execute_batch("ROLLBACK").ok();
    }
    let txn = Txn {
        rows,
        taken_back,
        told,
        when,
    };
    stage.ledger.txns.lock().push(txn);
}

/// Reads the log in order and acknowledges rows.
pub(super) fn subscriber(stage: &Stage<'_>, process: &Process, seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let Some(con) = stage.insist(|| process.connect()) else {
        return;
    };
    let sql = format!("SELECT densite_subscribe('{SUBSCRIBER}', 'start')");
    let added = || con.query_row(&sql, [], |row| row.get::<_, i64>(0));
    let (mut at, when) = Ledger::when(stage.disk, || stage.insist(added).unwrap_or(-1));
    if at < 0 {
        return;
    }
    *stage.ledger.subscribed.lock() = Some((at.cast_unsigned(), when));
    while !stage.over.load(Ordering::Acquire) && !stage.disk.is_dead() {
        let rows = rng.random_range(1..40);
        let read = format!("SELECT seq FROM densite_log('{SUBSCRIBER}', {rows})");
        let seen = con.prepare(&read).and_then(|mut statement| {
            let rows = statement.query_map([], |row| row.get::<_, i64>(0))?;
            rows.collect::<rusqlite::Result<Vec<i64>>>()
        });
        let seen = match seen {
            Ok(seen) => seen,
            Err(e) => {
                stage.unless_of_the_disk(&e, "the subscriber cannot read");
                continue;
            }
        };
        if seen.iter().any(|seq| *seq <= at) || !seen.is_sorted() {
            stage
                .ledger
                .note(format!("after {at} the subscriber reads {seen:?}"));
        }
        let Some(to) = seen.get(rng.random_range(0..seen.len().max(1))) else {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        let ack = format!("SELECT densite_ack('{SUBSCRIBER}', {to})");
        let done = || con.query_row(&ack, [], |row| row.get::<_, i64>(0));
        let (done, when) = Ledger::when(stage.disk, done);
        stage
            .ledger
            .acks
            .lock()
            .push((to.cast_unsigned(), done.is_ok(), when));
        if done.is_ok() {
            at = *to;
        }
    }
}

/// Checkpoints, prunes, waits, and fills the disk for a while.
pub(super) fn keeper(stage: &Stage<'_>, process: &Process, seed: u64, fills: bool) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let Some(con) = stage.insist(|| process.ingest()) else {
        return;
    };
    while !stage.over.load(Ordering::Acquire) && !stage.disk.is_dead() {
        let sql = match rng.random_range(0..8) {
            0 => "PRAGMA wal_checkpoint(PASSIVE)",
            1 => "PRAGMA wal_checkpoint(TRUNCATE)",
            2 | 3 => "SELECT densite_prune()",
            4 => [
                "SELECT count(*) FROM t_in",
                "SELECT count(*) FROM clustered_in",
            ][rng.random_range(0..2)],
            5 => "SELECT densite_wait()",
            6 if fills => {
                {
                    let _room = stage.room.write();
                    let some = rng.random_range(0..9000);
                    stage.disk.set_capacity(Some(stage.disk.used() + some));
                    std::thread::sleep(Duration::from_millis(rng.random_range(1..30)));
                    stage.disk.set_capacity(None);
                }
                continue;
            }
            _ => "SELECT count(*) FROM densite_rejects",
        };
        let done = con.prepare(sql).and_then(|mut statement| {
            let mut rows = statement.query([])?;
            while rows.next()?.is_some() {}
            Ok(())
        });
        if let Err(e) = done {
            stage.unless_of_the_disk(&e, sql);
        }
        std::thread::sleep(Duration::from_millis(rng.random_range(0..8)));
    }
}
