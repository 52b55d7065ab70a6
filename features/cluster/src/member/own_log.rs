//! Whether the log of a member is the one whose rows the stream has.
//!
//! A database that was set back to an older state, by a backup or a snapshot, has the log of that
//! time. Its new rows get numbers that the stream already has for other rows of this origin. By the
//! numbers alone they would count as sent and applied, and would be lost.

use super::message::Message;
use densite_disk::sync::Mutex;
use densite_ingest::parts::OpenLog;
use densite_log::{Log, Seq};
use densite_stream::{Error, Name, Result};
use std::sync::Weak;

/// The log of a member at work.
pub(crate) struct OwnLog {
    open: Weak<OpenLog>,
    /// Rows up to this one are known to be in the stream as this log has them.
    same: Mutex<Seq>,
}

impl OwnLog {
    pub(crate) fn new(open: Weak<OpenLog>) -> OwnLog {
        OwnLog {
            open,
            same: Mutex::new(0),
        }
    }

    /// This log has sent its rows up to this one.
    pub(crate) fn sent(&self, to: Seq) {
        let mut same = self.same.lock();
        *same = to.max(*same);
    }

    /// Checks that this log has what a message of its origin says, unless that is of another log, one
    /// that the origin had before it joined again.
    ///
    /// # Errors
    /// [`Error::Refused`] if it does not; [`Error::TryAgain`] if it cannot be read.
    pub(crate) fn check(&self, origin: &Name, message: &Message) -> Result<()> {
        let closed = || Error::TryAgain("the log is closed".to_owned());
        let open = self.open.upgrade().ok_or_else(closed)?;
        if message.log != open.id() || message.to <= *self.same.lock() {
            return Ok(());
        }
        match has(open.log(), message) {
            Ok(true) => {
                self.sent(message.to);
                Ok(())
            }
            Ok(false) => Err(older(origin)),
            Err(e) => Err(Error::TryAgain(e.to_string())),
        }
    }
}

/// Whether a log has the rows that a message with its id says.
///
/// # Errors
/// The log's.
pub(crate) fn has(log: &Log, message: &Message) -> densite_log::Result<bool> {
    if message.to > log.last()? {
        return Ok(false);
    }
    let last = message.last;
    if last.row == 0 {
        return Ok(true);
    }
    let found = log
        .read_after(last.row - 1)
        .and_then(|mut reader| reader.next());
    match found {
        Ok(record) => Ok(record.is_some_and(|r| r.first <= last.row && r.txn.0 == last.txn)),
        // Rows are pruned after they were checked and applied.
        Err(densite_log::Error::Pruned { .. }) => Ok(true),
        Err(e) => Err(e),
    }
}

/// The error for the log of another state.
pub(crate) fn older(origin: &Name) -> Error {
    Error::Refused(format!(
        "the stream has rows of {origin} that the log of this database does not have: it is an older state of {origin}, or a copy; its new rows are kept and not sent: `densite join` gives it a name of its own"
    ))
}
