//! Waits for the lock of a database.

use crate::db::from_sqlite;
use crate::error::{Error, Result};
use crate::holders::holders;
use crate::progress::Progress;
use crate::target::Target;
use densite_sqlite::{Api, Code, HostFile, ffi};
use std::time::{Duration, Instant};

/// Takes the SHARED lock, and waits for it up to `wait`. Closing the file releases the lock.
pub(crate) fn shared(api: Api, file: &HostFile, target: &Target, wait: Duration) -> Result<()> {
    let deadline = Instant::now() + wait;
    loop {
        match file.lock(ffi::LOCK_SHARED) {
            Ok(()) => return Ok(()),
            Err(Code::BUSY) if Instant::now() < deadline => api.sleep_ms(10),
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
/// Between two attempts.
const AGAIN: Duration = Duration::from_millis(10);

/// Repeats `f`, which waits as long as it is told, while it returns [`Error::Locked`], up to `wait`
/// in all or until the caller cancels.
pub(crate) fn unless_cancelled<T>(
    target: &Target,
    wait: Duration,
    progress: &mut dyn Progress,
    mut f: impl FnMut(Duration) -> Result<T>,
) -> Result<T> {
    let deadline = Instant::now() + wait;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match f(left.min(HEARD)) {
            Err(Error::Locked { .. }) if progress.cancelled() => {
                return Err(Error::Interrupted {
                    path: target.given.clone(),
                });
            }
            // `f` can have given up at once.
            Err(Error::Locked { .. }) if Instant::now() < deadline => std::thread::sleep(AGAIN),
            done => return done,
        }
    }
}

/// Repeats `f` while it returns [`Error::Locked`], up to `wait`.
pub(crate) fn patiently<T>(
    api: Api,
    wait: Duration,
    pause_ms: i32,
    mut f: impl FnMut() -> Result<T>,
) -> Result<T> {
    let deadline = Instant::now() + wait;
    loop {
        match f() {
            Err(Error::Locked { .. }) if Instant::now() < deadline => api.sleep_ms(pause_ms),
            done => return done,
        }
    }
}
