//! Waits for the lock of a database.

use crate::db::from_sqlite;
use crate::error::{Error, Result};
use crate::holders::holders;
use crate::progress::Progress;
use crate::target::Target;
use densite_disk::wait::{Deadline, Retry};
use densite_sqlite::{Code, HostFile, ffi};
use std::time::Duration;

/// Takes the SHARED lock, and waits for it up to `wait`. Closing the file releases the lock.
pub(crate) fn shared(file: &HostFile, target: &Target, wait: Duration) -> Result<()> {
    let retry = Retry::within(wait);
    loop {
        match file.lock(ffi::LOCK_SHARED) {
            Ok(()) => return Ok(()),
            Err(Code::BUSY) if retry.again() => {}
            Err(Code::BUSY) => {
                return Err(Error::Locked {
                    path: target.given.clone(),
                    by: holders(&target.path),
                });
            }
            Err(code) => return Err(from_sqlite(&target.given, code.into())),
        }
    }
}

/// How long a wait goes on after the caller has cancelled it.
const HEARD: Duration = Duration::from_secs(1);

/// Repeats `f`, which waits as long as it is told, while it returns [`Error::Locked`], up to `wait`
/// in all or until the caller cancels.
pub(crate) fn unless_cancelled<T>(
    target: &Target,
    wait: Duration,
    progress: &mut dyn Progress,
    mut f: impl FnMut(Duration) -> Result<T>,
) -> Result<T> {
    let deadline = Deadline::after(wait);
    let retry = Retry::until(deadline);
    loop {
        match f(deadline.left().min(HEARD)) {
            Err(Error::Locked { .. }) if progress.cancelled() => {
                return Err(Error::Interrupted {
                    path: target.given.clone(),
                });
            }
            // `f` can have given up at once.
            Err(Error::Locked { .. }) if retry.again() => {}
            done => return done,
        }
    }
}

/// Repeats `f` while it returns [`Error::Locked`], up to `wait`.
pub(crate) fn patiently<T>(retry: Retry, mut f: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match f() {
            Err(Error::Locked { .. }) if retry.again() => {}
            done => return done,
        }
    }
}
