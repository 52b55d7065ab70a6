//! The log beside a database that is shipped.

use crate::error::{Error, Result};
use crate::paths::beside;
use densite_disk::RealDir;
use densite_log::{Hold, Log, LogDir, Options, id_in};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// See the module's documentation. The log can begin while the database is shipped.
pub(super) struct Beside {
    path: PathBuf,
    dir: LogDir,
}

impl Beside {
    /// The log of the database at `db`, a path without symbolic links. Finds its end, if no process
    /// has it open: after a power cut, its end word can be older than the rows that are applied.
    ///
    /// # Errors
    /// [`Error::Log`].
    pub(super) fn open(db: &Path) -> Result<Beside> {
        let path = beside(db, "-log");
        let dir: LogDir = Arc::new(RealDir::new(&path).like(db));
        let log = Beside { path, dir };
        let failed = |e| Error::from_log(&log.path, &e);
        if log.exists()
            && let Some(id) = id_in(log.dir.clone()).map_err(failed)?
        {
            let mut options = Options::new(id);
            options.background = false;
            Log::open(log.dir.clone(), options).map_err(failed)?;
        }
        Ok(log)
    }

    /// Holds the segments of the log, if there is one.
    ///
    /// # Errors
    /// [`densite_replica::Error::Source`].
    pub(super) fn hold(&self) -> densite_replica::Result<Option<Hold>> {
        match self.exists() {
            true => Ok(Hold::take(self.dir.clone())?),
            false => Ok(None),
        }
    }

    fn exists(&self) -> bool {
        self.dir.stamp().is_ok_and(|stamp| stamp.is_some())
    }
}
