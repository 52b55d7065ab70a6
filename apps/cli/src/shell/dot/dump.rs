//! `.dump`: the database as SQL, in the form of the sqlite3 shell.
//!
//! A savepoint gives all tables the same state. Virtual tables are written into the schema
//! directly, because CREATE VIRTUAL TABLE would make their shadow tables a second time.
//!
//! A damaged table does not end the dump, as in that shell: it has the rows before the damage and,
//! from the end of the table, those behind it. Then the dump ends with ROLLBACK.

use super::super::session::{Flow, Session};
use crate::failure::Failure;
use crate::sql::failure::{At, failure, other};
use crate::sql::literal::literal;
use densite_sqlite::quoted;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode};
use std::fmt::Write;

/// Printed before SQL text is printed, so that memory is bounded.
const PART: usize = 1 << 16;

enum Stop {
    Sql(rusqlite::Error),
    Output(std::io::Error),
    /// No table has this name.
    Missing(String),
}

impl From<rusqlite::Error> for Stop {
    fn from(e: rusqlite::Error) -> Stop {
        Stop::Sql(e)
    }
}

impl From<std::io::Error> for Stop {
    fn from(e: std::io::Error) -> Stop {
        Stop::Output(e)
    }
}

/// A table, index, trigger or view.
struct Object {
    name: String,
    kind: String,
    sql: String,
}

pub(super) fn run(session: &mut Session, patterns: &[String]) -> Result<Flow, Failure> {
    let db = std::rc::Rc::clone(&session.connection);
    let mut print = |text: &str| session.output.text(text);
    let done = db
        .execute_batch("SAVEPOINT densite_dump")
        .map_err(Stop::Sql)
        .and_then(|()| {
            let done = dump(&db, patterns, &mut print);
            let released = db.execute_batch("RELEASE densite_dump").map_err(Stop::Sql);
            done.and(released)
        });
    match done {
        Ok(()) => Ok(Flow::Next),
        Err(Stop::Output(e)) => Err(e.into()),
        Err(Stop::Sql(e)) => Err(failure(&session.db, At::Prompt, &e)),
        Err(Stop::Missing(name)) => Err(other(format!(
            "there is no table or view {name} in main; .tables lists them"
        ))),
    }
}

fn dump(
    db: &Connection,
    patterns: &[String],
    print: &mut dyn FnMut(&str) -> std::io::Result<()>,
) -> Result<(), Stop> {
    let objects = objects(db, patterns)?;
    print("PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n")?;
    let (tables, others): (Vec<&Object>, Vec<&Object>) =
        objects.iter().partition(|o| o.kind == "table");
    let mut has_virtual = false;
    let mut damage = None;
    for table in tables {
        let name = table.name.as_str();
        let is_virtual = table
            .sql
            .to_ascii_uppercase()
            .starts_with("CREATE VIRTUAL TABLE");
        if name == "sqlite_sequence" {
            print("DELETE FROM sqlite_sequence;\n")?;
        } else if name.starts_with("sqlite_stat") {
            print("ANALYZE sqlite_schema;\n")?;
        } else if name.starts_with("sqlite_") {
            continue;
        } else if is_virtual {
            if !std::mem::replace(&mut has_virtual, true) {
                print("PRAGMA writable_schema=ON;\n")?;
            }
            let text = |text: &str| literal(ValueRef::Text(text.as_bytes()));
            print(&format!(
                "INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql)VALUES('table',{0},{0},0,{1});\n",
                text(name),
                text(&table.sql),
            ))?;
            continue;
        } else {
            print(&format!("{};\n", table.sql))?;
        }
        match rows(db, name, print) {
            Err(Stop::Sql(e)) if is_damage(&e) => {
                print("/****** CORRUPTION ERROR *******/\n")?;
                damage.get_or_insert(e);
                backwards(db, name, print)?;
            }
            done => done?,
        }
    }
    for object in others {
        print(&format!("{};\n", object.sql))?;
    }
    if has_virtual {
        print("PRAGMA writable_schema=OFF;\n")?;
    }
    match damage {
        Some(e) => {
            print("ROLLBACK; -- due to errors\n")?;
            Err(Stop::Sql(e))
        }
        None => {
            print("COMMIT;\n")?;
            Ok(())
        }
    }
}

fn is_damage(e: &rusqlite::Error) -> bool {
    matches!(
        e.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::SystemIoFailure)
    )
}

/// The rows of a damaged table from its end on.
fn backwards(
    db: &Connection,
    table: &str,
    print: &mut dyn FnMut(&str) -> std::io::Result<()>,
) -> Result<(), Stop> {
    const REVERSE: &str = "reverse_unordered_selects";
    let before: bool = db.pragma_query_value(None, REVERSE, |row| row.get(0))?;
    db.pragma_update(None, REVERSE, !before)?;
    let done = rows(db, table, print);
    db.pragma_update(None, REVERSE, before)?;
    match done {
        Err(Stop::Sql(e)) if is_damage(&e) => Ok(()),
        done => done,
    }
}

/// The objects with SQL, in the order in which they were made; those of matching tables.
///
/// A dump without a table that was asked for would be taken for a copy of it.
fn objects(db: &Connection, patterns: &[String]) -> Result<Vec<Object>, Stop> {
    // sqlite_sequence exists only after the first table with AUTOINCREMENT.
    let mut statement = db.prepare(
        "SELECT name, type, sql, tbl_name FROM main.sqlite_schema WHERE sql IS NOT NULL
         ORDER BY name = 'sqlite_sequence', rowid",
    )?;
    let mut like = db.prepare("SELECT ?1 LIKE ?2")?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    let mut unmatched: Vec<&String> = patterns.iter().filter(|p| !p.contains('%')).collect();
    while let Some(row) = rows.next()? {
        let table: String = row.get(3)?;
        let mut is_wanted = patterns.is_empty();
        for pattern in patterns {
            let is_like: bool = like.query_row([&table, pattern], |row| row.get(0))?;
            is_wanted |= is_like;
            unmatched.retain(|other| !is_like || *other != pattern);
        }
        if is_wanted {
            found.push(Object {
                name: row.get(0)?,
                kind: row.get(1)?,
                sql: row.get(2)?,
            });
        }
    }
    match unmatched.first() {
        Some(name) => Err(Stop::Missing((*name).clone())),
        None => Ok(found),
    }
}

/// An INSERT for each row of a table.
fn rows(
    db: &Connection,
    table: &str,
    print: &mut dyn FnMut(&str) -> std::io::Result<()>,
) -> Result<(), Stop> {
    let mut info = db.prepare("SELECT name, hidden FROM pragma_table_xinfo(?1, 'main')")?;
    let columns = info.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let columns: Vec<(String, i64)> = columns.collect::<rusqlite::Result<_>>()?;
    // Generated columns take no values.
    let stored: Vec<String> = columns
        .iter()
        .filter(|(_, hidden)| *hidden == 0)
        .map(|(name, _)| quoted(name))
        .collect();
    let listed = match stored.len() == columns.len() {
        true => String::new(),
        false => format!("({})", stored.join(",")),
    };
    let sql = format!("SELECT {} FROM main.{}", stored.join(","), quoted(table));
    let mut statement = db.prepare(&sql)?;
    let mut rows = statement.query([])?;
    let mut text = String::new();
    let mut part = |text: &mut String| -> Result<bool, Stop> {
        let Some(row) = rows.next()? else {
            return Ok(false);
        };
        let _ = write!(text, "INSERT INTO {}{listed} VALUES(", quoted(table));
        for column in 0..stored.len() {
            let comma = if column == 0 { "" } else { "," };
            let _ = write!(text, "{comma}{}", literal(row.get_ref(column)?));
        }
        text.push_str(");\n");
        Ok(true)
    };
    let done = loop {
        match part(&mut text) {
            Ok(true) if text.len() < PART => {}
            Ok(true) => {
                print(&text)?;
                text.clear();
            }
            Ok(false) => break Ok(()),
            Err(e) => break Err(e),
        }
    };
    // Also the rows before an error.
    print(&text)?;
    done
}
