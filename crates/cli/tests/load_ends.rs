//! `densite load`: files that end in the middle, that end oddly, that are no files.

mod common;

use common::{DENSITE, at, densite, run, temp};
use std::process::Command;

fn write(dir: &tempfile::TempDir, name: &str, bytes: impl AsRef<[u8]>) -> String {
    let path = at(dir, name);
    std::fs::write(&path, bytes).expect("written");
    path
}

/// Rows as `densite sql` prints them in CSV, without the header.
fn rows(db: &str, sql: &str) -> Vec<String> {
    let ran = densite(&["sql", db, sql, "--format", "csv"]).expect(0);
    ran.out.lines().skip(1).map(str::to_owned).collect()
}

/// The last line counts with or without its end, quotes and all.
#[test]
fn the_end_of_a_csv_file() {
    let dir = temp();
    let db = at(&dir, "new.db");
    for (i, text) in [
        "a,b\n1,2",
        "a,b\n1,2\n",
        "a,b\r\n1,2\r\n\r\n",
        "a,b\n\"1\",\"2\"",
        "a,\"b\"\n1,\"2\"\n",
    ]
    .iter()
    .enumerate()
    {
        let file = write(&dir, "in.csv", text);
        densite(&["load", &db, &format!("t{i}"), &file]).expect(0);
        assert_eq!(
            rows(&db, &format!("SELECT a, b FROM t{i}")),
            ["1,2"],
            "{text:?}"
        );
    }
    // What is left out when asked does not hide that the rest of the file is missing.
    let file = write(&dir, "in.csv", "a,b\n1,2\n3\n4,\"5\n");
    densite(&["load", &db, "t", &file, "--skip-errors"])
        .expect(1)
        .says("does not end");
}

#[test]
fn a_file_may_come_by_a_pipe() {
    let dir = temp();
    let db = at(&dir, "new.db");
    let load = |format: &str| {
        let text = match format {
            "csv" => "a,b\n1,2",
            _ => "{\"a\":1,\"b\":2}",
        };
        let script = "echo \"$3\" | \"$0\" load \"$1\" \"$2\" - --format \"$2\"";
        run(Command::new("sh").args(["-c", script, DENSITE, &db, format, text]))
    };
    for format in ["csv", "jsonl"] {
        load(format).expect(0);
        assert_eq!(rows(&db, &format!("SELECT a, b FROM {format}")), ["1,2"]);
    }
    load("parquet").expect(1).says("cannot be read");
}

/// The largest and the smallest integer are numbers; what only looks like a large one is what it is.
#[test]
fn large_numbers_in_json() {
    let dir = temp();
    let db = at(&dir, "new.db");
    let line = r#"{"a":9223372036854775807,"b":-9223372036854775808,"c":12345678901234567890.5,"d":1e25,"e":"99999999999999999999 \\","f":"\"9","g":1}"#;
    let file = write(&dir, "in.jsonl", line);
    densite(&["load", &db, "t", &file]).expect(0);
    let sql = "SELECT a = 9223372036854775807, b + 1, typeof(c), typeof(d), length(e), length(f), g FROM t";
    assert_eq!(rows(&db, sql), ["1,-9223372036854775807,real,real,22,2,1"]);
}
