//! The documented behaviour of opening, settings, functions and files, feature by feature.
//!
//! The model test (`model.rs`) compares long mixed runs. Here each feature is tested alone against
//! its expected result.

mod access;
mod copies;
mod files;
mod large;
mod settings;
mod together;

use std::path::Path;

use densite_tests::model::register;
use rusqlite::{Connection, OpenFlags};

/// The first bytes of a Densite file.
const MAGIC: &[u8] = b"Densite format\r\n";
/// The first bytes of a plain file.
const PLAIN_MAGIC: &[u8] = b"SQLite format 3\0";

const FLAGS: OpenFlags = OpenFlags::SQLITE_OPEN_READ_WRITE
    .union(OpenFlags::SQLITE_OPEN_CREATE)
    .union(OpenFlags::SQLITE_OPEN_URI)
    .union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

/// Opens through Densite with further URI parameters: `level=3&threads=0`.
fn try_densite(path: &Path, parameters: &str) -> rusqlite::Result<Connection> {
    register();
    let and = if parameters.is_empty() { "" } else { "&" };
    let uri = format!("file:{}?vfs=densite{and}{parameters}", path.display());
    Connection::open_with_flags(uri, FLAGS)
}

fn densite(path: &Path) -> Connection {
    try_densite(path, "").expect("open through Densite")
}

fn plain(path: &Path) -> Connection {
    Connection::open(path).expect("open with plain SQLite")
}

/// The first column of the first row, as text.
fn text(db: &Connection, sql: &str) -> String {
    try_text(db, sql).unwrap_or_else(|e| panic!("{sql}: {e}"))
}

fn try_text(db: &Connection, sql: &str) -> rusqlite::Result<String> {
    db.query_row(sql, [], |r| {
        Ok(match r.get_ref(0)? {
            rusqlite::types::ValueRef::Null => "NULL".to_owned(),
            rusqlite::types::ValueRef::Integer(i) => i.to_string(),
            rusqlite::types::ValueRef::Real(f) => f.to_string(),
            rusqlite::types::ValueRef::Text(t) => String::from_utf8_lossy(t).into_owned(),
            rusqlite::types::ValueRef::Blob(b) => format!("{} bytes", b.len()),
        })
    })
}

fn number(db: &Connection, sql: &str) -> i64 {
    let text = text(db, sql);
    text.parse()
        .unwrap_or_else(|_| panic!("{sql}: {text:?} is no number"))
}

/// The primary code and the message of an error.
fn code_of(error: &rusqlite::Error) -> (i32, String) {
    match error {
        rusqlite::Error::SqliteFailure(e, m) => {
            (e.extended_code & 0xff, m.clone().unwrap_or_default())
        }
        rusqlite::Error::SqlInputError { error, msg, .. } => {
            (error.extended_code & 0xff, msg.clone())
        }
        other => panic!("not an error of SQLite's: {other}"),
    }
}

fn starts_with(path: &Path, magic: &[u8]) -> bool {
    std::fs::read(path)
        .expect("read the file")
        .starts_with(magic)
}

/// Statements that create a few pages of rows.
const SOME_ROWS: &str = "
    CREATE TABLE t(id INTEGER PRIMARY KEY, x TEXT, b BLOB);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
    INSERT INTO t(x, b) SELECT printf('row number %d of this table', i), zeroblob(i % 90) FROM n;
    CREATE INDEX tx ON t(x);";

fn check_rows(db: &Connection) {
    assert_eq!(number(db, "SELECT count(*) FROM t"), 500);
    assert_eq!(
        number(db, "SELECT sum(length(x) + length(b)) FROM t"),
        35_192
    );
    assert_eq!(text(db, "PRAGMA integrity_check"), "ok");
}
