//! Other connections do not notice the last close (rule S3).

use crate::common::{self, Place, assert_sound, fill, int, run};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

/// Pause points are global to the process, so these tests run one at a time.
static PAUSES: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    PAUSES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection that finds the lock of a closing one waits for it, even without a busy timeout,
/// because plain SQLite would not have been busy.
#[test]
fn a_reader_waits_for_a_closing_connection() {
    let _alone = alone();
    let place = Place::new();
    let closing = place.open("x.db");
    fill(&closing, 100);
    let reader = place.open("x.db");
    reader.busy_timeout(Duration::ZERO).expect("sets");
    assert_eq!(int(&reader, "SELECT count(*) FROM t"), 100);
    let (reached, wait) = mpsc::channel();
    let reached = std::sync::Mutex::new(Some(reached));
    densite_vfs::failpoint::arm("closing-locked", move || {
        if let Some(tell) = reached.lock().expect("not poisoned").take() {
            tell.send(()).expect("the test receives");
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let closer = std::thread::spawn(move || drop(closing));
    let met = wait.recv_timeout(Duration::from_secs(10));
    let count = reader.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0));
    closer.join().expect("no panic");
    densite_vfs::failpoint::disarm("closing-locked");
    met.expect("a close after a write names the tip under a lock");
    assert_eq!(count.expect("not busy"), 100);
}

#[test]
fn a_lock_of_a_transaction_is_busy_at_once() {
    let _alone = alone();
    let place = Place::new();
    let (writer, reader) = (place.open("x.db"), place.open("x.db"));
    fill(&writer, 10);
    reader.busy_timeout(Duration::ZERO).expect("sets");
    run(&writer, "BEGIN EXCLUSIVE");
    // The machine can be busy now and then, so only the quickest run counts.
    let quickest = (0..20).map(|_| {
        let begin = std::time::Instant::now();
        let error = reader.execute_batch("SELECT * FROM t").expect_err("busy");
        let code = error.sqlite_error_code();
        assert_eq!(code, Some(rusqlite::ErrorCode::DatabaseBusy));
        begin.elapsed()
    });
    let quickest = quickest.min().expect("at least one run");
    assert!(quickest < Duration::from_millis(20), "{quickest:?}");
}

/// Rule S2: RESERVED makes a hot journal look cold, so a close beside one takes no lock.
#[test]
fn a_close_does_not_change_a_hot_journal() {
    let _alone = alone();
    let place = Place::new();
    let db = place.open("x.db");
    fill(&db, 100);
    std::fs::write(place.path("x.db-djournal"), b"looks like a journal").expect("writes");
    let taken = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seen = std::sync::Arc::clone(&taken);
    let path = place.path("x.db-djournal");
    densite_vfs::failpoint::arm("closing-locked", move || {
        // Other tests of this file close too, so this checks the path.
        if path.exists() {
            seen.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    });
    drop(db);
    std::fs::remove_file(place.path("x.db-djournal")).expect("still there");
    densite_vfs::failpoint::disarm("closing-locked");
    assert!(!taken.load(std::sync::atomic::Ordering::Relaxed));
    assert_sound(&place.open("x.db"));
}

#[test]
fn many_connections_open_write_and_close_at_once() {
    let _alone = alone();
    let place = Place::new();
    fill(&place.open("x.db"), 1);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let db = place.open("x.db");
                    db.busy_timeout(Duration::from_secs(60)).expect("sets");
                    run(&db, "INSERT INTO t(b) VALUES ('x')");
                }
            });
        }
    });
    let db = place.open("x.db");
    assert_eq!(int(&db, "SELECT count(*) FROM t"), 41);
    assert_sound(&db);
}

/// The end of a WAL gets a slot once. Later commits in a rollback mode write no more than before.
#[test]
fn leaving_wal_mode_leaves_no_cost() {
    let _alone = alone();
    let (counts, vfs) = common::flaky::flaky("leaving");
    let place = Place::new();
    let db = place.try_open_over(&vfs, "x.db", "").expect("opens");
    fill(&db, 100);
    let calls_of_commits = || {
        let before = counts.calls.load(Relaxed);
        for _ in 0..20 {
            run(
                &db,
                "UPDATE t SET b = 'x' || hex(randomblob(9)) WHERE a = 50",
            );
        }
        counts.calls.load(Relaxed) - before
    };
    let before = calls_of_commits();
    run(
        &db,
        "PRAGMA journal_mode=WAL; DELETE FROM t WHERE a = 1; PRAGMA journal_mode=DELETE",
    );
    run(&db, "DELETE FROM t WHERE a = 2");
    let after = calls_of_commits();
    assert!(
        after <= before + 10,
        "{before} calls for 20 commits before, {after} after"
    );
}

/// With `nolock` a close cannot know whether another connection has an open transaction. So it must
/// not move records.
#[test]
fn a_close_without_locks_reclaims_nothing_during_another_transaction() {
    let _alone = alone();
    let place = Place::new();
    let open = || place.try_open("x.db", "&nolock=1").expect("opens");
    let (closing, writing) = (open(), open());
    run(&closing, "PRAGMA densite_dead_limit=90");
    fill(&closing, 20_000);
    for part in 0..8 {
        run(
            &closing,
            &format!("UPDATE t SET b = hex(randomblob(20)) WHERE a % 800 < 400 AND a % 8 = {part}"),
        );
    }
    let left = int(&closing, "SELECT count(*) FROM t");
    assert!(
        common::figure(&closing, "dead_bytes")
            .parse::<u64>()
            .expect("a number")
            > 300_000,
        "nothing to reclaim"
    );
    // Pages of the transaction are already in the file, and no journal beside it shows that.
    run(
        &writing,
        "PRAGMA journal_mode=MEMORY; PRAGMA cache_size=5; BEGIN IMMEDIATE; CREATE TABLE u(b); INSERT INTO u SELECT randomblob(500) FROM t",
    );
    drop(closing);
    run(&writing, "COMMIT");
    assert_eq!(int(&writing, "SELECT count(*) FROM t"), left);
    assert_eq!(int(&writing, "SELECT count(*) FROM u"), left);
    assert_sound(&writing);
    drop(writing);
    assert_sound(&place.open("x.db"));
}
