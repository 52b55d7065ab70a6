//! Whether a name still leads to a file that is open.
//!
//! The log is what its name leads to: see [`crate::open_dir`]. SQLite, too, looks before it writes.

use crate::files::Files;
use crate::{Error, Result};
use densite_disk::File;

/// The name of a file that is open, and keeps it as long as its directory has this log.
#[derive(Clone)]
pub(crate) struct Named {
    name: String,
    identity: (u64, u64),
}

impl Named {
    /// Of a file that is open as long as this value is used: what it says of the file is said of no
    /// other one before it is closed.
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
