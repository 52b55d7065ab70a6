//! `densite publish` to a file.

use crate::common::{at, densite, names, plain, snapshot, temp};
use rusqlite::Connection;
use std::fs;

/// The rows of a database, as the command reads them.
fn rows(path: &str) -> String {
    let sql = "SELECT * FROM t ORDER BY 1";
    densite(&["sql", path, sql, "--format", "csv"])
        .expect(0)
        .out
}

#[test]
fn a_plain_or_compressed_database_is_published_with_equal_content() {
    let dir = temp();
    for page_size in [512, 4096, 65536] {
        let (source, small) = (at(&dir, "a.db"), at(&dir, "small.db"));
        plain(&source, page_size, 3000);
        densite(&["compress", &source, &small]).expect(0);
        for from in [&source, &small] {
            let to = at(&dir, "published.db");
            let told = densite(&["publish", from, &to, "--yes", "--json"])
                .expect(0)
                .json();
            assert_eq!(
                (&told["verb"], &told["in_place"]),
                (&"publish".into(), &false.into())
            );
            assert_eq!(told["page_size"], page_size);
            densite(&["check", &to]).expect(0);
            let back = at(&dir, "back.db");
            densite(&["decompress", &to, &back]).expect(0);
            let [before, after] = [&source, &back].map(|path| std::fs::read(path).expect("a file"));
            crate::common::assert_same_but_unused(&before, &after);
            // The result is written like any other file.
            densite(&[
                "sql",
                &to,
                "CREATE TABLE later(a); INSERT INTO later VALUES (1)",
            ])
            .expect(0);
            densite(&["check", &to]).expect(0);
            std::fs::remove_file(&back).expect("removed");
        }
        for name in names(dir.path()) {
            std::fs::remove_file(dir.path().join(name)).expect("removed");
        }
    }
}

#[test]
fn what_is_in_a_wal_is_published_beside_a_reader_and_a_writer() {
    let dir = temp();
    let (source, to) = (at(&dir, "a.db"), at(&dir, "published.db"));
    let db = Connection::open(&source).expect("open");
    db.execute_batch(
        "PRAGMA journal_mode=wal; CREATE TABLE t(a); INSERT INTO t VALUES (1);
         PRAGMA wal_autocheckpoint=0; INSERT INTO t VALUES (2)",
    )
    .expect("written");
    let reader = Connection::open(&source).expect("open");
    reader
        .execute_batch("BEGIN; SELECT * FROM t")
        .expect("read");
    db.execute_batch("INSERT INTO t VALUES (3)")
        .expect("written");
    densite(&["publish", &source, &to]).expect(0);
    assert_eq!(rows(&to), "a\n1\n2\n3\n");
    // And again, in its place.
    db.execute_batch("INSERT INTO t VALUES (4)")
        .expect("written");
    // And only when asked to.
    densite(&["publish", &source, &to]).expect(6).says("--yes");
    assert_eq!(rows(&to), "a\n1\n2\n3\n");
    densite(&["publish", &source, &to, "--yes"]).expect(0);
    assert_eq!(rows(&to), "a\n1\n2\n3\n4\n");
}

#[test]
fn only_a_database_that_nobody_works_with_is_replaced() {
    let dir = temp();
    let source = at(&dir, "a.db");
    plain(&source, 4096, 100);
    let [text, busy, wal] = ["notes.txt", "busy.db", "busy.db-wal"].map(|name| at(&dir, name));
    std::fs::write(&text, "not a database, and not to be lost").expect("written");
    plain(&busy, 4096, 10);
    std::fs::write(&wal, "1").expect("written");
    let link = at(&dir, "link.db");
    std::os::unix::fs::symlink(&source, &link).expect("linked");
    let folder = at(&dir, "folder");
    std::fs::create_dir(&folder).expect("made");
    let before = snapshot(dir.path());
    let (exists, is_source) = ("exists already", "this is the source itself");
    for (to, said) in [
        (&text, exists),
        (&busy, exists),
        (&link, is_source),
        (&folder, exists),
        (&source, is_source),
    ] {
        densite(&["publish", &source, to, "--yes"])
            .expect(1)
            .says(said);
        // The question would be about what cannot be done.
        densite(&["publish", &source, to]).expect(1).says(said);
        assert_eq!(snapshot(dir.path()), before, "{to}");
    }
    for more in [&["--yes"][..], &[]] {
        densite(&[&["publish", &at(&dir, "none.db"), &busy][..], more].concat())
            .expect(1)
            .says("no such file");
        densite(&[&["publish", &text, &link][..], more].concat())
            .expect(5)
            .says("not a SQLite database");
    }
    densite(&["publish", &text, &at(&dir, "new.db")])
        .expect(5)
        .says("not a SQLite database");
    // SQLite would remove these.
    for verb in ["publish", "compress"] {
        for suffix in ["-wal", "-journal", "-dwal", "-djournal", "-shm"] {
            densite(&[verb, &source, &format!("{source}{suffix}")])
                .expect(1)
                .says("choose another name");
        }
    }
    assert_eq!(snapshot(dir.path()), before);
}

#[test]
fn what_killed_runs_left_is_removed() {
    use std::os::unix::fs::PermissionsExt;
    let dir = temp();
    let a = at(&dir, "a.db");
    plain(&a, 4096, 100);
    for (verb, to) in [("publish", "b.db"), ("export", "t.csv")] {
        let to = at(&dir, to);
        let left = format!("{to}-densite-tmp-abcdefgh");
        fs::write(&left, "a part").expect("written");
        fs::set_permissions(&left, fs::Permissions::from_mode(0o600)).expect("private");
        match verb {
            "publish" => densite(&[verb, &a, &to]).expect(0).says("it was removed"),
            _ => densite(&[verb, &a, "t", &to]).expect(0),
        };
        assert!(!std::path::Path::new(&left).exists(), "{verb}");
    }
}
