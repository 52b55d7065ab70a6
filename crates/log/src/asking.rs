//! Who applies, in whatever process: whether somebody does, and asking him not to rest.

use crate::Result;
use crate::files::{APPLY_LOCK, WANTED_LOCK};
use crate::log::Log;
use crate::patience::{lock, usual};
use densite_disk::{File, LockKind, OpenMode};

/// While it is there, [`Log::is_wanted`] is true; it ends with this value or its process.
pub struct Wanted {
    _file: Box<dyn File>,
}

impl Log {
    /// Says that somebody waits for rows to be applied.
    ///
    /// # Errors
    /// `Io`, `Forked`, `ReadOnly`; `Locked`.
    pub fn want(&self) -> Result<Wanted> {
        self.shared.may_write()?;
        let file = self.shared.dir.files.open_or_make(WANTED_LOCK)?;
        lock(file.as_ref(), WANTED_LOCK, LockKind::Shared, &usual)?;
        Ok(Wanted { _file: file })
    }

    /// Whether somebody waits, in this process or another one.
    ///
    /// # Errors
    /// `Io`, `Forked`, `ReadOnly`.
    pub fn is_wanted(&self) -> Result<bool> {
        self.shared.may_write()?;
        let Some(file) = self.shared.dir.files.open(WANTED_LOCK, OpenMode::Read)? else {
            return Ok(false);
        };
        // Given up at once with the handle.
        Ok(!file.try_lock(LockKind::Exclusive)?)
    }

    /// Whether somebody has the right to apply, in this process or another one. Whoever asks for it
    /// in the very moment of this look is told that another has it.
    ///
    /// # Errors
    /// `Io`, `Forked`.
    pub fn is_led(&self) -> Result<bool> {
        self.shared.dir.is_ours()?;
        let Some(file) = self.shared.dir.files.open(APPLY_LOCK, OpenMode::Read)? else {
            return Ok(false);
        };
        // Given up at once with the handle.
        Ok(!file.try_lock(LockKind::Shared)?)
    }
}
