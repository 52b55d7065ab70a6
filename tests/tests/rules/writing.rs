//! Rules S1 to S3: the right to write.

use std::time::Duration;

use densite_sim_disk::SimDisk;
use densite_tests::procs::Subject;
use densite_tests::procs::subject::{READ_WRITE, api, code};
use densite_tests::simvfs::SimVfs;
use rusqlite::{Connection, ffi};

use super::memory::Memory;
use super::{Place, handle, make_table, puppet, raw, read_all, write_all};

/// Rule S1: "Gaining the right means catching up first."
///
/// Two processes write alternately. The second one knows only the state before the first one wrote.
/// Take out: `shared.refresh` in `Handle::begin_write`.
#[test]
fn rule_01_gaining_the_right_catches_up() {
    let file = Memory::default();
    let mut a = handle(file.clone(), "a", raw());
    write_all(&mut a, 20, 1);
    a.publish().expect("publish");
    let mut b = handle(file.clone(), "b", raw());
    assert_eq!(read_all(&mut b, 20), 1);
    write_all(&mut a, 20, 2);
    a.publish().expect("publish");
    // b has read nothing in between.
    b.write_at(&super::page(21, 2, super::PAGE), 20 * super::PAGE as u64)
        .expect("write");
    b.publish().expect("publish");
    for (handle, who) in [
        (&mut a, "a"),
        (&mut b, "b"),
        (&mut handle(file, "c", raw()), "c"),
    ] {
        assert_eq!(read_all(handle, 21), 2, "{who}");
    }
}

/// Rule S1: "A writer of the store holds EXCLUSIVE on the file, or SHARED plus the WAL checkpoint
/// lock."
///
/// Writes that were not published when the right to write ends must be gone when it is gained
/// again: SQLite gave up that transaction, and other connections have written since.
/// Take out: `forget_unpublished` in `MainFile::give_lock`.
#[test]
fn rule_01_unpublished_commits_end_with_the_right() {
    let place = Place::new();
    make_table(&place.db(), "DELETE");
    let (a, b) = (
        super::host::Raw::open(&place.db()),
        super::host::Raw::open(&place.db()),
    );
    for level in [1, 2, 4] {
        a.lock(level).expect("lock");
    }
    let stale = a.read(0, 4096).expect("read");
    a.write(&stale, 0).expect("write");
    a.unlock(0).expect("unlock");
    // Another connection changes the same page.
    let db = Subject::Densite.open(&place.db()).expect("open");
    db.execute_batch("PRAGMA user_version = 77").expect("write");
    a.lock(1).expect("lock");
    b.lock(1).expect("lock");
    let (ours, theirs) = (
        a.read(0, 4096).expect("read"),
        b.read(0, 4096).expect("read"),
    );
    assert!(ours == theirs, "what was never published is still seen");
    assert_eq!(ours[60..64], 77u32.to_be_bytes());
}

/// Rule S1: "With locking_mode=EXCLUSIVE or a heap wal-index the checkpoint lock is a no-op in
/// SQLite, and the last close checkpoints under EXCLUSIVE alone."
///
/// Take out: the code that allows writes under EXCLUSIVE without the checkpoint lock.
#[test]
fn rule_01_exclusive_alone_is_the_right_to_checkpoint() {
    let place = Place::new();
    make_table(&place.db(), "WAL");
    for round in 1..4 {
        let mut a = puppet();
        a.open("a", Subject::Densite, &place.db());
        if round % 2 == 0 {
            a.must("sql a PRAGMA locking_mode=EXCLUSIVE");
        }
        a.must(&format!("sql a UPDATE t SET v = {round}"));
        if round == 2 {
            a.must("sql a PRAGMA wal_checkpoint(TRUNCATE)");
        }
        a.must("close a");
        assert_eq!(place.len_beside("-dwal"), 0, "the last close checkpoints");
        let db = Subject::Densite.open(&place.db()).expect("open");
        let sum: i64 = db
            .query_row("SELECT sum(v) FROM t", [], |r| r.get(0))
            .expect("sum");
        assert_eq!(sum, 2000 * round);
    }
}

/// Leaves the journal of a transaction that is published but not finished: its writer was killed in
/// between.
fn leave_hot_journal(place: &Place) {
    let mut writer = puppet();
    writer.open("w", Subject::Densite, &place.db());
    let stop = writer.stop_at("after-publish", 0);
    writer.tell("sql w UPDATE t SET v = 1 WHERE id <= 1900");
    assert!(writer.comes_to(&stop));
    writer.kill();
    assert!(place.len_beside("-djournal") > 0);
}

/// Rule S2: "in rollback mode makes sure there is no non-empty journal, and only then, without
/// dropping SHARED, takes RESERVED ... If a journal exists it leaves." (RESERVED makes a hot
/// journal look cold, and readers see half a transaction.)
///
/// Take out: `!self.journal_may_be_hot()` in `NamedFile::lock_alone`.
#[test]
fn rule_02_a_close_does_not_change_a_hot_journal() {
    let place = Place::new();
    make_table(&place.db(), "DELETE");
    let mut closer = puppet();
    closer.open("c", Subject::Densite, &place.db());
    // From now on its close has work to do.
    closer.must("sql c PRAGMA user_version = 5");
    leave_hot_journal(&place);
    let stop = closer.stop_at("closing-locked", 0);
    closer.tell("close c");
    assert!(
        !closer.comes_to(&stop),
        "it took its lock over a hot journal"
    );
    closer.answer().expect("close");
    assert!(
        place.len_beside("-djournal") > 0,
        "the journal is not the closer's"
    );
    let db = Subject::Densite.open(&place.db()).expect("open");
    let sum: i64 = db
        .query_row("SELECT sum(v) FROM t", [], |r| r.get(0))
        .expect("sum");
    assert_eq!(sum, 0, "the transaction was rolled back");
}

/// Rule S2, the reverse: without a journal, or with an empty or overwritten one
/// (journal_mode=TRUNCATE and PERSIST), a close does its work. Otherwise the test above would prove
/// nothing.
#[test]
fn rule_02_a_cold_journal_does_not_prevent_a_close_from_reclaiming() {
    for mode in ["DELETE", "TRUNCATE", "PERSIST"] {
        let place = Place::new();
        make_table(&place.db(), mode);
        let mut closer = puppet();
        closer.open("c", Subject::Densite, &place.db());
        closer.must(&format!(
            "sql c PRAGMA journal_mode={mode}; PRAGMA user_version = 5"
        ));
        let stop = closer.stop_at("closing-locked", 0);
        closer.tell("close c");
        assert!(closer.comes_to(&stop), "{mode}");
        closer.go_on(&stop);
        closer.answer().expect("close");
    }
}

/// Rule S3: "a connection's own xLock ... that meets it waits, in the process and for a bounded
/// time across processes. No BUSY that plain SQLite would not give."
///
/// A connection without a busy timeout begins to read or write while a connection of another
/// process closes and holds its lock for 10 ms.
/// Take out: `neighbours.retry` in `MainFile::lock_host`.
#[test]
fn rule_03_a_close_in_another_process_never_causes_busy() {
    let place = Place::new();
    make_table(&place.db(), "DELETE");
    let db = Subject::Densite.open(&place.db()).expect("open");
    db.busy_timeout(Duration::ZERO).expect("no timeout");
    for sql in [
        "SELECT sum(v) FROM t",
        "UPDATE t SET v = v + 1 WHERE id = 5",
        "BEGIN EXCLUSIVE; COMMIT",
    ] {
        let mut closer = puppet();
        closer.open("c", Subject::Densite, &place.db());
        closer.must("sql c PRAGMA user_version = 5");
        let stop = closer.stop_at("closing-locked", 0);
        closer.tell("close c");
        assert!(closer.comes_to(&stop));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(10));
                closer.go_on(&stop);
            });
            db.execute_batch(sql)
                .unwrap_or_else(|e| panic!("{sql}: code {} ({e})", code(&e)));
        });
        closer.answer().expect("close");
    }
}

/// Rule S3 within one process: the wait lasts as long as the close.
///
/// Take out: `closed.wait_for` in `Neighbours::retry`.
#[test]
fn rule_03_a_close_in_the_same_process_never_causes_busy() {
    let place = Place::new();
    make_table(&place.db(), "DELETE");
    let mut puppet = puppet();
    puppet.open("reader", Subject::Densite, &place.db());
    puppet.open("c", Subject::Densite, &place.db());
    puppet.must("sql c PRAGMA user_version = 5");
    puppet.must("sleep closing-locked 300");
    puppet.must("during close c ask reader SELECT count(*) FROM t");
}

/// Rule S3: "Maintenance yields": a close that finds any lock of another connection stops at once
/// and leaves the file valid.
///
/// Take out: `is_ok()` on RESERVED and EXCLUSIVE in `NamedFile::lock_alone` (the test then finds
/// the file changed under a reader).
#[test]
fn rule_03_a_close_yields_to_every_lock() {
    let place = Place::new();
    make_table(&place.db(), "DELETE");
    for lock in [
        "BEGIN; SELECT count(*) FROM t",
        "BEGIN IMMEDIATE",
        "BEGIN EXCLUSIVE",
    ] {
        let mut closer = puppet();
        closer.open("c", Subject::Densite, &place.db());
        closer.must("sql c PRAGMA user_version = 5");
        let db = Subject::Densite.open(&place.db()).expect("open");
        db.execute_batch(lock).expect("lock");
        let stop = closer.stop_at("closing-locked", 0);
        closer.tell("close c");
        assert!(!closer.comes_to(&stop), "it closed under {lock}");
        closer.answer().expect("close");
        db.execute_batch("COMMIT").expect("commit");
    }
}

/// Rule S3: connections that open and close repeatedly, with work at each close, never cause BUSY
/// for others.
///
/// Take out: `neighbours.retry` in `MainFile::lock_host`.
#[test]
fn rule_03_opening_and_closing_never_causes_busy() {
    for synchronous in ["FULL", "OFF"] {
        let place = Place::new();
        make_table(&place.db(), "DELETE");
        let db = Subject::Densite.open(&place.db()).expect("open");
        db.busy_timeout(Duration::ZERO).expect("no timeout");
        let mut churner = puppet();
        for round in 0..60 {
            churner.open("c", Subject::Densite, &place.db());
            churner.must(&format!(
                "sql c PRAGMA synchronous={synchronous}; UPDATE t SET v = {round} WHERE id < 50"
            ));
            churner.tell("close c");
            while !churner.has_answered() {
                if round % 2 == 1 {
                    let write = db.execute_batch("UPDATE t SET pad = pad || 'x' WHERE id = 1999");
                    write.unwrap_or_else(|e| {
                        panic!("round {round}, writing: code {} ({e})", code(&e))
                    });
                }
                let sum = db.query_row("SELECT sum(v) FROM t", [], |r| r.get::<_, i64>(0));
                let sum = sum.unwrap_or_else(|e| panic!("round {round}: code {} ({e})", code(&e)));
                assert_eq!(sum, 49 * round);
            }
            churner.answer().expect("close");
        }
    }
}

/// Rule S3: "it holds the lock for 10 ms at most": if everything is durable already, the close
/// writes a slot and syncs nothing.
///
/// Take out: `durable` in `Handle::close_clean` (sync always).
#[test]
fn rule_03_a_close_of_what_is_durable_does_not_sync() {
    let vfs = SimVfs::register("rule-03-host", SimDisk::new(3));
    densite_vfs::register(api(), c"rule-03", Some(c"rule-03-host"), false).expect("register");
    for (synchronous, syncs) in [("FULL", 0), ("OFF", 1)] {
        let db =
            Connection::open_with_flags_and_vfs("/app.db", READ_WRITE, "rule-03").expect("open");
        db.execute_batch(&format!(
            "PRAGMA synchronous={synchronous}; CREATE TABLE t_{synchronous}(v); INSERT INTO t_{synchronous} VALUES (1)"
        ))
        .expect("write");
        let before = vfs.disk().counters("/app.db");
        db.close().map_err(|(_, e)| e).expect("close");
        let after = vfs.disk().counters("/app.db");
        assert_eq!(after.syncs - before.syncs, syncs, "{synchronous}");
        assert!(after.writes > before.writes, "{synchronous}: nothing to do");
    }
}

/// The control: in the last test plain SQLite never returns BUSY to the reader either.
#[test]
fn rule_03_control() {
    let place = Place::new();
    let db = Subject::Plain.open(&place.db()).expect("open");
    db.execute_batch("CREATE TABLE t(v); INSERT INTO t VALUES (1)")
        .expect("make");
    db.busy_timeout(Duration::ZERO).expect("no timeout");
    let mut churner = puppet();
    for _ in 0..20 {
        churner.open("c", Subject::Plain, &place.db());
        churner.must("sql c UPDATE t SET v = v + 1");
        churner.tell("close c");
        while !churner.has_answered() {
            db.query_row("SELECT sum(v) FROM t", [], |_| Ok(()))
                .expect("read");
        }
        churner.answer().expect("close");
    }
    // A test for BUSY must be able to fail.
    churner.open("c", Subject::Plain, &place.db());
    churner.must("sql c BEGIN EXCLUSIVE");
    let busy = db
        .query_row("SELECT sum(v) FROM t", [], |_| Ok(()))
        .expect_err("locked");
    assert_eq!(code(&busy), ffi::SQLITE_BUSY);
}
