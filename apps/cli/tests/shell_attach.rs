//! `ATTACH` in `densite sql`: as in the sqlite3 shell, a missing file is created.

use crate::common::*;

#[test]
fn attach_creates_a_missing_file_which_is_a_densite_file() {
    let dir = temp();
    // Characters that mean something in a URI, too.
    let (main, odd) = (at(&dir, "main.db"), at(&dir, "50%20?a#b.db"));
    for db in [&main, &odd] {
        densite(&[
            "sql",
            "--create",
            db,
            "CREATE TABLE t(a); INSERT INTO t VALUES (5)",
        ])
        .expect(0);
    }
    for (db, new) in [
        (&*main, "a.db"),
        (&*odd, "b.db"),
        (&*format!("file:{main}"), "c.db"),
        (&*format!("file:{main}?level=9#x"), "d.db"),
        (":memory:", "e.db"),
    ] {
        let file = at(&dir, new);
        let sql =
            format!("ATTACH '{file}' AS x; CREATE TABLE x.t AS SELECT randomblob(9000) AS a;");
        densite(&["sql", db, &sql]).expect(0);
        assert!(is_compressed(&file), "{db}");
        densite(&["check", &file]).expect(0);
    }
    let ran = run(std::process::Command::new(DENSITE)
        .args(["sql", "main.db", "SELECT a FROM t", "--format", "list"])
        .current_dir(dir.path()));
    assert_eq!(ran.expect(0).out, "5\n");
}

#[test]
fn the_database_itself_must_still_exist() {
    let dir = temp();
    let missing = at(&dir, "missing.db");
    for db in [
        missing.clone(),
        format!("file:{missing}"),
        format!("file:{missing}?mode=rw"),
        format!("file:{missing}?level=9"),
    ] {
        let ran = densite(&["sql", &db, "SELECT 1"]).expect(1);
        // The name in the message is the one that was given.
        assert!(ran.err.starts_with(&format!("densite: {db}: ")), "{ran:?}");
        assert!(!ran.err.contains("vfs=densite"), "{ran:?}");
        assert!(names(dir.path()).is_empty(), "{:?}", names(dir.path()));
    }
}

#[test]
fn a_database_that_is_only_read_attaches_no_new_file() {
    let dir = temp();
    let db = at(&dir, "a.db");
    densite(&["sql", "--create", &db, "CREATE TABLE t(a)"]).expect(0);
    let text = format!(
        ".open --readonly {db}\nATTACH '{}' AS x;\n",
        at(&dir, "b.db")
    );
    piped(&["sql", &db], text.as_bytes()).expect(1);
    assert_eq!(names(dir.path()), ["a.db"]);
}
