//! `densite load` of ordinary files that are not quite right: what is wrong is said with its place,
//! and values keep what they mean.

use crate::common::{at, densite, load, piped, rows, temp, write};

#[test]
fn two_columns_of_one_name_are_named_with_file_and_line() {
    let dir = temp();
    let db = at(&dir, "a.db");
    densite(&["sql", "--create", &db, "CREATE TABLE old(id, name)"]).expect(0);
    for (name, text, words) in [
        (
            "a.csv",
            "\nid,name,id\n1,2,3\n",
            "a.csv, line 2: columns 1 and 3 have the same name, id; rename one",
        ),
        (
            "b.csv",
            "Name,id,name\n1,2,3\n",
            "b.csv, line 1: columns 1 and 3 have names that differ only in case, Name and name",
        ),
        (
            "c.csv",
            "id,,\n1,,\n",
            "line 1: columns 2 and 3 have no name",
        ),
        (
            "d.json",
            "[{\"id\":1,\"ID\":2}]",
            "d.json: columns 1 and 2 have names that differ only in case, id and ID",
        ),
    ] {
        let file = write(&dir, name, text);
        load(&db, "new", &file, &[]).expect(1).says(words);
    }
    for (name, words) in [
        ("a.csv", "a.csv, line 2: columns 1 and 3 have the same name"),
        ("d.json", "column ID: columns 1 and 2 have names that"),
    ] {
        let ran = load(&db, "old", &at(&dir, name), &[]).expect(1);
        ran.says(words);
    }
    assert_eq!(rows(&db, "SELECT count(*) FROM sqlite_schema"), ["1"]);
}

#[test]
fn options_of_another_format_are_refused() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let json = write(&dir, "a.json", "[{\"a\":\"NA\"}]");
    for more in [
        &["--null", "NA"][..],
        &["--no-header"],
        &["--delimiter", ";"],
        &["--quote", "none"],
        &["--types", "text"],
        &["--types", "a=TEXT"],
    ] {
        for format in ["json", "jsonl", "parquet"] {
            let more = [more, &["--format", format]].concat();
            load(&db, "t", &json, &more).expect(2).says(&format!(
                "{} has no meaning for the format {format}",
                more[0]
            ));
        }
    }
    let more = ["--encoding", "latin1", "--format", "parquet"];
    load(&db, "t", &json, &more).expect(2).says("--encoding");
    load(&db, "t", &json, &["--types", "auto"]).expect(0);
    for (file, code) in [("b.json", 2), ("b.parquet", 2), ("b.csv", 0)] {
        densite(&["export", &db, "t", &at(&dir, file), "--no-header"]).expect(code);
    }
}

#[test]
fn objects_without_columns() {
    let dir = temp();
    let db = at(&dir, "a.db");
    densite(&["sql", "--create", &db, "CREATE TABLE t(a DEFAULT 5)"]).expect(0);
    for (text, words) in [
        ("{}", "has rows without columns"),
        ("[{}]", "has rows without columns"),
        ("[{}, {}]", "has rows without columns"),
        ("[]", "has no rows"),
        (" ", "has no rows"),
    ] {
        for name in ["a.json", "a.jsonl"] {
            let file = write(&dir, name, text);
            if name == "a.json" || !text.starts_with('[') {
                load(&db, "new", &file, &[]).expect(1).says(words);
            }
        }
    }
    // A table that exists gets a row of its defaults, or none.
    load(&db, "t", &write(&dir, "b.json", "[{}, {\"a\":1}]"), &[]).expect(0);
    load(&db, "t", &write(&dir, "c.json", "[]"), &[]).expect(0);
    assert_eq!(rows(&db, "SELECT a FROM t"), ["5", "1"]);
    load(&db, "u", &write(&dir, "d.json", "[{}, {\"a\":1}]"), &[]).expect(0);
    assert_eq!(rows(&db, "SELECT ifnull(a, 'none') FROM u"), ["none", "1"]);
}

#[test]
fn a_negative_zero_is_a_real_number() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let text = "a,b,c,d\n-0.0,-0,-0,x\n1.5,2,2.5,-0\n";
    load(&db, "t", &write(&dir, "a.csv", text), &[]).expect(0);
    assert_eq!(
        rows(&db, "SELECT group_concat(type) FROM pragma_table_info('t')"),
        ["\"REAL,REAL,REAL,TEXT\""]
    );
    // SQLite itself stores whole numbers of a REAL column without the sign of zero.
    assert_eq!(
        rows(&db, "SELECT a = 0, a, b, c, d FROM t"),
        ["1,0.0,0.0,0.0,x", "0,1.5,2.0,2.5,-0"]
    );
    // As text, and in a column without a type, it stays.
    load(&db, "u", &at(&dir, "a.csv"), &["--types", "text"]).expect(0);
    assert_eq!(rows(&db, "SELECT a, b FROM u"), ["-0.0,-0", "1.5,2"]);
    load(
        &db,
        "v",
        &write(&dir, "b.json", "[{\"a\":-0.0,\"b\":-0}]"),
        &[],
    )
    .expect(0);
    assert_eq!(rows(&db, "SELECT a, b FROM v"), ["-0.0,-0.0"]);
}

#[test]
fn a_header_line_with_another_delimiter_is_not_one_column() {
    let dir = temp();
    let db = at(&dir, "a.db");
    for (name, text, delimiter) in [
        ("a.csv", "\u{feff}Name;Preis\r\n\"Müller; Co\";1,5\r\n", ";"),
        ("b.csv", "a\tb\n1\t2\n", "\\t"),
        ("c.csv", "a|b\n1|2\n", "|"),
        ("d.tsv", "a,b\n1,2\n", ","),
    ] {
        let file = write(&dir, name, text);
        load(&db, "t", &file, &[])
            .expect(1)
            .says(&format!("{name}, line 1: has one column"))
            .says(&format!("--delimiter '{delimiter}'"));
        load(&db, name, &file, &["--delimiter", delimiter]).expect(0);
    }
    assert_eq!(
        rows(&db, "SELECT Name, Preis FROM \"a.csv\""),
        ["Müller; Co,\"1,5\""]
    );
    // Quotes around such a name, or the option, make it one column.
    let text = "\"first; last\"\nx\n";
    load(&db, "e", &write(&dir, "e.csv", text), &[]).expect(0);
    let file = write(&dir, "f.csv", "first; last\nx\n");
    load(&db, "f", &file, &["--delimiter", ","]).expect(0);
    load(&db, "g", &file, &["--no-header"]).expect(0);
    assert_eq!(rows(&db, "SELECT count(*) FROM g"), ["2"]);
    let quoted = write(&dir, "h.csv", "\"a\";\"b\"\n1;2\n");
    load(&db, "h", &quoted, &[]).expect(1).says("--delimiter");
}

/// One column results, and the header line has another usual delimiter.
#[test]
fn a_given_delimiter_that_does_not_fit_is_noticed() {
    let dir = temp();
    let db = at(&dir, "a.db");
    // All lines say which one fits.
    for (text, given, fitting) in [
        ("a,b\n1,2\n", ";", "','"),
        ("a\tb\n1\t2\n3\t4", "|", "'\\t'"),
        ("a;b;c\r\n1;2;3\r\n", ":", "';'"),
        ("a,b\n1,2", "\\t", "','"),
    ] {
        let file = write(&dir, "x.csv", text);
        load(&db, "t", &file, &["--delimiter", given])
            .expect(1)
            .says("x.csv, line 1: has one column")
            .says(&format!("give --delimiter {fitting}"))
            .says("nothing was loaded");
    }
    // They do not, or the usual delimiter loads one column: that is done, and told.
    for (n, (text, given)) in [
        ("a,b\n1,2\n3\n", ";"),
        ("last, first\nx\n", ";"),
        ("a,b\n", "|"),
        ("a;b\n1;2\n", ","),
    ]
    .into_iter()
    .enumerate()
    {
        let file = write(&dir, "x.csv", text);
        let table = format!("t{n}");
        let ran = load(&db, &table, &file, &["--delimiter", given]).expect(0);
        ran.says("x.csv, line 1: has one column")
            .says("give --delimiter ");
        let quiet = ["--delimiter", given, "--quiet"];
        let ran = load(&db, &format!("q{n}"), &file, &quiet).expect(0);
        assert_eq!(ran.err, "");
    }
    // Each line is one value, as a control character says.
    let file = write(&dir, "x.csv", "a,b\n1,2\n");
    let ran = load(&db, "u", &file, &["--delimiter", "\u{1}"]).expect(0);
    assert!(!ran.err.contains("one column"), "{}", ran.err);
    // Other errors of such a file name the delimiter, too.
    densite(&["sql", &db, "CREATE TABLE v(a, b)"]).expect(0);
    let file = write(&dir, "x.csv", "a;b\n1;2\n");
    load(&db, "v", &file, &["--delimiter", ","])
        .expect(1)
        .says("column a;b: is not a column of table v")
        .says("give --delimiter ';'");
    let quoted = write(&dir, "x.csv", "a;b\n\"1\";\"2\"\n");
    load(&db, "w", &quoted, &["--delimiter", ","])
        .expect(1)
        .says("text after the closing quote")
        .says("give --delimiter ';'");
    let quoted = write(&dir, "x.csv", "\"a\";\"b\"\n1;2\n");
    load(&db, "w", &quoted, &["--delimiter", ","])
        .expect(1)
        .says("another delimiter");
    // The shell's separator is a given delimiter.
    let file = write(&dir, "x.csv", "a,b\n1,2\n");
    let script = format!(".mode list\n.separator ';'\n.import {file} y\n");
    piped(&["sql", &db], script.as_bytes())
        .expect(1)
        .says(".separator ','");
}

#[test]
fn a_line_for_spreadsheets_names_the_delimiter() {
    let dir = temp();
    let db = at(&dir, "a.db");
    for (name, text, more) in [
        ("a", "sep=;\r\na;b\r\n1;2\r\n", &[][..]),
        ("b", "sep=,\na,b\n1,2\n", &[]),
        ("c", "\u{feff}sep=\t\na\tb\n1\t2\n", &[]),
        ("d", "sep=;\na;b\n1;2\n", &["--delimiter", ";"]),
        ("e", "sep=,\na;b\n1;2\n", &["--delimiter", ";"]),
    ] {
        let file = write(&dir, "x.csv", text);
        load(&db, name, &file, more).expect(0);
        assert_eq!(rows(&db, &format!("SELECT a + b FROM {name}")), ["3"]);
    }
    let bad = write(&dir, "y.csv", "sep=;\na;b\n1;2;3\n");
    load(&db, "f", &bad, &[])
        .expect(1)
        .says("line 3: has 3 fields, but the first line of the file has 2");
}

#[test]
fn what_a_table_cannot_have_is_said_of_the_file() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let many: Vec<String> = (0..2001).map(|i| format!("c{i}")).collect();
    for (name, text, words) in [
        (
            "a.csv",
            "a\0b,c\n1,2\n".to_owned(),
            "a.csv, line 1: the name of column 1",
        ),
        (
            "b.json",
            r#"[{"c":1,"a\u0000":2}]"#.to_owned(),
            "b.json: the name of column 2",
        ),
        ("c.csv", many.join(",") + "\n", "c.csv: has 2,001 columns"),
        (
            "d.csv",
            "a,b\n1\n".to_owned(),
            "d.csv, line 2: has 1 field, but",
        ),
    ] {
        load(&db, "t", &write(&dir, name, text), &[])
            .expect(1)
            .says(words);
    }
    load(&db, "", &at(&dir, "d.csv"), &[])
        .expect(2)
        .says("TABLE is empty");
}

#[test]
fn a_table_that_takes_no_such_value_says_why() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let sql = "CREATE TABLE g(id INTEGER PRIMARY KEY, a INT, b AS (a*2), c AS (a+1) STORED);
               INSERT INTO g(a) VALUES (7); CREATE TABLE s(n INT, t TEXT) STRICT";
    densite(&["sql", "--create", &db, sql]).expect(0);
    let file = at(&dir, "g.csv");
    densite(&["export", &db, "g", &file]).expect(0);
    load(&db, "g", &file, &[])
        .expect(1)
        .says("g.csv, line 1, column b: is a generated column of table g");
    let file = write(&dir, "x.csv", "\nid,z\n1,2\n");
    load(&db, "g", &file, &[])
        .expect(1)
        .says("x.csv, line 2, column z: is not a column of table g");
    for (table, text, column) in [("g", "id,a\n,1\n", "id"), ("s", "n,t\n,\n", "n")] {
        let file = write(&dir, "y.csv", text);
        load(&db, table, &file, &[])
            .expect(1)
            .says(&format!("column {column}, value \"\""))
            .says("NULL with --null ''");
        load(&db, table, &file, &["--null", ""]).expect(0);
    }
}

#[test]
fn json_over_several_lines_is_not_json_lines() {
    let dir = temp();
    let db = at(&dir, "a.db");
    for text in [
        "[{\"a\":1},\n{\"a\":2}]\n",
        "[{\"a\":1},{\"a\":2}]\n",
        "{\n\"a\":1}\n",
    ] {
        let file = write(&dir, "a.jsonl", text);
        load(&db, "t", &file, &[])
            .expect(1)
            .says("line 1")
            .says("give --format json");
        load(&db, "t", &file, &["--format", "json"]).expect(0);
    }
    let file = write(&dir, "b.jsonl", "{\"a\":1}\n{\"a\":\n");
    let ran = load(&db, "u", &file, &[]).expect(1).says("line 2");
    assert!(!ran.err.contains("--format json"), "{ran:?}");
}
