//! Copies of whole databases: the backup API between all page sizes, and images in memory.

use super::*;
use densite_tests::model::folder;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::ffi;

/// If the pages of the source are smaller than those of the destination, SQLite writes past its
/// pager: parts of pages, and a truncation.
#[test]
fn a_backup_between_any_two_page_sizes() {
    let dir = folder();
    const SIZES: [u32; 5] = [512, 1024, 4096, 16_384, 65_536];
    for from in SIZES {
        let source = Connection::open_in_memory().expect("open");
        source
            .execute_batch(&format!("PRAGMA page_size={from}; {SOME_ROWS}"))
            .expect("write");
        for to in SIZES {
            for rows in [0, 3000] {
                let what = format!("from pages of {from} to {to} with {rows} rows");
                let path = dir.path().join(format!("{from}-{to}-{rows}.db"));
                let mut copy = densite(&path);
                // With other content, shorter or longer than the source.
                copy.execute_batch(&format!(
                    "PRAGMA page_size={to}; CREATE TABLE old(x);
                     WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
                     INSERT INTO old SELECT hex(randomblob(100)) FROM n"
                ))
                .expect("write");
                let backup = Backup::new(&source, &mut copy).expect("begin a backup");
                while backup.step(7).expect("step") != StepResult::Done {}
                drop(backup);
                check_rows(&copy);
                drop(copy);
                let copy = densite(&path);
                check_rows(&copy);
                assert_eq!(number(&copy, "PRAGMA page_size"), i64::from(from), "{what}");
                assert!(starts_with(&path, MAGIC), "{what}");
                copy.execute_batch("INSERT INTO t(x) VALUES ('one more'); VACUUM")
                    .expect("write");
                drop(copy);
                let copy = densite(&path);
                assert_eq!(number(&copy, "SELECT count(*) FROM t"), 501, "{what}");
                assert_eq!(text(&copy, "PRAGMA integrity_check"), "ok", "{what}");
            }
        }
    }
}

/// An image equals a plain file, even for pages that the store has dropped. It can be opened in
/// memory and copied back.
#[test]
fn serialized_images_round_trip() {
    let dir = folder();
    for journal in ["delete", "wal"] {
        let path = dir.path().join(format!("{journal}.db"));
        let db = densite(&path);
        db.execute_batch(&format!(
            "PRAGMA journal_mode={journal}; {SOME_ROWS}
             CREATE TABLE gone AS SELECT randomblob(2000) FROM t; DROP TABLE gone;
             PRAGMA wal_checkpoint(TRUNCATE); UPDATE t SET x = x WHERE id = 1;
             PRAGMA densite_maintain"
        ))
        .expect("write");
        assert!(number(&db, "PRAGMA freelist_count") > 100);
        let mut len = 0;
        // SAFETY: an open connection, a terminated name, and a place for the length.
        let image = unsafe { ffi::sqlite3_serialize(db.handle(), c"main".as_ptr(), &mut len, 0) };
        assert!(!image.is_null());
        assert_eq!(
            len,
            number(&db, "PRAGMA page_count") * number(&db, "PRAGMA page_size")
        );
        let memory = Connection::open_in_memory().expect("open");
        let flags = ffi::SQLITE_DESERIALIZE_FREEONCLOSE | ffi::SQLITE_DESERIALIZE_RESIZEABLE;
        // SAFETY: an open connection, and memory of SQLite whose ownership passes to it.
        let rc = unsafe {
            if journal == "wal" {
                // There is no WAL in memory, so the header is changed as for a plain file that
                // leaves WAL mode.
                image.add(18).write(1);
                image.add(19).write(1);
            }
            ffi::sqlite3_deserialize(memory.handle(), c"main".as_ptr(), image, len, len, flags)
        };
        assert_eq!(rc, ffi::SQLITE_OK);
        check_rows(&memory);
        let back = dir.path().join(format!("{journal}-back.db"));
        let mut copy = densite(&back);
        let backup = Backup::new(&memory, &mut copy).expect("begin a backup");
        while backup.step(11).expect("step") != StepResult::Done {}
        drop(backup);
        drop(copy);
        check_rows(&densite(&back));
        assert!(starts_with(&back, MAGIC));
    }
}

/// Without a journal SQLite cannot roll back. If it gives up a transaction, nothing of it stays:
/// unpublished writes are dropped with the lock.
#[test]
fn an_abandoned_transaction_without_a_journal_leaves_no_changes() {
    let dir = folder();
    let path = dir.path().join("app.db");
    // Given up by ROLLBACK, and by closing.
    for end in ["ROLLBACK", ""] {
        let _ = std::fs::remove_file(&path);
        let db = densite(&path);
        db.execute_batch(&format!(
            "PRAGMA journal_mode=OFF; PRAGMA cache_size=5; {SOME_ROWS}"
        ))
        .expect("write");
        // More than the cache holds, so pages are written during the transaction.
        db.execute_batch(&format!(
            "BEGIN; UPDATE t SET x = hex(randomblob(200)); DELETE FROM t WHERE id % 3 = 0; {end}"
        ))
        .expect("work");
        drop(db);
        check_rows(&densite(&path));
    }
}
