//! The table that receives the rows.

use super::Column;
use densite_sqlite::quoted;
use rusqlite::{Connection, OptionalExtension};

/// The properties of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Target {
    /// Names of the columns that accept values.
    pub(crate) columns: Vec<String>,
    /// Names of the columns of its primary key, in order.
    pub(crate) key: Vec<String>,
    /// Whether rows can be inserted in another order, because no rule depends on the order.
    pub(crate) may_sort: bool,
}

/// Finds a table. `None` if it does not exist; an error text if it cannot receive rows.
pub(crate) fn find_table(
    db: &Connection,
    table: &str,
) -> rusqlite::Result<Option<Result<Target, String>>> {
    // SQLite reserves `sqlite_` in the same way. Otherwise ingest would read rows of a file as its
    // own state.
    if table.to_ascii_lowercase().starts_with("densite_") {
        return Ok(Some(Err(format!(
            "names that begin with densite_ are reserved for Densite's own tables: {table} takes no rows; choose another name"
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
                "{table} is a {kind}, but rows can be loaded only into tables"
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
    // A trigger can depend on the order of rows. With ON CONFLICT in the table, the order decides
    // which rows are dropped.
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

/// Creates a table with the columns of the file.
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
