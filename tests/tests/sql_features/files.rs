//! Which files become Densite files, which stay plain, and how other programs see them.

use std::process::Command;

use super::*;
use densite_testing::skip;
use densite_tests::model::folder;

#[test]
fn a_new_or_empty_file_becomes_a_densite_file() {
    let dir = folder();
    let (new, empty) = (dir.path().join("new.db"), dir.path().join("empty.db"));
    std::fs::write(&empty, b"").expect("make an empty file");
    for path in [&new, &empty] {
        let db = densite(path);
        db.execute_batch(SOME_ROWS).expect("write");
        drop(db);
        assert!(starts_with(path, MAGIC));
        check_rows(&densite(path));
    }
}

#[test]
fn a_file_that_is_only_read_stays_empty() {
    let dir = folder();
    let path = dir.path().join("new.db");
    let db = densite(&path);
    assert_eq!(number(&db, "SELECT count(*) FROM sqlite_schema"), 0);
    drop(db);
    assert_eq!(
        std::fs::metadata(&path)
            .expect("made, as SQLite does")
            .len(),
        0
    );
}

#[test]
fn densite_off_keeps_a_new_file_plain() {
    let dir = folder();
    for (name, made) in [("new.db", false), ("empty.db", true)] {
        let path = dir.path().join(name);
        if made {
            std::fs::write(&path, b"").expect("make an empty file");
        }
        let db = try_densite(&path, "densite=off").expect("open");
        db.execute_batch(SOME_ROWS).expect("write");
        drop(db);
        assert!(starts_with(&path, PLAIN_MAGIC));
        check_rows(&plain(&path));
    }
    // An existing Densite file is opened as one, whatever the URI says.
    let path = dir.path().join("dense.db");
    densite(&path).execute_batch(SOME_ROWS).expect("write");
    check_rows(&try_densite(&path, "densite=off").expect("open"));
    assert!(starts_with(&path, MAGIC));
}

/// Through Densite, a plain file is written byte for byte as by plain SQLite.
#[test]
fn a_plain_file_is_passed_through() {
    let dir = folder();
    let (one, other) = (dir.path().join("one.db"), dir.path().join("other.db"));
    for path in [&one, &other] {
        plain(path).execute_batch(SOME_ROWS).expect("write");
    }
    let work = "DELETE FROM t WHERE id % 3 = 1; CREATE TABLE u AS SELECT * FROM t; DROP INDEX tx;
                UPDATE t SET x = upper(x) WHERE id < 90; PRAGMA user_version = 5; VACUUM;";
    plain(&one).execute_batch(work).expect("work");
    densite(&other).execute_batch(work).expect("work");
    assert_eq!(
        std::fs::read(&one).expect("read"),
        std::fs::read(&other).expect("read")
    );
    // In WAL mode, with mapped memory, and from both sides at the same time.
    let (a, b) = (densite(&other), plain(&other));
    assert_eq!(text(&a, "PRAGMA journal_mode = wal"), "wal");
    assert_eq!(number(&a, "PRAGMA mmap_size = 1048576"), 1_048_576);
    a.execute_batch("INSERT INTO t(x) VALUES ('through densite')")
        .expect("write");
    b.execute_batch("INSERT INTO t(x) VALUES ('plain')")
        .expect("write");
    assert_eq!(
        number(
            &a,
            "SELECT count(*) FROM t WHERE x IN ('plain', 'through densite')"
        ),
        2
    );
    assert_eq!(text(&b, "PRAGMA integrity_check"), "ok");
    drop((a, b));
    assert!(starts_with(&other, PLAIN_MAGIC));
}

#[test]
fn others_refuse_a_densite_file_clearly() {
    let dir = folder();
    let path = dir.path().join("app.db");
    densite(&path).execute_batch(SOME_ROWS).expect("write");
    let before = std::fs::read(&path).expect("read");
    assert!(before.starts_with(MAGIC));
    let db = plain(&path);
    for sql in [
        "SELECT count(*) FROM t",
        "CREATE TABLE u(x)",
        "PRAGMA journal_mode = wal",
        "VACUUM",
    ] {
        let (code, message) = code_of(
            &db.execute_batch(sql)
                .expect_err("not a database for plain SQLite"),
        );
        assert_eq!(code, rusqlite::ffi::SQLITE_NOTADB, "{sql}: {message}");
        assert_eq!(message, "file is not a database");
    }
    drop(db);
    assert_eq!(
        std::fs::read(&path).expect("read"),
        before,
        "plain SQLite changed it"
    );
    check_rows(&densite(&path));

    match Command::new("file").arg("--brief").arg(&path).output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(!said.contains("SQLite"), "file(1) takes it for {said}");
        }
        Err(_) => skip("there is no file(1) here"),
    }
}

#[test]
fn a_newer_format_is_refused_by_number_and_not_changed() {
    let dir = folder();
    let path = dir.path().join("app.db");
    densite(&path).execute_batch(SOME_ROWS).expect("write");
    let mut bytes = std::fs::read(&path).expect("read");
    bytes[16..20].copy_from_slice(&99u32.to_le_bytes());
    let sum = densite_disk::hash::xxh3_64(&bytes[..32]);
    bytes[32..40].copy_from_slice(&sum.to_le_bytes());
    std::fs::write(&path, &bytes).expect("write");
    let opened = try_densite(&path, "").and_then(|db| db.execute_batch("SELECT * FROM t"));
    let message = code_of(&opened.expect_err("format 99")).1;
    assert!(
        message.contains("99") && message.contains("app.db") && message.contains("newer"),
        "{message}"
    );
    assert_eq!(std::fs::read(&path).expect("read"), bytes);
}

#[test]
fn other_files_are_refused_and_not_changed() {
    let dir = folder();
    let path = dir.path().join("letter.txt");
    for content in [
        &b"Dear reader, this is a letter and no database at all. "[..],
        b"D",
        b"Densite",
        b"SQLite format 2\0",
    ] {
        let bytes = content.repeat(100);
        std::fs::write(&path, &bytes).expect("write");
        let opened = try_densite(&path, "").and_then(|db| db.execute_batch("CREATE TABLE t(x)"));
        let (code, message) = code_of(&opened.expect_err("no database"));
        assert!(
            [rusqlite::ffi::SQLITE_NOTADB, rusqlite::ffi::SQLITE_CORRUPT].contains(&code),
            "{code} {message}"
        );
        assert_eq!(std::fs::read(&path).expect("read"), bytes);
    }
    let error = try_densite(dir.path(), "").and_then(|db| db.execute_batch("CREATE TABLE t(x)"));
    assert_eq!(
        code_of(&error.expect_err("a directory")).0,
        rusqlite::ffi::SQLITE_CANTOPEN
    );
}

#[test]
fn the_page_size_changes_by_vacuum() {
    let dir = folder();
    let path = dir.path().join("app.db");
    let db = densite(&path);
    db.execute_batch(SOME_ROWS).expect("write");
    for size in [512, 65536, 1024, 32768, 2048, 16384, 4096, 8192] {
        db.execute_batch(&format!("PRAGMA page_size = {size}; VACUUM"))
            .expect("vacuum");
        assert_eq!(number(&db, "PRAGMA page_size"), size);
        assert_eq!(
            number(
                &db,
                "SELECT value FROM densite_info WHERE name = 'page_size'"
            ),
            size
        );
        check_rows(&db);
        let again = densite(&path);
        assert_eq!(number(&again, "PRAGMA page_size"), size);
        check_rows(&again);
    }
}

#[test]
fn the_wal_mode_stays() {
    let dir = folder();
    let path = dir.path().join("app.db");
    let db = densite(&path);
    assert_eq!(text(&db, "PRAGMA journal_mode = wal"), "wal");
    db.execute_batch(SOME_ROWS).expect("write");
    assert!(dir.path().join("app.db-dwal").exists());
    drop(db);
    assert!(
        !dir.path().join("app.db-dwal").exists(),
        "the last close ends the WAL"
    );
    let db = densite(&path);
    assert_eq!(text(&db, "PRAGMA journal_mode"), "wal");
    check_rows(&db);
    assert_eq!(text(&db, "PRAGMA journal_mode = delete"), "delete");
    drop(db);
    assert_eq!(text(&densite(&path), "PRAGMA journal_mode"), "delete");
}

#[test]
fn mapped_memory_is_not_used() {
    let dir = folder();
    let path = dir.path().join("app.db");
    let db = densite(&path);
    db.execute_batch(SOME_ROWS).expect("write");
    assert_eq!(
        number(&db, "PRAGMA mmap_size = 268435456"),
        0,
        "nothing is mapped"
    );
    check_rows(&db);
    db.execute_batch("UPDATE t SET x = x || x; DELETE FROM t WHERE id > 100; VACUUM")
        .expect("write");
    assert_eq!(text(&db, "PRAGMA integrity_check"), "ok");
}

#[test]
fn databases_in_memory_and_temporary_ones_are_plain() {
    register();
    for uri in [
        "file::memory:?vfs=densite",
        "file:shared?mode=memory&cache=shared&vfs=densite",
        "file:?vfs=densite",
    ] {
        let db = Connection::open_with_flags(uri, FLAGS).expect("open");
        db.execute_batch(SOME_ROWS).expect("write");
        check_rows(&db);
        assert_eq!(
            text(&db, "SELECT densite_version()"),
            env!("CARGO_PKG_VERSION")
        );
    }
}

/// A commit that shortens the database first makes the end of its journal durable. In TRUNCATE mode
/// that journal is an empty file, which SQLite keeps open under locking_mode=EXCLUSIVE and writes
/// again. It must keep its name, because after a crash a journal without a name rolls nothing back.
#[test]
fn a_journal_in_use_keeps_its_name() {
    for locking in ["NORMAL", "EXCLUSIVE"] {
        for journal in ["delete", "truncate", "persist"] {
            let dir = folder();
            let path = dir.path().join("app.db");
            let db = densite(&path);
            db.execute_batch(&format!(
                "PRAGMA auto_vacuum = FULL; PRAGMA synchronous = FULL; PRAGMA cache_size = 5;
                 PRAGMA locking_mode = {locking}; PRAGMA journal_mode = {journal};"
            ))
            .expect("settings");
            db.execute_batch(SOME_ROWS).expect("write");
            // Pages are freed, so the database is shortened.
            db.execute_batch("DELETE FROM t WHERE id > 20")
                .expect("delete");
            db.execute_batch(
                "BEGIN; INSERT INTO t(b) VALUES (zeroblob(300000)); UPDATE t SET x = 'changed'",
            )
            .expect("write more than the cache holds");
            let len = std::fs::metadata(dir.path().join("app.db-djournal")).map(|m| m.len());
            assert!(
                len.is_ok_and(|len| len > 0),
                "{locking} {journal}: a transaction without its journal"
            );
            db.execute_batch("ROLLBACK").expect("roll back");
            assert_eq!(
                number(&db, "SELECT count(*) FROM t WHERE x LIKE 'row number%'"),
                20
            );
        }
    }
}
