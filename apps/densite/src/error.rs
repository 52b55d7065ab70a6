//! Errors, classified by what the caller can do about them.

use crate::MissingParent;
use densite_bulk as bulk;
use densite_tools::Error as FileError;
use rusqlite::ErrorCode;
use rusqlite::ffi;
use std::path::PathBuf;
use std::time::Duration;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure.
///
/// The variants say what failed. [`is_locked`](Error::is_locked),
/// [`is_no_space`](Error::is_no_space) and [`is_damaged`](Error::is_damaged) say what to do about
/// it.
///
/// ```
/// let missing = densite::OpenOptions::new().create(false).open("no such folder/app.db");
/// let error = missing.expect_err("there is no such file");
/// assert!(matches!(error, densite::Error::File(densite::FileError::NotFound { .. })));
/// assert!(!error.is_locked());
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// SQLite refused a statement.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// SQLite, or Densite below it, could not open a database.
    #[error("{}: {message}", path.display())]
    Open {
        /// The database.
        path: PathBuf,
        /// What is wrong, and what to do.
        message: String,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// A file could not be opened, converted, vacuumed or checked.
    #[error(transparent)]
    File(#[from] FileError),
    /// A setting is out of range.
    #[error("{0}")]
    Setting(String),
    /// There is no such table or column.
    #[error("{0}")]
    Table(String),
    /// The columns do not match each other, or are too many or too long.
    #[error("{0}")]
    Columns(String),
    /// The table refused a row.
    #[error("row {row}: {message}")]
    Row {
        /// The row, counted from 0 in the caller's order.
        row: u64,
        /// SQLite's message, with the columns and values that it is about, if they are known.
        message: String,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// A row refers to a row that does not exist.
    #[error("row {row}: {source}; {missing}")]
    ForeignKey {
        /// The row, counted from 0 in the caller's order.
        row: u64,
        /// The reference.
        missing: Box<MissingParent>,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// The caller's progress function stopped the insert, and no row was inserted.
    #[error("the progress function stopped the insert; no row was inserted")]
    Stopped,
    /// A value does not fit its column.
    #[error("column {column}, row {row}: {message}")]
    Value {
        /// The column's name.
        column: String,
        /// The row, counted from 0.
        row: u64,
        /// The value, why it does not fit, and what to do.
        message: String,
    },
    /// The connection has a transaction open, but the call needs its own.
    #[error(
        "{doing} in a transaction of its own, and this connection has one open; commit it or roll it back first"
    )]
    TransactionOpen {
        /// What the call does: "rows are appended".
        doing: &'static str,
    },
    /// Rows of the log were not applied in time.
    #[error(
        "row {wanted} of the log is not applied after {} s: rows up to {reached} are; wait longer, or see whether a connection holds the database's write lock",
        timeout.as_secs_f64()
    )]
    Timeout {
        /// The sequence number that was waited for.
        wanted: u64,
        /// The last sequence number that is applied.
        reached: u64,
        /// How long the call waited.
        timeout: Duration,
    },
    /// The connection does not know Densite's SQL functions, because it was opened before
    /// [`register()`](crate::register()).
    #[error(
        "the connection was opened before densite::register() and does not know Densite's functions; open it again"
    )]
    NotRegistered,
    /// The SQLite of this program cannot be used.
    #[error("{0}")]
    Unsupported(String),
}

impl Error {
    /// Whether another connection holds a lock, or has not finished in time: try again later.
    pub fn is_locked(&self) -> bool {
        match self {
            Error::File(FileError::Locked { .. }) | Error::Timeout { .. } => true,
            other => matches!(
                other.sqlite_code(),
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
            ),
        }
    }

    /// Whether the disk is full: free some space and try again.
    pub fn is_no_space(&self) -> bool {
        matches!(self, Error::File(FileError::NoSpace { .. }))
            || self.sqlite_code() == Some(ErrorCode::DiskFull)
    }

    /// Whether the file is damaged or not a database: check the path, or restore it from a backup.
    pub fn is_damaged(&self) -> bool {
        match self {
            Error::File(FileError::Damaged { .. } | FileError::NotADatabase { .. }) => true,
            other => matches!(
                other.sqlite_code(),
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
            ),
        }
    }

    /// SQLite's code, if the error is SQLite's.
    pub fn sqlite_code(&self) -> Option<ErrorCode> {
        match self {
            Error::Sqlite(source)
            | Error::Open { source, .. }
            | Error::Row { source, .. }
            | Error::ForeignKey { source, .. } => source.sqlite_error_code(),
            _ => None,
        }
    }

    /// The row that caused the error, counted from 0, if it is known.
    pub fn row(&self) -> Option<u64> {
        match self {
            Error::Row { row, .. } | Error::ForeignKey { row, .. } | Error::Value { row, .. } => {
                Some(*row)
            }
            _ => None,
        }
    }

    /// Converts an error of SQLite on a connection that should know Densite's functions.
    pub(crate) fn of_function(error: rusqlite::Error) -> Error {
        let said = error.to_string();
        let unknown = [
            "no such function: densite_",
            "no such table: densite_columns",
            "no such table: densite_insert",
            "no such module: densite_",
        ];
        match unknown.iter().any(|words| said.starts_with(words)) {
            true => Error::NotRegistered,
            false => Error::Sqlite(error),
        }
    }
}

impl From<bulk::Error> for Error {
    fn from(error: bulk::Error) -> Error {
        match error {
            bulk::Error::Value { column, row, what } => Error::Value {
                column,
                row,
                message: what,
            },
            bulk::Error::Sqlite(e) => Error::Sqlite(rusqlite::Error::SqliteFailure(
                ffi::Error::new(e.code.0),
                Some(e.message),
            )),
            other => Error::Columns(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sqlites_codes_say_what_to_do() {
        let of = |code| Error::Sqlite(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
        assert!(of(ffi::SQLITE_BUSY).is_locked() && of(ffi::SQLITE_BUSY_SNAPSHOT).is_locked());
        assert!(of(ffi::SQLITE_FULL).is_no_space());
        assert!(of(ffi::SQLITE_NOTADB).is_damaged() && !of(ffi::SQLITE_NOTADB).is_locked());
    }
}
