//! Ids of new rows of a member: each member has a range of its own, so that no two give out the
//! same.

use densite_disk::wait::Retry;
use densite_sqlite::{Code, Connection, Error, Result, Value};
use std::ops::Range;
use std::time::Duration;

/// Ids of a member, as a power of two. Up to 8192 members, all are below 2^53, which JavaScript's
/// numbers hold exactly.
const BITS: u32 = 40;

/// The ids that this member gives out; `None` if the database is no member.
///
/// # Errors
/// BUSY until the member has applied that it joined; SQLite's.
pub(super) fn range(connection: &Connection) -> Result<Option<Range<i64>>> {
    let known = "SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = 'densite_member'";
    if connection.query_i64(known)?.is_none() {
        return Ok(None);
    }
    let number = "SELECT o.number FROM main.densite_member m LEFT JOIN main.densite_origins o ON o.origin = m.origin";
    match connection.query_row(number, &[])?.as_deref() {
        None => Ok(None),
        Some([Value::Integer(number)]) => {
            let first = number << BITS;
            Ok(Some(first + 1..first + (1 << BITS)))
        }
        Some(_) => Err(Error::new(
            Code::BUSY,
            "this member has not read from the stream yet that it joined, and ids come with that; try again",
        )),
    }
}

/// Waits until the ids of this member are known, if the database is one: it has just joined.
///
/// # Errors
/// BUSY after this time; SQLite's.
pub(super) fn wait(connection: &Connection, time: Duration) -> Result<()> {
    let retry = Retry::within(time);
    loop {
        match range(connection) {
            Err(e) if e.is_busy() && retry.again() => {}
            done => return done.map(drop),
        }
    }
}

/// The last id of a table that was reserved.
///
/// # Errors
/// SQLite's.
pub(super) fn last(connection: &Connection, table: &str) -> Result<Option<i64>> {
    let sql = "SELECT last FROM main.densite_member_ids WHERE \"table\" = ?1";
    let row = connection.query_row(sql, &[Value::from(table)])?;
    Ok(row.and_then(|row| row.first()?.as_ref().as_i64()))
}

/// Notes that ids of a table are reserved up to this one, within the connection's transaction.
///
/// # Errors
/// SQLite's.
pub(super) fn reserve(connection: &Connection, table: &str, last: i64) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO main.densite_member_ids(\"table\", last) VALUES (?1, ?2)";
    let values = [Value::from(table), Value::Integer(last)];
    connection.query_row(sql, &values).map(drop)
}
