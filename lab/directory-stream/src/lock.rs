//! The lock of the appenders, which keeps out threads and processes.

use crate::file::failed;
use densite_disk::wait::Retry;
use densite_disk::{Dir, File, LockKind, OpenMode};
use densite_stream::{Error, Result};
use std::time::Duration;

/// How long an appender waits for another one, which can be a stopped process.
const PATIENCE: Duration = Duration::from_secs(10);

/// The name of the file.
const NAME: &str = "lock";

/// Opens the file of the lock.
pub(crate) fn open(dir: &dyn Dir) -> Result<Box<dyn File>> {
    dir.open(NAME, OpenMode::Create).map_err(failed)
}

/// Whether another file has its name: the directory was replaced, and other processes lock that
/// file.
pub(crate) fn is_replaced(file: &dyn File, dir: &dyn Dir) -> Result<bool> {
    match dir.identity(NAME).map_err(failed)? {
        Some(named) => Ok(named != file.identity().map_err(failed)?),
        // Without a stream there is nothing to lock.
        None => dir.exists(crate::file::NAME).map_err(failed),
    }
}

/// The held lock.
pub(crate) struct Locked<'a>(&'a dyn File);

impl<'a> Locked<'a> {
    pub(crate) fn take(file: &'a dyn File) -> Result<Locked<'a>> {
        let retry = Retry::within(PATIENCE);
        while !file.try_lock(LockKind::Exclusive).map_err(failed)? {
            if !retry.again() {
                return Err(Error::TryAgain(
                    "another process holds the file lock of the stream: continue or end it".into(),
                ));
            }
        }
        Ok(Locked(file))
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // A lock that cannot be released ends with its file.
        let _ = self.0.unlock();
    }
}
