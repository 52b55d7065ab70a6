//! Plain SQLite on the simulated disk.

use densite_disk::Op;
use densite_sim_disk::{Fault, FaultKind, SimDisk};
use densite_tests::simvfs::SimVfs;
use rusqlite::{Connection, ErrorCode, OpenFlags};

const DB: &str = "/db/app.db";

fn integrity(db: &Connection) -> String {
    db.query_row("PRAGMA integrity_check", [], |r| r.get(0))
        .expect("integrity_check")
}

fn count(db: &Connection) -> i64 {
    db.query_row("SELECT count(*) FROM t", [], |r| r.get(0))
        .expect("count")
}

fn code(e: &rusqlite::Error) -> i32 {
    match e {
        rusqlite::Error::SqliteFailure(e, _) => e.extended_code,
        e => panic!("not a failure of SQLite: {e}"),
    }
}

fn insert(db: &Connection, n: u32) -> rusqlite::Result<()> {
    db.execute_batch(&format!(
        "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < {n})
         INSERT INTO t SELECT NULL, hex(zeroblob(i % 300)) FROM c"
    ))
}

const SCHEMA: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, x); CREATE INDEX tx ON t(x)";

#[test]
fn every_journal_mode_works() {
    let vfs = SimVfs::register("simvfs-modes", SimDisk::new(1));
    for mode in ["DELETE", "TRUNCATE", "PERSIST", "MEMORY", "OFF", "WAL"] {
        for locking in ["NORMAL", "EXCLUSIVE"] {
            let path = format!("/{mode}-{locking}.db");
            let db = vfs.connect(&path).expect("open");
            db.execute_batch(&format!(
                "PRAGMA locking_mode={locking}; PRAGMA cache_size=5"
            ))
            .expect("settings");
            let got: String = db
                .query_row(&format!("PRAGMA journal_mode={mode}"), [], |r| r.get(0))
                .expect("journal_mode");
            assert_eq!(got.to_uppercase(), mode);
            db.execute_batch(SCHEMA).expect("schema");
            insert(&db, 2000).expect("insert");
            if mode != "OFF" {
                db.execute_batch("BEGIN; DELETE FROM t; ROLLBACK")
                    .expect("roll back");
            }
            db.execute_batch("DELETE FROM t WHERE id % 2; VACUUM")
                .expect("vacuum");
            assert_eq!(integrity(&db), "ok", "{mode} {locking}");
            drop(db);
            let again = vfs.connect(&path).expect("open again");
            assert_eq!(integrity(&again), "ok");
            assert_eq!(count(&again), 1000);
        }
    }
    assert_eq!(vfs.open_files(), 0);
}

#[test]
fn wal_readers_keep_their_snapshot() {
    let vfs = SimVfs::register("simvfs-wal", SimDisk::new(1));
    let writer = vfs.connect(DB).expect("open");
    writer
        .execute_batch("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0")
        .expect("WAL");
    writer.execute_batch(SCHEMA).expect("schema");
    insert(&writer, 100).expect("insert");
    let reader = vfs.connect(DB).expect("open");
    reader.execute_batch("BEGIN").expect("begin");
    assert_eq!(count(&reader), 100);
    insert(&writer, 50).expect("a reader is not in the way");
    let checkpoint = |db: &Connection, mode: &str| -> (i64, i64, i64) {
        db.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |r| {
            Ok((r.get(0)?, r.get(1)?, r.get(2)?))
        })
        .expect("checkpoint")
    };
    let (_, log, done) = checkpoint(&writer, "PASSIVE");
    assert!(
        done < log,
        "the reader holds the checkpoint back: {done} of {log}"
    );
    assert_eq!(count(&reader), 100);
    reader.execute_batch("COMMIT").expect("commit");
    assert_eq!(count(&reader), 150);
    assert_eq!(checkpoint(&writer, "TRUNCATE"), (0, 0, 0));
    assert_eq!(
        vfs.disk().contents("/db/app.db-wal").map(|w| w.len()),
        Some(0)
    );
    let third = vfs.connect(DB).expect("open");
    third.execute_batch("BEGIN IMMEDIATE").expect("write lock");
    writer
        .busy_timeout(std::time::Duration::ZERO)
        .expect("no waiting");
    let busy = writer
        .execute_batch("BEGIN IMMEDIATE")
        .expect_err("somebody else writes");
    assert_eq!(busy.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
    drop((writer, reader, third));
    assert_eq!(
        vfs.disk().paths(),
        [DB],
        "the last close takes the WAL away"
    );
}

#[test]
fn rollback_locks_exclude() {
    let vfs = SimVfs::register("simvfs-locks", SimDisk::new(1));
    let (a, b) = (
        vfs.connect(DB).expect("open"),
        vfs.connect(DB).expect("open"),
    );
    a.execute_batch(SCHEMA).expect("schema");
    insert(&a, 10).expect("insert");
    for db in [&a, &b] {
        db.busy_timeout(std::time::Duration::ZERO)
            .expect("no waiting");
    }
    b.execute_batch("BEGIN").expect("begin");
    assert_eq!(count(&b), 10);
    a.execute_batch("BEGIN IMMEDIATE; DELETE FROM t")
        .expect("beside a reader");
    assert_eq!(count(&b), 10);
    let busy = a.execute_batch("COMMIT").expect_err("a reader is there");
    assert_eq!(busy.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
    let c = vfs.connect(DB).expect("open");
    c.busy_timeout(std::time::Duration::ZERO)
        .expect("no waiting");
    let busy = c
        .query_row("SELECT 1 FROM t", [], |_| Ok(()))
        .expect_err("PENDING");
    assert_eq!(busy.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
    b.execute_batch("COMMIT").expect("the reader ends");
    a.execute_batch("COMMIT").expect("now it can");
    assert_eq!(count(&c), 0);
}

#[test]
fn threads_share_a_database() {
    for mode in ["WAL", "DELETE"] {
        let vfs = SimVfs::register(&format!("simvfs-threads-{mode}"), SimDisk::new(1));
        let db = vfs.connect(DB).expect("open");
        db.execute_batch(&format!("PRAGMA journal_mode={mode};{SCHEMA}"))
            .expect("set up");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let db = vfs.connect(DB).expect("open");
                    db.busy_timeout(std::time::Duration::from_secs(60))
                        .expect("wait");
                    for _ in 0..25 {
                        db.execute_batch("BEGIN IMMEDIATE").expect("begin");
                        insert(&db, 3).expect("insert");
                        db.execute_batch("COMMIT").expect("commit");
                        assert!(count(&db) >= 3);
                    }
                });
            }
        });
        assert_eq!(count(&db), 300);
        assert_eq!(integrity(&db), "ok");
    }
}

#[test]
fn attached_databases_commit_together() {
    let vfs = SimVfs::register("simvfs-attach", SimDisk::new(1));
    let db = vfs.connect(DB).expect("open");
    db.execute_batch(&format!(
        "{SCHEMA}; ATTACH '/db/other.db' AS other; CREATE TABLE other.u(x);
         BEGIN; INSERT INTO t VALUES (1, 1); INSERT INTO u VALUES (1); COMMIT"
    ))
    .expect("two files in one transaction");
    drop(db);
    assert_eq!(vfs.disk().paths(), [DB, "/db/other.db"]);
}

#[test]
fn a_full_or_failing_disk_is_named() {
    let vfs = SimVfs::register("simvfs-faults", SimDisk::new(1));
    let disk = vfs.disk();
    let db = vfs.connect(DB).expect("open");
    db.execute_batch(SCHEMA).expect("schema");
    insert(&db, 10).expect("insert");
    for (op, kind, want) in [
        (Op::Write, FaultKind::Full, rusqlite::ffi::SQLITE_FULL),
        (Op::Write, FaultKind::Io, rusqlite::ffi::SQLITE_IOERR_WRITE),
        (Op::Sync, FaultKind::Io, rusqlite::ffi::SQLITE_IOERR_FSYNC),
    ] {
        disk.fail(Fault::new(kind, op));
        assert_eq!(code(&insert(&db, 10).expect_err("a fault")), want);
        assert_eq!(count(&db), 10, "rolled back");
    }
    assert_eq!(disk.fault_hits(), 3);
    disk.set_capacity(Some(disk.used() + 4000));
    assert_eq!(
        code(&insert(&db, 1000).expect_err("full")),
        rusqlite::ffi::SQLITE_FULL
    );
    disk.set_capacity(None);
    insert(&db, 10).expect("the connection works on");
    assert_eq!(integrity(&db), "ok");
}

#[test]
fn opening_a_missing_file_fails() {
    let vfs = SimVfs::register("simvfs-cantopen", SimDisk::new(1));
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let refused = Connection::open_with_flags_and_vfs(DB, flags, "simvfs-cantopen")
        .expect_err("it is not to be created");
    assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::CannotOpen));
    drop(vfs);
    let gone = Connection::open_with_flags_and_vfs(DB, OpenFlags::default(), "simvfs-cantopen");
    assert!(gone.is_err(), "the name is unregistered");
}

/// The syncs of one small transaction, of files and directory, are those of the unix VFS.
#[test]
fn syncs_are_those_of_the_unix_vfs() {
    let count_syncs = |settings: &str| {
        let vfs = SimVfs::register("simvfs-syncs", SimDisk::new(1));
        let db = vfs.connect(DB).expect("open");
        db.execute_batch(&format!("{settings};{SCHEMA}"))
            .expect("set up");
        insert(&db, 1).expect("insert");
        let disk = vfs.disk();
        let syncs = || {
            ["/db/app.db", "/db/app.db-journal", "/db/app.db-wal", "/db/"]
                .map(|p| disk.counters(p).syncs)
        };
        let before = syncs();
        insert(&db, 1).expect("insert");
        let after = syncs();
        let mut delta = [0; 4];
        for (d, (a, b)) in delta.iter_mut().zip(after.into_iter().zip(before)) {
            *d = a - b;
        }
        delta
    };
    let journal = |mode: &str, sync: &str| {
        count_syncs(&format!(
            "PRAGMA journal_mode={mode}; PRAGMA synchronous={sync}"
        ))
    };
    // Database, journal, WAL, directory.
    assert_eq!(journal("DELETE", "FULL"), [1, 2, 0, 1]);
    assert_eq!(journal("DELETE", "EXTRA"), [1, 2, 0, 2]);
    assert_eq!(journal("DELETE", "OFF"), [0, 0, 0, 0]);
    // The journal is opened again for each transaction, with the create flag.
    assert_eq!(journal("PERSIST", "FULL"), [1, 3, 0, 1]);
    assert_eq!(journal("WAL", "FULL"), [0, 0, 1, 0]);
    assert_eq!(journal("WAL", "NORMAL"), [0, 0, 0, 0]);
}

/// Connections that were open during a power cut are dead and can be closed. The next life works.
#[test]
fn a_power_cut_ends_connections() {
    let vfs = SimVfs::register("simvfs-cut", SimDisk::new(1));
    let db = vfs.connect(DB).expect("open");
    db.execute_batch(&format!("PRAGMA journal_mode=WAL;{SCHEMA}"))
        .expect("set up");
    insert(&db, 100).expect("insert");
    db.execute_batch("BEGIN; DELETE FROM t")
        .expect("in a transaction");
    vfs.power_cut(5);
    db.execute_batch("COMMIT").expect_err("dead");
    drop(db);
    let db = vfs.connect(DB).expect("open");
    assert_eq!(integrity(&db), "ok");
    assert_eq!(count(&db), 100, "WAL with FULL keeps what was acknowledged");
}
