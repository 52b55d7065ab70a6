//! Puts a new file in the place of a database that this process holds alone.
//!
//! A rename replaces the file ([`crate::temp`]) under an EXCLUSIVE lock. A process can have the
//! file open without a lock. It would continue with the old file, and find the journal or WAL of
//! the new one by name. If the system shows such a process, it counts as a lock holder: at the
//! start ([`wait_for_others`]) and before the rename. All other processes read the old file, which
//! is switched to a rollback journal, so that SQLite refuses to write to it. The VFS keeps them
//! away from the new journal and WAL (`core/vfs/src/path_check.rs`).
//! docs/decisions/vacuum.md has the details and compares plain SQLite.

use crate::error::{Error, Result};
use crate::holders::openers;
use crate::lock::patiently;
use crate::progress::Progress;
use crate::source::Source;
use crate::target::{Target, still_there};
use crate::temp::Temp;
use densite_disk::wait::Retry;
use densite_vfs::failpoint;
use std::time::Duration;

/// Replaces the content of `target`, which `source` holds alone, with `new`.
pub(crate) fn replace(
    source: &Source,
    target: &Target,
    new: Temp,
    wait: Duration,
    progress: &mut dyn Progress,
) -> Result<()> {
    // A process that opened the file in the meantime has the old file and waits for our lock.
    wait_for_others(target, wait)?;
    let done = new.replace(target);
    if done.is_err() && still_there(target).is_ok() {
        return done;
    }
    // From here on the old file has no name, even if a later step failed.
    failpoint::at("replaced");
    // A process that opened the file just now must give up waiting before this lock is released.
    let _ = wait_for_others(target, wait);
    if source.retire().is_err() {
        progress.message(&format!(
            "close all programs that opened {} before it was replaced: they must not write to it any more",
            target.given.display()
        ));
    }
    done
}

/// Waits until the system shows no other process that has the file open.
pub(crate) fn wait_for_others(target: &Target, wait: Duration) -> Result<()> {
    patiently(Retry::within(wait), || match openers(target.inode) {
        by if by.is_empty() => Ok(()),
        by => Err(Error::Locked {
            path: target.given.clone(),
            by,
        }),
    })
}
