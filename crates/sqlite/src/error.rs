//! Errors of calls into SQLite.

use crate::Code;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed call into SQLite.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// SQLite's result code, extended if the connection gives it.
    pub code: Code,
    /// SQLite's message, or what this crate found wrong.
    pub message: String,
}

impl Error {
    /// An error with our own message.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Error {
            code,
            message: message.into(),
        }
    }

    /// Whether another connection holds a lock; the caller can try again later.
    pub fn is_busy(&self) -> bool {
        matches!(self.code.primary(), Code::BUSY | Code::LOCKED)
    }
}

impl From<Code> for Error {
    fn from(code: Code) -> Self {
        Error {
            code,
            message: code.meaning().to_string(),
        }
    }
}
