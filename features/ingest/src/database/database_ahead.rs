//! A database that is ahead of what was applied from its log.
//!
//! Only the applier moves the position. If the position has moved without it, another state of the
//! database, or a copy that went on elsewhere, overwrote the file. Whether it has this log's rows
//! with the numbers in between is unknown. So none of them counts as applied, and no more rows are
//! acknowledged, until the database goes back or all processes have closed it.

use densite_disk::sync::Mutex;
use densite_log::Seq;
use densite_sqlite::{Code, Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Shared by the database log and its worker.
#[derive(Clone, Default)]
pub(crate) struct DatabaseAhead {
    error: Arc<Mutex<Option<Error>>>,
    /// The last check found that the database names no log.
    unnamed: Arc<AtomicBool>,
}

impl DatabaseAhead {
    /// Compares the position at which the worker left the database with the current one. Returns an
    /// error if the worker must not go on.
    pub(crate) fn check_position(&self, known: Option<Seq>, position: Seq) -> Option<Error> {
        let known = known.filter(|known| position > *known);
        let error = known.map(|known| {
            Error::new(
                Code::ERROR,
                format!(
                    "the database was overwritten with another state of it, or of a copy: its position is row {position}, and this log was applied up to row {known}. Whether it has the rows between is unknown. \
                     Put the previous file back. Or, to accept this state, close it everywhere and open it again: then rows up to {position} count as applied. If the log ends before that row, opening it says how to begin a new one"
                ),
            )
        });
        self.error.lock().clone_from(&error);
        error
    }

    /// Records whether the database names a log.
    pub(crate) fn set_named(&self, is_named: bool) {
        self.unnamed.store(!is_named, Ordering::Release);
    }

    /// Whether it named none at the last check.
    pub(crate) fn is_unnamed(&self) -> bool {
        self.unnamed.load(Ordering::Acquire)
    }

    /// # Errors
    /// An error while the database is overwritten.
    pub(crate) fn check(&self) -> Result<()> {
        self.error.lock().clone().map_or(Ok(()), Err)
    }
}
