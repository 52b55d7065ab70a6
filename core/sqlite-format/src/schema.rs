//! Rows of `sqlite_schema`, the table whose root is page 1
//! (<https://www.sqlite.org/fileformat2.html#storage_of_the_sql_database_schema>): type, name, table,
//! root page, SQL.

use crate::Encoding;
use crate::record::Value;

/// A table, index, view or trigger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// `table`, `index`, `view` or `trigger`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The root page of its b-tree; 0 if it has none.
    pub root: u32,
    /// How it was made; `None` for an index that a constraint needs.
    pub sql: Option<String>,
}

impl Row {
    /// The row with these values; `None` if it is not one of the schema.
    pub fn of(values: &[Value<'_>], encoding: Encoding) -> Option<Row> {
        let text = |at: usize| match values.get(at)? {
            Value::Text(bytes) if encoding.is_whole(bytes) => Some(encoding.readable(bytes)),
            _ => None,
        };
        let Some(Value::Integer(root)) = values.get(3) else {
            return None;
        };
        Some(Row {
            kind: text(0)?,
            name: text(1)?,
            root: u32::try_from(*root).unwrap_or(0),
            sql: text(4),
        })
    }

    /// Whether it is a table with a b-tree.
    pub fn is_table(&self) -> bool {
        self.kind == "table" && self.root > 0
    }

    /// Whether SQLite makes it by itself.
    pub fn is_internal(&self) -> bool {
        self.name.to_ascii_lowercase().starts_with("sqlite_")
    }
}
