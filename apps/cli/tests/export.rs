//! `densite export`: files that `densite load` reads back.

use crate::common::{at, densite, names, piped, temp};

fn made(dir: &tempfile::TempDir) -> String {
    let db = at(dir, "a.db");
    let sql = "CREATE TABLE \"the table\"(id INTEGER PRIMARY KEY, x REAL, s TEXT, b BLOB);
               INSERT INTO \"the table\" VALUES (1, 0.5, 'a, \"b\"', x'00ff'), (2, NULL, '', NULL),
                 (3, 1e300, NULL, x''), (-4, -2.0, 'two' || char(10) || 'lines 😀', x'01');
               CREATE VIEW v AS SELECT id, s FROM \"the table\";";
    densite(&["sql", "--create", &db, sql]).expect(0);
    db
}

fn content(db: &str, columns: &str) -> String {
    let sql = format!("SELECT {columns} FROM \"the table\" ORDER BY id");
    densite(&["sql", db, &sql, "--format", "csv"]).expect(0).out
}

#[test]
fn what_is_exported_can_be_loaded_again() {
    let dir = temp();
    let db = made(&dir);
    let exact = "id, quote(x), quote(s), quote(b)";
    let file = at(&dir, "t.parquet");
    let json = densite(&["export", &db, "the table", &file, "--json"])
        .expect(0)
        .json();
    assert_eq!(
        (json["rows"].as_u64(), json["format"].as_str()),
        (Some(4), Some("parquet"))
    );
    let copy = at(&dir, "copy.db");
    densite(&["load", &copy, "the table", &file]).expect(0);
    assert_eq!(content(&copy, exact), content(&db, exact));
    // Text formats have blobs as hexadecimal digits; everything else comes back, also compressed.
    let text = "id, quote(x), quote(s)";
    for name in [
        "t.csv",
        "t.csv.gz",
        "t.csv.zst",
        "t.tsv",
        "t.jsonl",
        "t.json.gz",
        "t.ndjson.zst",
        "t.json",
        "t.parquet.zst",
        "t.parquet.gz",
    ] {
        let (file, copy) = (at(&dir, name), at(&dir, &format!("{name}.db")));
        let query = "SELECT id, x, s FROM \"the table\"";
        densite(&["export", &db, query, &file]).expect(0);
        // NULL is nothing, and the empty text is in quotes.
        let null: &[&str] = if name.contains("sv") {
            &["--null", ""]
        } else {
            &[]
        };
        let mut args = vec!["load", &copy, "the table", &file];
        args.extend(null);
        densite(&args).expect(0);
        assert_eq!(content(&copy, text), content(&db, text), "{name}");
    }
    // Statements keep blobs, too.
    let statements = at(&dir, "t.sql");
    densite(&[
        "export",
        &db,
        "the table",
        &statements,
        "--format",
        "insert",
    ])
    .expect(0);
    let other = at(&dir, "other.db");
    let schema = "SELECT sql FROM sqlite_schema WHERE type = 'table'";
    let schema = densite(&["sql", &db, schema, "--format", "list"]).expect(0);
    let script = format!("{};\n.read \"{statements}\"\n", schema.out);
    piped(&["sql", "--create", &other], script.as_bytes()).expect(0);
    assert_eq!(content(&other, exact), content(&db, exact));
    let args = [
        "export",
        &db,
        "the table",
        "-",
        "--format",
        "insert",
        "--no-header",
    ];
    let bare = densite(&args).expect(0).out;
    assert!(
        bare.starts_with("INSERT INTO \"the table\" VALUES("),
        "{bare}"
    );
}

#[test]
fn queries_views_and_stdout() {
    let dir = temp();
    let db = made(&dir);
    let out = |args: &[&str]| {
        let mut all = vec!["export", &db];
        all.extend(args);
        densite(&all).expect(0).out
    };
    assert_eq!(out(&["v", "-", "--format", "jsonl"]).lines().count(), 4);
    let query = "WITH w AS (SELECT :n AS n) SELECT n FROM w";
    assert_eq!(
        out(&[query, "-", "--format", "csv", "--param", "n=5"]),
        "n\n5\n"
    );
    assert_eq!(
        out(&[
            query,
            "-",
            "--format",
            "csv",
            "--param",
            "n=5",
            "--no-header"
        ]),
        "5\n"
    );
    for (args, code, words) in [
        (&["nope", "x.csv"][..], 1, "there is no table or view nope"),
        (&["w", "x.csv"], 1, "did you mean "),
        (&["SELECT nope", "x.csv"], 1, "no such column: nope"),
        (&["v", "x.dat"], 2, "give --format"),
        (&["v", "-"], 2, "give --format"),
        (&["WITH a AS (SELECT 1) DELETE FROM v", "x.csv"], 1, ""),
        (&["v", "-", "--format", "csv", "--json"], 2, "name a file"),
    ] {
        let mut all = vec!["export", &db];
        all.extend(args);
        densite(&all).expect(code).says(words);
    }
}

#[test]
fn a_file_is_replaced_only_with_yes_and_never_half() {
    let dir = temp();
    let db = made(&dir);
    let file = at(&dir, "t.csv");
    densite(&["export", &db, "v", &file]).expect(0);
    let before = std::fs::read(&file).expect("read");
    densite(&["export", &db, "SELECT 1", &file])
        .expect(1)
        .says("--yes replaces it");
    densite(&["export", &db, "SELECT 1", &db, "--format", "csv", "--yes"])
        .expect(1)
        .says("is a database");
    // A statement that fails after its first rows.
    let fails = "SELECT id, CASE id WHEN 3 THEN json('x') END FROM \"the table\"";
    densite(&["export", &db, fails, &file, "--yes"])
        .expect(1)
        .says("malformed JSON");
    assert_eq!(std::fs::read(&file).expect("read"), before);
    densite(&["export", &db, "SELECT 1 AS a", &file, "--yes"]).expect(0);
    assert_eq!(std::fs::read(&file).expect("read"), b"a\n1\n");
    assert_eq!(names(dir.path()), ["a.db", "t.csv"]);
}

#[test]
fn a_damaged_database_is_not_exported() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let sql =
        "CREATE TABLE t(a); WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
        INSERT INTO t SELECT hex(randomblob(20)) FROM n";
    densite(&["sql", "--create", &db, sql]).expect(0);
    let mut bytes = std::fs::read(&db).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle..middle + 50]
        .iter_mut()
        .for_each(|b| *b ^= 0x55);
    std::fs::write(&db, bytes).expect("written");
    let file = at(&dir, "t.csv");
    let said = densite(&["export", &db, "t", &file]).expect(5);
    said.says("restore it from a backup");
    assert_eq!(names(dir.path()), ["a.db"]);
}

#[test]
fn a_name_never_promises_a_compression_that_the_file_does_not_have() {
    let dir = temp();
    let db = made(&dir);
    for (name, command) in [
        ("a.csv.xz", "xz"),
        ("b.BZ2", "bzip2"),
        ("c.csv.gz.xz", "xz"),
    ] {
        let file = at(&dir, name);
        densite(&["export", &db, "v", &file, "--format", "csv"])
            .expect(2)
            .says("only with gzip and zstd")
            .says(&format!("| {command} > {file}"));
    }
    for (name, command) in [("a.csv.gz", "gzip"), ("b.csv.zst", "zstd"), ("c.xz", "xz")] {
        let file = at(&dir, name);
        let words = format!(".once |{command} > {file}");
        densite(&["sql", &db, "SELECT 1", "-o", &file])
            .expect(1)
            .says(&words);
        densite(&["sql", &db, &format!(".output {file}")])
            .expect(1)
            .says(&words);
    }
    assert_eq!(names(dir.path()), ["a.db"]);
}

#[test]
fn a_query_can_begin_with_comments() {
    let dir = temp();
    let db = made(&dir);
    let query = " -- the ids;\n/* only\n of v */ SELECT id FROM v WHERE id < 2 ORDER BY id";
    let ran = densite(&["export", &db, query, "-", "--format", "csv"]).expect(0);
    assert_eq!(ran.out, "id\n-4\n1\n");
    let only = densite(&["export", &db, " -- nothing", "-", "--format", "csv"]);
    only.expect(1).says("no table or view");
}

/// In a file with one column, NULL is an empty line, and a name with a delimiter is quoted.
#[test]
fn one_column_comes_back_from_csv() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let sql = "CREATE TABLE t(\"a;b, c\"); INSERT INTO t VALUES (NULL), (1), (''), (NULL), ('x')";
    densite(&["sql", "--create", &db, sql]).expect(0);
    for (i, name) in ["t.csv", "t.tsv"].iter().enumerate() {
        let (file, copy) = (at(&dir, name), format!("t{i}"));
        densite(&["export", &db, "t", &file]).expect(0);
        densite(&["load", &db, &copy, &file, "--null", ""]).expect(0);
        let sql = format!("SELECT quote(\"a;b, c\") AS q FROM {copy} ORDER BY rowid");
        let ran = densite(&["sql", &db, &sql, "--format", "csv"]).expect(0);
        assert_eq!(ran.out, "q\nNULL\n'1'\n''\nNULL\n'x'\n", "{name}");
        densite(&["export", &db, "t", &file, "--no-header", "--yes"]).expect(0);
        let copy = format!("n{i}");
        let options = ["--null", "", "--no-header"];
        densite(&[&["load", &db, &copy, &file][..], &options].concat()).expect(0);
        let sql = format!("SELECT quote(c1) AS q FROM {copy} ORDER BY rowid");
        let ran = densite(&["sql", &db, &sql, "--format", "csv"]).expect(0);
        assert_eq!(ran.out, "q\nNULL\n'1'\n''\nNULL\n'x'\n", "{name}");
    }
}

#[test]
fn a_column_of_several_types_is_written_as_text_if_asked_for() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let made =
        "CREATE TABLE t(a, b REAL); INSERT INTO t VALUES (X'00FF', 1), (7, 9e999), ('x', NULL)";
    densite(&["sql", "--create", &db, made]).expect(0);
    for name in ["t.parquet", "t.arrow"] {
        let file = at(&dir, name);
        densite(&["export", &db, "t", &file])
            .expect(1)
            .says("row 2, column a: integers in a column with blobs")
            .says("--text");
        densite(&["export", &db, "t", &file, "--text"]).expect(0);
    }
    let copy = at(&dir, "copy.db");
    densite(&["load", &copy, "t", &at(&dir, "t.parquet")]).expect(0);
    let all = "SELECT * FROM t";
    let rows = densite(&["sql", &copy, all, "--format", "quote"])
        .expect(0)
        .out;
    assert_eq!(rows, "'X''00FF''','1.0'\n'7','Inf'\n'x',NULL\n");
    densite(&["export", &db, "t", &at(&dir, "t.csv"), "--text"])
        .expect(2)
        .says("leave it out");
}
