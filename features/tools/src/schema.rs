//! Reads the schema entries of a database file that have a b-tree.

use crate::db::{Access, Through, from_sqlite};
use crate::error::Result;
use crate::known;
use crate::target::Target;
use densite_sqlite::{self as sqlite, Api, Connection, Value, ValueRef};
use std::time::Duration;

/// A table or index.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// The table of an index.
    pub(crate) table: Option<String>,
    pub(crate) without_rowid: bool,
    /// The root page of its b-tree.
    pub(crate) root: u32,
    /// Names of the columns of its records, in order.
    pub(crate) columns: Vec<String>,
    /// The index of the column that is an alias of the row id, from 0.
    pub(crate) rowid_alias: Option<usize>,
}

/// What is known of a database by its schema.
#[derive(Debug)]
pub(crate) struct Schema {
    pub(crate) entries: Vec<Entry>,
    /// The well-known program whose database it is.
    pub(crate) program: Option<&'static str>,
}

/// Reads the schema in the main file. The connection reads the file without its journal and WAL.
/// The caller holds SHARED.
pub(crate) fn read(api: Api, through: Through, target: &Target) -> Result<Schema> {
    let db = through.connect(api, target, Access::Immutable, Duration::ZERO)?;
    let read = || {
        Ok(Schema {
            entries: entries(&db)?,
            program: known::program(&db)?,
        })
    };
    read().map_err(|e| from_sqlite(&target.given, e))
}

/// The root pages of all b-trees in the main database of a connection, ascending.
pub(crate) fn roots(db: &Connection) -> sqlite::Result<Vec<u32>> {
    let mut roots = vec![1];
    let sql = "SELECT rootpage FROM main.sqlite_master WHERE rootpage > 0 ORDER BY rootpage";
    let mut found = db.prepare(sql)?;
    while found.step()? {
        let root = found.column(0).as_i64();
        roots.extend(root.and_then(|root| u32::try_from(root).ok()));
    }
    Ok(roots)
}

/// The schema entries of the main database of a connection.
pub(crate) fn entries(db: &Connection) -> sqlite::Result<Vec<Entry>> {
    let mut all = vec![Entry {
        name: "sqlite_schema".into(),
        table: None,
        without_rowid: false,
        root: 1,
        columns: ["type", "name", "tbl_name", "rootpage", "sql"]
            .map(String::from)
            .to_vec(),
        rowid_alias: None,
    }];
    let mut found = db.prepare(
        "SELECT type, name, tbl_name, rootpage FROM main.sqlite_master WHERE rootpage > 0 AND type IN ('table', 'index')",
    )?;
    while found.step()? {
        let index = found.column(0).as_bytes() == Some(b"index");
        let (name, table) = (text(found.column(1)), text(found.column(2)));
        let Some(root) = found.column(3).as_i64().and_then(|n| u32::try_from(n).ok()) else {
            continue;
        };
        let mut entry = Entry {
            name,
            table: index.then_some(table),
            without_rowid: false,
            root,
            columns: index_columns(db, found.column(1).as_str().unwrap_or_default())?,
            rowid_alias: None,
        };
        if !index {
            // For a table that is an index itself, SQLite returns the columns of its records. For
            // other tables it returns no rows.
            entry.without_rowid = !entry.columns.is_empty();
            if !entry.without_rowid {
                table_columns(db, &mut entry)?;
            }
        }
        all.push(entry);
    }
    Ok(all)
}

/// The columns in the records of an index or a WITHOUT ROWID table.
fn index_columns(db: &Connection, name: &str) -> sqlite::Result<Vec<String>> {
    let mut info = db.prepare("SELECT cid, name FROM pragma_index_xinfo(?1, 'main')")?;
    info.bind(1, &Value::Text(name.to_owned()))?;
    let mut columns = Vec::new();
    while info.step()? {
        columns.push(match info.column(0).as_i64() {
            Some(-1) => "rowid".to_owned(),
            Some(-2) => "expression".to_owned(),
            _ => text(info.column(1)),
        });
    }
    Ok(columns)
}

/// The columns in the records of a table with row ids.
fn table_columns(db: &Connection, entry: &mut Entry) -> sqlite::Result<()> {
    // 2: generated columns that are not stored.
    let mut info =
        db.prepare("SELECT name, type, pk FROM pragma_table_xinfo(?1, 'main') WHERE hidden <> 2")?;
    info.bind(1, &Value::Text(entry.name.clone()))?;
    let mut keys = 0;
    while info.step()? {
        if info.column(2).as_i64() > Some(0) {
            keys += 1;
            let integer = info
                .column(1)
                .as_bytes()
                .is_some_and(|t| t.eq_ignore_ascii_case(b"INTEGER"));
            entry.rowid_alias = integer.then_some(entry.columns.len());
        }
        entry.columns.push(text(info.column(0)));
    }
    // A key with an index of its own is an ordinary column.
    let mut indexes =
        db.prepare("SELECT 1 FROM pragma_index_list(?1, 'main') WHERE origin = 'pk'")?;
    indexes.bind(1, &Value::Text(entry.name.clone()))?;
    if keys != 1 || indexes.step()? {
        entry.rowid_alias = None;
    }
    Ok(())
}

/// Text as SQLite stores it, which is not always UTF-8.
fn text(value: ValueRef<'_>) -> String {
    String::from_utf8_lossy(value.as_bytes().unwrap_or_default()).into_owned()
}
