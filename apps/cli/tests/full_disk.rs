//! A disk that is full, or a limit on the length of files, which acts like one.

use crate::bad_input::limited;
use crate::common::*;
use std::fs;

/// Rows that do not compress, so that a plain copy is no longer, and what `sql` does to them. The
/// process is then killed.
fn left_after(dir: &tempfile::TempDir, sql: &str) -> (String, u64) {
    let a = at(dir, "a.db");
    let mut other = Other::on(&a);
    other.run(
        "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;
         CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB);
         WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 75)
         INSERT INTO t SELECT i, randomblob(40000) FROM c;
         PRAGMA wal_checkpoint(TRUNCATE)",
    );
    other.run(sql);
    other.kill();
    let len = fs::metadata(&a).expect("the database").len();
    (a, len)
}

fn rows(path: &str) -> String {
    let sql = "SELECT id, hex(v) FROM t ORDER BY id";
    densite(&["sql", path, sql, "--format", "csv"])
        .expect(0)
        .out
}

/// Promise 6 of docs/durability/disks.md.
#[test]
fn a_full_disk_does_not_keep_a_wal_from_being_read() {
    let dir = temp();
    let (a, len) = left_after(&dir, "UPDATE t SET v = randomblob(40000) WHERE id % 3 < 2");
    let b = at(&dir, "b.db");
    limited(len, &["check", &a]).expect(0);
    limited(len, &["decompress", &a, &b]).expect(0);
    // In place, the WAL has to be written into the file first.
    limited(len, &["decompress", &a])
        .expect(4)
        .says("not enough disk space");
    let wal = fs::metadata(at(&dir, "a.db-dwal")).expect("the WAL");
    assert!(wal.len() > 1 << 20, "it is still there");
    assert_eq!(rows(&a), rows(&b));
}

/// Promise 5 of docs/durability/disks.md.
#[test]
fn a_limit_on_the_length_of_files_is_a_full_disk() {
    let dir = temp();
    let (a, _) = left_after(&dir, "PRAGMA journal_mode=DELETE");
    densite(&["check", &a]).expect(0);
    let len = fs::metadata(&a).expect("the database").len();
    let before = rows(&a);
    let update = "UPDATE t SET v = randomblob(40000)";
    limited(len + (600 << 10), &["sql", &a, update])
        .expect(4)
        .says("full");
    let read = limited(len, &["sql", &a, "SELECT count(*) FROM t"]).expect(0);
    assert!(read.out.contains("75"), "{read:?}");
    assert_eq!(rows(&a), before);
    densite(&["check", &a]).expect(0);
}
