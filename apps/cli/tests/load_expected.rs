//! `densite load` of files as people have them: encodings, compressed files, JSON, and rows that
//! are there already.

use crate::common::{at, densite, load, piped, rows, temp, write};
use std::io::Write;

#[test]
fn text_of_other_encodings() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let text = "name,n\nJosé 😀,1\n";
    let utf_16: Vec<u8> = format!("\u{feff}{text}")
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    load(&db, "a", &write(&dir, "a.csv", &utf_16), &[]).expect(0);
    load(
        &db,
        "b",
        &write(&dir, "b.csv", format!("\u{feff}{text}")),
        &[],
    )
    .expect(0);
    for table in ["a", "b"] {
        assert_eq!(rows(&db, &format!("SELECT name FROM {table}")), ["José 😀"]);
    }
    let latin = write(&dir, "c.csv", b"name\nJos\xe9\n");
    load(&db, "c", &latin, &[])
        .expect(1)
        .says("line 2, column name")
        .says("--encoding");
    load(&db, "c", &latin, &["--encoding", "latin1"]).expect(0);
    assert_eq!(rows(&db, "SELECT name FROM c"), ["José"]);
    load(&db, "c", &latin, &["--encoding", "klingon"])
        .expect(2)
        .says("not known");
    let half = write(&dir, "d.csv", &utf_16[..utf_16.len() - 1]);
    load(&db, "d", &half, &[]).expect(5).says("not UTF-16LE");
    let json: Vec<u8> = "{\"a\":\"é\"}\n"
        .encode_utf16()
        .flat_map(u16::to_be_bytes)
        .collect();
    let json = write(&dir, "e.jsonl", json);
    load(&db, "e", &json, &["--encoding", "utf-16be"]).expect(0);
    assert_eq!(rows(&db, "SELECT a FROM e"), ["é"]);
}

#[test]
fn compressed_files_and_stdin() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let text: String = (0..50_000).map(|i| format!("{i},row {i}\n")).collect();
    let text = format!("id,name\n{text}");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).expect("memory");
    let gzip = gzip.finish().expect("memory");
    let zstd = zstd::encode_all(text.as_bytes(), 3).expect("memory");
    load(&db, "a", &write(&dir, "a.csv.gz", &gzip), &[]).expect(0);
    load(&db, "b", &write(&dir, "b.CSV.zst", &zstd), &[]).expect(0);
    piped(&["load", &db, "c", "-", "--format", "csv"], &gzip).expect(0);
    for table in ["a", "b", "c"] {
        let sum = format!("SELECT count(*), sum(id), max(name) FROM {table}");
        assert_eq!(rows(&db, &sum), ["50000,1249975000,row 9999"]);
    }
    for (name, bytes) in [("d.csv.gz", &gzip), ("d.csv.zst", &zstd)] {
        let cut = write(&dir, name, &bytes[..bytes.len() / 2]);
        load(&db, "d", &cut, &[])
            .expect(5)
            .says("damaged or cut off")
            .says("nothing was loaded");
    }
    assert_eq!(rows(&db, "SELECT count(*) FROM sqlite_schema"), ["3"]);
}

#[test]
fn json_arrays_and_objects_one_after_another() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let array =
        " [ {\"b\": 1, \"a\": {\"z\": 1, \"y\": [2.50, \"]\"]}},\n{\"a\": null} , {\"c\":\"x\"}]\n";
    load(&db, "t", &write(&dir, "a.json", array), &[]).expect(0);
    assert_eq!(
        rows(&db, "SELECT b, a, c, a IS NULL FROM t"),
        [
            "1,\"{\"\"z\"\":1,\"\"y\"\":[2.50,\"\"]\"\"]}\",,0",
            ",,,1",
            ",,x,1"
        ]
    );
    assert_eq!(
        rows(&db, "SELECT group_concat(name) FROM pragma_table_info('t')"),
        ["\"b,a,c\""],
        "columns have the order of the file"
    );
    load(
        &db,
        "u",
        &write(&dir, "b.json", "{\"a\": 1}\n{\n \"a\": 2}"),
        &[],
    )
    .expect(0);
    assert_eq!(rows(&db, "SELECT a FROM u"), ["1", "2"]);
    let empty = load(&db, "v", &write(&dir, "c.json", "[]"), &[]).expect(1);
    empty.says("has no rows");
    for (text, code, words) in [
        ("[{\"a\":1},{\"a\":", 5, "row 2: is cut off"),
        ("[{\"a\":1},{\"a\":]", 1, "row 2: is not JSON"),
        ("[{\"a\":1},{\"a\":1-", 1, "row 2: is not JSON"),
        ("[{\"a\":1}", 5, "array has no end"),
        (
            "[{\"a\":1} {\"a\":2}]",
            1,
            "row 2: is not JSON: there is no comma before it",
        ),
        ("[{\"a\":1}, 5]", 1, "row 2: is not a JSON object"),
        ("[{\"a\":1}] x", 1, "behind the end of the array"),
        (
            "[{\"a\":1},{\"a\":99999999999999999999}]",
            1,
            "row 2, column a, value 99999999999999999999",
        ),
    ] {
        let file = write(&dir, "bad.json", text);
        load(&db, "u", &file, &[]).expect(code).says(words);
        assert_eq!(rows(&db, "SELECT a FROM u"), ["1", "2"], "{text}");
    }
    let file = write(
        &dir,
        "bad.json",
        "[{\"a\":7},{\"a\":99999999999999999999},{\"a\":8}]",
    );
    load(&db, "u", &file, &["--skip-errors"]).expect(0);
    assert_eq!(rows(&db, "SELECT a FROM u"), ["1", "2", "7", "8"]);
}

#[test]
fn json_lines_keep_the_order_of_keys() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let file = write(
        &dir,
        "a.jsonl",
        "{\"z\": 1, \"a\": {\"d\": 1, \"c\": 12345678901234567890}}\n",
    );
    load(&db, "t", &file, &[]).expect(0);
    let ran = densite(&["sql", &db, "SELECT * FROM t", "--format", "jsonl"]).expect(0);
    assert_eq!(
        ran.out,
        "{\"z\":1,\"a\":\"{\\\"d\\\":1,\\\"c\\\":12345678901234567890}\"}\n"
    );
}

#[test]
fn rows_are_updated_by_their_key() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let first = write(&dir, "a.csv", "id,name,n\n1,a,1\n2,b,2\n");
    let second = write(&dir, "b.csv", "name,id\nB,2\nc,3\nC,3\n");
    // The key of a new table is made; later loads update the columns that the file has.
    load(&db, "t", &first, &["--upsert", "id"]).expect(0);
    let json = load(&db, "t", &second, &["--upsert", "ID", "--json"])
        .expect(0)
        .json();
    assert_eq!(
        (json["rows"].as_u64(), json["ignored"].as_u64()),
        (Some(3), Some(0))
    );
    assert_eq!(
        rows(&db, "SELECT * FROM t ORDER BY id"),
        ["1,a,1", "2,B,2", "3,C,"]
    );
    load(&db, "t", &second, &[])
        .expect(1)
        .says("UNIQUE constraint failed");
    // Only the key: nothing changes.
    let keys = write(&dir, "c.csv", "id\n1\n4\n");
    load(&db, "t", &keys, &["--upsert", "id"]).expect(0);
    assert_eq!(
        rows(&db, "SELECT id, name FROM t ORDER BY id"),
        ["1,a", "2,B", "3,C", "4,"]
    );
    // A key of two columns, by an index.
    densite(&[
        "sql",
        &db,
        "CREATE TABLE w(x, y, z); CREATE UNIQUE INDEX xy ON w(x, y);",
    ])
    .expect(0);
    let pairs = write(
        &dir,
        "d.jsonl",
        "{\"x\":1,\"y\":1,\"z\":1}\n{\"x\":1,\"y\":1,\"z\":2}\n",
    );
    load(&db, "w", &pairs, &["--upsert", "y,x"]).expect(0);
    assert_eq!(rows(&db, "SELECT * FROM w"), ["1,1,2"]);
    for (table, key, words) in [
        ("w", "x", "no PRIMARY KEY or UNIQUE constraint on (x)"),
        (
            "w",
            "nope",
            "--upsert names nope, which is not a column of table w",
        ),
    ] {
        load(&db, table, &pairs, &["--upsert", key])
            .expect(1)
            .says(words);
    }
    let lacking = write(&dir, "e.jsonl", "{\"x\":1,\"z\":9}\n");
    load(&db, "w", &lacking, &["--upsert", "x,y"])
        .expect(1)
        .says("line 1, column y: has no value for this column of --upsert");
    load(&db, "fresh", &second, &["--upsert", "nope"])
        .expect(1)
        .says("column nope: is named by --upsert");
}

#[test]
fn rows_that_a_trigger_drops_are_not_counted_as_loaded() {
    let dir = temp();
    let db = at(&dir, "a.db");
    densite(&[
        "sql",
        "--create",
        &db,
        "CREATE TABLE t(a); CREATE TRIGGER odd BEFORE INSERT ON t WHEN new.a % 2 BEGIN SELECT RAISE(IGNORE); END;
         CREATE TABLE u(a UNIQUE ON CONFLICT IGNORE)",
    ])
    .expect(0);
    let file = write(&dir, "a.csv", "a\n1\n2\n2\n3\n");
    let json = load(&db, "t", &file, &["--json"]).expect(0).json();
    assert_eq!(
        (json["rows"].as_u64(), json["ignored"].as_u64()),
        (Some(2), Some(2))
    );
    let ran = load(&db, "u", &file, &[]).expect(0);
    assert!(ran.out.contains("3 rows into the table u"), "{}", ran.out);
    assert!(
        ran.out.contains("; 1 dropped by the rules of the table"),
        "{}",
        ran.out
    );
}
