//! Rule 11: a full or failing disk.

use densite_disk::{Op, OpenMode, SyncKind};
use densite_sim_disk::{Fault, FaultKind, OpSet, SimDisk};
use densite_store::Error;
use densite_tests::procs::subject::{READ_WRITE, api, primary};
use densite_tests::simvfs::SimVfs;
use rusqlite::{Connection, ffi};

use super::{handle, raw, read_all, write_all};

const PAGES: u32 = 30;

/// Rule 11: "After ENOSPC or EIO on a read or write the same connection works on".
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

/// Rule 11: "after a failed sync it returns SQLITE_IOERR until reopened, and nothing acknowledged
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

/// Rule 11 under SQLite: after a failed sync a connection returns SQLITE_IOERR until it is opened
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

/// Rule 11: "A reserve of space lets a full disk still checkpoint a DELETE."
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
