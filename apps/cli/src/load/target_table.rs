//! The table that receives the rows.

use super::Column;
use densite_ingest::Affinity;
use densite_sqlite::{CompileError, quoted};
use rusqlite::{Connection, OptionalExtension};

/// The properties of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Target {
    /// Names of the columns that accept values.
    pub(crate) columns: Vec<String>,
    /// Their affinities.
    pub(crate) affinities: Vec<Affinity>,
    /// Names of the generated columns.
    pub(crate) generated: Vec<String>,
    /// Names of the columns of its primary key, in order.
    pub(crate) key: Vec<String>,
    /// Whether rows can be inserted in another order, because no rule depends on the order.
    pub(crate) may_sort: bool,
}

/// Finds a table. `None` if it does not exist; an error text if it cannot receive rows.
pub(crate) fn find_table(
    db: &Connection,
    schema: &str,
    table: &str,
) -> rusqlite::Result<Option<Result<Target, String>>> {
    // SQLite reserves `sqlite_` in the same way. Otherwise ingest would read rows of a file as its
    // own state.
    if table.to_ascii_lowercase().starts_with("densite_") {
        return Ok(Some(Err(format!(
            "names that begin with densite_ are reserved for Densite's own tables: {table} takes no rows; choose another name"
        ))));
    }
    let objects = format!("{}.sqlite_schema", quoted(schema));
    let kind: Option<String> = db
        .query_row(
            &format!("SELECT type FROM {objects} WHERE name = ?1 COLLATE NOCASE AND type IN ('table', 'view')"),
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
    let mut info = db.prepare("SELECT name, pk, hidden, type FROM pragma_table_xinfo(?1, ?2)")?;
    let rows = info.query_map([table, schema], |row| {
        Ok((
            row.get::<_, String>(0)?,
            row.get::<_, i64>(1)?,
            row.get::<_, i64>(2)?,
            row.get::<_, String>(3)?,
        ))
    })?;
    let columns: Vec<_> = rows.collect::<Result<_, _>>()?;
    let mut key: Vec<(i64, String)> = columns
        .iter()
        .filter(|(_, pk, ..)| *pk > 0)
        .map(|(name, pk, ..)| (*pk, name.clone()))
        .collect();
    key.sort();
    // A trigger can depend on the order of rows. With ON CONFLICT in the table, the order decides
    // which rows are dropped.
    let order_matters: bool = db.query_row(
        &format!("SELECT count(*) > 0 FROM {objects} WHERE tbl_name = ?1 COLLATE NOCASE AND (type = 'trigger' OR type = 'table' AND sql LIKE '%conflict%')"),
        [table],
        |row| row.get(0),
    )?;
    let generated = columns
        .iter()
        .filter(|(_, _, hidden, _)| matches!(hidden, 2 | 3))
        .map(|(name, ..)| name.clone())
        .collect();
    let is_strict: bool = db.query_row(
        "SELECT strict FROM pragma_table_list(?1) WHERE schema = ?2",
        [table, schema],
        |row| row.get(0),
    )?;
    let (columns, affinities) = columns
        .into_iter()
        .filter(|(_, _, hidden, _)| *hidden == 0)
        .map(|(name, _, _, declared)| (name, Affinity::of(&declared, is_strict)))
        .unzip();
    Ok(Some(Ok(Target {
        generated,
        columns,
        affinities,
        key: key.into_iter().map(|(_, name)| name).collect(),
        may_sort: !order_matters,
    })))
}

/// Why the columns cannot be the key of --upsert; `None` if they can.
pub(crate) fn wrong_key(
    db: &Connection,
    schema: &str,
    table: &str,
    target: &Target,
    key: &[String],
) -> Option<String> {
    let unknown = key
        .iter()
        .find(|name| !target.columns.iter().any(|c| c.eq_ignore_ascii_case(name)));
    if let Some(name) = unknown {
        return Some(format!(
            "--upsert names {name}, which is not a column of table {table}; the table has {}",
            target.columns.join(", ")
        ));
    }
    let names: Vec<String> = key.iter().map(|name| quoted(name)).collect();
    let names = names.join(", ");
    let first = key.first().map(|name| quoted(name))?;
    let sql = format!(
        "EXPLAIN INSERT INTO {}.{}({first}) VALUES (NULL) ON CONFLICT({names}) DO NOTHING",
        quoted(schema),
        quoted(table)
    );
    let wrong = db.prepare(&sql).err()?;
    let wrong = wrong.to_string();
    (CompileError::of(&wrong) == Some(CompileError::NoUniqueKey)).then(|| {
        format!(
            "table {table} has no PRIMARY KEY or UNIQUE constraint on ({0}), which --upsert needs; \
             run CREATE UNIQUE INDEX ... ON {1}({names})",
            key.join(", "),
            quoted(table)
        )
    })
}

/// Creates a table with the columns of the file, and this key, if there is one. `table` is a name
/// in SQL.
pub(crate) fn create(
    db: &Connection,
    table: &str,
    columns: &[Column],
    key: &[String],
) -> rusqlite::Result<()> {
    let mut columns: Vec<String> = columns
        .iter()
        .map(|c| {
            format!("{} {}", quoted(&c.name), c.declared)
                .trim_end()
                .to_owned()
        })
        .collect();
    if !key.is_empty() {
        let key: Vec<String> = key.iter().map(|name| quoted(name)).collect();
        columns.push(format!("PRIMARY KEY({})", key.join(", ")));
    }
    db.execute_batch(&format!("CREATE TABLE {table}({})", columns.join(", ")))
}
