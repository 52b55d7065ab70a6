//! Locks that end on time even if the process forked.
//!
//! A lock of `flock` belongs to the open file, and a forked child has the same files open. So
//! closing the file does not release the lock while the child lives. Therefore a lock is released
//! explicitly, and only by the process that took it.

use densite_disk::{File, FileAbove, LockKind, Result};
use std::cell::Cell;

/// A file that releases its lock when it is dropped, except in a forked child.
pub(crate) struct ForkSafeLock {
    file: Box<dyn File>,
    /// The process that opened it.
    pid: u32,
    is_locked: Cell<bool>,
}

impl ForkSafeLock {
    pub(crate) fn of(file: Box<dyn File>) -> Box<dyn File> {
        Box::new(ForkSafeLock {
            file,
            pid: std::process::id(),
            is_locked: Cell::new(false),
        })
    }
}

impl Drop for ForkSafeLock {
    fn drop(&mut self) {
        if self.is_locked.get() && self.pid == std::process::id() {
            // If this fails, closing the file is the only way left.
            self.file.unlock().ok();
        }
    }
}

impl FileAbove for ForkSafeLock {
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
