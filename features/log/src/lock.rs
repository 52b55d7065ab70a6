//! The two locks of writers. Both exclude other processes.
//!
//! The append lock is held for one write, the sync lock for one sync. So while one process syncs,
//! the others append, and the next sync makes all of that durable. A process that needs both locks
//! takes the sync lock first.

use crate::Result;
use crate::files::{APPEND_LOCK, Files, SYNC_LOCK};
use crate::patience::Patience;
use densite_disk::{File, LockKind};

/// A lock as an error names it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lock {
    pub(crate) name: &'static str,
    /// Identity of the file.
    pub(crate) identity: Option<(u64, u64)>,
}

/// The file of a lock.
pub(crate) struct LockFile {
    lock: Lock,
    file: Box<dyn File>,
}

impl LockFile {
    fn new(name: &'static str, file: Box<dyn File>) -> LockFile {
        let identity = file.identity().ok();
        LockFile {
            lock: Lock { name, identity },
            file,
        }
    }

    pub(crate) fn lock(&self) -> Lock {
        self.lock
    }

    pub(crate) fn file(&self) -> &dyn File {
        self.file.as_ref()
    }

    pub(crate) fn try_take(&self) -> Result<bool> {
        Ok(self.file.try_lock(LockKind::Exclusive)?)
    }

    /// # Errors
    /// `Locked`, `Interrupted`; `Io`.
    pub(crate) fn take(&mut self, files: &Files, patience: Patience<'_>) -> Result<()> {
        files.lock_again(&mut self.file, self.lock.name, patience)
    }

    /// If this fails, the lock ends with its handle, and there is no caller to report it to.
    pub(crate) fn release(&self) {
        self.file.unlock().ok();
    }
}

/// See the module.
pub(crate) struct Locks {
    pub(crate) append: LockFile,
    pub(crate) sync: LockFile,
}

impl Locks {
    /// Takes both locks.
    ///
    /// # Errors
    /// `Locked`, `Interrupted`; `Io`.
    pub(crate) fn taken(files: &Files, patience: Patience<'_>) -> Result<Locks> {
        loop {
            let sync = files.locked(SYNC_LOCK, patience)?;
            let append = files.locked(APPEND_LOCK, patience)?;
            // A repair can have replaced the directory while the append lock was waited for.
            if files.is_named(SYNC_LOCK, sync.as_ref())? {
                return Ok(Locks {
                    append: LockFile::new(APPEND_LOCK, append),
                    sync: LockFile::new(SYNC_LOCK, sync),
                });
            }
        }
    }

    /// Takes both locks if they are free.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn try_take(&self) -> Result<bool> {
        if !self.sync.try_take()? {
            return Ok(false);
        }
        match self.append.try_take() {
            Ok(true) => Ok(true),
            other => {
                self.sync.release();
                other
            }
        }
    }

    pub(crate) fn release(&self) {
        self.append.release();
        self.sync.release();
    }
}
