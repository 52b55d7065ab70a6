//! Pages that deletes leave half empty share frames and keep the same content as in plain SQLite.

use crate::common::{Place, assert_sound, run, wrapped};
use densite_store::codec::CodecId;
use rusqlite::Connection;

const MAKE: &str = "CREATE TABLE t(a INTEGER, b INTEGER, c TEXT); CREATE INDEX ti ON t(a, b);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
      INSERT INTO t SELECT i / 4, i % 4, 'the row of number ' || (i * 7919 % 60000) FROM n";
const DELETE: &str = "DELETE FROM t WHERE a % 2 = 0";

fn joined(db: &Connection) -> (usize, usize) {
    let mut pages = (0, 0);
    densite_vfs::with_handle(&wrapped(db), c"main", |handle| {
        handle.each_frame(&mut |frame| {
            pages.0 += usize::from(frame.codec == CodecId::JOINED);
            pages.1 += 1;
            assert_eq!(frame.codec == CodecId::JOINED, frame.run_pages > 1);
        })
    })
    .expect("answers")
    .expect("a store")
    .expect("frames");
    pages
}

fn rows(db: &Connection) -> Vec<(i64, i64, i64, String)> {
    let mut all = db
        .prepare("SELECT rowid, a, b, c FROM t ORDER BY rowid")
        .expect("sql");
    all.query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?)))
        .expect("rows")
        .collect::<rusqlite::Result<_>>()
        .expect("rows")
}

fn delete_every_second(mode: &str) {
    let place = Place::new();
    let plain = Connection::open_in_memory().expect("opens");
    let db = place.open("x.db");
    run(&db, &format!("PRAGMA journal_mode={mode}"));
    for db in [&plain, &db] {
        run(db, MAKE);
    }
    run(&db, "PRAGMA wal_checkpoint");
    let before = joined(&db);
    for db in [&plain, &db] {
        run(db, DELETE);
    }
    run(&db, "PRAGMA wal_checkpoint");
    let after = joined(&db);
    assert!(
        before.0 * 10 < before.1 && after.0 * 2 > after.1,
        "{mode}: joined of all {before:?}, then {after:?}"
    );
    assert!(rows(&db) == rows(&plain), "{mode}");
    assert_sound(&db);
    drop(db);
    let db = place.open("x.db");
    assert!(rows(&db) == rows(&plain), "{mode}");
    // The same again by the index, after new rows went to the sparse pages.
    for db in [&plain, &db] {
        run(
            db,
            "UPDATE t SET c = c || '!' WHERE a % 500 = 1; INSERT INTO t SELECT a - 1, b, c FROM t WHERE a % 300 = 1",
        );
    }
    run(&db, "PRAGMA wal_checkpoint; PRAGMA densite_maintain");
    assert!(rows(&db) == rows(&plain), "{mode}");
    assert_sound(&db);
}

#[test]
fn sparse_pages_share_frames_in_a_rollback_mode() {
    delete_every_second("DELETE");
}

#[test]
fn sparse_pages_share_frames_in_wal_mode() {
    delete_every_second("WAL");
}

#[test]
fn run_pages_of_one_disables_shared_frames() {
    let place = Place::new();
    let db = place.try_open("x.db", "&run_pages=1").expect("opens");
    run(&db, MAKE);
    run(&db, DELETE);
    assert_eq!(joined(&db).0, 0);
}
