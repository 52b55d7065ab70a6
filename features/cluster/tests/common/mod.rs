//! A database file with ingest and the functions of members, through the SQLite that the tests
//! link.

use densite_sqlite::Connection;
use std::path::Path;

/// A connection with ingest.
pub(crate) fn open(path: &Path) -> rusqlite::Connection {
    // Also in a process of its own, which finds the address in the database.
    densite_directory_stream::register();
    let api = densite_linked::api().expect("the linked SQLite is new enough");
    let con = rusqlite::Connection::open(path).expect("opens");
    con.busy_timeout(std::time::Duration::from_secs(10))
        .expect("a timeout");
    // SAFETY: it is an open connection of that library.
    let lent = unsafe { Connection::borrow(api, con.handle().cast()) }.expect("a connection");
    densite_cluster::create_functions(&lent).expect("functions");
    con
}

/// One value.
pub(crate) fn one<T: rusqlite::types::FromSql>(con: &rusqlite::Connection, sql: &str) -> T {
    con.query_row(sql, [], |row| row.get(0))
        .unwrap_or_else(|e| panic!("{sql}: {e}"))
}

/// All rows, as text.
pub(crate) fn all(con: &rusqlite::Connection, sql: &str) -> Vec<String> {
    let mut statement = con.prepare(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        let values: Vec<String> = (0..columns)
            .map(|i| match row.get_ref(i).expect("a column") {
                rusqlite::types::ValueRef::Null => "NULL".to_owned(),
                rusqlite::types::ValueRef::Integer(n) => n.to_string(),
                rusqlite::types::ValueRef::Real(x) => format!("{x:?}"),
                rusqlite::types::ValueRef::Text(t) => String::from_utf8_lossy(t).into_owned(),
                rusqlite::types::ValueRef::Blob(b) => format!("{b:x?}"),
            })
            .collect();
        Ok(values.join("|"))
    });
    rows.unwrap_or_else(|e| panic!("{sql}: {e}"))
        .collect::<rusqlite::Result<_>>()
        .unwrap_or_else(|e| panic!("{sql}: {e}"))
}

/// The message of a statement that fails.
pub(crate) fn refusal(con: &rusqlite::Connection, sql: &str) -> String {
    con.execute_batch(sql).expect_err(sql).to_string()
}

/// Makes `<table>_in`.
pub(crate) fn create(
    con: &rusqlite::Connection,
    table: &str,
    options: &str,
) -> rusqlite::Result<()> {
    con.execute_batch(&format!(
        "CREATE VIRTUAL TABLE temp.{table}_in USING densite_ingest({table}{options})"
    ))
}

/// Waits until all rows are applied.
pub(crate) fn wait(con: &rusqlite::Connection) -> i64 {
    one(con, "SELECT densite_wait()")
}
