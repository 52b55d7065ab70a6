//! Text from a database, a log or a path cannot control the terminal, whichever verb prints it.

use crate::common::*;
use rusqlite::Connection;
use std::fs;
use std::process::Command;

/// Clears the screen, begins a line, and reverses the direction of text.
const EVIL: &str = "x\x1b[2J\u{9b}31m\r\ndamaged: \u{202e}gnp\u{2066}";

/// Asserts that no character of the output has an effect on the terminal.
#[track_caller]
fn harmless(ran: &Ran, what: &str) {
    for text in [&ran.out, &ran.err] {
        let acts = |c: &char| {
            c.is_control() && *c != '\n'
                || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        assert_eq!(text.chars().find(acts), None, "{what}: {text:?}");
        let forged = text
            .lines()
            .any(|line| line.starts_with("damaged: <U+202E>"));
        assert!(!forged, "{what}: {text:?}");
    }
}

/// Creates a database with such names in a file with such a name.
fn evil(dir: &tempfile::TempDir) -> String {
    let path = at(dir, &format!("{}.db", EVIL.replace('/', "")));
    let db = Connection::open(&path).expect("open");
    let name = format!("\"{EVIL}\"");
    db.execute_batch(&format!(
        "CREATE TABLE {name}(a INTEGER PRIMARY KEY, {name} TEXT UNIQUE, b NOT NULL);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<3000)
           INSERT INTO {name} SELECT i, 'name ' || i, i FROM n;
         CREATE INDEX \"i{EVIL}\" ON {name}(b);"
    ))
    .expect("fill");
    path
}

#[test]
fn control_characters_in_names_are_escaped() {
    let dir = temp();
    let path = evil(&dir);
    let (copy, page) = (at(&dir, &format!("copy {EVIL}")), at(&dir, "page.html"));
    let missing = at(&dir, &format!("missing {EVIL}"));
    let rows = at(&dir, &format!("rows {EVIL}.csv"));
    fs::write(&rows, format!("a,\"{EVIL}\"\n1,2\n")).expect("write");
    let select = format!("SELECT '{EVIL}' AS \"{EVIL}\"");
    for args in [
        &["info", &*path, "--columns"][..],
        &["check", &path],
        &["report", &path, "-o", &page],
        &["compress", &path, &copy],
        &["compress", &path, &copy],
        &["info", &copy, "--columns"],
        &["vacuum", &copy, "--dry-run"],
        &["vacuum", &copy, "--yes"],
        &["vacuum", &copy],
        &["check", &copy],
        &["compress", &copy],
        &["decompress", &copy],
        &["decompress", &missing],
        &["log", "status", &path],
        &["log", "subscribe", &path, EVIL],
        &["log", "status", &path],
        &["log", "check", &path],
        &["info", &path],
        &["log", "unsubscribe", &path, EVIL],
        &["sql", &path, &select],
        &["sql", &path, &format!("SELECT * FROM \"no {EVIL}\"")],
        &["sql", &missing, "SELECT 1"],
        &["load", &path, EVIL, &rows],
        &["load", &path, &format!("new {EVIL}"), &rows],
        &["info", &path, &format!("--no {EVIL}")],
        &["info", &path, EVIL],
        &["load", &path, "t", &rows, "--format", EVIL],
        &[EVIL],
    ] {
        for json in [false, true] {
            let args: Vec<&str> = args
                .iter()
                .copied()
                .chain(json.then_some("--json"))
                .collect();
            // Values that `sql --json` selects are data.
            if json && args.contains(&&*select) {
                continue;
            }
            let ran = densite(&args);
            assert!(ran.code < 100, "{ran:?}");
            harmless(&ran, args[0]);
        }
        fs::remove_file(&page).ok();
    }
    let data = densite(&["sql", &path, &select, "--format", "csv"])
        .expect(0)
        .out;
    assert!(data.contains(EVIL), "{data:?}");
}

#[test]
fn control_characters_in_sqlite_messages_are_escaped() {
    let dir = temp();
    let path = evil(&dir);
    // Rows that are missing in the indexes: SQLite names them in its message.
    let db = Connection::open(&path).expect("open");
    db.execute_batch(&format!(
        "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql=replace(sql, 'b NOT NULL', 'b NOT NULL CHECK(b<0)') WHERE type='table';
         DELETE FROM sqlite_schema WHERE name='i{EVIL}';"
    ))
    .expect("spoiled");
    drop(db);
    for json in [None, Some("--json")] {
        let args: Vec<&str> = ["check", &*path].into_iter().chain(json).collect();
        let ran = run(Command::new(DENSITE).args(args));
        assert_eq!(ran.code, 5, "{ran:?}");
        assert!(ran.out.contains("CHECK"), "{ran:?}");
        harmless(&ran, "check");
    }
}
