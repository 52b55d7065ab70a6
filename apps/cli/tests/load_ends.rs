//! `densite load` of files that end early, that end in unusual ways, or that are not regular files.

use crate::common::{DENSITE, at, densite, rows, run, temp, write};
use std::process::Command;

/// The last line counts with or without a line end, quoted or not.
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
    // Skipping bad rows does not hide that the rest of the file is missing.
    let file = write(&dir, "in.csv", "a,b\n1,2\n3\n4,\"5\n");
    densite(&["load", &db, "t", &file, "--skip-errors"])
        .expect(1)
        .says("has no closing quote");
}

/// Other programs write NULL or an empty text in a file with one column as an empty line.
#[test]
fn an_empty_line_of_a_file_with_one_column_is_a_row() {
    let dir = temp();
    let db = at(&dir, "new.db");
    for (i, text) in ["x\na\n\nb\n\n", "x\r\na\r\n\r\nb\r\n\r\n"]
        .iter()
        .enumerate()
    {
        let file = write(&dir, "in.csv", text);
        let table = format!("t{i}");
        densite(&["load", &db, &table, &file, "--null", ""]).expect(0);
        let sql = format!("SELECT coalesce(x, 'NULL') FROM {table} ORDER BY rowid");
        assert_eq!(rows(&db, &sql), ["a", "NULL", "b", "NULL"], "{text:?}");
    }
    // Also before the first other row, if there is no header line.
    let file = write(&dir, "in.csv", "\n\na\n\n");
    let options = ["--null", "", "--no-header"];
    densite(&[&["load", &db, "first", &file][..], &options].concat()).expect(0);
    let sql = "SELECT coalesce(c1, 'NULL') FROM first ORDER BY rowid";
    assert_eq!(rows(&db, sql), ["NULL", "NULL", "a", "NULL"]);
    let file = write(&dir, "in.csv", "a,b\n1,2\n");
    densite(&["load", &db, "t", &file, "--delimiter", "\n"])
        .expect(1)
        .says("line ends as delimiters");
}

/// A stray quote never swallows the lines up to the next one.
#[test]
fn a_stray_quote_is_an_error_with_its_line() {
    let dir = temp();
    let db = at(&dir, "new.db");
    let swallowing = "id\ttext\n1\ta\n2\t\"quoted start\n3\tb\n4\tother\" end\n";
    let file = write(&dir, "in.tsv", swallowing);
    densite(&["load", &db, "t", &file])
        .expect(1)
        .says("line 3, column text: has text after the closing quote");
    // It is unknown which of these lines are rows.
    densite(&["load", &db, "t", &file, "--skip-errors"])
        .expect(1)
        .says("line 3, column text");
    densite(&["load", &db, "t", &file, "--quote", "none"]).expect(0);
    assert_eq!(
        rows(&db, "SELECT id, replace(text, '\"', '|') FROM t"),
        ["1,a", "2,|quoted start", "3,b", "4,other| end"]
    );
    for (text, says) in [
        (
            "a,b\n1,x\n2,y\"z\n3,w\n",
            "line 3, column b: has a quote in a field",
        ),
        (
            "a,b\n1, \"x\"\n3,w\n3,w\n",
            "line 2, column b: has a quote in a field",
        ),
        (
            "a,b\n\"1\"x,y\n3,w\n3,w\n",
            "line 2, column a: has text after",
        ),
        (
            "a,b\n1,\"x\" \n3,w\n3,w\n",
            "line 2, column b: has text after",
        ),
    ] {
        let file = write(&dir, "in.csv", text);
        densite(&["load", &db, "u", &file])
            .expect(1)
            .says(says)
            .says("nothing was loaded");
        densite(&["load", &db, "u", &file, "--skip-errors"])
            .expect(0)
            .says(says);
        assert_eq!(rows(&db, "SELECT count(*) FROM u"), ["2"], "{text:?}");
        densite(&["sql", &db, "DROP TABLE u"]).expect(0);
    }
    densite(&["load", &db, "u", &file, "--quote", "x"])
        .expect(2)
        .says("a quote is");
    densite(&["load", &db, "u", &file, "--delimiter", "\""])
        .expect(1)
        .says("--quote none");
}

/// Lines are numbered as in an editor, also after fields with line ends.
#[test]
fn line_ends_within_quotes_are_counted() {
    let dir = temp();
    let db = at(&dir, "new.db");
    for end in ["\n", "\r\n", "\r"] {
        let text = format!("a,b{end}1,\"x{end}y{end}z\"{end}{end}2,w{end}3{end}");
        let file = write(&dir, "in.csv", text);
        densite(&["load", &db, "t", &file])
            .expect(1)
            .says("line 7: has 1 field,");
    }
}

#[test]
fn csv_and_json_can_come_through_a_pipe() {
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

/// The largest and the smallest integer are numbers. Text that looks like a large number stays
/// text.
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
