//! A failing disk: acknowledged data stays, an unacknowledged change is an error, and the
//! connection goes on (rule S11), even if SQLite ignores the answer.

use crate::common;

use common::flaky::flaky;
use common::{Place, assert_sound, fill, int, run, text};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

/// Pause points are global to the process, so these tests run one at a time.
static PAUSES: Mutex<()> = Mutex::new(());

/// A checkpoint that does not reach the WAL's end ignores the answer of CKPT_DONE and sends readers
/// to the database file. If publishing fails there, readers must still read from the WAL, and no
/// writer may restart it.
#[test]
fn a_partial_checkpoint_that_cannot_publish_loses_nothing() {
    let _alone = PAUSES.lock().unwrap_or_else(PoisonError::into_inner);
    let (faults, vfs) = flaky("partial");
    let place = Place::new();
    let open = || place.try_open_over(&vfs, "x.db", "").expect("opens");
    let writer = open();
    run(
        &writer,
        "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0",
    );
    fill(&writer, 500);
    run(
        &writer,
        "PRAGMA wal_checkpoint(TRUNCATE); UPDATE t SET b = 'first' WHERE a <= 250",
    );
    // A reader in the middle of the WAL makes the checkpoint partial.
    let reader = open();
    run(&reader, "BEGIN; SELECT * FROM t LIMIT 1");
    run(&writer, "UPDATE t SET b = 'second' WHERE a > 250");
    let armed = Arc::clone(&faults);
    densite_vfs::failpoint::arm("before-publish", move || {
        eprintln!("ARM");
        armed.writes.store(true, Relaxed)
    });
    let done: (i64, i64, i64) = writer
        .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |r| {
            Ok((r.get(0)?, r.get(1)?, r.get(2)?))
        })
        .expect("SQLite does not see the failure");
    densite_vfs::failpoint::disarm("before-publish");
    faults.writes.store(false, Relaxed);
    assert_eq!(done.2, 0, "nothing counts as backfilled: {done:?}");
    assert_eq!(
        int(&reader, "SELECT count(*) FROM t WHERE b = 'first'"),
        250
    );
    run(&reader, "COMMIT");
    for db in [&reader, &writer, &open()] {
        assert_eq!(
            int(db, "SELECT count(*) FROM t WHERE b IN ('first', 'second')"),
            500
        );
        assert_sound(db);
    }
    // The next writer must not restart the WAL.
    run(&writer, "INSERT INTO t(b) VALUES ('third')");
    assert_eq!(
        int(
            &open(),
            "SELECT count(*) FROM t WHERE b IN ('first', 'second')"
        ),
        500
    );
    let busy = int(&writer, "PRAGMA wal_checkpoint(TRUNCATE)");
    assert_eq!(busy, 0);
    drop((reader, writer));
    let db = open();
    assert_eq!(
        int(
            &db,
            "SELECT count(*) FROM t WHERE b IN ('first', 'second', 'third')"
        ),
        501
    );
    assert_sound(&db);
}

#[test]
fn a_complete_checkpoint_that_cannot_publish_is_an_error() {
    let _alone = PAUSES.lock().unwrap_or_else(PoisonError::into_inner);
    let (faults, vfs) = flaky("complete");
    let place = Place::new();
    let open = || place.try_open_over(&vfs, "x.db", "").expect("opens");
    let db = open();
    run(&db, "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0");
    fill(&db, 500);
    let armed = Arc::clone(&faults);
    densite_vfs::failpoint::arm("before-publish", move || {
        eprintln!("ARM");
        armed.writes.store(true, Relaxed)
    });
    let failed = db.query_row("PRAGMA wal_checkpoint", [], |_| Ok(()));
    densite_vfs::failpoint::disarm("before-publish");
    faults.writes.store(false, Relaxed);
    assert!(failed.is_err());
    assert_eq!(int(&open(), "SELECT count(*) FROM t"), 500);
    assert_eq!(int(&db, "PRAGMA wal_checkpoint(TRUNCATE)"), 0);
    drop(db);
    let db = open();
    assert_eq!(int(&db, "SELECT count(*) FROM t"), 500);
    assert_sound(&db);
}

#[test]
fn a_full_disk_fails_the_commit_and_the_connection_works_afterwards() {
    let (faults, vfs) = flaky("full");
    for mode in ["DELETE", "TRUNCATE", "PERSIST", "WAL"] {
        let place = Place::new();
        let open = || place.try_open_over(&vfs, "x.db", "").expect("opens");
        let db = open();
        assert_eq!(
            text(&db, &format!("PRAGMA journal_mode={mode}")),
            mode.to_lowercase()
        );
        fill(&db, 500);
        let before = text(&db, "SELECT count(*) || max(b) FROM t");
        faults.writes.store(true, Relaxed);
        let failed = db.execute_batch("UPDATE t SET b = hex(randomblob(30))");
        faults.writes.store(false, Relaxed);
        if mode == "WAL" {
            // In WAL mode a commit does not write to the main file.
            failed.expect("commits");
        } else {
            let error = failed.expect_err("full");
            assert_eq!(
                error.sqlite_error_code(),
                Some(rusqlite::ErrorCode::DiskFull),
                "{mode}"
            );
            assert_eq!(
                text(&db, "SELECT count(*) || max(b) FROM t"),
                before,
                "{mode}"
            );
        }
        run(&db, "DELETE FROM t WHERE a > 100");
        assert_eq!(int(&open(), "SELECT count(*) FROM t"), 100, "{mode}");
        assert_sound(&db);
    }
}

#[test]
fn after_a_failed_sync_the_connection_refuses_until_it_is_opened_again() {
    let (faults, vfs) = flaky("sync");
    let place = Place::new();
    let open = || place.try_open_over(&vfs, "x.db", "").expect("opens");
    let db = open();
    fill(&db, 100);
    faults.syncs.store(true, Relaxed);
    assert!(db.execute_batch("DELETE FROM t WHERE a > 50").is_err());
    faults.syncs.store(false, Relaxed);
    let error = db.execute_batch("DELETE FROM t").expect_err("poisoned");
    assert_eq!(
        error.sqlite_error_code(),
        Some(rusqlite::ErrorCode::SystemIoFailure)
    );
    drop(db);
    let db = open();
    assert_eq!(
        int(&db, "SELECT count(*) FROM t"),
        100,
        "the journal was still there"
    );
    assert_sound(&db);
}

#[test]
fn a_failed_read_is_an_error_and_a_later_read_succeeds() {
    let (faults, vfs) = flaky("read");
    let place = Place::new();
    let open = || {
        place
            .try_open_over(&vfs, "x.db", "&decoded_cache=0")
            .expect("opens")
    };
    fill(&open(), 2000);
    let db = open();
    run(&db, "PRAGMA cache_size=5");
    assert_eq!(int(&db, "SELECT count(*) FROM t WHERE a < 5"), 4);
    faults.reads.store(true, Relaxed);
    assert!(
        db.query_row("SELECT sum(length(b)) FROM t", [], |_| Ok(()))
            .is_err()
    );
    // This holds for opening too: an error there is judged again under SHARED (rule S7).
    let early = place.try_open_over(&vfs, "x.db", "");
    faults.reads.store(false, Relaxed);
    assert_eq!(int(&db, "SELECT count(*) FROM t"), 2000);
    assert_eq!(int(&early.expect("opens"), "SELECT count(*) FROM t"), 2000);
}

/// `densite_maintain` returns how much it reclaimed; a failing disk is an error and not 0.
#[test]
fn failed_maintenance_is_reported_and_loses_nothing() {
    let (faults, vfs) = flaky("maintain");
    let place = Place::new();
    let db = place.try_open_over(&vfs, "x.db", "").expect("opens");
    fill(&db, 20_000);
    run(&db, "DELETE FROM t WHERE a % 2 = 0");
    let left = text(&db, "SELECT count(*) || ' ' || sum(a) || max(b) FROM t");
    faults.writes.store(true, Relaxed);
    let error = db
        .execute_batch("PRAGMA densite_maintain")
        .expect_err("the disk fails");
    assert!(error.to_string().contains("densite_maintain"), "{error}");
    faults.writes.store(false, Relaxed);
    assert_eq!(
        text(&db, "SELECT count(*) || ' ' || sum(a) || max(b) FROM t"),
        left
    );
    let gained: u64 = text(&db, "PRAGMA densite_maintain").parse().expect("bytes");
    assert!(gained > 0);
    assert_sound(&db);
}
