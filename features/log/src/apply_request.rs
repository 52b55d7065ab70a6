//! The applier as other processes see it: whether there is one, and asking it to apply without
//! delay.

use crate::Result;
use crate::files::{APPLY_LOCK, WANTED_LOCK};
use crate::log::Log;
use crate::patience::{lock, usual};
use densite_disk::{File, LockKind, OpenMode};

/// While this value exists, [`Log::is_wanted`] is true. The request ends with the value or its
/// process.
pub struct ApplyRequest {
    _file: Box<dyn File>,
}

impl Log {
    /// Tells the applier that a process waits for rows to be applied.
    ///
    /// # Errors
    /// `Io`, `Forked`, `ReadOnly`; `Locked`.
    pub fn want(&self) -> Result<ApplyRequest> {
        self.shared.may_write()?;
        let file = self.shared.dir.files.open_or_make(WANTED_LOCK)?;
        lock(file.as_ref(), WANTED_LOCK, LockKind::Shared, &usual)?;
        Ok(ApplyRequest { _file: file })
    }

    /// Whether any process, this one included, waits for rows to be applied.
    ///
    /// # Errors
    /// `Io`, `Forked`, `ReadOnly`.
    pub fn is_wanted(&self) -> Result<bool> {
        self.shared.may_write()?;
        let Some(file) = self.shared.dir.files.open(WANTED_LOCK, OpenMode::Read)? else {
            return Ok(false);
        };
        // Dropping the handle releases the lock.
        Ok(!file.try_lock(LockKind::Exclusive)?)
    }

    /// Whether any process, this one included, has the right to apply. A process that tries to take
    /// the right at the same moment can find it taken by this check.
    ///
    /// # Errors
    /// `Io`, `Forked`.
    pub fn is_led(&self) -> Result<bool> {
        self.shared.dir.is_ours()?;
        let Some(file) = self.shared.dir.files.open(APPLY_LOCK, OpenMode::Read)? else {
            return Ok(false);
        };
        // Dropping the handle releases the lock.
        Ok(!file.try_lock(LockKind::Shared)?)
    }
}
