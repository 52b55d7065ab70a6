//! What is durable when rows are pruned from the log, whoever checkpointed the database and however: connections that never sync, syncs that fail. On one simulated disk with
//! the database and its log, as it is left by a power cut right afterwards.

use densite_disk::Op;
use densite_sim_disk::{Fault, FaultKind, SimDisk};
use densite_tests::ingest::{PATH, Process, Site, Under, first_row};
use rusqlite::Connection;
use std::time::Duration;

const ROWS: i64 = 60;

fn number(con: &Connection, sql: &str) -> rusqlite::Result<i64> {
    con.query_row(sql, [], |row| row.get(0))
}

/// A database whose rows are all applied, to a WAL that nobody has synced, and checkpointed by a connection that syncs nothing.
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
    // While it reads, the worker's own checkpoints come to nothing.
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

/// The frames are in the database's file, and that is synced before rows are pruned. But the WAL is still there and SQLite reads it again after a power cut: as far as it reached the disk, and so
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

/// What one process was told of a sync no other is told, whether it has the database open already or opens it then: what it sees is what the system has, and not the disk.
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
        // Its worker has had its time, too.
        std::thread::sleep(Duration::from_millis(1500));
        assert_eq!(first_row(&all.disk), 1, "{what}: the log has all rows");
        drop((con, process));
    }
}

/// Whoever names the log syncs nothing, and the first sync fails: what it was to write the disk never gets, though the next sync succeeds. No row is acknowledged before the name is on the disk.
#[test]
fn a_name_whose_sync_failed_is_written_anew() {
    for (name, under) in [("plain", Under::Plain), ("densite", Under::Densite)] {
        let site = Site::new(&format!("ingest-durable-name-{name}"), under);
        for journal in ["WAL", "DELETE", "PERSIST"] {
            for path in [PATH, "-wal", "-journal", "/db"] {
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
    // A connection that met the failure may have to be opened again.
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
    // Closing with synchronous=OFF promises nothing, so the power goes before.
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
