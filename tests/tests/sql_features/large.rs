//! Databases that cross the lock page at 1 GiB, which SQLite does not use.

use super::*;
use densite_tests::model::folder;

const GIB: i64 = 1 << 30;

/// The database has a little more than 1 GiB, but its file is small because the rows are zeros.
#[test]
fn a_database_crosses_the_lock_page() {
    let dir = folder();
    let path = dir.path().join("large.db");
    let db = densite(&path);
    db.execute_batch(
        "PRAGMA page_size = 65536; PRAGMA journal_mode = off; PRAGMA synchronous = off; PRAGMA cache_size = -8000;
         CREATE TABLE large(id INTEGER PRIMARY KEY, b BLOB); CREATE TABLE t(id INTEGER PRIMARY KEY, x TEXT);",
    )
    .expect("settings");
    // 1000 MiB, then small rows on both sides of the page, then more.
    for id in 0..25 {
        db.execute("INSERT INTO large VALUES (?1, zeroblob(41943040))", [id])
            .expect("write");
    }
    assert!(number(&db, "PRAGMA page_count") * 65536 < GIB);
    let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)
                INSERT INTO t(x) SELECT printf('%.*c', 600000, char(97 + i % 26)) FROM n";
    db.execute_batch(fill).expect("cross the lock page");
    let pages = number(&db, "PRAGMA page_count");
    assert!(pages * 65536 > GIB, "{pages} pages");
    db.execute("INSERT INTO large VALUES (100, zeroblob(1000000))", [])
        .expect("write");
    let check = |db: &Connection| {
        assert_eq!(
            number(
                db,
                "SELECT count(*) FROM t WHERE length(x) = 600000 AND x = printf('%.*c', 600000, char(97 + id % 26))"
            ),
            60
        );
        assert_eq!(
            number(db, "SELECT sum(length(b)) FROM large"),
            25 * 41_943_040 + 1_000_000
        );
    };
    check(&db);
    assert_eq!(text(&db, "PRAGMA main.quick_check(1)"), "ok");
    drop(db);
    let stored = std::fs::metadata(&path).expect("the file").len();
    assert!(stored < 64 << 20, "{stored} bytes for zeros");
    let db = densite(&path);
    check(&db);
    assert_eq!(
        number(
            &db,
            "SELECT value FROM densite_info WHERE name = 'logical_bytes'"
        ),
        number(&db, "PRAGMA page_count") * 65536
    );
    // Below it again, with a journal, and then above it.
    db.execute_batch("PRAGMA journal_mode = wal; PRAGMA synchronous = off; BEGIN; UPDATE t SET x = upper(x) WHERE id > 55; ROLLBACK; UPDATE t SET x = x || '' WHERE id > 58;")
        .expect("write beyond the lock page");
    check(&db);
}
