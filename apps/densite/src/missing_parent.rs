//! A reference of a row to a row that does not exist.

use densite_sqlite::ValueRef;
use rusqlite::types::Value;
use std::fmt::{Display, Formatter, Result};

/// The reference of a refused row: [`Error::ForeignKey`](crate::Error::ForeignKey) has it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MissingParent {
    /// The columns of the foreign key, in its order.
    pub columns: Vec<String>,
    /// The values of these columns, as they were passed.
    pub values: Vec<Value>,
    /// The table that has no such row.
    pub parent: String,
    /// The columns of that table that the foreign key refers to.
    pub parent_columns: Vec<String>,
}

impl Display for MissingParent {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for (column, value) in self.columns.iter().zip(&self.values) {
            write!(f, "{column} is {}, ", shown(value))?;
        }
        let referred = self.parent_columns.join(", ");
        write!(f, "which {} does not have as {referred}", self.parent)
    }
}

fn shown(value: &Value) -> String {
    let value = match value {
        Value::Null => ValueRef::Null,
        Value::Integer(n) => ValueRef::Integer(*n),
        Value::Real(x) => ValueRef::Real(*x),
        Value::Text(text) => ValueRef::Text(text.as_bytes()),
        Value::Blob(bytes) => ValueRef::Blob(bytes),
    };
    value.shown()
}
