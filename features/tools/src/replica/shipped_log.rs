//! The log beside a database that is shipped. It can begin while the database is shipped.

use crate::error::{ErrorClass, Result};
use crate::log::Beside;
use densite_log::{Hold, Log, Options};
use densite_replica::Error as Wrong;
use std::path::Path;

/// Finds the end of the log of the database at `db`, if no process has it open: after a power cut,
/// its end word can be older than the rows that are applied.
///
/// # Errors
/// [`Error::Log`](crate::error::Error::Log).
pub(super) fn find_end(db: &Path) -> Result<()> {
    if let Some(log) = Beside::find(db)? {
        let mut options = Options::new(log.id);
        options.background = false;
        Log::open(log.dir.clone(), options).map_err(|e| log.failed(&e))?;
    }
    Ok(())
}

/// Holds the segments of the log of the database at `db`, if there is one.
///
/// # Errors
/// [`Wrong::Source`], [`Wrong::SourceFull`].
pub(super) fn hold(db: &Path) -> densite_replica::Result<Option<Hold>> {
    let log = Beside::find(db)
        .map_err(|e| Wrong::source(e.to_string(), e.class() == ErrorClass::NoSpace))?;
    match log {
        Some(log) => Ok(Hold::take(log.dir)?),
        None => Ok(None),
    }
}
