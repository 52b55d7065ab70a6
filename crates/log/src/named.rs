//! Whether names lead to the files that are open: the log is what its name leads to, and what has lost that name is read, and pruned, by nobody.
//!
//! Who moves, removes or replaces the log's directory, or a file in it, asks no lock. So whoever acknowledges or changes something looks first. What goes after that look
//! takes this with it as it takes all that was acknowledged before: SQLite, too, looks before it writes.

use crate::files::Files;
use crate::log::{Log, Shared};
use crate::state::State;
use crate::{Error, Result};
use densite_disk::File;

/// The name of a file that is open, and keeps it as long as its directory has this log.
#[derive(Clone)]
pub(crate) struct Named {
    name: String,
    identity: (u64, u64),
}

impl Named {
    /// Of a file that is open as long as this value is used: what it says of the file is said of no other one before it is closed.
    pub(crate) fn of(name: impl Into<String>, file: &dyn File) -> Result<Named> {
        Ok(Named {
            name: name.into(),
            identity: file.identity()?,
        })
    }

    /// That the name still is that file's.
    ///
    /// # Errors
    /// `Replaced`; `Io`.
    pub(crate) fn check(&self, files: &Files) -> Result<()> {
        match files.dir.identity(&self.name)? == Some(self.identity) {
            true => Ok(()),
            false => Err(Error::Replaced),
        }
    }
}

impl Log {
    /// That the directory's name still leads to the log that was opened: what was read there is of the log that others write to.
    ///
    /// # Errors
    /// `Replaced`; `Io`.
    pub fn is_in_place(&self) -> Result<()> {
        self.shared.is_in_place()
    }
}

impl Shared {
    /// See [`Log::is_in_place`].
    pub(crate) fn is_in_place(&self) -> Result<()> {
        let mark = self.mark.as_ref();
        mark.map_or(Ok(()), |mark| mark.check(&self.files))
    }

    /// Changes the state durably: that of the log that was opened, not of one that has its place.
    pub(crate) fn with_state<T>(
        &self,
        change: impl FnOnce(&mut State) -> Result<(T, bool)>,
    ) -> Result<T> {
        self.is_in_place()?;
        self.files.with_state(|state| {
            // Its lock may have been waited for.
            self.is_in_place()?;
            change(state)
        })
    }
}
