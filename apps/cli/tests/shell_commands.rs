//! Dot commands, parameters and formats of `densite sql`, from a pipe.

use crate::common::*;
use rusqlite::Connection;
use serde_json::{Value, json};
use std::fs;

/// A database with one table, and an index.
fn made(dir: &tempfile::TempDir) -> String {
    let db = at(dir, "a.db");
    let sql = "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT); CREATE INDEX by_name ON t(name);
               CREATE VIEW v AS SELECT name FROM t;
               INSERT INTO t VALUES (1, 'Ada'), (2, NULL);";
    densite(&["sql", "--create", &db, sql]).expect(0);
    db
}

fn script(db: &str, text: &str) -> Ran {
    piped(&["sql", db, "--format", "csv"], text.as_bytes())
}

#[test]
fn commands_list_what_the_database_has() {
    let dir = temp();
    let db = made(&dir);
    let ran = script(&db, ".tables\n.indexes\n.tab V\n").expect(0);
    assert_eq!(ran.out, "t  v\nby_name\nv\n");
    let ran = script(&db, ".schema t\n").expect(0);
    assert_eq!(
        ran.out,
        "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT);\nCREATE INDEX by_name ON t(name);\n"
    );
    let ran = script(
        &db,
        "ATTACH ':memory:' AS more; CREATE TABLE more.u(a);\n.databases\n.tables\n",
    );
    let ran = ran.expect(0);
    assert!(
        ran.out.contains(&format!("main: {db} r/w\n")),
        "{}",
        ran.out
    );
    assert!(ran.out.ends_with("more.u  t       v\n"), "{}", ran.out);
    // Commands can be the argument too.
    let ran = densite(&["sql", &db, ".tables"]).expect(0);
    assert_eq!(ran.out, "t  v\n");
}

#[test]
fn settings_change_what_follows() {
    let dir = temp();
    let db = made(&dir);
    let text = ".headers off\nSELECT 1, 'a';\n.mode json\nSELECT 1 AS a;\n.mode\n.print hello 'wide  world'\n";
    let ran = script(&db, text).expect(0);
    assert_eq!(
        ran.out,
        "1,a\n[{\"a\":1}]\ncurrent output mode: json\nhello wide  world\n"
    );
    let ran = script(&db, ".timer on\nSELECT 1 AS a;\n.show\n").expect(0);
    assert!(ran.out.contains("Run Time: real 0."), "{}", ran.out);
    assert!(ran.out.contains("mode: csv\n"), "{}", ran.out);
    let ran = script(&db, ".help\n").expect(0);
    for name in [
        ".tables", ".schema", ".mode", ".import", ".output", ".timer", ".quit", ".read", ".dump",
    ] {
        assert!(ran.out.contains(name), "{name}: {}", ran.out);
    }
    let ran = script(&db, ".quit\nSELECT 1;\n").expect(0);
    assert_eq!(ran.out, "");
    let ran = script(&db, ".exit 4\nSELECT 1;\n");
    assert_eq!((ran.code, ran.out.as_str()), (4, ""));
}

#[test]
fn a_bad_command_stops_the_script_with_its_line() {
    let dir = temp();
    let db = made(&dir);
    for (text, words) in [
        (
            "SELECT 1;\n\n.shcema\nDELETE FROM t;\n",
            &["line 3 (.shcema)", "did you mean .schema?"][..],
        ),
        (
            ".mode xml\nDELETE FROM t;\n",
            &["line 1", "no mode xml", "parquet"],
        ),
        (".read\nDELETE FROM t;\n", &["the command is .read FILE"]),
        (
            ".timer maybe\nDELETE FROM t;\n",
            &["maybe is neither on nor off"],
        ),
        (
            ".read nowhere.sql\nDELETE FROM t;\n",
            &["nowhere.sql cannot be opened"],
        ),
        (".h\nDELETE FROM t;\n", &[".headers or .help"]),
        (".schema 'a\nDELETE FROM t;\n", &["is not closed"]),
    ] {
        let ran = script(&db, text).expect(1);
        for word in words {
            assert!(ran.err.contains(word), "no {word:?} in {}", ran.err);
        }
        assert_eq!(script(&db, "SELECT count(*) AS n FROM t;").out, "n\n2\n");
    }
    let ran = piped(&["sql", &db, "--json"], b".tables\n").expect(1);
    assert!(
        ran.json()["error"]["message"]
            .as_str()
            .is_some_and(|m| m.contains("--json"))
    );
    // Within a statement a line with a dot is SQL.
    assert_eq!(script(&db, "SELECT 1\n.5 AS a;\n").code, 1);
    assert_eq!(script(&db, "SELECT\n.5 AS a;\n").expect(0).out, "a\n0.5\n");
}

#[test]
fn files_are_read_and_name_themselves_in_errors() {
    let dir = temp();
    let db = made(&dir);
    let (inner, outer) = (at(&dir, "inner.sql"), at(&dir, "outer.sql"));
    fs::write(&inner, "SELECT 'in' AS a;\nSELECT broken;\n").expect("written");
    fs::write(&outer, format!(".read '{inner}'\nSELECT 'never';\n")).expect("written");
    let ran = script(&db, &format!(".read {outer}\nSELECT 'never';\n")).expect(1);
    assert_eq!(ran.out, "a\nin\n");
    assert!(
        ran.err.contains(&format!("{outer}: {inner}: ")),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("line 2 (SELECT broken;)"), "{}", ran.err);
    let loop_ = at(&dir, "loop.sql");
    fs::write(&loop_, format!(".read {loop_}\n")).expect("written");
    script(&db, &format!(".read {loop_}\n"))
        .expect(1)
        .says("25 files");
}

#[test]
fn results_go_to_files() {
    let dir = temp();
    let db = made(&dir);
    let (a, b) = (at(&dir, "a.csv"), at(&dir, "b.csv"));
    let text = format!(
        ".once {a}\nSELECT 1 AS a;\nSELECT 2 AS a;\n.output {b}\nSELECT 3 AS a;\nSELECT 4 AS a;\n.output\nSELECT 5 AS a;\n"
    );
    assert_eq!(script(&db, &text).expect(0).out, "a\n2\na\n5\n");
    assert_eq!(fs::read_to_string(&a).expect("read"), "a\n1\n");
    assert_eq!(fs::read_to_string(&b).expect("read"), "a\n3\na\n4\n");
    // A database is never replaced.
    let before = fs::read(&db).expect("read");
    script(&db, &format!(".output {db}\nSELECT 1;\n"))
        .expect(1)
        .says("is a database");
    densite(&["sql", &db, "SELECT 1", "--output", &db])
        .expect(1)
        .says("is a database");
    assert_eq!(fs::read(&db).expect("read"), before);
    let json = at(&dir, "c.json");
    densite(&["sql", &db, "SELECT 1 AS a", "-o", &json]).expect(0);
    assert_eq!(fs::read_to_string(&json).expect("read"), "[{\"a\":1}]\n");
}

#[test]
fn parameters_have_values_and_are_never_sql() {
    let dir = temp();
    let db = made(&dir);
    let sql = "SELECT typeof(:a) AS a, @b AS b, $c AS c, ?4 AS d";
    let args = [
        "sql", &db, sql, "--format", "csv", "--param", "a=5", "--param", ":b=2.50", "--param",
    ];
    let mut all = args.to_vec();
    all.extend(["c=(SELECT 1)", "--param", "4=x=y"]);
    assert_eq!(
        densite(&all).expect(0).out,
        "a,b,c,d\ninteger,2.5,(SELECT 1),x=y\n"
    );
    densite(&["sql", &db, "SELECT :name"])
        .expect(1)
        .says("parameter :name has no value");
    densite(&["sql", &db, "SELECT 1", "--param", "novalue"]).expect(2);
    let text = ".parameter set :who \"'Ada'\"\n.parameter set n 1+1\n.parameter set word hello\n\
                SELECT id FROM t WHERE name = :who;\nSELECT :n AS n, :word AS word;\n.parameter list\n\
                .parameter unset n\nSELECT :n;\n";
    let ran = script(&db, text)
        .expect(1)
        .says("parameter :n has no value");
    assert_eq!(
        ran.out,
        "id\n1\nn,word\n2,hello\nn 2\nwho 'Ada'\nword 'hello'\n"
    );
}

#[test]
fn a_dump_makes_the_same_database() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let made = Connection::open(&db).expect("opens");
    made.execute_batch(
        "CREATE TABLE \"a b\"(id INTEGER PRIMARY KEY AUTOINCREMENT, x, y TEXT, z BLOB, twice AS (id*2));
         INSERT INTO \"a b\"(id, x, y, z) VALUES
           (1, 0.1, 'it''s', x'00ff'), (9223372036854775807, 9e999, CAST(x'610062' AS TEXT), x''),
           (-9223372036854775808, -1e-300, 'two' || char(10) || 'lines', NULL), (4, 1e17, '', zeroblob(3));
         CREATE INDEX i ON \"a b\"(y); CREATE VIEW w AS SELECT x FROM \"a b\";
         CREATE TABLE log(a); CREATE TRIGGER tr AFTER INSERT ON log BEGIN DELETE FROM log WHERE a IS NULL; END;
         INSERT INTO log VALUES (1), (2);
         CREATE VIRTUAL TABLE words USING fts5(t); INSERT INTO words VALUES ('hello world');
         ANALYZE;",
    )
    .expect("made");
    drop(made);
    densite(&["compress", &db]).expect(0);
    let dump = script(&db, ".dump\n").expect(0).out;
    let copy = at(&dir, "copy.db");
    piped(&["sql", "--create", &copy], dump.as_bytes()).expect(0);
    for sql in [
        "SELECT type, name, sql FROM sqlite_schema ORDER BY type, name",
        "SELECT id, quote(x), hex(y), hex(z), twice, typeof(y) FROM \"a b\" ORDER BY id",
        "SELECT * FROM log",
        "SELECT * FROM sqlite_sequence",
        "SELECT * FROM sqlite_stat1 ORDER BY 1, 2",
        "SELECT t FROM words WHERE words MATCH 'world'",
        "SELECT x FROM w ORDER BY x",
    ] {
        let of = |db: &str| densite(&["sql", db, sql, "--format", "csv"]).expect(0).out;
        assert_eq!(of(&copy), of(&db), "{sql}");
    }
    densite(&["check", &copy]).expect(0);
    let one = script(&db, ".dump log\n").expect(0).out;
    assert!(
        one.contains("CREATE TRIGGER tr") && !one.contains("a b"),
        "{one}"
    );
}

#[test]
fn a_dump_is_of_the_tables_that_were_asked_for() {
    let dir = temp();
    let db = made(&dir);
    // A temporary table hides one of main in SQL, but not in a dump.
    let text = "CREATE TEMP TABLE t(other, columns, than, those);\n.dump t\n";
    let ran = script(&db, text).expect(0);
    assert!(
        ran.out.contains("INSERT INTO \"t\" VALUES(1,'Ada');"),
        "{ran:?}"
    );
    script(&db, ".dump sqlite_stat%\n").expect(0);
    // An option or a slip gives no empty dump.
    for (command, words) in [
        (".dump --data-only", "--data-only is no option of .dump"),
        (".dump t nosuch", "there is no table or view nosuch"),
        (".schema --indent", "--indent is no option of .schema"),
        (".tables --x", "--x is no option of .tables"),
    ] {
        let ran = script(&db, &format!("{command}\n")).expect(1).says(words);
        assert_eq!(ran.out, "", "{command}");
    }
}

#[test]
fn a_file_is_imported_as_by_the_sqlite3_shell() {
    let dir = temp();
    let db = made(&dir);
    let file = at(&dir, "in.csv");
    fs::write(&file, "id,name\n3,Bob\n4,\"C, D\"\n").expect("written");
    let text = format!(
        ".import {file} fresh\n.import --skip 1 '{file}' t\nSELECT count(*) AS n FROM t;\nSELECT * FROM fresh;\n"
    );
    let ran = script(&db, &text).expect(0);
    assert_eq!(ran.out, "n\n4\nid,name\n3,Bob\n4,\"C, D\"\n");
    // In a transaction, the rows are a part of it; a bad file leaves the transaction open.
    fs::write(&file, "5,e\n5,f\n").expect("written");
    let text = format!("BEGIN; INSERT INTO t VALUES (9, 'i');\n.import {file} t\n");
    script(&db, &text)
        .expect(1)
        .says("UNIQUE constraint failed: t.id");
    assert_eq!(script(&db, "SELECT count(*) AS n FROM t;").out, "n\n4\n");
    fs::write(&file, "5,e\n6,f\n").expect("written");
    let text = format!("BEGIN;\n.import {file} t\nROLLBACK; SELECT count(*) AS n FROM t;\n");
    assert_eq!(script(&db, &text).expect(0).out, "n\n4\n");
}

#[test]
fn the_separator_is_that_of_imported_files_too() {
    let dir = temp();
    let db = made(&dir);
    let file = at(&dir, "in.csv");
    fs::write(&file, "id;name\n3;Bob\n").expect("written");
    script(&db, &format!(".import {file} fresh\n"))
        .expect(1)
        .says(".separator ';'");
    let text = format!(".separator ';'\n.import {file} fresh\nSELECT name FROM fresh;\n");
    assert_eq!(script(&db, &text).expect(0).out, "name\nBob\n");
    let text = format!(".mode list\n.separator ab\n.import {file} fresh\n");
    script(&db, &text).expect(1).says("one ASCII character");
}

#[test]
fn rows_are_imported_into_the_table_that_sql_means() {
    let dir = temp();
    let db = made(&dir);
    let file = at(&dir, "in.csv");
    fs::write(&file, "3,Bob\n").expect("written");
    let text = format!(
        "ATTACH ':memory:' AS o; CREATE TABLE o.u(a, b); CREATE TEMP TABLE t(x, y);\n.import {file} t\n\
         .import {file} u\n.import --schema main {file} t\n.import --schema o {file} new\n\
         SELECT count(*) AS n FROM temp.t UNION ALL SELECT count(*) FROM o.u\n\
         UNION ALL SELECT count(*) FROM main.t UNION ALL SELECT count(*) FROM o.new;\n"
    );
    let ran = script(&db, &text).expect(0);
    assert_eq!(ran.out, "n\n1\n1\n3\n0\n");
    assert!(ran.err.contains("1 row into t\n"), "{}", ran.err);
    script(&db, &format!(".import --schema no {file} t\n"))
        .expect(1)
        .says("no");
    for option in ["-x", "--schema"] {
        script(&db, &format!(".import {file} t {option}\n")).expect(1);
    }
}

#[test]
fn lines_before_the_names_of_a_new_table_are_skipped() {
    let dir = temp();
    let db = made(&dir);
    let file = at(&dir, "in.csv");
    fs::write(&file, "A \"report\"\n\nid,name\n7,x\n8,y\n").expect("written");
    let text = format!(
        ".import --skip 2 {file} new\nSELECT id FROM new;\n.import --skip 4 {file} new\nSELECT id FROM new;\n"
    );
    assert_eq!(script(&db, &text).expect(0).out, "id\n7\n8\nid\n7\n8\n8\n");
}

#[test]
fn a_line_with_a_number_sign_is_a_comment_where_a_statement_could_begin() {
    let dir = temp();
    let db = made(&dir);
    let text = "#!/usr/bin/env densite\n# it's\nSELECT 1 AS a;\nSELECT 'x\n# y' AS b;\n";
    assert_eq!(script(&db, text).expect(0).out, "a\n1\nb\n\"x\n# y\"\n");
    script(&db, "# one\nSELECT broken;\n")
        .expect(1)
        .says("line 2");
}

#[test]
fn lines_markdown_and_json_lines() {
    let dir = temp();
    let db = made(&dir);
    let sql =
        "SELECT id, name AS \"full name\" FROM t; SELECT 'a|b' || char(10) || 'c' AS x WHERE 1";
    let of = |format: &str| {
        densite(&["sql", &db, sql, "--format", format])
            .expect(0)
            .out
    };
    assert_eq!(
        of("markdown"),
        "| id | full name |\n| ---: | --- |\n| 1 | Ada |\n| 2 |  |\n| x |\n| --- |\n| a\\|b<br>c |\n"
    );
    assert_eq!(
        of("line"),
        "       id = 1\nfull name = Ada\n\n       id = 2\nfull name = \n\nx = a|b\nc\n"
    );
    let lines = of("jsonl");
    let lines: Vec<Value> = lines
        .lines()
        .map(|l| serde_json::from_str(l).expect("JSON"))
        .collect();
    assert_eq!(lines[1], json!({ "id": 2, "full name": null }));
    assert_eq!(lines.len(), 3);
}

#[test]
fn parquet_and_arrow_have_one_result_with_types() {
    let dir = temp();
    let db = at(&dir, "b.db");
    let rows = 70_000;
    let sql = format!(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, x REAL, s TEXT, b BLOB, n INTEGER);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<{rows})
         INSERT INTO t SELECT i, i/2.0, 'text ' || i, x'00ff', NULL FROM n;"
    );
    densite(&["sql", "--create", &db, &sql]).expect(0);
    let (file, arrow, copy) = (
        at(&dir, "t.parquet"),
        at(&dir, "t.arrow"),
        at(&dir, "copy.db"),
    );
    densite(&["sql", &db, "SELECT * FROM t", "-o", &file]).expect(0);
    densite(&["load", &copy, "t", &file]).expect(0);
    let all = "SELECT count(*), sum(id), sum(x), max(s), hex(max(b)), count(n) FROM t";
    let of = |db: &str| densite(&["sql", db, all, "--format", "csv"]).expect(0).out;
    assert_eq!(of(&copy), of(&db));
    let types = "SELECT group_concat(type) AS t FROM pragma_table_info('t')";
    let ran = densite(&["sql", &copy, types, "--format", "csv"]).expect(0);
    assert_eq!(ran.out, "t\n\"INTEGER,REAL,TEXT,BLOB,INTEGER\"\n");
    densite(&["sql", &db, "SELECT * FROM t", "-o", &arrow]).expect(0);
    let bytes = fs::read(&arrow).expect("read");
    let reader = arrow_ipc::reader::FileReader::try_new(std::io::Cursor::new(bytes), None);
    let reader = reader.expect("an Arrow file");
    assert_eq!(reader.schema().field(2).name(), "s");
    let read: usize = reader.map(|batch| batch.expect("a batch").num_rows()).sum();
    assert_eq!(read, rows);
    // A column has one type, a file one result; a failed file is no whole one.
    let mixed = "SELECT 1 AS a UNION ALL SELECT x'00'";
    densite(&["sql", &db, mixed, "-o", &file])
        .expect(1)
        .says("column a");
    densite(&["load", &copy, "u", &file]).expect(5);
    densite(&["sql", &db, "SELECT 1; SELECT 2", "-o", &file])
        .expect(1)
        .says("one result");
    let ran = script(
        &db,
        &format!(".mode parquet\n.once {file}\nSELECT 1 AS a;\n.once {file}\nSELECT 2 AS a;\n"),
    );
    assert_eq!(ran.expect(0).out, "");
    densite(&["load", &copy, "u", &file]).expect(0);
}

#[test]
fn a_failed_run_leaves_no_new_file() {
    let dir = temp();
    let db = at(&dir, "new.db");
    densite(&["sql", "--create", &db, "SELEC 1"]).expect(1);
    assert!(names(dir.path()).is_empty(), "{:?}", names(dir.path()));
    densite(&["sql", "--create", &db, "CREATE TABLE t(a); SELEC 1"]).expect(1);
    assert_eq!(names(dir.path()), ["new.db"], "what was done stays");
}
