//! Whether a name still leads to a file that is open.
//!
//! The log is the directory that its name leads to: see [`crate::open_dir`]. SQLite also checks the
//! name of a database file before it writes.

use crate::files::Files;
use crate::{Error, Result};
use densite_disk::File;

/// The name and identity of an open file that keeps its name as long as its directory has this log.
#[derive(Clone)]
pub(crate) struct Named {
    name: String,
    identity: (u64, u64),
}

impl Named {
    /// Names an open file. The file must stay open while this value is used: after the close,
    /// another file can get the same identity.
    pub(crate) fn of(name: impl Into<String>, file: &dyn File) -> Result<Named> {
        Ok(Named {
            name: name.into(),
            identity: file.identity()?,
        })
    }

    /// Checks that the name still leads to that file.
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
