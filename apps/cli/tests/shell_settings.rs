//! Dot commands of `densite sql` that change how results are printed, open another database, or
//! copy this one, from a pipe.

use crate::common::*;
use std::fs;

/// A database with one table of two rows.
fn made(dir: &tempfile::TempDir, name: &str) -> String {
    let db = at(dir, name);
    let sql = "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT);
               INSERT INTO t VALUES (1, 'Ada'), (2, NULL);";
    densite(&["sql", "--create", &db, sql]).expect(0);
    db
}

fn script(db: &str, text: &str) -> Ran {
    piped(&["sql", db, "--format", "list"], text.as_bytes())
}

#[test]
fn rows_are_printed_as_sql_and_with_tabs() {
    let dir = temp();
    let db = made(&dir, "a.db");
    let text =
        ".mode tabs\nSELECT 1 AS a, 'b,c' AS d;\n.mode quote\nSELECT 1, 'it''s', x'0f', NULL;
.mode insert copy\nSELECT 1 AS a;\n.headers on\nSELECT 1 AS a;\n";
    assert_eq!(
        script(&db, text).expect(0).out,
        "a\td\n1\tb,c\n1,'it''s',X'0F',NULL\nINSERT INTO \"copy\" VALUES(1);\nINSERT INTO \"copy\"(\"a\") VALUES(1);\n"
    );
    let wrong = script(&db, ".mode csv copy\n").expect(1);
    wrong.says("the mode csv has no table; .mode insert has one");
}

#[test]
fn lists_are_those_of_the_sqlite3_shell() {
    let dir = temp();
    let db = made(&dir, "a.db");
    let text = "SELECT * FROM t;\n.headers on\n.nullvalue NULL\nSELECT * FROM t;\n\
                .separator \\t\nSELECT * FROM t;\n.separator \", \" \";\\n\"\nSELECT * FROM t;\n\
                .mode list\nSELECT 1, 2;\n";
    let here = script(&db, text).expect(0).out;
    assert_eq!(
        here,
        "1|Ada\n2|\nid|name\n1|Ada\n2|NULL\nid\tname\n1\tAda\n2\tNULL\nid, name;\n1, Ada;\n2, NULL;\n1|2\n1|2\n"
    );
    let Ok(shell) = std::process::Command::new("sqlite3")
        .arg("--version")
        .output()
    else {
        return densite_testing::skip("the sqlite3 shell is not installed");
    };
    assert!(shell.status.success());
    let plain = at(&dir, "plain.db");
    densite(&["decompress", &db, &plain]).expect(0);
    fs::write(at(&dir, "in.sql"), text).expect("written");
    let there = std::process::Command::new("sqlite3")
        .arg(&plain)
        .arg(format!(".read {}", at(&dir, "in.sql")))
        .output()
        .expect("it runs");
    let there = String::from_utf8(there.stdout).expect("UTF-8");
    assert_eq!(there, here);
}

#[test]
fn null_and_separators_in_other_formats() {
    let dir = temp();
    let db = made(&dir, "a.db");
    let of = |text: &str| script(&db, text).expect(0).out;
    let csv = ".mode csv\n.nullvalue -\n.separator ;\nSELECT *, 'a;b' AS c FROM t;\n.mode csv\nSELECT 1, 2;\n";
    assert_eq!(of(csv), "id;name;c\n1;Ada;\"a;b\"\n2;-;\"a;b\"\n1,2\n1,2\n");
    assert!(of(".mode table\n.nullvalue nil\nSELECT * FROM t;\n").contains("┆ nil  │"));
    assert!(of(".mode markdown\n.nullvalue nil\nSELECT * FROM t;\n").contains("| 2 | nil |"));
    assert!(of(".mode line\n.nullvalue nil\nSELECT * FROM t;\n").contains("name = nil"));
    let json = ".mode json\n.nullvalue nil\nSELECT name FROM t WHERE id = 2;\n";
    assert_eq!(of(json), "[{\"name\":null}]\n");
    for (text, words) in [
        (".mode csv\n.separator ab\n", "one ASCII character"),
        (".mode json\n.separator ;\n", "have no separators"),
    ] {
        script(&db, text).expect(1).says(words);
    }
}

#[test]
fn echo_changes_version_and_show() {
    let dir = temp();
    let db = made(&dir, "a.db");
    let text = ".echo on\nSELECT 1;\n.print x\n.echo off\n.changes on\n\
                UPDATE t SET name = 'B' WHERE id = 1; DELETE FROM t;\n";
    let ran = script(&db, text).expect(0);
    assert_eq!(
        ran.out,
        "SELECT 1;\n1\n.print x\nx\n.echo off\n\
         changes:   1   total_changes: 1\nchanges:   2   total_changes: 3\n"
    );
    let ran = script(&db, ".version\n").expect(0);
    assert!(ran.out.starts_with("Densite ") && ran.out.contains("\nSQLite 3."));
    let ran = script(&db, ".nullvalue -\n.separator ;\n.show\n").expect(0);
    for line in [
        "headers: by mode\n",
        "nullvalue: '-'\n",
        "separator: ';'\n",
        "bail: on\n",
    ] {
        assert!(ran.out.contains(line), "{line}: {}", ran.out);
    }
}

#[test]
fn with_bail_off_a_script_goes_on_and_its_exit_code_tells() {
    let dir = temp();
    let db = made(&dir, "a.db");
    let text = ".bail off\nSELECT nowhere; SELECT 1;\n.nowhere\n.read nowhere.sql\nSELECT 2;\n";
    let ran = script(&db, text);
    assert_eq!((ran.code, ran.out.as_str()), (1, "1\n2\n"));
    for words in [
        "statement 1, line 2",
        "no command .nowhere",
        "nowhere.sql cannot be opened",
    ] {
        assert!(ran.err.contains(words), "{words}: {}", ran.err);
    }
    // In a file that is read, too; an exit code of its own wins.
    let file = at(&dir, "in.sql");
    fs::write(&file, "SELECT nowhere;\nSELECT 'in';\n").expect("written");
    let ran = script(
        &db,
        &format!(".bail off\n.read {file}\nSELECT 3;\n.exit 7\n"),
    );
    assert_eq!((ran.code, ran.out.as_str()), (7, "in\n3\n"));
    let ran = script(&db, ".bail off\n.bail on\nSELECT nowhere;\nSELECT 1;\n").expect(1);
    assert_eq!(ran.out, "");
}

#[test]
fn open_changes_the_database() {
    let dir = temp();
    let (a, b) = (made(&dir, "a.db"), at(&dir, "b.db"));
    let text = format!(
        "DELETE FROM t WHERE id = 2;\n.open {b}\nCREATE TABLE u(a);\n.databases\n.tables\n\
         .open {a}\n.tables\nSELECT count(*) FROM t;\n.open\nSELECT count(*) FROM sqlite_schema;\n"
    );
    let ran = script(&a, &text).expect(0).says("b.db: a new database");
    assert_eq!(ran.out, format!("main: {b} r/w\nu\nt\n1\n0\n"));
    assert_eq!(names(dir.path()), ["a.db", "b.db"]);
    for db in [&a, &b] {
        densite(&["check", db]).expect(0);
    }
    // Read-only is read-only, and a failure keeps the database that is open.
    let text = format!(".open --readonly {a}\n.databases\nDELETE FROM t;\n");
    let ran = script(&b, &text).expect(1).says("for reading only");
    assert_eq!(ran.out, format!("main: {a} r/o\n"));
    let text = format!(
        ".bail off\n.open {}/no/c.db\n.tables\n",
        dir.path().display()
    );
    assert_eq!(script(&b, &text).expect(1).out, "u\n");
    // Nothing is lost on the way.
    let text = format!(".bail off\nBEGIN; DELETE FROM t;\n.open {b}\nROLLBACK;\n");
    script(&a, &text).expect(1).says("a transaction is open");
    let text = format!(".open --new {a}\n");
    script(&b, &text).expect(1).says("a file is not emptied");
    script(&b, ".open --zip x\n")
        .expect(1)
        .says("--zip is no option");
    assert_eq!(script(&a, "SELECT count(*) FROM t;\n").out, "1\n");
    // What .open made and nothing filled goes again, if the run fails.
    let text = format!(".open {}\nSELECT nowhere;\n", at(&dir, "empty.db"));
    assert_eq!(script(&a, &text).code, 1);
    assert_eq!(names(dir.path()), ["a.db", "b.db"]);
}

#[test]
fn a_backup_is_a_copy_of_a_committed_state() {
    let dir = temp();
    let (db, copy) = (made(&dir, "a.db"), at(&dir, "copy.db"));
    let ran = script(
        &db,
        &format!(".backup {copy}\nINSERT INTO t VALUES (3, 'C');\n"),
    )
    .expect(0);
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("", ""));
    let info = densite(&["info", &copy]).expect(0);
    assert!(info.out.contains("compressed (Densite)"), "{}", info.out);
    let count = |db: &str| script(db, "SELECT count(*) FROM t;\n").expect(0).out;
    assert_eq!(
        (count(&copy), count(&db)),
        ("2\n".to_owned(), "3\n".to_owned())
    );
    // A database is replaced, in its form; other files are not.
    let plain = at(&dir, "plain.db");
    densite(&[
        "sql",
        &format!("file:{plain}?densite=off"),
        "--create",
        "CREATE TABLE old(a);",
    ])
    .expect(0);
    script(&db, &format!(".save {plain}\n")).expect(0);
    assert_eq!(count(&plain), "3\n");
    assert!(
        fs::read(&plain)
            .expect("read")
            .starts_with(b"SQLite format 3")
    );
    let other = at(&dir, "notes.txt");
    fs::write(&other, "some notes\n".repeat(1000)).expect("written");
    script(&db, &format!(".backup {other}\n")).says("not a database");
    assert_eq!(
        fs::read_to_string(&other).expect("read"),
        "some notes\n".repeat(1000)
    );
    // A schema of its own; a missing one is an error that leaves no file.
    let (more, none) = (at(&dir, "more.db"), at(&dir, "none.db"));
    let text =
        format!("ATTACH ':memory:' AS m; CREATE TABLE m.u AS SELECT 5 AS a;\n.backup m {more}\n");
    script(&db, &text).expect(0);
    assert_eq!(script(&more, "SELECT a FROM u;\n").out, "5\n");
    script(&db, &format!(".backup nowhere {none}\n"))
        .expect(1)
        .says("nowhere");
    script(&db, ".backup --async x\n")
        .expect(1)
        .says("--async is no option");
    assert!(!names(dir.path()).contains(&"none.db".to_owned()));
    // Onto itself it fails, and changes nothing.
    script(&db, &format!(".backup {db}\n"))
        .expect(1)
        .says("is the database itself");
    assert_eq!(count(&db), "3\n");
}

#[test]
fn a_backup_says_that_rows_in_the_log_are_not_in_it() {
    let dir = temp();
    let (db, copy) = (made(&dir, "a.db"), at(&dir, "copy.db"));
    let text = format!(
        "CREATE VIRTUAL TABLE temp.i USING densite_ingest(t);\nINSERT INTO i VALUES (9, 'x');\n.backup {copy}\n"
    );
    script(&db, &text)
        .expect(0)
        .says("a.db-log are not in the copy");
}

#[test]
fn commands_that_do_not_exist_name_what_does() {
    let dir = temp();
    let db = made(&dir, "a.db");
    for (command, words) in [
        (".width 10 20", ".mode line"),
        (".dbinfo", "densite info"),
        (".clone x.db", ".backup FILE"),
        (".explain on", "EXPLAIN QUERY PLAN"),
        (".eqp on", "EXPLAIN QUERY PLAN"),
        (".load ext", "the extension is built in"),
        (".restore x.db", ".open FILE"),
    ] {
        let ran = script(&db, &format!("{command}\n")).expect(1);
        assert!(
            ran.err.contains("does not exist here") && ran.err.contains(words),
            "{}",
            ran.err
        );
    }
}

#[test]
fn the_guide_has_every_command() {
    let dir = temp();
    let db = made(&dir, "a.db");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/shell.md");
    let guide = fs::read_to_string(path).expect("the guide");
    let help = script(&db, ".help\n").expect(0).out;
    let commands: Vec<&str> = help
        .lines()
        .filter(|line| line.starts_with('.'))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.len() > 20, "{commands:?}");
    for command in commands {
        assert!(guide.contains(&format!("`{command}")), "{command}");
    }
}
