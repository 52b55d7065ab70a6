//! Waiting for locks that other processes hold.
//!
//! A lock of the log is held for one write and one sync, but longer by a process that is stopped or
//! whose disk hangs. So every wait is bounded, and its caller is asked whether to keep waiting. A
//! blocking system call cannot be cancelled. So a rarely held lock is polled. For locks that processes
//! take in turns, a thread makes the blocking call (`blocking_lock.rs`).

use crate::{Error, Result};
use densite_disk::wait::{Deadline, Retry};
use densite_disk::{File, LockKind};
use std::time::Duration;

/// Whether a caller keeps waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// It keeps waiting.
    GoesOn,
    /// It has waited long enough.
    IsOver,
    /// The wait was interrupted.
    IsInterrupted,
}

/// Called often, with the time waited so far; decides whether to keep waiting.
pub type Patience<'a> = &'a dyn Fn(Duration) -> Waiting;

/// The default time limit.
const USUAL: Duration = Duration::from_secs(10);

/// The default: wait for ten seconds.
pub fn usual(waited: Duration) -> Waiting {
    match waited < USUAL {
        true => Waiting::GoesOn,
        false => Waiting::IsOver,
    }
}

impl Waiting {
    /// The error that ends a wait for the lock of this file, if the wait ends. `identity`
    /// identifies the file.
    pub(crate) fn refusal(self, name: &str, identity: Option<(u64, u64)>) -> Result<()> {
        match self {
            Waiting::GoesOn => Ok(()),
            Waiting::IsOver => Err(Error::Locked {
                file: name.to_owned(),
                holder: identity.and_then(densite_disk::lock_holder),
            }),
            Waiting::IsInterrupted => Err(Error::Interrupted),
        }
    }
}

/// Takes the lock of a file of this name.
///
/// # Errors
/// `Locked`, `Interrupted`; `Io`.
pub(crate) fn lock(
    file: &dyn File,
    name: &str,
    kind: LockKind,
    patience: Patience<'_>,
) -> Result<()> {
    wait_for(file, name, patience, || {
        Ok(file.try_lock(kind)?.then_some(()))
    })
}

/// Calls `attempt` until it gives an answer or the caller stops waiting for the lock of this file.
pub(crate) fn wait_for<T>(
    file: &dyn File,
    name: &str,
    patience: Patience<'_>,
    mut attempt: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let mut retry = None;
    loop {
        if let Some(answer) = attempt()? {
            return Ok(answer);
        }
        let retry = retry.get_or_insert_with(|| Retry::until(Deadline::NEVER));
        match patience(retry.waited()) {
            Waiting::GoesOn => {}
            over => over.refusal(name, file.identity().ok())?,
        }
        retry.again();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use densite_disk::wait::skip_pauses;
    use densite_disk::{Dir, OpenMode, RealDir};
    use std::time::Instant;

    #[test]
    fn the_wait_for_a_lock_that_stays_held_ends_after_ten_seconds() {
        let place = tempfile::tempdir().expect("a directory");
        let dir = RealDir::new(place.path());
        let open = || dir.open("lock", OpenMode::Create).expect("a file");
        let (held, other) = (open(), open());
        assert!(held.try_lock(LockKind::Exclusive).expect("locks"));
        let _skipped = skip_pauses();
        let begun = Instant::now();
        let refused = lock(other.as_ref(), "lock", LockKind::Exclusive, &usual);
        assert!(matches!(refused, Err(Error::Locked { .. })), "{refused:?}");
        assert!(begun.elapsed() < USUAL, "the pauses took no time");
        held.unlock().expect("unlocks");
        lock(other.as_ref(), "lock", LockKind::Exclusive, &usual).expect("it is free");
    }
}
