//! Which row a table refused, and what in it.

use super::list;
use super::target::{Target, same};
use crate::Error;
use crate::set::Registered;
use rusqlite::ErrorCode;

/// How many columns of a row are shown where SQLite names none.
const SHOWN: usize = 10;

/// The same error with the row that was in the way, where that is known. Of a table with triggers SQLite reads all rows
/// before it writes the first, and of a foreign key it does not say which row has no parent.
pub(super) fn with_row(error: Error, target: &Target, columns: &Registered) -> Error {
    let Error::Sqlite(source) = error else {
        return error;
    };
    let of_row = matches!(
        source.sqlite_error_code(),
        Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig)
    );
    let said = source.to_string();
    if !of_row || target.has_triggers || said.contains("FOREIGN KEY") {
        return Error::Sqlite(source);
    }
    match describe(&said, target, columns) {
        Ok((row, values)) => Error::Row {
            row,
            message: format!("{said}; {values}"),
            source,
        },
        Err(_) => Error::Sqlite(source),
    }
}

/// The row that was read last, and its values in words.
fn describe(said: &str, target: &Target, columns: &Registered) -> crate::Result<(u64, String)> {
    let names = columns.names();
    let place = |name: &str| names.iter().position(|known| same(known, name));
    let named = named(said, target);
    columns.ask(|set| {
        let value = |name: &str| match place(name) {
            Some(place) => format!("{name} is {}", set.last_value(place)),
            None => format!("{name} is not given"),
        };
        let values = match named.is_empty() {
            false => list(named.iter().map(|name| value(name))),
            // A CHECK, or an index on an expression: whichever columns it is about, they are among these.
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
    if said.contains("datatype mismatch") {
        // Of an INTEGER PRIMARY KEY, which takes nothing else.
        return target.first_key().map(str::to_owned).into_iter().collect();
    }
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
