//! The lock of the appenders, which keeps out threads and processes.

use super::file::failed;
use crate::{Error, Result};
use densite_disk::{File, LockKind};
use std::time::{Duration, Instant};

/// How long an appender waits for another one, which can be a stopped process.
const PATIENCE: Duration = Duration::from_secs(10);

/// The held lock.
pub(super) struct Locked<'a>(&'a dyn File);

impl<'a> Locked<'a> {
    pub(super) fn take(file: &'a dyn File) -> Result<Locked<'a>> {
        let until = Instant::now() + PATIENCE;
        while !file.try_lock(LockKind::Exclusive).map_err(failed)? {
            if Instant::now() >= until {
                return Err(Error::TryAgain(
                    "another process holds the file lock of the stream: continue or end it".into(),
                ));
            }
            std::thread::sleep(Duration::from_micros(200));
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
