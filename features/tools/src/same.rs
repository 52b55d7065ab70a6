//! Proves that two databases have the same content: schema, settings and every row of every stored
//! table.

use crate::db::from_sqlite;
use crate::error::{Error, Result};
use crate::progress::Progress;
use densite_sqlite::{Connection, quoted};
use std::path::Path;

/// Settings that a rewrite keeps.
const SETTINGS: [&str; 4] = ["encoding", "user_version", "application_id", "auto_vacuum"];

/// Rows between two checks for cancellation.
const LOOK_EVERY: u64 = 1000;

/// Compares settings and schema of `old` and `new`; `path` is the database, for messages.
pub(crate) fn settings_and_schema(
    old: &Connection,
    new: &Connection,
    path: &Path,
    progress: &mut dyn Progress,
) -> Result<()> {
    for setting in SETTINGS {
        compare(
            old,
            new,
            &format!("PRAGMA {setting}"),
            path,
            setting,
            progress,
        )?;
    }
    compare(
        old,
        new,
        "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name",
        path,
        "the schema",
        progress,
    )?;
    Ok(())
}

/// Compares all rows of `old` and `new`, and returns their number.
pub(crate) fn rows(
    old: &Connection,
    new: &Connection,
    path: &Path,
    progress: &mut dyn Progress,
) -> Result<u64> {
    let mut rows = 0;
    for table in stored_tables(old, path)? {
        let sql = format!("SELECT * FROM {} NOT INDEXED", quoted(&table));
        rows += compare(old, new, &sql, path, &format!("table {table}"), progress)?;
    }
    Ok(rows)
}

/// Tables with a b-tree of their own, including those of virtual tables.
fn stored_tables(db: &Connection, path: &Path) -> Result<Vec<String>> {
    let failed = |e| from_sqlite(path, e);
    let mut query = db
        .prepare("SELECT name FROM sqlite_schema WHERE type='table' AND rootpage>0 ORDER BY name")
        .map_err(failed)?;
    let mut names = Vec::new();
    while query.step().map_err(failed)? {
        names.extend(query.column(0).as_str().map(str::to_string));
    }
    Ok(names)
}

fn compare(
    old: &Connection,
    new: &Connection,
    sql: &str,
    path: &Path,
    what: &str,
    progress: &mut dyn Progress,
) -> Result<u64> {
    let failed = |e| from_sqlite(path, e);
    let mut a = old.prepare(sql).map_err(failed)?;
    let mut b = new.prepare(sql).map_err(failed)?;
    let columns = a.column_count();
    let mut rows = 0u64;
    loop {
        let more = a.step().map_err(failed)?;
        let same = more == b.step().map_err(failed)?
            && columns == b.column_count()
            && (!more || (0..columns).all(|i| a.column(i) == b.column(i)));
        if !same {
            return Err(Error::Io {
                path: path.to_path_buf(),
                doing: "verify".into(),
                message: format!(
                    "the copy differs in {what}, row {}; try again, and check disk and memory",
                    rows + 1
                ),
            });
        }
        if !more {
            return Ok(rows);
        }
        rows += 1;
        if rows.is_multiple_of(LOOK_EVERY) && progress.cancelled() {
            return Err(Error::Interrupted {
                path: path.to_path_buf(),
            });
        }
    }
}
