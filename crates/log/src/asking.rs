//! Asking whoever applies, in whatever process, not to rest.

use crate::Result;
use crate::files::WANTED_LOCK;
use crate::log::Log;
use densite_disk::{File, LockKind, OpenMode};

/// While it is there, [`Log::is_wanted`] is true; it ends with this value or its process.
pub struct Wanted {
    _file: Box<dyn File>,
}

impl Log {
    /// Says that somebody waits for rows to be applied.
    ///
    /// # Errors
    /// `Io`, `Forked`, `ReadOnly`.
    pub fn want(&self) -> Result<Wanted> {
        self.shared.may_write()?;
        let file = self.shared.files.open_or_make(WANTED_LOCK)?;
        file.lock(LockKind::Shared)?;
        Ok(Wanted { _file: file })
    }

    /// Whether somebody waits, in this process or another one.
    ///
    /// # Errors
    /// `Io`, `Forked`, `ReadOnly`.
    pub fn is_wanted(&self) -> Result<bool> {
        self.shared.may_write()?;
        let Some(file) = self.shared.files.open(WANTED_LOCK, OpenMode::Read)? else {
            return Ok(false);
        };
        // Given up at once with the handle.
        Ok(!file.try_lock(LockKind::Exclusive)?)
    }
}
