//! Rows are durable in the database before they are pruned from the log, whichever connection
//! checkpointed it and in whichever way: with connections that never sync, and with failed syncs.
//! The database and its log are on one simulated disk, and the power is cut right afterwards.

use densite_disk::Op;
use densite_sim_disk::{Fault, FaultKind, SimDisk};
use densite_tests::ingest::{PATH, Process, Site, Under, first_row};
use rusqlite::Connection;
use std::sync::mpsc::channel;
use std::time::Duration;

const ROWS: i64 = 60;

fn number(con: &Connection, sql: &str) -> rusqlite::Result<i64> {
    con.query_row(sql, [], |row| row.get(0))
}

/// A database whose rows are all applied to a WAL without a sync, and checkpointed by a connection
/// that does not sync.
struct Unsynced {
    disk: SimDisk,
    process: Process,
    con: Connection,
}

fn unsynced(site: &Site) -> Unsynced {
    let disk = site.begin("WAL");
    let process = site.process();
    let con = process.ingest().expect("opens");
    let row = |n: i64| {
        let pad = "x".repeat(200 + usize::try_from(n % 7).unwrap_or(0));
        con.execute_batch(&format!(
            "INSERT INTO t_in VALUES ({n}, {n}, {}, {n}, '{pad}')",
            n * 10
        ))
        .expect("acknowledged");
    };
    let applied = || number(&con, "SELECT densite_wait()").expect("applied");
    row(0);
    applied();
    let hasty = process.plain().expect("opens");
    hasty
        .execute_batch("PRAGMA synchronous = OFF; PRAGMA wal_autocheckpoint = 0")
        .expect("set");
    let checkpoint = |con: &Connection, mode: &str| {
        let sql = format!("PRAGMA wal_checkpoint({mode})");
        let done = con.query_row(&sql, [], |r| {
            Ok((
                r.get::<_, i64>(0)?,
                r.get::<_, i64>(1)?,
                r.get::<_, i64>(2)?,
            ))
        });
        let (busy, frames, passed) = done.expect("a checkpoint");
        assert_eq!((busy, frames), (0, passed), "all of it");
    };
    checkpoint(&con, "TRUNCATE");
    // While this transaction is open, the worker's own checkpoints have no effect.
    let reader = process.plain().expect("opens");
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM t")
        .expect("reads");
    (1..ROWS).for_each(row);
    applied();
    // The worker has nothing to do any more, and has closed its connection.
    std::thread::sleep(Duration::from_millis(1500));
    reader.execute_batch("COMMIT").expect("ends");
    checkpoint(&hasty, "PASSIVE");
    assert_eq!(first_row(&disk), 1, "nothing is pruned yet");
    Unsynced { disk, process, con }
}

fn all_is_there(site: &Site, survivors: &[SimDisk]) {
    for (seed, disk) in survivors.iter().enumerate() {
        site.boot(disk);
        let what = format!("cut seed {seed}");
        let con = site
            .process()
            .ingest()
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        number(&con, "SELECT densite_wait()").unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(number(&con, "SELECT count(*) FROM t"), Ok(ROWS), "{what}");
        let sound: String = con
            .query_row("PRAGMA integrity_check", [], |r| r.get(0))
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(sound, "ok", "{what}");
    }
}

fn survivors(disk: &SimDisk) -> Vec<SimDisk> {
    (0..30).map(|seed| disk.survivor(seed)).collect()
}

/// The frames are in the database file, which is synced before rows are pruned. But the WAL still
/// exists, and after a power cut SQLite reads the part of it that reached the disk. That would be
/// an older state than the file's.
#[test]
fn the_wal_is_synced_before_rows_are_pruned() {
    for (name, under) in [("plain", Under::Plain), ("densite", Under::Densite)] {
        let site = Site::new(&format!("ingest-durable-wal-{name}"), under);
        let all = unsynced(&site);
        number(&all.con, "SELECT densite_prune()").expect("prunes");
        assert!(first_row(&all.disk) > 1, "rows are pruned");
        let survivors = survivors(&all.disk);
        drop((all.con, all.process));
        all_is_there(&site, &survivors);
    }
}

/// A sync error is reported to one process only. Other processes do not learn of it, whether they
/// have the database open already or open it later: they read the state of the system's cache, not
/// of the disk.
#[test]
fn no_process_prunes_after_a_sync_that_failed_in_another() {
    let cases = [("-wal", true), (PATH, true), (PATH, false)];
    for (i, (path, is_open)) in cases.into_iter().enumerate() {
        let what = format!("{path}, open before: {is_open}");
        let site = Site::new(&format!("ingest-durable-sync-failed-{i}"), Under::Plain);
        let all = unsynced(&site);
        let other = || {
            let process = site.process();
            let con = process.ingest().expect("opens");
            (con, process)
        };
        let before = is_open.then(other);
        all.disk
            .fail(Fault::new(FaultKind::Io, Op::Sync).on_path(path));
        number(&all.con, "SELECT densite_prune()").expect_err("a sync fails");
        all.disk.clear_faults();
        drop((all.con, all.process));
        let (con, process) = before.unwrap_or_else(other);
        let told = number(&con, "SELECT densite_prune()");
        assert!(told.is_err(), "{what}: pruned {told:?}");
        // The worker of that process has had time, too.
        std::thread::sleep(Duration::from_millis(1500));
        assert_eq!(first_row(&all.disk), 1, "{what}: the log has all rows");
        drop((con, process));
    }
}

/// The connection that stores the log's name does not sync, and the first sync fails. The disk
/// never gets that write, although the next sync succeeds. No row is acknowledged before the name
/// is durable.
#[test]
fn a_log_name_whose_sync_failed_is_written_again() {
    for (name, under) in [("plain", Under::Plain), ("densite", Under::Densite)] {
        let site = Site::new(&format!("ingest-durable-name-{name}"), under);
        for journal in ["WAL", "DELETE", "PERSIST"] {
            let (wal, rollback) = match under {
                Under::Plain => ("-wal", "-journal"),
                Under::Densite => ("-dwal", "-djournal"),
            };
            for path in [PATH, wal, rollback, "/db"] {
                for failing in [1, 3] {
                    named_anew(&site, journal, path, failing);
                }
            }
        }
    }
}

fn named_anew(site: &Site, journal: &'static str, path: &str, failing: u64) {
    let what = format!("{journal}, {failing} syncs of {path} fail");
    let disk = site.begin(journal);
    let process = site.process();
    for _ in 0..failing {
        disk.fail(Fault::new(FaultKind::Io, Op::Sync).on_path(path));
    }
    // After the failure the connection may have to be opened again.
    let attempt = || -> rusqlite::Result<Connection> {
        let con = process.connect()?;
        con.execute_batch(
            "PRAGMA synchronous = OFF; PRAGMA wal_autocheckpoint = 0;
             CREATE VIRTUAL TABLE temp.bare_in USING densite_ingest(bare);
             CREATE INDEX IF NOT EXISTS own ON densite_rejects(\"table\", seq)",
        )?;
        let insert = || con.execute_batch("INSERT INTO bare_in VALUES (1, 2, 'x')");
        insert().or_else(|_| insert())?;
        Ok(con)
    };
    let con = (0..10).find_map(|_| {
        let done = attempt();
        if done.is_err() {
            std::thread::sleep(Duration::from_millis(20));
        }
        done.ok()
    });
    disk.clear_faults();
    assert!(con.is_some(), "{what}: nothing is acknowledged");
    let survivors: Vec<SimDisk> = (0..10).map(|seed| disk.survivor(seed)).collect();
    // Closing with synchronous=OFF promises nothing, so the power is cut before.
    drop((con, process));
    for (seed, disk) in survivors.iter().enumerate() {
        site.boot(disk);
        let what = format!("{what}, cut seed {seed}");
        let con = site
            .process()
            .ingest()
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        number(&con, "SELECT densite_wait()").unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(number(&con, "SELECT count(*) FROM bare"), Ok(1), "{what}");
        let own = "SELECT count(*) FROM sqlite_schema WHERE name = 'own'";
        assert_eq!(number(&con, own), Ok(1), "{what}");
    }
}

/// Two processes create the log at once. The second one finds the first one's log, already with
/// rows, while the database is locked: it waits for the lock and uses that log.
#[test]
fn a_log_that_another_process_has_just_created_is_used() {
    for (name, under) in [("plain", Under::Plain), ("densite", Under::Densite)] {
        let site = Site::new(&format!("ingest-durable-both-{name}"), under);
        for journal in ["WAL", "DELETE"] {
            let found = found_while_locked(&site, journal, Duration::from_millis(300));
            assert!(found.is_ok(), "{name}, {journal}: {found:?}");
        }
    }
}

/// If the lock is held for longer, the answer is SQLITE_BUSY, and not that the log is another one.
#[test]
fn a_log_whose_database_is_locked_is_not_called_a_foreign_one() {
    let site = Site::new("ingest-durable-locked", Under::Plain);
    let found = found_while_locked(&site, "DELETE", Duration::from_secs(60));
    let code = found.expect_err("locked").sqlite_error_code();
    assert_eq!(code, Some(rusqlite::ErrorCode::DatabaseBusy));
}

/// What a process gets that looks for its log just before another process creates one, and looks
/// again while the database is locked for this time.
fn found_while_locked(
    site: &Site,
    journal: &'static str,
    locked_for: Duration,
) -> rusqlite::Result<i64> {
    let _disk = site.begin(journal);
    let (first, second) = (site.process(), site.process());
    let (sees_none, has_seen_none) = channel();
    let (locked, is_locked) = channel();
    let (found, is_found) = channel();
    let other = first.clone();
    let thread = std::thread::spawn(move || {
        has_seen_none
            .recv()
            .expect("the second process sees no log");
        let con = other.ingest().expect("the first process creates the log");
        con.execute_batch("INSERT INTO bare_in VALUES (1, 2, 'x')")
            .expect("acknowledged");
        number(&con, "SELECT densite_wait()").expect("applied");
        let lock = other.plain().expect("opens");
        lock.execute_batch("BEGIN EXCLUSIVE; DELETE FROM t")
            .expect("the lock");
        locked.send(()).expect("the second process waits");
        is_found.recv_timeout(locked_for).ok();
        lock.execute_batch("COMMIT").expect("ends");
        con
    });
    second.before_log(move || {
        sees_none.send(()).expect("the first process waits");
        is_locked.recv().expect("the first process has a log");
    });
    let con = second.connect().expect("opens");
    con.busy_timeout(Duration::ZERO).expect("set");
    let subscribed = number(&con, "SELECT densite_subscribe('one', 'start')");
    found.send(()).ok();
    let created = thread.join().expect("no panic");
    drop((con, created, first, second));
    subscribed
}
