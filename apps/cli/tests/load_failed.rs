//! `densite load` that fails or is interrupted leaves no new file, and does not change existing
//! ones.

use crate::common::{DENSITE, at, densite, temp, write};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Files whose names begin with that of the database.
fn files(db: &str) -> Vec<PathBuf> {
    let dir = Path::new(db).parent().expect("a directory");
    let entries = std::fs::read_dir(dir).expect("read");
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    files.retain(|path| path.to_string_lossy().starts_with(db));
    files
}

/// A Parquet file without its end.
fn cut_parquet(dir: &TempDir) -> String {
    let (db, file) = (at(dir, "rows.db"), at(dir, "cut.parquet"));
    densite(&[
        "sql",
        &db,
        "--create",
        "CREATE TABLE t AS SELECT 1 AS a, 'x' AS b",
    ])
    .expect(0);
    densite(&["export", &db, "t", &file]).expect(0);
    let whole = std::fs::read(&file).expect("read");
    std::fs::write(&file, &whole[..whole.len() - 9]).expect("written");
    file
}

#[test]
fn a_load_that_fails_leaves_no_new_file() {
    let dir = temp();
    let many: String = (0..20_000).map(|i| format!("{i},{i:0100}\n")).collect();
    let cases = [
        ("t", write(&dir, "a.csv", "a,b\n1,2\n3\n"), 1),
        ("t", write(&dir, "b.csv", format!("a,b\n{many}1,2,3\n")), 1),
        ("t", write(&dir, "c.csv", "a,b\n1,\"2\n"), 1),
        ("t", write(&dir, "d.csv", "a,A\n1,2\n"), 1),
        ("t", write(&dir, "e.jsonl", "{\"a\":1}\n[]\n"), 1),
        ("t", write(&dir, "f.jsonl", ""), 1),
        ("sqlite_t", write(&dir, "g.csv", "a,b\n1,2\n"), 1),
        ("t", cut_parquet(&dir), 5),
    ];
    let new = at(&dir, "new.db");
    for db in [
        new.clone(),
        format!("file:{new}"),
        format!("file:{new}?vfs=unix"),
    ] {
        for (table, file, code) in &cases {
            densite(&["load", &db, table, file, "--memory", "1"]).expect(*code);
            assert_eq!(files(&new), Vec::<PathBuf>::new(), "{db} {file}");
        }
    }
    // A file that existed before stays, even if it is empty.
    std::fs::write(&new, "").expect("written");
    densite(&["load", &new, "t", &cases[0].1]).expect(1);
    assert_eq!(files(&new).len(), 1);
    densite(&["sql", &new, "PRAGMA user_version = 7"]).expect(0);
    densite(&["load", &new, "t", &cases[0].1]).expect(1);
    let ran = densite(&["sql", &new, "PRAGMA user_version", "--format", "csv"]).expect(0);
    assert_eq!(ran.out, "user_version\n7\n");
}

#[test]
fn a_load_that_is_interrupted_leaves_no_new_file() {
    let dir = temp();
    let db = at(&dir, "new.db");
    for signal in ["INT", "TERM", "HUP"] {
        let mut load = Command::new(DENSITE)
            .args(["load", &db, "t", "-", "--format", "csv", "--memory", "1"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("runs");
        let mut input = load.stdin.take().expect("a pipe");
        input.write_all(b"a,b\n").expect("written");
        // More than a pipe and the sort memory hold, so some rows are already inserted.
        let part: String = (0..20_000).map(|i| format!("{i},{i:050}\n")).collect();
        input.write_all(part.as_bytes()).expect("written");
        assert!(!files(&db).is_empty(), "the file is there");
        let id = load.id().to_string();
        let sent = Command::new("kill")
            .args([&format!("-{signal}"), &id])
            .status();
        assert!(sent.expect("runs").success());
        // The command checks for signals between rows. After its end the pipe has no reader.
        while input.write_all(part.as_bytes()).is_ok() {}
        drop(input);
        let done = load.wait_with_output().expect("ends");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(130), "{said}");
        assert!(said.contains("nothing was loaded"), "{said}");
        assert_eq!(files(&db), Vec::<PathBuf>::new(), "{signal}");
    }
}

#[test]
fn a_cut_parquet_file_is_damaged() {
    let dir = temp();
    let file = cut_parquet(&dir);
    let ran = densite(&["load", &at(&dir, "new.db"), "t", &file, "--json"]).expect(5);
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    assert!(ran.err.contains("cut.parquet: "), "{}", ran.err);
    assert_eq!(ran.json()["error"]["kind"], "damaged");
}

/// Wherever it is cut.
#[test]
fn a_cut_json_file_is_damaged() {
    let dir = temp();
    let db = at(&dir, "new.db");
    let array =
        "[{\"a\": 1, \"b\": \"x\"},\n {\"a\": -2.5, \"b\": [true, \"\u{e9}\"], \"c\": -1.5e-3}]";
    let lines = "{\"a\": 1}\n{\"a\": {\"b\": null}, \"c\": -1.5e-3}";
    let first = "{\"a\": 1}\n".len();
    let cases = [
        ("a.json", array, 1..array.len()),
        ("a.jsonl", lines, first + 1..lines.len()),
        ("b.json", lines, first + 1..lines.len()),
    ];
    for (name, text, ends) in cases {
        for end in ends {
            let file = write(&dir, name, &text.as_bytes()[..end]);
            let ran = densite(&["load", &db, "t", &file, "--json"]).expect(5);
            assert_eq!(ran.json()["error"]["kind"], "damaged", "{end}");
            ran.says("is cut off");
        }
        densite(&["load", &db, "t", &write(&dir, name, text)]).expect(0);
        densite(&["sql", &db, "DROP TABLE t"]).expect(0);
    }
    // A log whose last line is being written.
    let file = write(&dir, "c.jsonl", &lines[..lines.len() - 3]);
    densite(&["load", &db, "t", &file, "--skip-errors"])
        .expect(0)
        .says("skipped: ");
    // An object over several lines is no cut line.
    let file = write(&dir, "d.jsonl", "{\n \"a\": 1\n}\n");
    densite(&["load", &db, "u", &file])
        .expect(1)
        .says("--format json");
}

#[test]
fn a_temporary_database_is_refused() {
    let dir = temp();
    let rows = at(&dir, "rows.csv");
    std::fs::write(&rows, "a\n1\n").expect("written");
    for db in ["", ":memory:"] {
        densite(&["load", db, "t", &rows])
            .expect(2)
            .says("name a file");
    }
}
