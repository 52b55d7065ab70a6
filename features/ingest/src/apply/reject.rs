//! Rows that their table refuses go to `densite_rejects`, with the reason.

use crate::database::position::make_tables;
use crate::rows::json_row;
use crate::rows::unit::op_name;
use crate::schema::affinity::from_log;
use crate::schema::policy::OnConflict;
use densite_log::Record;
use densite_sqlite::{Code, CompileError, Connection, Error, Result, Value};

/// Whether an error of a step concerns the row. Errors of the disk, of locks or of memory do not.
pub fn is_of_the_row(e: &Error) -> bool {
    matches!(
        e.code.primary(),
        Code::CONSTRAINT | Code::MISMATCH | Code::TOOBIG | Code::ERROR
    )
}

/// Adds a row of a record to `densite_rejects`.
///
/// # Errors
/// SQLite's.
pub fn reject(connection: &Connection, record: &Record, row: usize, reason: &str) -> Result<()> {
    // After a loss, a stream can give numbers a second time: no reject takes the place of another.
    let sql = "INSERT INTO main.densite_rejects(seq, \"table\", \"row\", error, at, op, on_conflict) VALUES ((SELECT iif(count(*), (SELECT max(seq) + 1 FROM main.densite_rejects), ?1) FROM main.densite_rejects WHERE seq = ?1), ?2, ?3, ?4, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), ?5, ?6)";
    let mut insert = match connection.prepare(sql) {
        // The table was dropped: it is made again.
        Err(e) if matches!(e.compile_error(), Some(CompileError::NoTable(_))) => {
            make_tables(connection)?;
            connection.prepare(sql)?
        }
        prepared => prepared?,
    };
    let columns = record.table.columns().iter().map(String::as_str);
    let object = json_row::object(columns.zip(record.rows.row(row).map(from_log)));
    insert.bind(
        1,
        &Value::Integer(i64::try_from(record.first).unwrap_or(i64::MAX) + row as i64),
    )?;
    insert.bind(2, &Value::from(record.table.name()))?;
    insert.bind(3, &Value::Text(object))?;
    insert.bind(4, &Value::from(reason))?;
    insert.bind(5, &Value::from(op_name(record.op)))?;
    let policy = OnConflict::of_note(record.table.note());
    let policy = policy.map_or_else(|| "abort".to_owned(), |policy| policy.text());
    insert.bind(6, &Value::Text(policy))?;
    insert.step()?;
    Ok(())
}
