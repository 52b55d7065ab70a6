//! Locks that end when they should, though the process forked meanwhile.
//!
//! A lock of `flock` belongs to the open file, and after a fork the child has the same files open: closing one gives up nothing as long as the
//! other process lives. So a lock is given up by asking for it, and only by the process that took it.

use densite_disk::{File, LockKind, Result, SyncKind};
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

impl File for Held {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.file.write_at(buf, offset)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self, kind: SyncKind) -> Result<()> {
        self.file.sync(kind)
    }

    fn len(&self) -> Result<u64> {
        self.file.len()
    }

    fn lock(&self, kind: LockKind) -> Result<()> {
        self.file.lock(kind)?;
        self.is_locked.set(true);
        Ok(())
    }

    fn try_lock(&self, kind: LockKind) -> Result<bool> {
        let taken = self.file.try_lock(kind)?;
        self.is_locked.set(taken);
        Ok(taken)
    }

    fn unlock(&self) -> Result<()> {
        self.file.unlock()?;
        self.is_locked.set(false);
        Ok(())
    }

    fn identity(&self) -> Result<(u64, u64)> {
        self.file.identity()
    }
}
