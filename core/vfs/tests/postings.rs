//! An FTS5 index is stored as postings, in rollback and WAL mode, and answers as in plain SQLite.

use crate::common::{Place, assert_sound, run, wrapped};
use densite_store::codec::CodecId;
use rusqlite::Connection;

const MAKE: &str = "CREATE VIRTUAL TABLE t USING fts5(title, body);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
      INSERT INTO t SELECT 'title ' || i % 50, (SELECT group_concat(
        'word' || (n.i * j.i * 40503 >> 3) % 500, ' ') FROM n AS j WHERE j.i < 40 + n.i % 60)
      FROM n";
const CHANGE: &str = "DELETE FROM t WHERE rowid % 5 = 0;
    UPDATE t SET title = 'another' WHERE rowid % 7 = 0;
    INSERT INTO t(t) VALUES ('integrity-check')";

/// Pages with postings, and their stored bytes.
fn postings(db: &Connection) -> (usize, u64) {
    let mut found = (0, 0);
    densite_vfs::with_handle(&wrapped(db), c"main", |handle| {
        handle.each_frame(&mut |frame| {
            if frame.codec == CodecId::POSTINGS {
                assert_eq!(frame.run_pages, 1);
                found.0 += 1;
                found.1 += frame.stored_bytes;
            }
        })
    })
    .expect("answers")
    .expect("a store")
    .expect("frames");
    found
}

fn matches(db: &Connection) -> Vec<(i64, String)> {
    let mut all = db
        .prepare("SELECT rowid, snippet(t, 1, '[', ']', '', 9) FROM t WHERE t MATCH ?")
        .expect("sql");
    let mut of = |words: &str| -> Vec<(i64, String)> {
        let rows = all.query_map([words], |r| Ok((r.get(0)?, r.get(1)?)));
        let rows = rows.expect("rows").collect::<rusqlite::Result<_>>();
        rows.expect("rows")
    };
    ["word7", "word3*", "\"word9 word18\"", "another AND word250"]
        .map(&mut of)
        .concat()
}

#[test]
fn an_index_is_stored_as_postings_and_answers() {
    for mode in ["DELETE", "WAL"] {
        let place = Place::new();
        let plain = Connection::open_in_memory().expect("opens");
        let db = place.open("x.db");
        run(&db, &format!("PRAGMA journal_mode={mode}"));
        for sql in [MAKE, CHANGE] {
            for db in [&plain, &db] {
                run(db, sql);
            }
            run(&db, "PRAGMA wal_checkpoint");
            let (pages, bytes) = postings(&db);
            let what = format!("{mode}: {pages} pages, {bytes} bytes");
            assert!(pages > 40 && bytes < 4096 * pages as u64 * 3 / 5, "{what}");
            assert!(matches(&db) == matches(&plain), "{mode}");
        }
        assert_sound(&db);
        drop(db);
        let db = place.open("x.db");
        assert!(matches(&db) == matches(&plain), "{mode}");
    }
}
