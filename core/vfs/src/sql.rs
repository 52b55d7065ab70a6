//! SQL functions: `densite_version()`, `densite_last_error()` and `densite_info`.

use crate::last_error::last_error;
use crate::main_file::{remote_figures, with_handle};
use densite_sqlite::{
    Code, Connection, Error, Registration, Result, Value, create_function, create_table_function,
    ffi, quoted,
};
use std::ffi::CString;

/// Adds Densite's SQL functions to a connection, unless it has them.
///
/// # Errors
/// SQLite's.
pub fn create_functions(connection: &Connection) -> Result<()> {
    let Some(registration) = Registration::new(connection, "VFS") else {
        return Ok(());
    };
    create_function(connection, "densite_last_error", 0, 0, |_, _| {
        Ok(last_error().map_or(Value::Null, Value::from))
    })?;
    create_table_function(
        connection,
        "densite_info",
        &["name TEXT", "value"],
        &["schema"],
        |connection, arguments| {
            let schema = match arguments.first() {
                Some(Some(Value::Text(schema))) => schema.as_str(),
                Some(Some(_)) => {
                    return Err(Error::new(
                        Code::ERROR,
                        "densite_info: use a schema's name as text, 'main' for example",
                    ));
                }
                _ => "main",
            };
            info(connection, schema)
        },
    )?;
    let flags = ffi::DETERMINISTIC | ffi::INNOCUOUS;
    create_function(connection, "densite_version", 0, flags, move |_, _| {
        let _until_closed = &registration;
        Ok(Value::from(env!("CARGO_PKG_VERSION")))
    })
}

/// The rows of `densite_info`.
fn info(connection: &Connection, schema: &str) -> Result<Vec<Vec<Value>>> {
    let name = CString::new(schema)
        .map_err(|_| Error::new(Code::ERROR, "densite_info: a NUL in the schema's name"))?;
    let row = |name: &str, value: Value| vec![Value::from(name), value];
    let number = |n: u64| Value::Integer(i64::try_from(n).unwrap_or(i64::MAX));
    let stats = with_handle(connection, &name, |handle| handle.stats())?;
    let remote = remote_figures(connection, &name)?;
    let remote = remote
        .into_iter()
        .map(|(name, value)| row(name, number(value)));
    let Some(stats) = stats else {
        let mut rows = plain_info(connection, schema)?;
        rows.extend(remote);
        return Ok(rows);
    };
    let stats = stats.map_err(|error| Error::new(Code::CORRUPT.explained(), error.to_string()))?;
    let mut rows = vec![row("kind", Value::from("densite"))];
    rows.extend(
        stats
            .figures()
            .into_iter()
            .chain(stats.counters())
            .map(|(name, value)| row(name, number(value))),
    );
    rows.extend(remote);
    Ok(rows)
}

/// The rows for a file that is not a Densite file.
fn plain_info(connection: &Connection, schema: &str) -> Result<Vec<Vec<Value>>> {
    let schema = quoted(schema);
    let ask = |pragma: &str| -> Result<i64> {
        let sql = format!("PRAGMA {schema}.{pragma}");
        Ok(connection.query_i64(&sql)?.unwrap_or(0))
    };
    let (page_size, pages) = (ask("page_size")?, ask("page_count")?);
    let kind = if pages == 0 { "empty" } else { "plain" };
    Ok(vec![
        vec![Value::from("kind"), Value::from(kind)],
        vec![Value::from("page_size"), Value::Integer(page_size)],
        vec![Value::from("pages"), Value::Integer(pages)],
        vec![
            Value::from("size"),
            Value::Integer(page_size.saturating_mul(pages)),
        ],
    ])
}
