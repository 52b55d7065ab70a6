//! Rule S11: a full or failing disk.

use densite_disk::{Op, OpenMode, SyncKind};
use densite_sim_disk::{Fault, FaultKind, OpSet, SimDisk};
use densite_store::Error;
use densite_tests::procs::subject::{READ_WRITE, api, primary};
use densite_tests::simvfs::SimVfs;
use rusqlite::{Connection, ffi};

use super::{handle, raw, read_all, write_all};

const PAGES: u32 = 30;

/// Rule S11: "After ENOSPC or EIO on a read or write the same connection works on".
///
/// Every read and every write of a publish fails in turn. Other handles see none of it, and the
/// same writes can be published again.
/// Take out: the buffer that `Appender::flush` and `flush_with` keep after a failure (clear it).
#[test]
fn rule_11_a_failed_read_or_write_leaves_the_handle_working() {
    for kind in [FaultKind::Full, FaultKind::Io] {
        for op in [Op::Write, Op::Read, Op::Truncate, Op::Len] {
            let mut hits = 0;
            for after in 0..60 {
                let what = format!("{kind:?} at {op:?} number {after}");
                let disk = SimDisk::new(after);
                let open = |identity: &str| {
                    handle(
                        disk.open("/app.db", OpenMode::Create).expect("open"),
                        identity,
                        raw(),
                    )
                };
                let mut writer = open("w");
                write_all(&mut writer, PAGES, 1);
                writer.sync(SyncKind::Data).expect("sync");
                disk.fail(Fault::new(kind, OpSet::of(&[op])).after(after));
                let mut failed = false;
                for attempt in 0..3 {
                    let done = (|| {
                        for number in 1..=PAGES {
                            writer.write_at(
                                &super::page(number, 2, super::PAGE),
                                u64::from(number - 1) * super::PAGE as u64,
                            )?;
                        }
                        writer.publish()
                    })();
                    match done {
                        Ok(()) => break,
                        Err(e) => {
                            assert!(matches!(e, Error::Full(_) | Error::Io(_)), "{what}: {e}");
                            assert_eq!(attempt, 0, "{what}: it fails again");
                            failed = true;
                            // Another handle sees the earlier state.
                            assert_eq!(read_all(&mut open("r"), PAGES), 1, "{what}");
                        }
                    }
                }
                disk.clear_faults();
                hits += u32::from(failed);
                assert_eq!(read_all(&mut writer, PAGES), 2, "{what}");
                writer
                    .close_clean()
                    .unwrap_or_else(|e| panic!("{what}: {e}"));
                let mut reader = open("last");
                assert_eq!(read_all(&mut reader, PAGES), 2, "{what}");
                let report = reader.check(&mut |_, _| true).expect("check");
                assert_eq!((report.problems, report.cut), (vec![], None), "{what}");
            }
            assert!(
                hits > 0 || op == Op::Truncate || op == Op::Len,
                "no {op:?} was hit"
            );
        }
    }
}

/// Rule S11: "after a failed sync it returns SQLITE_IOERR until reopened, and nothing acknowledged
/// is lost."
///
/// The simulated disk drops data after a failed sync, still returns them to reads, and never writes
/// them later, as Linux does. The next writer on the reopened file, in the same process or in
/// another one, sees those commits and builds on them.
/// Take out: `self.poisoned` in `Handle::poison`; `again::write_again` in `Handle::sync_failed`.
#[test]
fn rule_11_a_failed_sync_poisons_until_reopened() {
    for seed in 0..30u64 {
        let disk = SimDisk::new(seed);
        let open = |disk: &SimDisk, identity: &str| {
            handle(
                disk.open("/app.db", OpenMode::Create).expect("open"),
                identity,
                raw(),
            )
        };
        let mut writer = open(&disk, "w");
        disk.sync_dir("/").expect("sync");
        // Several commits, so that slots are written and places are reused.
        let mut mark = 0;
        let mut next = || {
            mark += 1;
            mark
        };
        let others = [("w", "the same process"), ("another", "another process")];
        let mut other = open(&disk, others[seed as usize % 2].0);
        for n in 0..seed * 2 {
            write_all(&mut writer, PAGES, next());
            if n % 3 == 0 {
                writer.sync(SyncKind::Data)
            } else {
                writer.publish()
            }
            .expect("publish");
        }
        write_all(&mut writer, PAGES, next());
        writer.sync(SyncKind::Data).expect("sync");
        disk.fail(Fault::new(FaultKind::Io, OpSet::of(&[Op::Sync])));
        write_all(&mut writer, PAGES, next());
        writer.sync(SyncKind::Data).expect_err("the sync fails");
        let mut buf = [0; 100];
        for again in [
            writer.sync(SyncKind::Data),
            writer.publish(),
            writer.write_at(&buf, 0),
            writer.read_at(&mut buf, 0).map(drop),
        ] {
            assert!(matches!(again, Err(Error::Poisoned)), "{again:?}");
        }
        drop(writer);
        // After reopening it works. Synced content survives a power cut from now on.
        if seed % 3 == 0 {
            other = open(&disk, "reopened");
        }
        for _ in 0..1 + seed % 4 {
            write_all(&mut other, PAGES, next());
            other.sync(SyncKind::Data).expect("sync");
        }
        let last = read_all(&mut other, PAGES);
        drop(other);
        let disk = disk.power_cut(seed);
        let mut reader = open(&disk, "last");
        assert_eq!(
            read_all(&mut reader, PAGES),
            last,
            "seed {seed}, {}",
            others[seed as usize % 2].1
        );
        let report = reader.check(&mut |_, _| true).expect("check");
        assert_eq!(report.problems, vec![], "seed {seed}");
    }
}

/// Rule S11 under SQLite: after a failed sync a connection returns SQLITE_IOERR until it is opened
/// again.
///
/// Take out: as above.
#[test]
fn rule_11_a_connection_gives_ioerr_after_a_failed_sync() {
    let vfs = SimVfs::register("rule-11-host", SimDisk::new(1));
    densite_vfs::register(api(), c"rule-11", Some(c"rule-11-host"), false).expect("register");
    let open =
        || Connection::open_with_flags_and_vfs("/app.db", READ_WRITE, "rule-11").expect("open");
    let db = open();
    db.execute_batch("CREATE TABLE t(v); INSERT INTO t VALUES (1)")
        .expect("make");
    vfs.disk()
        .fail(Fault::new(FaultKind::Io, OpSet::of(&[Op::Sync])).on_path("app.db"));
    for sql in [
        "INSERT INTO t VALUES (2)",
        "INSERT INTO t VALUES (3)",
        "SELECT * FROM t",
        "INSERT INTO t VALUES (4)",
    ] {
        let e = db.execute_batch(sql).expect_err(sql);
        assert_eq!(primary(&e), ffi::SQLITE_IOERR, "{sql}: {e}");
    }
    drop(db);
    let db = open();
    let count: i64 = db
        .query_row("SELECT count(*) FROM t", [], |r| r.get(0))
        .expect("count");
    assert_eq!(
        count, 1,
        "what was acknowledged is there, what failed is not"
    );
    db.execute_batch("INSERT INTO t VALUES (5)")
        .expect("it works again");
}

/// Rule S11: "A reserve of space lets a full disk still checkpoint a DELETE."
///
/// The disk is full, except for a WAL that is long enough. Rows are deleted and checkpointed.
/// Take out: `Writer::keep_reserve`.
#[test]
fn rule_11_a_full_disk_still_checkpoints_a_delete() {
    let vfs = SimVfs::register("rule-11-full-host", SimDisk::new(1));
    densite_vfs::register(api(), c"rule-11-full", Some(c"rule-11-full-host"), false)
        .expect("register");
    let db =
        Connection::open_with_flags_and_vfs("/app.db", READ_WRITE, "rule-11-full").expect("open");
    db.execute_batch(
        "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;
         CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB);
         WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 1000)
         INSERT INTO t SELECT i, randomblob(1000) FROM c;
         PRAGMA wal_checkpoint(RESTART)",
    )
    .expect("make");
    let used = vfs.disk().used();
    vfs.disk().set_capacity(Some(used));
    db.execute_batch("DELETE FROM t WHERE id <= 60")
        .expect("delete");
    let row = db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |r| {
        Ok((r.get::<_, i64>(1)?, r.get::<_, i64>(2)?))
    });
    let (log, moved) = row.expect("checkpoint");
    assert!(log > 0 && log == moved, "{moved} of {log} frames");
    let full = db
        .execute_batch("INSERT INTO t SELECT NULL, randomblob(2000) FROM t")
        .expect_err("full");
    assert_eq!(
        primary(&full),
        ffi::SQLITE_FULL,
        "the disk is full indeed: {full}"
    );
    let check: String = db
        .query_row("PRAGMA integrity_check", [], |r| r.get(0))
        .expect("check");
    assert_eq!(check, "ok");
}

/// What SQLite says a database holds.
fn rows(db: &Connection) -> rusqlite::Result<(i64, i64, String)> {
    db.query_row("SELECT count(*), sum(id), max(hex(v)) FROM t", [], |r| {
        Ok((r.get(0)?, r.get(1)?, r.get(2)?))
    })
}

fn assert_intact(db: &Connection, what: &str) {
    let check = db.query_row("PRAGMA integrity_check", [], |r| r.get::<_, String>(0));
    assert_eq!(check.as_deref(), Ok("ok"), "{what}");
}

/// A database in this journal mode, whose cache spills.
fn spilling(path: &str, vfs: &str, mode: &str, page_size: u32) -> Connection {
    let db = Connection::open_with_flags_and_vfs(path, READ_WRITE, vfs).expect("open");
    db.execute_batch(&format!(
        "PRAGMA page_size={page_size}; PRAGMA journal_mode={mode}; PRAGMA temp_store=MEMORY;
         PRAGMA cache_size=10; CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB);
         WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 700)
         INSERT INTO t SELECT i, randomblob(900) FROM c"
    ))
    .expect("make");
    db
}

/// Rule S11: "A rollback needs no space": a transaction that fills the disk leaves a database that
/// every connection can read.
///
/// Take out: the call of `needs_no_frames` in `publish::publish`; `without_space` in
/// `Transaction::put_page`.
#[test]
fn rule_11_a_transaction_that_fills_the_disk_leaves_the_database_readable() {
    let vfs = SimVfs::register("rule-11-fills-host", SimDisk::new(1));
    densite_vfs::register(api(), c"rule-11-fills", Some(c"rule-11-fills-host"), false)
        .expect("register");
    let statements = [
        "UPDATE t SET v = randomblob(900)",
        "DELETE FROM t WHERE id % 2 = 0",
        "INSERT INTO t(v) SELECT randomblob(900) FROM t",
        "VACUUM",
        "PRAGMA page_size=1024; VACUUM",
        "BEGIN; UPDATE t SET v = randomblob(900) WHERE id < 500; ROLLBACK",
    ];
    let (mut cases, mut full) = (0, 0);
    for mode in ["DELETE", "TRUNCATE", "PERSIST", "MEMORY"] {
        for page_size in [512, 4096, 65536] {
            for statement in statements {
                for free in [60, 300, 700, 1100] {
                    let what = format!("{mode}, {page_size}, {free} KiB: {statement}");
                    let path = format!("/{cases}.db");
                    cases += 1;
                    vfs.disk().set_capacity(None);
                    let db = spilling(&path, "rule-11-fills", mode, page_size);
                    let before = rows(&db).expect("rows");
                    let other =
                        Connection::open_with_flags_and_vfs(&path, READ_WRITE, "rule-11-fills")
                            .expect("open");
                    vfs.disk()
                        .set_capacity(Some(vfs.disk().used() + (free << 10)));
                    let done = db.execute_batch(statement);
                    if let Err(e) = done {
                        assert_eq!(primary(&e), ffi::SQLITE_FULL, "{what}: {e}");
                        if statement.starts_with("BEGIN") && !db.is_autocommit() {
                            db.execute_batch("ROLLBACK").expect("rollback");
                        }
                        full += 1;
                        for reader in [&db, &other] {
                            let now = rows(reader).unwrap_or_else(|e| panic!("{what}: {e}"));
                            assert_eq!(now, before, "{what}");
                        }
                    } else {
                        rows(&other).unwrap_or_else(|e| panic!("{what}: {e}"));
                    }
                    vfs.disk().set_capacity(None);
                    assert_intact(&db, &what);
                    db.execute_batch("UPDATE t SET v = zeroblob(9)")
                        .unwrap_or_else(|e| panic!("{what}: {e}"));
                    assert_intact(&other, &what);
                }
            }
        }
    }
    assert!(full > cases / 3, "{full} of {cases} filled the disk");
}

/// Rule S11: "A rollback needs no space", also if the transaction was published: its journal could
/// not be removed, and the disk is full since.
///
/// Take out: `entry_before` in `Transaction::kept`.
#[test]
fn rule_11_a_published_transaction_is_rolled_back_on_a_full_disk() {
    let vfs = SimVfs::register("rule-11-back-host", SimDisk::new(1));
    densite_vfs::register(api(), c"rule-11-back", Some(c"rule-11-back-host"), false)
        .expect("register");
    let statements = [
        "UPDATE t SET v = randomblob(900)",
        "DELETE FROM t WHERE id % 2 = 0",
        "INSERT INTO t(v) SELECT randomblob(900) FROM t",
        "VACUUM",
    ];
    let mut cases = 0;
    for page_size in [512, 4096, 65536] {
        for statement in statements {
            let what = format!("{page_size}: {statement}");
            let path = format!("/{cases}.db");
            cases += 1;
            vfs.disk().set_capacity(None);
            let db = spilling(&path, "rule-11-back", "DELETE", page_size);
            db.execute_batch("DELETE FROM t WHERE id % 7 = 0")
                .expect("holes");
            let before = rows(&db).expect("rows");
            vfs.disk().fail(
                Fault::new(FaultKind::Io, OpSet::of(&[Op::Remove]))
                    .on_path("-djournal")
                    .forever(),
            );
            let error = db.execute_batch(statement).expect_err("the journal stays");
            assert_eq!(primary(&error), ffi::SQLITE_IOERR, "{what}: {error}");
            vfs.disk().set_capacity(Some(vfs.disk().used()));
            vfs.disk().clear_faults();
            let other = Connection::open_with_flags_and_vfs(&path, READ_WRITE, "rule-11-back")
                .expect("open");
            for reader in [&other, &db] {
                let now = rows(reader).unwrap_or_else(|e| panic!("{what}: {e}"));
                assert_eq!(now, before, "{what}");
            }
            vfs.disk().set_capacity(None);
            assert_intact(&db, &what);
            db.execute_batch("UPDATE t SET v = zeroblob(9)")
                .expect("update");
            assert_intact(&other, &what);
        }
    }
}

/// Rule S11: "A rollback needs no space", if one database of a transaction over two is published,
/// and the other one finds no space.
///
/// Take out: as above.
#[test]
fn rule_11_two_databases_are_rolled_back_on_a_full_disk() {
    let vfs = SimVfs::register("rule-11-two-host", SimDisk::new(1));
    densite_vfs::register(api(), c"rule-11-two", Some(c"rule-11-two-host"), false)
        .expect("register");
    let mut full = 0;
    for case in 0..24u64 {
        let free = case * 300;
        let what = format!("{free} KiB");
        let (first, second) = (format!("/{case}-a.db"), format!("/{case}-b.db"));
        vfs.disk().set_capacity(None);
        let db = spilling(&first, "rule-11-two", "DELETE", 4096);
        let two = spilling(&second, "rule-11-two", "DELETE", 4096);
        let before = [rows(&db).expect("rows"), rows(&two).expect("rows")];
        db.execute_batch(&format!(
            "ATTACH '{second}' AS two; PRAGMA two.cache_size=10"
        ))
        .expect("attach");
        vfs.disk()
            .set_capacity(Some(vfs.disk().used() + (free << 10)));
        let done = db.execute_batch(
            "BEGIN; UPDATE main.t SET v = randomblob(900); UPDATE two.t SET v = randomblob(900); COMMIT",
        );
        if done.is_err() {
            if !db.is_autocommit() {
                db.execute_batch("ROLLBACK").expect("rollback");
            }
            full += 1;
            let now = [&db, &two].map(|db| rows(db).unwrap_or_else(|e| panic!("{what}: {e}")));
            assert_eq!(now, before, "{what}");
        }
        vfs.disk().set_capacity(None);
        for db in [&db, &two] {
            assert_intact(db, &what);
        }
    }
    assert!((6..24).contains(&full), "{full} of 24 filled the disk");
}
