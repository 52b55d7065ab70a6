//! The table that rows go to.

use super::Column;
use densite_sqlite::quoted;
use rusqlite::{Connection, OptionalExtension};

/// What is to be known of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Target {
    /// Names of its columns that can be inserted into.
    pub(crate) columns: Vec<String>,
    /// Names of the columns of its primary key, in order.
    pub(crate) key: Vec<String>,
    /// Rows may be brought in in another order: nothing looks at each one.
    pub(crate) may_sort: bool,
}

/// Finds a table; `None` if there is none, and the reason if it takes no rows.
pub(crate) fn find_table(
    db: &Connection,
    table: &str,
) -> rusqlite::Result<Option<Result<Target, String>>> {
    // As SQLite keeps `sqlite_` for itself: what ingest reads there would be rows of a file.
    if table.to_ascii_lowercase().starts_with("densite_") {
        return Ok(Some(Err(format!(
            "names that begin with densite_ are for Densite's own tables: {table} takes no rows; choose another name"
        ))));
    }
    let kind: Option<String> = db
        .query_row(
            "SELECT type FROM main.sqlite_schema WHERE name = ?1 COLLATE NOCASE AND type IN ('table', 'view')",
            [table],
            |row| row.get(0),
        )
        .optional()?;
    match kind.as_deref() {
        None => return Ok(None),
        Some("table") => {}
        Some(kind) => {
            return Ok(Some(Err(format!(
                "{table} is a {kind}, and rows are loaded into tables only"
            ))));
        }
    }
    let mut info = db.prepare("SELECT name, pk, hidden FROM main.pragma_table_xinfo(?1)")?;
    let rows = info.query_map([table], |row| {
        Ok((
            row.get::<_, String>(0)?,
            row.get::<_, i64>(1)?,
            row.get::<_, i64>(2)?,
        ))
    })?;
    let columns: Vec<_> = rows.collect::<Result<_, _>>()?;
    let mut key: Vec<(i64, String)> = columns
        .iter()
        .filter(|(_, pk, _)| *pk > 0)
        .map(|(name, pk, _)| (*pk, name.clone()))
        .collect();
    key.sort();
    // A trigger looks at each row; and where the table's own ON CONFLICT drops rows, order says which.
    let order_matters: bool = db.query_row(
        "SELECT count(*) > 0 FROM main.sqlite_schema WHERE tbl_name = ?1 COLLATE NOCASE AND (type = 'trigger' OR type = 'table' AND sql LIKE '%conflict%')",
        [table],
        |row| row.get(0),
    )?;
    Ok(Some(Ok(Target {
        columns: columns
            .into_iter()
            .filter(|(_, _, hidden)| *hidden == 0)
            .map(|(name, ..)| name)
            .collect(),
        key: key.into_iter().map(|(_, name)| name).collect(),
        may_sort: !order_matters,
    })))
}

/// Makes a table with the file's columns.
pub(crate) fn create(db: &Connection, table: &str, columns: &[Column]) -> rusqlite::Result<()> {
    let columns: Vec<String> = columns
        .iter()
        .map(|c| {
            format!("{} {}", quoted(&c.name), c.declared)
                .trim_end()
                .to_owned()
        })
        .collect();
    db.execute_batch(&format!(
        "CREATE TABLE main.{}({})",
        quoted(table),
        columns.join(", ")
    ))
}
