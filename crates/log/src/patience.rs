//! Waiting for locks that other processes hold.
//!
//! A lock of the log is held for a write and a sync. A process that is stopped, or whose disk hangs, holds it longer, so every wait is bounded and its caller is asked whether it goes on.
//! A call of the system that waits cannot be ended from outside; so a lock that is seldom held is asked for again and again, at first after microseconds, later after an eighth of the time waited. One that processes have in turns is waited for by a thread (`in_turn.rs`).

use crate::{Error, Result};
use densite_disk::{File, LockKind};
use std::time::{Duration, Instant};

/// What a caller says who has waited for so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// It waits on.
    GoesOn,
    /// It has waited long enough.
    IsOver,
    /// Whoever asked it to does not want it any more.
    IsInterrupted,
}

/// Asked with the time waited so far, often.
pub type Patience<'a> = &'a dyn Fn(Duration) -> Waiting;

/// How long those wait who say nothing else.
const USUAL: Duration = Duration::from_secs(10);
const STEP_MIN: Duration = Duration::from_micros(20);
const STEP_MAX: Duration = Duration::from_millis(10);

/// The patience of those who say nothing else: ten seconds.
pub fn usual(waited: Duration) -> Waiting {
    match waited < USUAL {
        true => Waiting::GoesOn,
        false => Waiting::IsOver,
    }
}

impl Waiting {
    /// What a wait for the lock of this file of the log ends with, if it is to end. `identity`: which file that is.
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

/// Tries until there is an answer, or the wait for the lock of this file ends.
pub(crate) fn wait_for<T>(
    file: &dyn File,
    name: &str,
    patience: Patience<'_>,
    attempt: impl Fn() -> Result<Option<T>>,
) -> Result<T> {
    let mut since = None;
    loop {
        if let Some(answer) = attempt()? {
            return Ok(answer);
        }
        let waited = since.get_or_insert_with(Instant::now).elapsed();
        match patience(waited) {
            Waiting::GoesOn => {}
            over => over.refusal(name, file.identity().ok())?,
        }
        std::thread::sleep((waited / 8).clamp(STEP_MIN, STEP_MAX));
    }
}
