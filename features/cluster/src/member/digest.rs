//! Digests of the tables of a member. Members that applied the same messages have the same ones.

use super::message::Digests;
use densite_disk::hash::Xxh3_64;
use densite_ingest::parts::{is_ours, is_own, tables_of};
use densite_sqlite::{Connection, Result, Value, ValueRef, quoted};
use std::collections::BTreeMap;

/// The name under which the digest of the schema is kept: no table has it.
const SCHEMA: &str = "";
/// In the place of an origin: requests up to this message are not answered.
const NO_ORIGIN: &str = "";
/// Results of this many requests are kept.
const KEPT: usize = 2;

/// The digests of all tables and of the schema, as the connection sees them.
///
/// # Errors
/// SQLite's.
pub(crate) fn compute(connection: &Connection) -> Result<BTreeMap<String, String>> {
    let mut digests = BTreeMap::new();
    let schema = format!(
        "SELECT type, name, tbl_name, sql FROM main.sqlite_schema WHERE sql IS NOT NULL \
         AND NOT (type = 'trigger' AND {})",
        is_ours()
    );
    digests.insert(
        SCHEMA.to_owned(),
        digest(connection, &schema, is_of_the_application)?,
    );
    for table in tables_of(connection)? {
        let rows = format!("SELECT * FROM main.{}", quoted(&table));
        digests.insert(table, digest(connection, &rows, |_| true)?);
    }
    Ok(digests)
}

/// Whether a row of the schema belongs to the application.
fn is_of_the_application(row: &[ValueRef<'_>]) -> bool {
    let owner = row
        .get(2)
        .and_then(|name| name.as_str())
        .unwrap_or_default();
    !is_own(owner)
}

/// The digest of rows in any order: their number, and the sums of two hashes of each.
fn digest(
    connection: &Connection,
    sql: &str,
    counts: impl Fn(&[ValueRef<'_>]) -> bool,
) -> Result<String> {
    let (mut rows, mut sums) = (0u64, [0u64; 2]);
    let mut statement = connection.prepare(sql)?;
    let columns = statement.column_count();
    while statement.step()? {
        let row: Vec<ValueRef<'_>> = (0..columns).map(|i| statement.column(i)).collect();
        if !counts(&row) {
            continue;
        }
        rows += 1;
        for (seed, sum) in (0..).zip(&mut sums) {
            let mut hash = Xxh3_64::with_seed(seed);
            row.iter().for_each(|value| add(*value, &mut hash));
            *sum = sum.wrapping_add(hash.digest());
        }
    }
    let [one, other] = sums;
    Ok(format!("{rows}-{one:016x}{other:016x}"))
}

fn add(value: ValueRef<'_>, hash: &mut Xxh3_64) {
    let mut tagged = |tag: u8, bytes: &[u8]| {
        hash.update(&[tag]);
        hash.update(&(bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    match value {
        ValueRef::Null => tagged(0, &[]),
        ValueRef::Integer(n) => tagged(1, &n.to_le_bytes()),
        ValueRef::Real(x) => tagged(2, &x.to_bits().to_le_bytes()),
        ValueRef::Text(bytes) => tagged(3, bytes),
        ValueRef::Blob(bytes) => tagged(4, bytes),
    }
}

/// Stores the digests of an origin, within the connection's transaction.
///
/// # Errors
/// SQLite's.
pub(crate) fn store(connection: &Connection, origin: &str, digests: &Digests) -> Result<()> {
    let sql =
        "INSERT OR REPLACE INTO main.densite_digests(message, origin, tables) VALUES (?1, ?2, ?3)";
    let values = [
        Value::Integer(digests.message.cast_signed()),
        Value::from(origin),
        Value::Text(serde_json::json!(digests.tables).to_string()),
    ];
    connection.query_row(sql, &values)?;
    let old = format!(
        "DELETE FROM main.densite_digests WHERE message NOT IN (SELECT DISTINCT message FROM main.densite_digests ORDER BY 1 DESC LIMIT {KEPT})"
    );
    connection.exec(&old)
}

/// Compares the digests of all members at a message. Returns the reason if this one has to stop:
/// it is not with more than half of the members. While some have not answered, it can wait for
/// them, unless `now`.
///
/// # Errors
/// SQLite's.
pub(crate) fn judge(
    connection: &Connection,
    own: &str,
    message: u64,
    now: bool,
) -> Result<Option<String>> {
    let mut found: Vec<(String, BTreeMap<String, String>)> = Vec::new();
    let mut statement = connection.prepare(
        "SELECT d.origin, d.tables FROM main.densite_digests d JOIN main.densite_origins o ON o.origin = d.origin WHERE d.message = ?1 AND o.has_left = 0",
    )?;
    statement.bind(1, &Value::Integer(message.cast_signed()))?;
    while statement.step()? {
        let text = |i| statement.column(i).as_str().unwrap_or_default().to_owned();
        found.push((text(0), serde_json::from_str(&text(1)).unwrap_or_default()));
    }
    drop(statement);
    let Some((_, mine)) = found.iter().find(|(origin, _)| origin == own) else {
        return Ok(None);
    };
    let Some((other, theirs)) = found.iter().find(|(_, tables)| tables != mine) else {
        return Ok(None);
    };
    let active = "SELECT count(*) FROM main.densite_origins WHERE has_left = 0";
    let active = connection.query_i64(active)?.unwrap_or(0).max(1) as usize;
    let with_me = found.iter().filter(|(_, tables)| tables == mine).count();
    if with_me * 2 > active || (found.len() < active && !now) {
        return Ok(None);
    }
    let mut names = mine.keys().chain(theirs.keys());
    let differs = names.find(|name| mine.get(*name) != theirs.get(*name));
    let what = match differs.map(String::as_str) {
        None | Some(SCHEMA) => "its schema differs".to_owned(),
        Some(table) => format!("its table {table} differs"),
    };
    Ok(Some(format!(
        "{what} from that of {other} at message {message} of the stream; restore this database from a member that is right, and join again"
    )))
}

/// The newest request of which there are digests; `None` if there is none.
///
/// # Errors
/// SQLite's.
pub(crate) fn last_request(connection: &Connection) -> Result<Option<u64>> {
    let last = connection.query_i64("SELECT max(message) FROM main.densite_digests")?;
    Ok(last.and_then(|message| u64::try_from(message).ok()))
}

/// Forgets all digests, and answers no request up to this message: what the tables were at it is not
/// known when it is read again.
///
/// # Errors
/// SQLite's.
pub(crate) fn begin_behind(connection: &Connection, message: u64) -> Result<()> {
    connection.exec("DELETE FROM main.densite_digests")?;
    let digests = Digests {
        message,
        tables: BTreeMap::new(),
    };
    store(connection, NO_ORIGIN, &digests)
}

/// Whether a request at this message is answered.
///
/// # Errors
/// SQLite's.
pub(crate) fn is_wanted(connection: &Connection, message: u64) -> Result<bool> {
    let sql = "SELECT 1 FROM main.densite_digests WHERE origin = ?1 AND message >= ?2";
    let values = [
        Value::from(NO_ORIGIN),
        Value::Integer(message.cast_signed()),
    ];
    Ok(connection.query_row(sql, &values)?.is_none())
}
