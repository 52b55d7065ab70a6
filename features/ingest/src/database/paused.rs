//! The tables that are paused: no rows are applied.
//!
//! `densite_applied.paused` is a JSON array of their names, or empty. The worker reads it in the
//! transaction in which it would apply rows. The position is one number for all tables, so while
//! one is paused, the rows of the others wait too.

use densite_sqlite::{Code, Connection, Error, Result, Value};

/// The names of paused tables.
pub(crate) fn tables(connection: &Connection) -> Result<Vec<String>> {
    let stored = connection.query_string("SELECT paused FROM main.densite_applied")?;
    let stored = stored.unwrap_or_default();
    Ok(serde_json::from_str(&stored).unwrap_or_default())
}

/// Stores the names of paused tables.
pub(crate) fn store(connection: &Connection, tables: &[String]) -> Result<()> {
    let names = match tables {
        [] => String::new(),
        _ => serde_json::json!(tables).to_string(),
    };
    let update = "UPDATE main.densite_applied SET paused = ?1";
    connection.query_row(update, &[Value::Text(names)])?;
    Ok(())
}

/// Why the worker applies no rows.
///
/// # Errors
/// SQLite's.
pub(crate) fn reason(connection: &Connection) -> Result<Error> {
    let tables = tables(connection)?;
    let resume = |table: &String| format!("densite_resume('{}')", table.replace('\'', "''"));
    let resume: Vec<String> = tables.iter().map(resume).collect();
    Ok(Error::new(
        Code::ERROR,
        format!(
            "rows wait since densite_pause; SELECT {} applies them",
            resume.join(", ")
        ),
    ))
}
