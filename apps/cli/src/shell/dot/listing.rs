//! The commands that list what a database has.

use super::super::session::{Flow, Session};
use crate::failure::Failure;
use crate::shown;
use crate::sql::failure::{At, failure};
use densite_sqlite::quoted;

/// The width of lists.
const WIDTH: usize = 80;

/// The rows of a query, as text.
fn rows(session: &Session, sql: &str, pattern: &str) -> Result<Vec<Vec<String>>, Failure> {
    let read = || -> rusqlite::Result<Vec<Vec<String>>> {
        let mut statement = session.connection.prepare(sql)?;
        let count = statement.column_count();
        let row = |row: &rusqlite::Row<'_>| {
            let text = |i| {
                row.get::<_, Option<String>>(i)
                    .map(Option::unwrap_or_default)
            };
            (0..count).map(text).collect()
        };
        match statement.parameter_count() {
            0 => statement.query_map([], row)?.collect(),
            _ => statement.query_map([pattern], row)?.collect(),
        }
    };
    read().map_err(|e| failure(&session.db, At::Prompt, &e))
}

/// The schemas, `main` first, with their files.
fn schemas(session: &Session) -> Result<Vec<(String, String)>, Failure> {
    let sql = "SELECT name, file FROM pragma_database_list ORDER BY seq <> 0, seq";
    let rows = rows(session, sql, "")?;
    let pair = |row: Vec<String>| {
        let mut values = row.into_iter();
        (
            values.next().unwrap_or_default(),
            values.next().unwrap_or_default(),
        )
    };
    Ok(rows.into_iter().map(pair).collect())
}

/// The names of tables, views and indexes; those of other schemas with the name of the schema.
fn list(session: &mut Session, condition: &str, pattern: &str) -> Result<Flow, Failure> {
    let mut names = Vec::new();
    for (schema, _) in schemas(session)? {
        let sql = format!(
            "SELECT name FROM {}.sqlite_schema WHERE {condition}",
            quoted(&schema)
        );
        for row in rows(session, &sql, pattern)? {
            let name = row.into_iter().next().unwrap_or_default();
            names.push(match schema.as_str() {
                "main" => name,
                other => format!("{other}.{name}"),
            });
        }
    }
    names.sort();
    session.output.text(&in_columns(&names))?;
    Ok(Flow::Next)
}

pub(super) fn tables(session: &mut Session, arguments: &[String]) -> Result<Flow, Failure> {
    let pattern = arguments.first().map_or("%", String::as_str);
    let condition =
        "type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name LIKE ?1";
    list(session, condition, pattern)
}

pub(super) fn indexes(session: &mut Session, arguments: &[String]) -> Result<Flow, Failure> {
    let pattern = arguments.first().map_or("%", String::as_str);
    list(session, "type = 'index' AND tbl_name LIKE ?1", pattern)
}

pub(super) fn schema(session: &mut Session, arguments: &[String]) -> Result<Flow, Failure> {
    let pattern = arguments.first().map_or("%", String::as_str);
    let mut text = String::new();
    for (schema, _) in schemas(session)? {
        let sql = format!(
            "SELECT sql FROM {}.sqlite_schema
             WHERE sql IS NOT NULL AND (name LIKE ?1 OR tbl_name LIKE ?1)
             ORDER BY tbl_name = 'sqlite_sequence' DESC, rowid",
            quoted(&schema)
        );
        let found = rows(session, &sql, pattern)?;
        if schema != "main" && !found.is_empty() {
            text += &format!("-- schema {}\n", shown::shown(&schema));
        }
        for sql in found.into_iter().flatten() {
            text += &shown::lines(&sql);
            text += ";\n";
        }
    }
    session.output.text(&text)?;
    Ok(Flow::Next)
}

pub(super) fn databases(session: &mut Session, _arguments: &[String]) -> Result<Flow, Failure> {
    let mut text = String::new();
    for (schema, file) in schemas(session)? {
        let access = match session.connection.is_readonly(schema.as_str()) {
            Ok(true) => "r/o",
            _ => "r/w",
        };
        let file = match file.as_str() {
            "" => "\"\"",
            file => file,
        };
        text += &format!(
            "{}: {} {access}\n",
            shown::shown(&schema),
            shown::shown(file)
        );
    }
    session.output.text(&text)?;
    Ok(Flow::Next)
}

/// Names in columns from top to bottom, as `ls` prints them.
fn in_columns(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| shown::shown(name)).collect();
    let width = names
        .iter()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0)
        + 2;
    let columns = (WIDTH / width).max(1);
    let lines = names.len().div_ceil(columns);
    let mut text = String::new();
    for line in 0..lines {
        let mut row = String::new();
        for name in names.iter().skip(line).step_by(lines) {
            row += &format!("{name:<width$}");
        }
        text += row.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_down_the_columns() {
        let names: Vec<String> = (1..=5).map(|n| format!("{n:>30}")).collect();
        let text = in_columns(&names);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|l| l.split_whitespace().collect())
            .collect();
        assert_eq!(lines, [vec!["1", "4"], vec!["2", "5"], vec!["3"]]);
        assert_eq!(in_columns(&[]), "");
    }
}
