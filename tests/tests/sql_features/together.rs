//! Several databases and several connections.

use super::*;
use densite_tests::model::folder;
use rusqlite::backup::{Backup, StepResult};

#[test]
fn backup_in_both_directions() {
    let dir = folder();
    let path = |name: &str| dir.path().join(name);
    let source = densite(&path("source.db"));
    source.execute_batch(SOME_ROWS).expect("write");
    let run = |from: &Connection, to: &mut Connection| {
        let backup = Backup::new(from, to).expect("begin a backup");
        while backup.step(5).expect("step") != StepResult::Done {}
    };
    // Copies to a plain file, to memory, and to Densite with another page size; and from each of
    // them back over a Densite file with other content.
    let mut copies = [
        plain(&path("copy.db")),
        Connection::open_in_memory().expect("open"),
        try_densite(&path("dense.db"), "codec=raw").expect("open"),
    ];
    copies[2]
        .execute_batch("PRAGMA page_size = 16384; CREATE TABLE other AS SELECT zeroblob(99999)")
        .expect("write");
    for (i, copy) in copies.iter_mut().enumerate() {
        run(&source, copy);
        check_rows(copy);
        copy.execute_batch("INSERT INTO t(id, x) VALUES (9000, 'copied')")
            .expect("write");
        let mut back = densite(&path(&format!("back{i}.db")));
        back.execute_batch("CREATE TABLE old(x); INSERT INTO old VALUES (zeroblob(1000000))")
            .expect("write");
        run(copy, &mut back);
        assert_eq!(number(&back, "SELECT count(*) FROM t"), 501);
        assert_eq!(
            number(
                &back,
                "SELECT count(*) FROM sqlite_schema WHERE name = 'old'"
            ),
            0
        );
        assert_eq!(text(&back, "PRAGMA integrity_check"), "ok");
    }
    drop(copies);
    assert!(starts_with(&path("copy.db"), PLAIN_MAGIC));
    assert!(starts_with(&path("dense.db"), MAGIC));
}

/// A writer writes between the steps of a backup: the copy has the state of one moment.
#[test]
fn a_backup_of_a_database_in_use_is_one_state() {
    let dir = folder();
    let path = dir.path().join("app.db");
    let source = densite(&path);
    assert_eq!(text(&source, "PRAGMA journal_mode = wal"), "wal");
    source.execute_batch(SOME_ROWS).expect("write");
    source
        .execute_batch("CREATE TABLE sums(n); INSERT INTO sums SELECT count(*) FROM t")
        .expect("write");
    let writer = densite(&path);
    let mut copy = densite(&dir.path().join("copy.db"));
    let backup = Backup::new(&source, &mut copy).expect("begin a backup");
    let mut steps = 0;
    while backup.step(3).expect("step") != StepResult::Done {
        steps += 1;
        // These writes of another connection restart the backup.
        if steps < 4 {
            writer
                .execute_batch("BEGIN; INSERT INTO t(x) VALUES ('meanwhile'); UPDATE sums SET n = n + 1; COMMIT")
                .expect("write meanwhile");
        }
    }
    drop(backup);
    assert_eq!(
        number(&copy, "SELECT count(*) FROM t"),
        number(&copy, "SELECT n FROM sums")
    );
    assert_eq!(text(&copy, "PRAGMA integrity_check"), "ok");
}

/// In rollback mode a transaction over two files goes through a super-journal.
#[test]
fn one_transaction_over_attached_databases() {
    let dir = folder();
    let path = |name: &str| dir.path().join(name);
    for journal in ["delete", "truncate", "persist", "memory", "wal"] {
        for name in ["main.db", "dense.db", "plain.db"] {
            let _ = std::fs::remove_file(path(name));
        }
        plain(&path("plain.db"))
            .execute_batch("CREATE TABLE a(x)")
            .expect("a plain file");
        let db = densite(&path("main.db"));
        db.execute_batch(&format!(
            "ATTACH '{}' AS dense; ATTACH '{}' AS plain; PRAGMA main.journal_mode = {journal};
             CREATE TABLE main.a(x); CREATE TABLE dense.a(x);
             PRAGMA dense.journal_mode = {journal}; PRAGMA plain.journal_mode = {journal};",
            path("dense.db").display(),
            path("plain.db").display(),
        ))
        .expect("attach");
        let sums = |db: &Connection| {
            text(
                db,
                "SELECT (SELECT total(x) FROM main.a) || ' ' || (SELECT total(x) FROM dense.a) || ' ' || (SELECT total(x) FROM plain.a)",
            )
        };
        let change = "UPDATE main.a SET x = x - 1; INSERT INTO main.a VALUES (7); INSERT INTO dense.a VALUES (8); INSERT INTO plain.a VALUES (9);";
        db.execute_batch(&format!("BEGIN; {change} COMMIT"))
            .expect("commit");
        assert_eq!(sums(&db), "7.0 8.0 9.0", "{journal}");
        db.execute_batch(&format!("BEGIN; {change} ROLLBACK"))
            .expect("roll back");
        assert_eq!(sums(&db), "7.0 8.0 9.0", "{journal}");
        db.execute_batch(&format!(
            "BEGIN; {change} SAVEPOINT s; {change} ROLLBACK TO s; COMMIT"
        ))
        .expect("commit");
        assert_eq!(sums(&db), "13.0 16.0 18.0", "{journal}");
        drop(db);
        assert!(
            starts_with(&path("dense.db"), MAGIC) && starts_with(&path("plain.db"), PLAIN_MAGIC)
        );
        assert_eq!(
            text(&plain(&path("plain.db")), "SELECT sum(x) FROM a"),
            "18"
        );
        assert_eq!(
            text(&densite(&path("dense.db")), "SELECT sum(x) FROM a"),
            "16"
        );
    }
}

/// The reverse: a Densite file attached to a plain database by its URI.
#[test]
fn a_densite_file_attached_to_a_plain_database() {
    let dir = folder();
    let path = |name: &str| dir.path().join(name);
    register();
    let db = Connection::open_with_flags(path("plain.db"), FLAGS).expect("open");
    db.execute_batch(&format!(
        "CREATE TABLE t(x); ATTACH 'file:{}?vfs=densite&level=9' AS dense;
         BEGIN; CREATE TABLE dense.u AS SELECT 5 AS y; INSERT INTO t SELECT y FROM dense.u; COMMIT",
        path("dense.db").display()
    ))
    .expect("attach and write");
    assert_eq!(number(&db, "SELECT x + y FROM t, u"), 10);
    drop(db);
    assert!(starts_with(&path("dense.db"), MAGIC) && starts_with(&path("plain.db"), PLAIN_MAGIC));
}

/// Two connections of one process: isolation, locks and visibility are those of plain SQLite.
#[test]
fn one_file_opened_twice() {
    let dir = folder();
    for journal in ["delete", "wal"] {
        let path = dir.path().join(format!("{journal}.db"));
        let a = densite(&path);
        assert_eq!(
            text(&a, &format!("PRAGMA journal_mode = {journal}")),
            journal
        );
        a.execute_batch(SOME_ROWS).expect("write");
        // The second connection uses another name of the same file.
        let link = dir.path().join(format!("{journal}-link.db"));
        std::os::unix::fs::symlink(&path, &link).expect("make a link");
        let b = densite(&link);
        for db in [&a, &b] {
            db.busy_timeout(std::time::Duration::ZERO)
                .expect("no waiting");
        }
        check_rows(&b);
        a.execute_batch("BEGIN IMMEDIATE; UPDATE t SET x = 'changed' WHERE id = 1")
            .expect("write");
        assert_eq!(text(&a, "SELECT x FROM t WHERE id = 1"), "changed");
        assert_eq!(
            text(&b, "SELECT x FROM t WHERE id = 1"),
            "row number 1 of this table"
        );
        let error = b.execute_batch("BEGIN IMMEDIATE").expect_err("locked");
        assert_eq!(code_of(&error).0, rusqlite::ffi::SQLITE_BUSY);
        a.execute_batch("COMMIT").expect("commit");
        assert_eq!(text(&b, "SELECT x FROM t WHERE id = 1"), "changed");
        b.execute_batch("DELETE FROM t WHERE id > 400")
            .expect("write from the other");
        assert_eq!(number(&a, "SELECT count(*) FROM t"), 400);
        // Closing one connection does not drop the locks of the other.
        a.execute_batch("BEGIN IMMEDIATE").expect("lock");
        drop(b);
        let c = densite(&path);
        c.busy_timeout(std::time::Duration::ZERO)
            .expect("no waiting");
        let error = c
            .execute_batch("INSERT INTO t(x) VALUES (1)")
            .expect_err("still locked");
        assert_eq!(code_of(&error).0, rusqlite::ffi::SQLITE_BUSY);
        a.execute_batch("ROLLBACK").expect("roll back");
        c.execute_batch("INSERT INTO t(x) VALUES (1)")
            .expect("free again");
        assert_eq!(text(&a, "PRAGMA integrity_check"), "ok");
    }
}

/// Copies by VACUUM INTO in both forms, and of an attached database.
#[test]
fn vacuum_into_either_form() {
    let dir = folder();
    let path = |name: &str| dir.path().join(name);
    let db = densite(&path("app.db"));
    db.execute_batch(SOME_ROWS).expect("write");
    db.execute_batch(&format!(
        "VACUUM INTO '{}'; VACUUM INTO 'file:{}?densite=off'",
        path("dense.db").display(),
        path("plain.db").display()
    ))
    .expect("copy");
    check_rows(&plain(&path("plain.db")));
    assert!(starts_with(&path("dense.db"), MAGIC));
    check_rows(&densite(&path("dense.db")));
    // A plain database, served by Densite, into a Densite file.
    let served = densite(&path("plain.db"));
    served
        .execute_batch(&format!("VACUUM INTO '{}'", path("again.db").display()))
        .expect("copy");
    assert!(starts_with(&path("again.db"), MAGIC));
    check_rows(&densite(&path("again.db")));
    let error = served.execute_batch(&format!("VACUUM INTO '{}'", path("again.db").display()));
    assert!(error.is_err(), "an existing file is refused");
}

/// The cache of a connection stays valid exactly until another connection writes: `data_version`
/// counts as in plain SQLite, step by step.
#[test]
fn a_cache_is_dropped_exactly_when_another_connection_wrote() {
    let dir = folder();
    for journal in ["delete", "truncate", "persist", "wal"] {
        let versions = |open: &dyn Fn(&Path) -> Connection, name: &str| -> Vec<String> {
            let path = dir.path().join(format!("{journal}-{name}"));
            let (a, b) = (open(&path), open(&path));
            a.execute_batch(&format!("PRAGMA journal_mode = {journal}; {SOME_ROWS}"))
                .expect("write");
            let mut seen = Vec::new();
            let mut look = || {
                for db in [&a, &b] {
                    seen.push(format!(
                        "{} {}",
                        text(db, "PRAGMA data_version"),
                        text(db, "SELECT total(length(x)) FROM t")
                    ));
                }
            };
            look();
            for (db, sql) in [
                (&a, "SELECT count(*) FROM t"),
                (&a, "UPDATE t SET x = 'one' WHERE id = 1"),
                (&b, "UPDATE t SET x = 'other' WHERE id = 2"),
                (&a, "BEGIN; DELETE FROM t; ROLLBACK"),
                (&a, "DELETE FROM t WHERE id > 400"),
                (&b, "PRAGMA user_version = 7"),
                (&a, "VACUUM"),
                (&b, "PRAGMA wal_checkpoint(TRUNCATE)"),
                (&b, "CREATE TABLE u(x)"),
                (&a, "PRAGMA wal_checkpoint(PASSIVE)"),
            ] {
                db.execute_batch(sql).expect("work");
                look();
            }
            seen
        };
        assert_eq!(
            versions(&|path| densite(path), "dense"),
            versions(&|path| plain(path), "plain"),
            "{journal}"
        );
    }
}
