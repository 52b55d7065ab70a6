//! What the schema of a database's file says of everything that has a b-tree.

use crate::db::{Access, Through, from_sqlite};
use crate::error::Result;
use crate::target::Target;
use densite_sqlite::{self as sqlite, Api, Connection, Value, ValueRef};

/// A table or index.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// The table that an index is of.
    pub(crate) table: Option<String>,
    pub(crate) without_rowid: bool,
    /// The page that its b-tree begins at.
    pub(crate) root: u32,
    /// Names of what its records hold, in their order.
    pub(crate) columns: Vec<String>,
    /// Which of them is another name of the row id; 0 is the first.
    pub(crate) rowid_alias: Option<usize>,
}

/// Reads the schema in the main file: by a connection that takes it as it is, without journal and
/// WAL. The caller holds SHARED.
pub(crate) fn read(api: Api, through: Through, target: &Target) -> Result<Vec<Entry>> {
    let db = through.connect(api, &target.path, Access::Immutable, 0)?;
    entries(&db).map_err(|e| from_sqlite(&target.given, e))
}

fn entries(db: &Connection) -> sqlite::Result<Vec<Entry>> {
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
            // SQLite answers with the record's columns for a table that is an index itself, and not
            // at all for others.
            entry.without_rowid = !entry.columns.is_empty();
            if !entry.without_rowid {
                table_columns(db, &mut entry)?;
            }
        }
        all.push(entry);
    }
    Ok(all)
}

/// What the records of an index, or of a WITHOUT ROWID table, hold.
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

/// What the records of a table with row ids hold.
fn table_columns(db: &Connection, entry: &mut Entry) -> sqlite::Result<()> {
    // 2: generated and not stored.
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
    // A key that has an index is a column like any other.
    let mut indexes =
        db.prepare("SELECT 1 FROM pragma_index_list(?1, 'main') WHERE origin = 'pk'")?;
    indexes.bind(1, &Value::Text(entry.name.clone()))?;
    if keys != 1 || indexes.step()? {
        entry.rowid_alias = None;
    }
    Ok(())
}

/// Text as SQLite keeps it, which need not be UTF-8.
fn text(value: ValueRef<'_>) -> String {
    String::from_utf8_lossy(value.as_bytes().unwrap_or_default()).into_owned()
}
