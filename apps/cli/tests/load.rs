//! `densite load`: rows of CSV, JSON lines and Parquet into tables of plain and compressed
//! databases. Bad input is named and changes nothing.

use crate::common::{Ran, at, densite, is_compressed, rows, temp, write};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DoubleType, FixedLenByteArray, FixedLenByteArrayType,
    Int32Type, Int64Type,
};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use rusqlite::Connection;
use std::sync::Arc;

const TABLE: &str =
    "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT NOT NULL, score REAL, extra DEFAULT 'none')";

/// A plain database with the table.
fn plain(dir: &tempfile::TempDir) -> String {
    let path = at(dir, "plain.db");
    Connection::open(&path)
        .expect("opens")
        .execute_batch(TABLE)
        .expect("made");
    path
}

/// Asserts exit code 1, these words in the message, and an unchanged number of rows.
#[track_caller]
fn refused(ran: Ran, db: &str, words: &[&str]) {
    let ran = ran.expect(1);
    for word in words {
        assert!(ran.err.contains(word), "no {word:?} in {}", ran.err);
    }
    assert_eq!(rows(db, "SELECT count(*) FROM t"), ["0"], "{}", ran.err);
}

#[test]
fn csv_is_loaded_into_an_existing_table() {
    let dir = temp();
    let file = write(
        &dir,
        "in.csv",
        "\u{feff}name,ID,score\n\"c, \"\"d\"\"\",3,1.5\na,1,\n\"x\ny\",2,7\n",
    );
    let compressed = at(&dir, "new.db");
    densite(&["sql", "--create", &compressed, TABLE]).expect(0);
    for db in [plain(&dir), compressed.clone()] {
        let ran = densite(&["load", &db, "t", &file, "--json"]).expect(0);
        let json = ran.json();
        assert_eq!(
            (json["rows"].as_u64(), json["created"].as_bool()),
            (Some(3), Some(false))
        );
        assert_eq!(json["sorted"], true, "by the key");
        let all = rows(
            &db,
            "SELECT id, quote(name), quote(score), extra, typeof(id) FROM t",
        );
        assert_eq!(
            all.join("\n"),
            "1,'a','',none,integer\n2,\"'x\ny'\",7.0,none,integer\n3,\"'c, \"\"d\"\"'\",1.5,none,integer"
        );
    }
    assert!(is_compressed(&compressed));
}

#[test]
fn a_new_table_has_types_that_lose_no_digits() {
    let dir = temp();
    let text =
        "id,zip,price,note,big,mixed\n1,007,1.50,a,9223372036854775807,1\n2,10115,,\"\",-1,0.5\n";
    let file = write(&dir, "in.csv", text);
    let db = at(&dir, "new.db");
    let ran = densite(&["load", &db, "t", &file]).expect(0);
    let told = "2 rows into the new table t in ";
    assert!(ran.out.contains(told), "{}", ran.out);
    assert!(is_compressed(&db), "a new database is a compressed one");
    let types = "SELECT group_concat(type, ' ') FROM pragma_table_info('t')";
    assert_eq!(rows(&db, types), ["INTEGER TEXT REAL TEXT INTEGER REAL"]);
    assert_eq!(
        rows(&db, "SELECT *, price IS NULL, note IS NULL FROM t"),
        [
            "1,007,1.5,a,9223372036854775807,1.0,0,0",
            "2,10115,,\"\",-1,0.5,1,0"
        ]
    );
    densite(&["load", &db, "u", &file, "--types", "text"]).expect(0);
    assert_eq!(rows(&db, "SELECT price FROM u"), ["1.50", "\"\""]);
    densite(&["load", &db, "v", &file, "--types", "id=TEXT,zip=integer"]).expect(0);
    assert_eq!(
        rows(&db, "SELECT quote(id), zip FROM v"),
        ["'1',7", "'2',10115"]
    );
    for (types, code, words) in [
        ("ID=BLOB", 2, "types are auto, text, or COLUMN=TYPE"),
        ("nope=TEXT", 1, "column nope: is not a column of the file"),
        (
            "note=INTEGER",
            1,
            "line 2, column note, value \"a\": does not fit the type INTEGER",
        ),
    ] {
        densite(&["load", &db, "w", &file, "--types", types])
            .expect(code)
            .says(words);
    }
    // The rows in memory decide. A later row that would lose digits is an error, and not changed.
    let many: String = (0..30_000).map(|i| format!("{i},{i:0100}\n")).collect();
    let file = write(&dir, "long.csv", format!("a,b\n{many}007,x\n"));
    densite(&["load", &db, "x", &file, "--memory", "1"])
        .expect(1)
        .says("line 30002, column a, value \"007\": does not fit the type INTEGER");
    densite(&[
        "load", &db, "x", &file, "--memory", "1", "--types", "a=TEXT",
    ])
    .expect(0);
}

#[test]
fn options_of_csv() {
    let dir = temp();
    let db = plain(&dir);
    let file = write(&dir, "in.dat", "1;a;NA\n2;b;2.5\n");
    densite(&["load", &db, "t", &file])
        .expect(2)
        .says("--format");
    let args = [
        "load",
        &db,
        "t",
        &file,
        "--format",
        "csv",
        "--no-header",
        "--delimiter",
        ";",
        "--null",
        "NA",
    ];
    densite(&args).expect(0);
    assert_eq!(
        rows(&db, "SELECT id, name, score IS NULL, score FROM t"),
        ["1,a,1,", "2,b,0,2.5"]
    );
    densite(&["load", &db, "t", &file, "--delimiter", "ab"]).expect(2);
}

#[test]
fn bad_csv_is_named_and_loads_nothing() {
    let dir = temp();
    let db = plain(&dir);
    for (text, words) in [
        (
            &b"id,name\n1,a\n2\n"[..],
            &["in.csv, line 3", "has 1 field,", "has 2"][..],
        ),
        (
            b"id,name,nope\n1,a,b\n",
            &["in.csv", "column nope", "not a column of table t"],
        ),
        (
            b"id,name,ID\n1,a,2\n",
            &[
                "line 1",
                "columns 1 and 3 have names that differ only in case",
            ],
        ),
        (
            b"id,name\n1,a\n2,\xff\n",
            &["line 3", "column name", "not UTF-8"],
        ),
        (
            b"id,name\n1,a\n1,b\n",
            &[
                "line 3",
                "column id",
                "value \"1\"",
                "UNIQUE constraint failed: t.id",
            ],
        ),
        (
            b"id,name\nx,a\n",
            &["line 2", "column id", "value \"x\"", "datatype mismatch"],
        ),
        (
            b"id,score\n1,2\n",
            &[
                "line 2",
                "column name",
                "NOT NULL constraint failed: t.name",
            ],
        ),
        (b"", &["is empty"]),
        (b"\xef\xbb\xbf", &["is empty"]),
        // Files that end in the middle of a line, and of a quoted text.
        (b"id,name\n1,a\n2", &["line 3", "has 1 field,"]),
        (
            b"id,name\n1,a\n2,\"b\n3,c\n4,d\n",
            &["line 3", "a quoted field that has no closing quote"],
        ),
        (b"id,\"name\n1,a\n", &["line 1", "has no closing quote"]),
    ] {
        let file = write(&dir, "in.csv", text);
        refused(densite(&["load", &db, "t", &file]), &db, words);
        refused(
            densite(&["load", &db, "t", &file]),
            &db,
            &["nothing was loaded"],
        );
    }
    let file = write(&dir, "in.csv", "id,name\n1,a\n1,b\n");
    let json = densite(&["load", &db, "t", &file, "--json"])
        .expect(1)
        .json();
    let error = &json["error"];
    assert_eq!(
        (&error["kind"], &error["at"], &error["column"]),
        (&"input".into(), &3.into(), &"id".into())
    );
    refused(
        densite(&["load", &db, "t", &at(&dir, "none.csv")]),
        &db,
        &["none.csv", "does not exist; check the path"],
    );
    refused(
        densite(&["load", &db, "t", "https://example.org/a.csv"]),
        &db,
        &["load reads files and standard input"],
    );
    densite(&["sql", &db, "CREATE VIEW v AS SELECT * FROM t"]).expect(0);
    densite(&["load", &db, "v", &file])
        .expect(1)
        .says("v is a view");
    for name in ["densite_applied", "Densite_new"] {
        densite(&["load", &db, name, &file])
            .expect(1)
            .says("names that begin with densite_ are reserved for Densite's own tables");
    }
    let not_a_database = write(
        &dir,
        "x.db",
        "plain text that is not a database, and longer than the header of one, so that its content is read",
    );
    densite(&["load", &not_a_database, "t", &file]).expect(5);
}

#[test]
fn rows_that_cannot_be_loaded_are_skipped_on_request() {
    let dir = temp();
    let db = plain(&dir);
    let file = write(&dir, "in.csv", b"id,name\n5,a\n5,b\nx,c\n6\n7,\xff\n8,d\n");
    let ran = densite(&["load", &db, "t", &file, "--skip-errors", "--json"]).expect(0);
    let json = ran.json();
    assert_eq!(
        (json["rows"].as_u64(), json["skipped"].as_u64()),
        (Some(2), Some(4))
    );
    assert_eq!(json["skipped_first"].as_array().map(Vec::len), Some(4));
    assert!(ran.err.contains("line 3, column id"), "{}", ran.err);
    assert_eq!(
        rows(&db, "SELECT id, name FROM t"),
        ["5,a", "8,d"],
        "the first row of a key stays"
    );
}

#[test]
fn json_lines() {
    let dir = temp();
    let db = plain(&dir);
    let file = write(
        &dir,
        "in.jsonl",
        "{\"id\": 2, \"name\": \"b\", \"score\": null}\n\n{\"name\": \"a\", \"id\": 1, \"extra\": [1, {\"x\": true}], \"score\": 1e3}\n",
    );
    densite(&["load", &db, "t", &file]).expect(0);
    let all = rows(&db, "SELECT id, name, quote(score), quote(extra) FROM t");
    assert_eq!(
        all,
        ["1,a,1000.0,\"'[1,{\"\"x\"\":true}]'\"", "2,b,NULL,'none'"],
        "a missing key gets the default"
    );
    densite(&["sql", &db, "DELETE FROM t"]).expect(0);
    for (text, words) in [
        (
            "{\"id\":1,\"name\":\"a\"}\n{\"id\":2,\"name\":}\n",
            &["in.jsonl, line 2", "is not JSON"][..],
        ),
        // As a float it would lose digits.
        (
            "{\"id\":1,\"name\":\"9999999999999999999\"}\n{\"id\":2,\"name\":9223372036854775808}\n",
            &[
                "line 2",
                "value 9223372036854775808",
                "integer beyond 64 bits",
            ],
        ),
        (
            "{\"id\":1,\"name\":\"a\"}\n[1]\n",
            &["line 2", "value", "is not a JSON object"],
        ),
        (
            "{\"id\":1,\"name\":\"a\"}\n{\"id\":2,\"nam\":\"b\"}\n",
            &["line", "column nam", "not a column of table t"],
        ),
        (
            "{\"id\":1,\"name\":\"a\"}\n{\"id\":2,\"name\":null}\n",
            &["line 2", "column name", "NULL"],
        ),
    ] {
        let file = write(&dir, "in.jsonl", text);
        refused(densite(&["load", &db, "t", &file]), &db, words);
    }
    let new = at(&dir, "new.db");
    let file = write(&dir, "in.ndjson", "{\"b\":1,\"a\":\"x\"}\n{\"c\":2.5}\n");
    densite(&["load", &new, "made", &file]).expect(0);
    assert_eq!(rows(&new, "SELECT b, a, c FROM made"), ["1,x,", ",,2.5"]);
}

/// A file with a column of each kind.
fn parquet_file(path: &str, ids: &[i64], days: i32) {
    let schema = "message rows {
        required int64 id;
        optional binary name (utf8);
        required double score;
        required boolean flag;
        required int32 day (date);
        required int64 at (timestamp(micros, true));
        required fixed_len_byte_array(4) price (decimal(9, 2));
        required binary raw;
    }";
    let schema = Arc::new(parse_message_type(schema).expect("a schema"));
    let file = std::fs::File::create(path).expect("made");
    let mut writer = SerializedFileWriter::new(file, schema, Arc::default()).expect("writer");
    let mut group = writer.next_row_group().expect("group");
    let n = ids.len();
    macro_rules! column {
        ($kind:ty, $values:expr, $levels:expr) => {{
            let mut column = group.next_column().expect("next").expect("a column");
            column
                .typed::<$kind>()
                .write_batch($values, $levels, None)
                .expect("written");
            column.close().expect("closed");
        }};
    }
    column!(Int64Type, ids, None);
    let levels: Vec<i16> = (0..n).map(|i| i16::from(i > 0)).collect();
    let names = vec![ByteArray::from("n"); n - 1];
    column!(ByteArrayType, &names, Some(&levels));
    column!(DoubleType, &vec![0.25; n], None);
    column!(BoolType, &vec![true; n], None);
    column!(Int32Type, &vec![days; n], None);
    column!(Int64Type, &vec![1_700_000_000_123_456; n], None);
    let price = FixedLenByteArray::from(vec![0xff, 0xff, 0xff, 0x85]);
    column!(FixedLenByteArrayType, &vec![price; n], None);
    column!(ByteArrayType, &vec![ByteArray::from(vec![0, 255]); n], None);
    group.close().expect("closed");
    writer.close().expect("closed");
}

/// The reader has no values for these types: they are no damage.
#[test]
fn parquet_types_that_cannot_be_loaded_are_named() {
    use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Physical};
    use parquet::schema::types::Type;
    let dir = temp();
    let db = plain(&dir);
    let interval = Type::primitive_type_builder("wait", Physical::FIXED_LEN_BYTE_ARRAY)
        .with_length(12)
        .with_converted_type(ConvertedType::INTERVAL)
        .build()
        .expect("a type");
    let nested = Type::group_type_builder("job")
        .with_repetition(Repetition::OPTIONAL)
        .with_fields(vec![Arc::new(interval.clone())])
        .build()
        .expect("a type");
    let part = |name| {
        let bytes = Type::primitive_type_builder(name, Physical::BYTE_ARRAY);
        let part = bytes.with_repetition(Repetition::REQUIRED).build();
        Arc::new(part.expect("a type"))
    };
    let variant = Type::group_type_builder("any")
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(Some(LogicalType::variant(Some(1))))
        .with_fields(vec![part("metadata"), part("value")])
        .build()
        .expect("a type");
    for (field, words) in [
        (interval, ["\"wait\" has intervals", "as text"]),
        (nested, ["\"job\" has intervals", "as text"]),
        (
            variant,
            ["\"any\" has values of the type VARIANT", "as text"],
        ),
    ] {
        let schema = Type::group_type_builder("m").with_fields(vec![Arc::new(field)]);
        let schema = Arc::new(schema.build().expect("a schema"));
        let path = at(&dir, "in.parquet");
        let file = std::fs::File::create(&path).expect("made");
        let writer = SerializedFileWriter::new(file, schema, Arc::default()).expect("writer");
        writer.close().expect("closed");
        refused(densite(&["load", &db, "t", &path]), &db, &words);
    }
}

#[test]
fn parquet() {
    let dir = temp();
    let (file, db) = (at(&dir, "in.parquet"), at(&dir, "new.db"));
    parquet_file(&file, &[3, 1, 2], 19_000);
    densite(&["load", &db, "t", &file]).expect(0);
    let types = rows(
        &db,
        "SELECT group_concat(type, ' ') FROM pragma_table_info('t')",
    );
    assert_eq!(types, ["INTEGER TEXT REAL INTEGER TEXT TEXT TEXT BLOB"]);
    let all = rows(&db, "SELECT *, typeof(price) FROM t");
    let rest = "0.25,1,2022-01-08,2023-11-14 22:13:20.123456+00:00,-1.23,X'00FF',text";
    assert_eq!(
        all,
        [
            format!("3,,{rest}"),
            format!("1,n,{rest}"),
            format!("2,n,{rest}")
        ]
    );
    assert_eq!(
        rows(
            &db,
            "SELECT strftime('%Y', day), julianday(at) > 0 FROM t LIMIT 1"
        ),
        ["2022,1"]
    );

    let plain = plain(&dir);
    refused(
        densite(&["load", &plain, "t", &file]),
        &plain,
        &["in.parquet", "column flag", "not a column of table t"],
    );
    parquet_file(&file, &[1], i32::MAX);
    densite(&["sql", &db, "DELETE FROM t"]).expect(0);
    densite(&["load", &db, "t", &file]).expect(0);
    assert_eq!(rows(&db, "SELECT day FROM t"), ["+5881580-07-11"]);
    densite(&["sql", &db, "DELETE FROM t"]).expect(0);
    let torn = std::fs::read(&file).expect("read");
    for len in [0, 3, 12, torn.len() / 2, torn.len() - 1] {
        std::fs::write(&file, &torn[..len]).expect("written");
        let ran = densite(&["load", &db, "t", &file, "--json"]).expect(5);
        let ran = ran.says("in.parquet").says("cannot be read as Parquet");
        assert_eq!(ran.json()["error"]["kind"], "damaged", "{len}");
        assert_eq!(rows(&db, "SELECT count(*) FROM t"), ["0"], "{len}");
    }
    // Not damaged, but the reader does not support it: an encrypted footer.
    let mut encrypted = torn.clone();
    encrypted.truncate(torn.len() - 4);
    encrypted.extend_from_slice(b"PARE");
    std::fs::write(&file, encrypted).expect("written");
    refused(
        densite(&["load", &db, "t", &file]),
        &db,
        &["in.parquet", "encrypted footer"],
    );
}

#[test]
fn rows_are_sorted_by_the_key_unless_the_table_has_a_trigger() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let text: String = (0..5000u64)
        .map(|i| format!("{},{}\n", i * 7919 % 5000, "x".repeat(300)))
        .collect();
    let file = write(&dir, "in.csv", format!("b,payload\n{text}"));
    let tables =
        "CREATE TABLE pair(a DEFAULT 1, b INTEGER, payload, PRIMARY KEY (b)) WITHOUT ROWID;
        CREATE TABLE watched(b INTEGER PRIMARY KEY, payload); CREATE TABLE seen(b);
        CREATE TRIGGER look AFTER INSERT ON watched BEGIN INSERT INTO seen VALUES (new.b); END;
        CREATE TABLE keyless(b, payload)";
    densite(&["sql", "--create", &db, tables]).expect(0);
    let sorted = |table: &str| -> bool {
        let json = densite(&["load", &db, table, &file, "--json", "--memory", "1"])
            .expect(0)
            .json();
        assert_eq!(json["rows"], 5000);
        json["sorted"].as_bool().expect("a boolean")
    };
    assert!(sorted("pair"));
    assert!(!sorted("watched"));
    assert_eq!(
        rows(&db, "SELECT b FROM seen ORDER BY rowid LIMIT 3"),
        ["0", "2919", "838"]
    );
    assert!(!sorted("keyless"));
    assert_eq!(
        rows(&db, "SELECT count(*), count(DISTINCT b), sum(b) FROM pair"),
        ["5000,5000,12497500"]
    );
}

#[test]
fn rows_keep_their_order_if_it_decides_about_numbers_or_conflicts() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let tables = "CREATE TABLE numbered(a INTEGER PRIMARY KEY, b);
        CREATE TABLE last(a INTEGER PRIMARY KEY ON CONFLICT REPLACE, b UNIQUE ON CONFLICT REPLACE)";
    densite(&["sql", "--create", &db, tables]).expect(0);
    let load = |table: &str, lines: &str| {
        let file = write(&dir, "in.jsonl", lines);
        densite(&["load", &db, table, &file]).expect(0);
    };
    // If the rows were sorted, the row without a number would come first and get number 1.
    load(
        "numbered",
        "{\"a\": 5, \"b\": \"x\"}\n{\"a\": 1, \"b\": \"y\"}\n{\"b\": \"z\"}\n{\"a\": null, \"b\": \"w\"}\n",
    );
    assert_eq!(
        rows(&db, "SELECT a, b FROM numbered"),
        ["1,y", "5,x", "6,z", "7,w"]
    );
    load(
        "last",
        "{\"a\": 2, \"b\": \"x\"}\n{\"a\": 1, \"b\": \"x\"}\n",
    );
    assert_eq!(rows(&db, "SELECT a, b FROM last"), ["1,x"]);
}

/// A table, as literals of SQL.
fn literals(db: &str, table: &str) -> String {
    let all = format!("SELECT * FROM {table}");
    densite(&["sql", db, &all, "--format", "quote"])
        .expect(0)
        .out
}

#[test]
fn infinite_numbers_and_blobs_come_back() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let schema = "(i INTEGER PRIMARY KEY, r REAL, n NUMERIC, b BLOB, t TEXT)";
    let rows = "(1, 9e999, -9e999, X'00FF', 'Inf'), (2, 1.5, 7, X'', 'X''00'''), (3, NULL, 8, NULL, 'plain')";
    let made = format!("CREATE TABLE t{schema}; INSERT INTO t VALUES {rows}");
    densite(&["sql", "--create", &db, &made]).expect(0);
    let wanted = literals(&db, "t");
    for format in ["csv", "tsv", "json", "jsonl"] {
        let file = at(&dir, &format!("a.{format}"));
        densite(&["export", &db, "t", &file]).expect(0);
        let there = format!("there_{format}");
        densite(&["sql", &db, &format!("CREATE TABLE {there}{schema}")]).expect(0);
        for table in [there, format!("new_{format}")] {
            let mut command = vec!["load", &db, &table, &file];
            if format.ends_with("sv") {
                command.extend(["--null", ""]);
            }
            densite(&command).expect(0);
            assert_eq!(literals(&db, &table), wanted, "{table}");
        }
    }
}

#[test]
fn the_type_of_a_column_decides_what_a_spelled_value_is() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let made = "CREATE TABLE colour(name, shade TEXT, doc JSON)";
    densite(&["sql", "--create", &db, made]).expect(0);
    let file = write(
        &dir,
        "a.jsonl",
        br#"{"name": "red", "shade": {"hex": "FF0000"}, "doc": {"hex": "00"}}
{"name": "Infinity", "shade": "-inf", "doc": 1e999}
"#,
    );
    densite(&["load", &db, "colour", &file]).expect(0);
    assert_eq!(
        literals(&db, "colour"),
        r#"'red','{"hex":"FF0000"}','{"hex":"00"}'
'Infinity','-inf',9e999
"#
    );
    // Words alone are words.
    let file = write(&dir, "b.csv", b"a,b,c\nInf,Inf,X'0\ninf,2,X'00'\n");
    densite(&["load", &db, "words", &file]).expect(0);
    assert_eq!(
        literals(&db, "words"),
        "'Inf',9e999,'X''0'\n'inf',2,'X''00'''\n"
    );
    // The shell's .import does what sqlite3 does.
    let import = format!(".mode csv\n.import {file} imported");
    densite(&["sql", &db, &import]).expect(0);
    assert_eq!(
        literals(&db, "imported"),
        "'Inf','Inf','X''0'\n'inf','2','X''00'''\n"
    );
}

#[test]
fn blobs_come_back_into_a_column_of_any_type() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let made = "CREATE TABLE t(x ANY) STRICT; INSERT INTO t VALUES (X'01FF'); CREATE TABLE u(x ANY) STRICT";
    densite(&["sql", "--create", &db, made]).expect(0);
    for format in ["csv", "jsonl"] {
        let file = at(&dir, &format!("a.{format}"));
        densite(&["export", &db, "t", &file]).expect(0);
        densite(&["load", &db, "u", &file]).expect(0);
    }
    assert_eq!(literals(&db, "u"), "X'01FF'\nX'01FF'\n");
}
