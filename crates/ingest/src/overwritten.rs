//! A database that is further than its log was applied.
//!
//! Who leads is the only one that moves the position on. If it is found to have moved by itself, the database was overwritten, in place or by another file, with a state of it or of a copy that went on elsewhere. Rows of this log
//! that have the numbers between are not in it, or they are: nobody can tell. So none of them counts as applied, and no more rows are acknowledged with such numbers, until it goes back or everybody has closed it.

use densite_disk::sync::Mutex;
use densite_log::Seq;
use densite_sqlite::{Code, Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Shared by the database log and its worker.
#[derive(Clone, Default)]
pub(crate) struct Overwritten {
    error: Arc<Mutex<Option<Error>>>,
    /// The last look found that the database names no log.
    unnamed: Arc<AtomicBool>,
}

impl Overwritten {
    /// The worker has left the database at `known` and finds it at `position`. Why it may not go on, if that is so.
    pub(crate) fn check_position(&self, known: Option<Seq>, position: Seq) -> Option<Error> {
        let known = known.filter(|known| position > *known);
        let error = known.map(|known| {
            Error::new(
                Code::ERROR,
                format!(
                    "the database was overwritten with another state of it, or of a copy, to which rows up to {position} were applied, while of this log they are up to {known}: whether it has those between is not known. \
                     Put back what was there; or, to take it as it is, close it everywhere and open it again, and rows up to {position} count as applied. If the log ends before that row, opening it says how to begin a new one"
                ),
            )
        });
        self.error.lock().clone_from(&error);
        error
    }

    /// Somebody has looked whether the database names a log.
    pub(crate) fn set_named(&self, is_named: bool) {
        self.unnamed.store(!is_named, Ordering::Release);
    }

    /// Whether it named none at the last look.
    pub(crate) fn is_unnamed(&self) -> bool {
        self.unnamed.load(Ordering::Acquire)
    }

    /// # Errors
    /// While that is so.
    pub(crate) fn check(&self) -> Result<()> {
        self.error.lock().clone().map_or(Ok(()), Err)
    }
}
