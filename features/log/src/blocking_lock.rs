//! Waiting for a lock in the order in which the system grants it.
//!
//! A process that polls gets no turn beside a process that releases the lock and takes it again at
//! once. A blocking call gets a turn, but cannot be cancelled. So a thread makes the blocking call
//! with its own handle. A caller that stops waiting abandons the thread, which releases the lock as
//! soon as it gets it.

use crate::Result;
use crate::patience::{Patience, Waiting, lock};
use densite_disk::sync::{Condvar, Mutex};
use densite_disk::{File, LockKind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the caller is asked whether to keep waiting.
const ASK: Duration = Duration::from_millis(10);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The result of the call: the file, and whether it is locked.
    done: Option<(Box<dyn File>, bool)>,
    is_abandoned: bool,
}

impl Shared {
    /// Body of the thread.
    fn run(&self, file: Box<dyn File>, kind: LockKind) {
        let is_locked = file.lock(kind).is_ok();
        let mut state = self.state.lock();
        if !state.is_abandoned {
            state.done = Some((file, is_locked));
            self.changed.notify_all();
            return;
        }
        drop(state);
        // Closing the file is not enough: a forked child can have it open too.
        file.unlock().ok();
    }
}

/// Takes the lock of a file that this handle has not locked. Returns the locked handle.
///
/// # Errors
/// `Locked`, `Interrupted`; `Io`.
pub(crate) fn lock_in_turn(
    file: Box<dyn File>,
    name: &str,
    kind: LockKind,
    patience: Patience<'_>,
) -> Result<Box<dyn File>> {
    if file.try_lock(kind)? {
        return Ok(file);
    }
    let (since, identity) = (Instant::now(), file.identity().ok());
    patience(Duration::ZERO).refusal(name, identity)?;
    let shared = Arc::new(Shared::default());
    let waiting = Arc::new(Mutex::new(Some(file)));
    let thread = {
        let (shared, waiting) = (shared.clone(), waiting.clone());
        let run = move || {
            let file = waiting.lock().take();
            if let Some(file) = file {
                shared.run(file, kind);
            }
        };
        std::thread::Builder::new()
            .name("densite-lock".into())
            .spawn(run)
    };
    if thread.is_err()
        && let Some(file) = waiting.lock().take()
    {
        lock(file.as_ref(), name, kind, patience)?;
        return Ok(file);
    }
    let mut state = shared.state.lock();
    loop {
        if let Some((file, is_locked)) = state.done.take() {
            drop(state);
            if !is_locked {
                // This file system does not support blocking locks.
                lock(file.as_ref(), name, kind, patience)?;
            }
            return Ok(file);
        }
        match patience(since.elapsed()) {
            Waiting::GoesOn => state = shared.changed.wait_for(state, ASK),
            over => {
                state.is_abandoned = true;
                over.refusal(name, identity)?;
            }
        }
    }
}
