//! The content of a database, as SQLite reads it.

use densite_disk::hash::xxh3_64;
use rusqlite::{Connection, Result};
use std::fmt::Write;

/// By query: a hash of each row, in order.
pub(crate) type Content = Vec<(String, Vec<u64>)>;

/// Queries that read everything: every table, and every index alone.
pub(crate) fn queries(con: &Connection) -> Result<Vec<String>> {
    let mut schema = con.prepare(
        "SELECT 'SELECT * FROM \"' || name || '\" NOT INDEXED' FROM sqlite_schema WHERE type = 'table'
         UNION ALL SELECT 'SELECT ' || columns || ' FROM \"' || tbl_name || '\" INDEXED BY \"' || name || '\" ORDER BY ' || columns FROM
           (SELECT *, (SELECT group_concat('\"' || name || '\"') FROM pragma_index_info(i.name)) AS columns FROM sqlite_schema AS i WHERE type = 'index' AND sql IS NOT NULL)
         UNION ALL SELECT 'SELECT * FROM sqlite_schema'",
    )?;
    schema.query_map([], |row| row.get(0))?.collect()
}

/// The rows of a query until its end or its error.
pub(crate) fn rows(con: &Connection, sql: &str) -> (Vec<u64>, Result<()>) {
    let mut hashes = Vec::new();
    let mut read = || -> Result<()> {
        let mut statement = con.prepare(sql)?;
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        let mut text = String::new();
        while let Some(row) = rows.next()? {
            text.clear();
            for i in 0..columns {
                let _ = write!(text, "{:?}|", row.get_ref(i)?);
            }
            hashes.push(xxh3_64(text.as_bytes()));
        }
        Ok(())
    };
    let done = read();
    (hashes, done)
}

/// The content of a database without damage.
pub(crate) fn content(con: &Connection) -> Content {
    let queries = queries(con).expect("a schema");
    let all = queries.into_iter().map(|sql| {
        let (hashes, done) = rows(con, &sql);
        done.unwrap_or_else(|e| panic!("{sql}: {e}"));
        (sql, hashes)
    });
    all.collect()
}
