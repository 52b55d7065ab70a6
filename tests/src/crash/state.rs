//! The states of a database during a workload, and which of them a database is in.

use std::hash::{DefaultHasher, Hash, Hasher};

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::workload::{SCHEMA, Step, Workload};

/// A hash of the whole content of a database; 0 if it has no schema.
pub(super) type Digest = u64;

/// The states of a workload in order: empty, with the schema, after each transaction.
///
/// Plain SQLite in memory computes them, and no crash affects it.
pub(super) fn states(workload: &Workload) -> rusqlite::Result<Vec<Digest>> {
    let db = Connection::open_in_memory()?;
    let mut states = vec![digest(&db)?];
    db.execute_batch(SCHEMA)?;
    states.push(digest(&db)?);
    for step in workload.script() {
        if let Step::Commit(statements) = step {
            db.execute_batch(&statements.join(";"))?;
            states.push(digest(&db)?);
        }
    }
    Ok(states)
}

/// Hashes schema and rows.
pub(super) fn digest(db: &Connection) -> rusqlite::Result<Digest> {
    let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |r| r.get(0))?;
    if tables == 0 {
        return Ok(0);
    }
    let mut hasher = DefaultHasher::new();
    for sql in [
        "SELECT type, name, sql FROM sqlite_schema ORDER BY name",
        "SELECT id, txn, part, amount, pad FROM ledger ORDER BY id",
        "SELECT txn, rows FROM done ORDER BY txn",
    ] {
        let mut statement = db.prepare(sql)?;
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            for i in 0..columns {
                match row.get_ref(i)? {
                    ValueRef::Integer(n) => n.hash(&mut hasher),
                    ValueRef::Text(t) | ValueRef::Blob(t) => t.hash(&mut hasher),
                    ValueRef::Null => 0u8.hash(&mut hasher),
                    ValueRef::Real(x) => x.to_bits().hash(&mut hasher),
                }
            }
        }
    }
    Ok(hasher.finish())
}

/// Describes transactions that are present in part, without knowing the states.
pub(super) fn partial(db: &Connection) -> rusqlite::Result<Option<String>> {
    let sql = "
        SELECT 'transaction ' || coalesce(d.txn, l.txn) || ' has ' || coalesce(n, 0)
               || ' rows of ' || coalesce(d.rows, 0) || ', sum ' || coalesce(total, 0)
          FROM done d FULL JOIN
               (SELECT txn, count(*) n, sum(amount) total FROM ledger GROUP BY txn) l USING (txn)
         WHERE n IS NOT d.rows OR total <> 0";
    let mut statement = db.prepare(sql)?;
    let mut rows = statement.query([])?;
    rows.next()?.map(|row| row.get(0)).transpose()
}
