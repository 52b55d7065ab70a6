//! Rules S4 to S7: what other connections see.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use densite_disk::SyncKind;
use densite_sim_disk::{Fault, FaultKind, OpSet, SimDisk};
use densite_store::{Error, Kind};
use densite_tests::procs::subject::{READ_WRITE, api, primary};
use densite_tests::procs::{Subject, store};
use densite_tests::simvfs::SimVfs;
use rusqlite::{Connection, ffi};

use super::memory::Memory;
use super::{PAGE, Place, handle, make_table, puppet, raw, read_all, write_all};

/// Rule S4: "Publish completes inside SQLITE_FCNTL_SYNC, also with locking_mode=EXCLUSIVE and
/// synchronous=OFF (xSync is then not called) ... COMMIT_PHASETWO comes after the journal is gone".
///
/// Before and during the publish of the writer, the journal must exist: if the writer is killed at
/// either point, the journal is rolled back.
/// Take out: the publish at FCNTL_SYNC in `MainFile::control`.
#[test]
fn rule_04_publishing_comes_before_the_journal_is_removed() {
    for settings in [
        "PRAGMA locking_mode=EXCLUSIVE; PRAGMA synchronous=OFF",
        "PRAGMA synchronous=OFF",
        "PRAGMA synchronous=FULL",
    ] {
        for point in ["before-publish", "after-publish"] {
            let what = format!("{settings} {point}");
            let place = Place::new();
            make_table(&place.db(), "DELETE");
            let mut writer = puppet();
            writer.open("w", Subject::Densite, &place.db());
            writer.must(&format!("sql w {settings}"));
            let stop = writer.stop_at(point, 0);
            writer.tell("sql w UPDATE t SET v = 1");
            assert!(writer.comes_to(&stop), "{what}");
            assert!(
                place.len_beside("-djournal") > 0,
                "{what}: the journal is gone"
            );
            writer.kill();
            assert_eq!(sum(&place), 0, "{what}: rolled back");
        }
        // A commit that returned is present, whatever happens later.
        let place = Place::new();
        make_table(&place.db(), "DELETE");
        let mut writer = puppet();
        writer.open("w", Subject::Densite, &place.db());
        writer.must(&format!("sql w {settings}; UPDATE t SET v = 1"));
        writer.kill();
        assert_eq!(sum(&place), 2000, "{settings}");
    }
}

fn sum(place: &Place) -> i64 {
    let db = Subject::Densite.open(&place.db()).expect("open");
    db.query_row("SELECT sum(v) FROM t", [], |r| r.get(0))
        .expect("sum")
}

/// `WalCkptInfo.nBackfill` of a WAL index: frames up to this number are read from the database
/// file.
pub(crate) fn backfilled(place: &Place) -> u32 {
    let index = std::fs::read(place.beside("-shm")).expect("read the WAL index");
    u32::from_ne_bytes(index[96..100].try_into().expect("4 bytes"))
}

/// Rule S4: "at SQLITE_FCNTL_CKPT_DONE (a checkpoint that does not reach the WAL's end never calls
/// xSync and yet moves readers to the database file)".
///
/// A reader keeps the checkpoint from reaching the end of the WAL. While the checkpoint publishes,
/// no reader may read from the database file yet. A process that starts to read at that moment, and
/// one that starts later, see everything.
/// Take out: the publish in `MainFile::checkpoint_done`.
#[test]
fn rule_04_a_partial_checkpoint_is_published() {
    let place = Place::new();
    make_table(&place.db(), "WAL");
    let mut writer = puppet();
    writer.open("w", Subject::Densite, &place.db());
    writer.must("sql w PRAGMA wal_autocheckpoint=0; UPDATE t SET v = 1");
    let mut reader = puppet();
    reader.open("r", Subject::Densite, &place.db());
    reader.must("sql r BEGIN");
    assert_eq!(reader.must("ask r SELECT sum(v) FROM t"), "2000");
    writer.must("sql w UPDATE t SET v = 2 WHERE id <= 10");
    let stop = writer.stop_at("before-publish", 0);
    writer.tell("ask w PRAGMA wal_checkpoint(PASSIVE)");
    assert!(writer.comes_to(&stop), "the checkpoint published nothing");
    assert_eq!(
        backfilled(&place),
        0,
        "readers were sent to the database file before it was published"
    );
    let mut third = puppet();
    third.open("t", Subject::Densite, &place.db());
    assert_eq!(third.must("ask t SELECT sum(v) FROM t"), "2010");
    writer.go_on(&stop);
    let answer = writer.answer().expect("checkpoint");
    let [_, log, moved] = answer
        .split('|')
        .collect::<Vec<_>>()
        .try_into()
        .expect("three numbers");
    assert!(moved != "0" && moved != log, "not partial: {answer}");
    assert!(backfilled(&place) > 0);
    let mut fourth = puppet();
    fourth.open("f", Subject::Densite, &place.db());
    for (puppet, name) in [(&mut third, "t"), (&mut fourth, "f")] {
        assert_eq!(
            puppet.must(&format!("ask {name} SELECT sum(v) FROM t")),
            "2010"
        );
    }
    // The snapshot is unchanged.
    assert_eq!(reader.must("ask r SELECT sum(v) FROM t"), "2000");
}

/// Rule S4: "and at the xTruncate that follows".
///
/// With synchronous=OFF there is no xSync either. Each publish of a complete checkpoint comes
/// before readers use the database file.
/// Take out: the publish in `MainFile::truncate`; then one comes at the end of the checkpoint.
#[test]
fn rule_04_the_truncation_of_a_checkpoint_is_published() {
    let place = Place::new();
    make_table(&place.db(), "WAL");
    let mut writer = puppet();
    writer.open("w", Subject::Densite, &place.db());
    writer.must(
        "sql w PRAGMA wal_autocheckpoint=0; PRAGMA synchronous=OFF; DELETE FROM t WHERE id > 100",
    );
    let mut reader = puppet();
    reader.open("r", Subject::Densite, &place.db());
    reader.must("ask r SELECT sum(v) FROM t");
    writer.must("sql w VACUUM");
    for passing in 0.. {
        assert_eq!(backfilled(&place), 0, "the WAL must restart");
        let stop = writer.stop_at("before-publish", passing);
        writer.tell("ask w PRAGMA wal_checkpoint(PASSIVE)");
        if !writer.comes_to(&stop) {
            writer.answer().expect("checkpoint");
            assert!(passing >= 2, "pages and length are published apart");
            break;
        }
        assert_eq!(
            backfilled(&place),
            0,
            "publish {} comes after readers were sent to the file",
            passing + 1
        );
        writer.go_on(&stop);
        writer.answer().expect("checkpoint");
        // The same for the next passing: the database file is long and becomes short.
        writer.must("sql w INSERT INTO t(v, pad) SELECT 0, hex(randomblob(150)) FROM t");
        writer.must("sql w PRAGMA wal_checkpoint(TRUNCATE)");
        writer.must("sql w DELETE FROM t WHERE id > 100");
        writer.must("sql w VACUUM");
    }
    assert_eq!(reader.must("ask r SELECT count(*) FROM t"), "100");
    assert_eq!(reader.must("ask r PRAGMA integrity_check"), "ok");
}

/// Rule S5: "Freshness is checked at every read and every xFileSize of the main file, not only when
/// a lock is taken. A WAL reader takes its lock first and only then reads how far the log was
/// backfilled".
///
/// The reader stops between the two, and a checkpoint of another process completes there.
/// Take out: `self.refresh` in `Handle::read_at`, or the check of the journal mode in
/// `Handle::refresh` (`LockLevel::Shared`: true).
#[test]
fn rule_05_a_checkpoint_between_a_readers_lock_and_its_first_read() {
    let place = Place::new();
    make_table(&place.db(), "WAL");
    let mut reader = puppet();
    reader.open("r", Subject::Densite, &place.db());
    // It has loaded the current state of the store.
    assert_eq!(reader.must("ask r SELECT sum(v) FROM t"), "0");
    let mut writer = puppet();
    writer.open("w", Subject::Densite, &place.db());
    writer.must("sql w PRAGMA wal_autocheckpoint=0; UPDATE t SET v = 1");
    let stop = reader.stop_at("shm-lock-read-taken", 0);
    reader.tell("ask r SELECT sum(v) FROM t");
    assert!(reader.comes_to(&stop));
    let answer = writer.must("ask w PRAGMA wal_checkpoint(PASSIVE)");
    let [_, log, moved] = answer
        .split('|')
        .collect::<Vec<_>>()
        .try_into()
        .expect("three numbers");
    assert_eq!(log, moved, "not complete: {answer}");
    reader.go_on(&stop);
    assert_eq!(reader.answer().as_deref(), Ok("2000"));
}

/// Rule S5 on the store alone, for reads and for lengths.
///
/// Take out: `self.refresh` in `Handle::read_at`, in `Handle::len`.
#[test]
fn rule_05_every_read_and_every_length_is_fresh() {
    let file = Memory::default();
    let (mut a, mut b) = (handle(file.clone(), "a", raw()), handle(file, "b", raw()));
    for mark in 1..30 {
        let pages = 10 + mark % 7;
        write_all(&mut a, pages, mark);
        a.set_len(u64::from(pages) * PAGE as u64).expect("set_len");
        assert_eq!(
            b.len().expect("len"),
            if mark == 1 {
                0
            } else {
                (10 + u64::from(mark - 1) % 7) * PAGE as u64
            }
        );
        a.publish().expect("publish");
        if mark % 2 == 0 {
            assert_eq!(b.len().expect("len"), u64::from(pages) * PAGE as u64);
        }
        assert_eq!(read_all(&mut b, pages), mark);
    }
}

/// Rule S6: "The decoded cache is keyed by the version of a page, never by its number alone."
///
/// Take out: the version from the key in `Cache` (`Shard::get`).
#[test]
fn rule_06_the_cache_knows_versions() {
    let file = Memory::default();
    let (mut a, mut b) = (
        handle(file.clone(), "same", raw()),
        handle(file, "same", raw()),
    );
    for mark in 1..50 {
        write_all(&mut a, 8, mark);
        if mark > 1 {
            // b fills the cache with the old versions while the new ones are pending.
            assert_eq!(read_all(&mut b, 8), mark - 1);
        }
        a.publish().expect("publish");
        assert_eq!(read_all(&mut b, 8), mark);
        assert_eq!(read_all(&mut a, 8), mark);
    }
}

/// Rule S6: "A frame is read, checked (page number, version, checksum), and on mismatch the map is
/// refreshed and the read retried; only then is it corruption. So space reclamation never
/// invalidates a reader."
///
/// After a reader has looked up a frame in the map and before it reads the frame, another process
/// writes so much that the place has other bytes.
/// Take out: the loop in `Handle::read_published`, or the comparison of number and version in
/// `decode_frame_with`.
#[test]
fn rule_06_a_reused_place_is_no_damage() {
    const PAGES: u32 = 40;
    let file = Memory::default();
    let mut writer = handle(file.clone(), "w", raw());
    write_all(&mut writer, PAGES, 1);
    writer.sync(SyncKind::Data).expect("sync");
    let armed = Arc::new(AtomicBool::new(false));
    let (switch, bytes) = (armed.clone(), file.clone());
    let mut mark = 1;
    let reading = file.hooked(move |offset, len| {
        // Called for the read of a frame: the file is rewritten several times before it.
        if offset < 16384 || len < PAGE || !switch.swap(false, Ordering::Relaxed) {
            return;
        }
        let before = bytes.bytes()[offset as usize..offset as usize + len].to_vec();
        while bytes.bytes()[offset as usize..offset as usize + len] == before[..] {
            mark += 1;
            assert!(mark < 1000, "the place is never used again");
            write_all(&mut writer, PAGES, mark);
            writer.sync(SyncKind::Data).expect("sync");
        }
    });
    let uncached = densite_store::Options {
        decoded_cache: densite_store::DecodedCache::Bytes(0),
        ..raw()
    };
    let mut reader = handle(reading, "r", uncached);
    let mut got = vec![0; PAGE];
    // The first pages are beside the preamble, in a place that is never reused.
    for page in [20, 30, PAGES] {
        armed.store(true, Ordering::Relaxed);
        let read = reader.read_at(&mut got, u64::from(page - 1) * PAGE as u64);
        assert_eq!(read.expect("a moved page is no damage"), PAGE);
        assert!(!armed.load(Ordering::Relaxed), "the hook was not reached");
        let mark = u32::from_le_bytes(got[4..8].try_into().expect("4 bytes"));
        assert!(
            mark > 1 && got == super::page(page, mark, PAGE),
            "page {page}, mark {mark}"
        );
    }
}

/// Rule S6, the reverse: a mismatch that stays is damage, reported with page and offset.
#[test]
fn rule_06_bytes_that_stay_wrong_are_damage() {
    let file = Memory::default();
    let mut writer = handle(file.clone(), "w", raw());
    write_all(&mut writer, 10, 1);
    writer.close_clean().expect("close");
    drop(writer);
    let mut bytes = file.bytes();
    let needle = super::page(7, 1, PAGE);
    let at = bytes
        .windows(PAGE)
        .position(|w| w == needle)
        .expect("a raw page");
    bytes[at + 100] ^= 1;
    let mut reader = handle(Memory::new(bytes), "r", raw());
    let mut got = vec![0; PAGE];
    match reader.read_at(&mut got, 6 * PAGE as u64) {
        Err(Error::Corrupt(damage)) => {
            assert_eq!(damage.page, Some(7));
            assert!(
                damage.offset < at as u64 && damage.offset > at as u64 - 100,
                "{damage}"
            );
        }
        other => panic!("{other:?}"),
    }
}

/// Rule S7: "xFileSize never returns 0 for a file it cannot read (SQLite would delete the journal
/// or WAL)".
///
/// A file with a hot journal or a WAL has a damaged header, or returns EIO. It is opened and used
/// in every way, and the companion file must not change.
/// Take out: the last arm of `MainFile::file_size` (return 0).
#[test]
fn rule_07_an_unreadable_file_keeps_its_journal_and_wal() {
    for mode in ["DELETE", "WAL"] {
        for (from, to) in [(3, 4), (24, 32), (0, 40), (4096, 12288)] {
            let place = Place::new();
            make_table(&place.db(), mode);
            let mut writer = puppet();
            writer.open("w", Subject::Densite, &place.db());
            let suffix = if mode == "WAL" {
                writer.must("sql w UPDATE t SET v = 1");
                "-dwal"
            } else {
                let stop = writer.stop_at("after-publish", 0);
                writer.tell("sql w UPDATE t SET v = 1");
                assert!(writer.comes_to(&stop));
                "-djournal"
            };
            writer.kill();
            let companion = std::fs::read(place.beside(suffix)).expect("read");
            assert!(!companion.is_empty());
            let whole = std::fs::read(place.db()).expect("read");
            let mut damaged = whole.clone();
            damaged[from..to].fill(0x5A);
            std::fs::write(place.db(), &damaged).expect("damage");
            let what = format!("{mode}, bytes {from} to {to} damaged");
            if store::kind(&place.db()) != Kind::Densite {
                // The file is not recognised as ours any more. SQLite itself reports that it is not
                // a database.
                assert_eq!((from, to), (0, 40), "{what}");
            }
            for sql in [
                "SELECT * FROM t",
                "BEGIN IMMEDIATE",
                "PRAGMA journal_mode=DELETE",
                "VACUUM",
                "CREATE TABLE u(x)",
            ] {
                let db = Subject::Densite.open(&place.db());
                let error = match &db {
                    Ok(db) => db.execute_batch(sql).expect_err(&what),
                    Err(_) => continue,
                };
                assert!(
                    [
                        ffi::SQLITE_CORRUPT,
                        ffi::SQLITE_NOTADB,
                        ffi::SQLITE_CANTOPEN
                    ]
                    .contains(&primary(&error)),
                    "{what}, {sql}: {error}"
                );
            }
            assert!(
                std::fs::read(place.beside(suffix)).is_ok_and(|now| now == companion),
                "{what}: the {suffix} was touched"
            );
            assert!(
                std::fs::read(place.db()).is_ok_and(|now| now == damaged),
                "{what}: the file was touched"
            );
            // When the file is readable again, nothing is lost.
            std::fs::write(place.db(), &whole).expect("mend");
            assert_eq!(sum(&place), if mode == "WAL" { 2000 } else { 0 }, "{what}");
        }
    }
}

/// Rule S7 for a device that fails: EIO at every read of the main file.
///
/// Take out: as above.
#[test]
fn rule_07_eio_keeps_the_journal() {
    let vfs = SimVfs::register("rule-07-host", SimDisk::new(1));
    densite_vfs::register(api(), c"rule-07", Some(c"rule-07-host"), false).expect("register");
    let open = || Connection::open_with_flags_and_vfs("/app.db", READ_WRITE, "rule-07");
    let db = open().expect("open");
    db.execute_batch("CREATE TABLE t(v); INSERT INTO t VALUES (zeroblob(9000))")
        .expect("make");
    db.execute_batch("PRAGMA cache_size=1; BEGIN; UPDATE t SET v = zeroblob(90000)")
        .expect("begin");
    // As after a kill: the journal exists, and no connection holds a lock.
    let disk = vfs.disk().snapshot();
    let mut journal = disk.contents("/app.db-djournal").expect("a journal");
    assert!(journal.len() > 512);
    // The journal becomes hot when its header has the number of pages, which SQLite writes when it
    // syncs.
    journal[8..12].copy_from_slice(&1u32.to_be_bytes());
    disk.put_file("/app.db-djournal", &journal);
    std::mem::forget(db);
    vfs.reboot(disk.clone());
    for op in [densite_disk::Op::Read, densite_disk::Op::Len] {
        disk.fail(
            Fault::new(FaultKind::Io, OpSet::of(&[op]))
                .on_path("app.db")
                .forever(),
        );
        for sql in ["SELECT * FROM t", "BEGIN IMMEDIATE", "CREATE TABLE u(x)"] {
            if let Ok(db) = open() {
                db.execute_batch(sql).expect_err(sql);
            }
        }
        disk.clear_faults();
        assert_eq!(
            disk.contents("/app.db-djournal"),
            Some(journal.clone()),
            "the journal was touched"
        );
    }
}

/// Rule S7: "what looks wrong at xOpen is judged again under SHARED."
///
/// When the file is opened, it is half written, as if another process were creating it. When it is
/// first locked, it is complete.
/// Take out: `judge_under_lock` in `MainFile::take_lock` and `settle` in `MainFile::read`.
#[test]
fn rule_07_a_file_is_identified_again_under_its_first_lock() {
    let place = Place::new();
    make_table(&place.db(), "DELETE");
    let whole = std::fs::read(place.db()).expect("read");
    let halves: [(&str, &[u8]); 4] = [
        ("nothing", &[]),
        ("zeros", &[0; 16384]),
        ("half a header", &whole[..20]),
        ("no slots", &whole[..4096]),
    ];
    for (what, half) in halves {
        std::fs::write(place.db(), half).expect("write");
        let db = Subject::Densite
            .open(&place.db())
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        std::fs::write(place.db(), &whole).expect("write");
        let count: i64 = db
            .query_row("SELECT count(*) FROM t", [], |r| r.get(0))
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(count, 2000, "{what}");
    }
}
