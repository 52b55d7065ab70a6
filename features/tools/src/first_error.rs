//! Keeps the first error of callbacks that SQLite calls, because SQLite itself gets only an error
//! code.

use crate::error::Error;
use densite_sqlite::Code;
use std::sync::{Mutex, PoisonError};

/// Keeps the first error.
#[derive(Default)]
pub(crate) struct FirstError(Mutex<Option<Error>>);

impl FirstError {
    /// Returns the error code for SQLite, and keeps the error.
    pub(crate) fn code<T>(&self, done: Result<T, Error>) -> Result<T, Code> {
        done.map_err(|e| {
            let code = match &e {
                Error::Damaged { .. } => Code::CORRUPT,
                Error::NoSpace { .. } => Code::FULL,
                _ => Code::IOERR,
            };
            let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(e);
            code
        })
    }

    /// Takes the first error, if there was one.
    pub(crate) fn take(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
