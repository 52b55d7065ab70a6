//! Errors of columns.

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure, classified by what the caller can do about it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A value that cannot be stored or returned as its column's type.
    #[error("column {column}, row {row}: {what}")]
    Value {
        /// The column's name.
        column: String,
        /// The row, counted from 0 in the order of the caller, or of SQLite's rows.
        row: u64,
        /// The value and why it does not fit.
        what: String,
    },
    /// A column of a type that has no counterpart in SQLite.
    #[error("{0}")]
    Type(String),
    /// A call that the contract does not allow.
    #[error("{0}")]
    Misuse(String),
    /// The columns or the statement are in use.
    #[error("{0}")]
    Busy(String),
    /// The source of the columns failed.
    #[error("{0}")]
    Source(String),
    /// SQLite failed.
    #[error("{0}")]
    Sqlite(#[from] densite_sqlite::Error),
}

impl Error {
    pub(crate) fn value(column: &str, row: u64, what: impl Into<String>) -> Error {
        Error::Value {
            column: column.to_owned(),
            row,
            what: what.into(),
        }
    }
}
