//! What the writes of the application's tables reach: triggers, views, defaults, CHECKs, generated
//! columns, indexes and actions of foreign keys, and what those reach.
//!
//! SQLite itself says it. The program that it compiles for a statement has all of that, and EXPLAIN
//! lists its calls of functions. It is compiled on a connection of Densite's own, as the worker has
//! one: what only the application has, a function or a collation, is missing there, too.

use super::chosen;
use super::words::names;
use densite_ingest::parts::{is_ours, tables_of};
use densite_sqlite::{Code, CompileError, Connection, Result, Value, quoted};
use std::collections::BTreeSet;

/// Functions that give different values on different members.
const DIFFERENT: [&str; 13] = [
    "random",
    "randomblob",
    "current_date",
    "current_time",
    "current_timestamp",
    "last_insert_rowid",
    "changes",
    "total_changes",
    "sqlite_version",
    "sqlite_source_id",
    "sqlite_compileoption_get",
    "sqlite_compileoption_used",
    "load_extension",
];
/// Functions that can give the time. In a CHECK, a generated column or an index, SQLite refuses them
/// when they do.
pub(super) const TIME: [&str; 7] = [
    "date",
    "time",
    "datetime",
    "julianday",
    "strftime",
    "unixepoch",
    "timediff",
];
/// What to do about calls of functions.
const REMEDY: &str = "let the application compute the value, and use what SQLite alone has";
/// The function of the triggers that guard the tables.
const GUARD: &str = "densite_applies";

/// A call of a function in a compiled statement.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Call {
    function: String,
    /// In a CHECK, a generated column or an index.
    is_pure: bool,
}

/// Why rows of the application's tables would give different values on different members, and what
/// to do, one sentence for each reason. The connection is one of Densite's own.
///
/// # Errors
/// SQLite's.
pub(super) fn different(connection: &Connection) -> Result<Vec<String>> {
    // As the worker has it.
    connection.exec("PRAGMA foreign_keys = ON")?;
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for table in tables_of(connection)? {
        for sql in writes(connection, &table)? {
            match calls(connection, &sql) {
                Ok(calls) => {
                    for call in calls {
                        let why = why(connection, &call)?;
                        if let Some(why) = why.filter(|_| seen.insert(call.function.clone())) {
                            let user = user(connection, &call.function)?;
                            found.push(format!(
                                "{user} uses {}, which {why}, and writes of {table} reach it: {REMEDY}",
                                call.function
                            ));
                        }
                    }
                }
                Err(e) if e.code.primary() == Code::ERROR => {
                    // Others, such as a table that is missing, are the same on all members.
                    let lacking = e.compile_error();
                    let is_missing = lacking.is_some_and(CompileError::is_of_the_connection);
                    if is_missing && seen.insert(e.message.clone()) {
                        found.push(format!(
                            "{table} cannot be written with what SQLite alone has: {}: {REMEDY}",
                            e.message
                        ));
                    }
                }
                Err(e) => return Err(e),
            }
        }
    }
    found.extend(chosen::different(connection)?);
    Ok(found)
}

/// An INSERT, an UPDATE and a DELETE of a table, as the worker makes them: with a value for each
/// column.
fn writes(connection: &Connection, table: &str) -> Result<Vec<String>> {
    let mut columns = Vec::new();
    let mut statement =
        connection.prepare("SELECT name FROM pragma_table_xinfo(?1, 'main') WHERE hidden = 0")?;
    statement.bind(1, &Value::from(table))?;
    while statement.step()? {
        columns.push(quoted(statement.column(0).as_str().unwrap_or_default()));
    }
    let table = quoted(table);
    let Some(first) = columns.first() else {
        return Ok(Vec::new());
    };
    let set: Vec<String> = (columns.iter().enumerate())
        .map(|(i, column)| format!("{column} = ?{}", i + 1))
        .collect();
    let values: Vec<String> = (1..=columns.len()).map(|i| format!("?{i}")).collect();
    Ok(vec![
        format!(
            "INSERT INTO main.{table}({}) VALUES ({})",
            columns.join(", "),
            values.join(", ")
        ),
        format!("UPDATE main.{table} SET {}", set.join(", ")),
        format!("DELETE FROM main.{table} WHERE {first} IS ?1"),
    ])
}

/// The functions that a statement calls, wherever: EXPLAIN lists the programs of triggers, too.
fn calls(connection: &Connection, sql: &str) -> Result<BTreeSet<Call>> {
    let mut found = BTreeSet::new();
    let mut statement = connection.prepare(&format!("EXPLAIN {sql}"))?;
    while statement.step()? {
        let opcode = statement.column(1).as_str().unwrap_or_default();
        if !["Function", "PureFunc", "Agg"]
            .iter()
            .any(|op| opcode.starts_with(op))
        {
            continue;
        }
        // The name and the number of arguments, as in `random(0)`.
        let called = statement.column(5).as_str().unwrap_or_default();
        if let Some((name, _)) = called.split_once('(') {
            found.insert(Call {
                function: name.to_ascii_lowercase(),
                is_pure: opcode.starts_with("Pure"),
            });
        }
    }
    Ok(found)
}

/// What is wrong with a call; `None`: nothing.
fn why(connection: &Connection, call: &Call) -> Result<Option<&'static str>> {
    let name = call.function.as_str();
    let is_time = TIME.contains(&name) && !call.is_pure;
    if DIFFERENT.contains(&name) || is_time {
        return Ok(Some("gives another value on each member"));
    }
    if name == GUARD {
        return Ok(None);
    }
    let foreign =
        "SELECT 1 FROM pragma_function_list WHERE name = ?1 COLLATE NOCASE AND builtin = 0";
    let foreign = connection.query_row(foreign, &[Value::from(name)])?;
    Ok(foreign.map(|_| "is of an extension that other members can lack"))
}

/// The part of the schema that names a function, as a user calls it.
fn user(connection: &Connection, function: &str) -> Result<String> {
    let sql = format!(
        "SELECT type, name, sql FROM main.sqlite_schema WHERE sql IS NOT NULL AND NOT (type = 'trigger' AND {}) \
         ORDER BY CASE type WHEN 'trigger' THEN 1 WHEN 'view' THEN 2 ELSE 3 END, name",
        is_ours()
    );
    let mut statement = connection.prepare(&sql)?;
    while statement.step()? {
        let text = |i| statement.column(i).as_str().unwrap_or_default();
        if names(text(2), |name| name.eq_ignore_ascii_case(function)) != Some(false) {
            return Ok(format!("the {} {}", text(0), text(1)));
        }
    }
    Ok("the schema".to_owned())
}
