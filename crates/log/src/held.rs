//! Locks that end when they should, though the process forked meanwhile.
//!
//! A lock of `flock` belongs to the open file, and after a fork the child has the same files open: closing one gives up nothing as long as the
//! other process lives. So a lock is given up by asking for it, and only by the process that took it.

use densite_disk::{File, FileAbove, LockKind, Result};
use std::cell::Cell;

/// A file whose lock is given up when it is dropped, unless that happens in a forked child.
pub(crate) struct Held {
    file: Box<dyn File>,
    /// The process that opened it.
    pid: u32,
    is_locked: Cell<bool>,
}

impl Held {
    pub(crate) fn of(file: Box<dyn File>) -> Box<dyn File> {
        Box::new(Held {
            file,
            pid: densite_disk::process::id(),
            is_locked: Cell::new(false),
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.is_locked.get() && self.pid == densite_disk::process::id() {
            // Should it fail, closing the file is all that is left to do.
            self.file.unlock().ok();
        }
    }
}

impl FileAbove for Held {
    fn below(&self) -> &dyn File {
        &*self.file
    }

    fn try_lock(&self, kind: LockKind) -> Result<bool> {
        let taken = self.file.try_lock(kind)?;
        self.is_locked.set(taken);
        Ok(taken)
    }

    fn lock(&self, kind: LockKind) -> Result<()> {
        self.file.lock(kind)?;
        self.is_locked.set(true);
        Ok(())
    }

    fn unlock(&self) -> Result<()> {
        self.file.unlock()?;
        self.is_locked.set(false);
        Ok(())
    }
}
