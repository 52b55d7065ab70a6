//! Errors of calls into SQLite.

use crate::{Code, CompileError};

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
    /// The operating system's error number, if a file could not be opened and the number is known.
    pub errno: Option<i32>,
}

impl Error {
    /// An error with our own message.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Error {
            code,
            message: message.into(),
            errno: None,
        }
    }

    /// Whether another connection holds a lock; the caller can try again later.
    pub fn is_busy(&self) -> bool {
        matches!(self.code.primary(), Code::BUSY | Code::LOCKED)
    }

    /// Why a statement does not compile, if SQLite's message says so.
    pub fn compile_error(&self) -> Option<CompileError<'_>> {
        CompileError::of(&self.message).filter(|_| self.code.primary() == Code::ERROR)
    }

    /// What is wrong and what to do, if a file could not be opened because too many are open.
    pub fn too_many_files(&self) -> Option<&'static str> {
        self.errno.and_then(densite_disk::too_many_files)
    }
}

impl From<Code> for Error {
    fn from(code: Code) -> Self {
        Error {
            code,
            message: code.meaning().to_string(),
            errno: None,
        }
    }
}
