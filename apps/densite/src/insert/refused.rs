//! Finds the row that a table refused, and its values.

use super::target::{Target, same};
use super::{list, orphan};
use crate::Error;
use crate::set::Registered;
use rusqlite::{Connection, ErrorCode, ffi};

/// The number of columns to show if SQLite names none.
const SHOWN: usize = 10;

/// The same error with the refused row, if it is known. Except for foreign keys, it is not known for
/// a table with triggers, because SQLite reads all rows before it writes the first.
pub(super) fn with_row(
    con: &Connection,
    error: Error,
    target: &Target,
    columns: &Registered,
) -> Error {
    let Error::Sqlite(source) = error else {
        return error;
    };
    let code = source.sqlite_error().map(|error| error.extended_code);
    if code == Some(ffi::SQLITE_CONSTRAINT_FOREIGNKEY) {
        return of_foreign_key(con, source, target, columns);
    }
    let of_row = matches!(
        source.sqlite_error_code(),
        Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig)
    );
    if !of_row || target.has_triggers {
        return Error::Sqlite(source);
    }
    let said = source.to_string();
    let named = match source.sqlite_error_code() {
        // Only an INTEGER PRIMARY KEY gives this error.
        Some(ErrorCode::TypeMismatch) => target.rowid.clone().into_iter().collect(),
        _ => named(&said, target),
    };
    match describe(&named, columns) {
        Ok((row, values)) => Error::Row {
            row,
            message: format!("{said}; {values}"),
            source,
        },
        Err(_) => Error::Sqlite(source),
    }
}

/// The same error with the row that refers to a missing row, if there is one: a trigger can have
/// caused the error too.
fn of_foreign_key(
    con: &Connection,
    source: rusqlite::Error,
    target: &Target,
    columns: &Registered,
) -> Error {
    // The search reads the columns too, and is no progress of the insert.
    match columns
        .unwatch()
        .and_then(|()| orphan::find(con, target, columns))
    {
        Ok(Some((row, missing))) => Error::ForeignKey {
            row,
            missing: Box::new(missing),
            source,
        },
        Ok(None) | Err(_) => Error::Sqlite(source),
    }
}

/// The row that was read last, and as text its values of these columns, or of all.
fn describe(named: &[String], columns: &Registered) -> crate::Result<(u64, String)> {
    let names = columns.names();
    let place = |name: &str| names.iter().position(|known| same(known, name));
    columns.ask(|set| {
        let value = |name: &str| match place(name) {
            Some(place) => format!("{name} is {}", set.last_value(place)),
            None => format!("{name} is not given"),
        };
        let values = match named.is_empty() {
            false => list(named.iter().map(|name| value(name))),
            // A CHECK, or an index on an expression: its columns are among these.
            true => {
                let more = (names.len() > SHOWN).then(|| "...".to_owned());
                list(names.iter().take(SHOWN).map(|name| value(name)).chain(more))
            }
        };
        (set.last_row(), values)
    })
}

/// The columns of the table that SQLite's message names.
fn named(said: &str, target: &Target) -> Vec<String> {
    let after = |words: &str| said.split_once(words).map(|(_, rest)| rest);
    let Some(rest) = after("constraint failed: ").or_else(|| after("column ")) else {
        return Vec::new();
    };
    rest.split(',')
        .map(|name| name.rsplit('.').next().unwrap_or(name).trim())
        .filter(|name| target.columns.iter().any(|known| same(known, name)))
        .map(str::to_owned)
        .collect()
}
