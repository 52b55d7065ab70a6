//! A column of a recorded table, and its values as the table has them.

use densite_sqlite::{Result, ValueRef};

/// A column of a recorded table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    /// Its place in a row of SQLite.
    pub(super) place: usize,
    /// It stores numbers as REAL.
    pub(super) is_real: bool,
    /// Old rows can lack it.
    pub(super) has_default: bool,
}

impl Column {
    /// The value as the table has it. SQLite stores a REAL without a fraction as an integer, and
    /// before 3.47 reports that.
    pub(super) fn stored<'a>(&self, value: Result<ValueRef<'a>>) -> Result<ValueRef<'a>> {
        match value {
            Ok(ValueRef::Integer(n)) if self.is_real => Ok(ValueRef::Real(n as f64)),
            value => value,
        }
    }
}
