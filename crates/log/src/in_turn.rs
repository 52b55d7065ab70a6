//! Waiting for a lock in the order in which the system grants it.
//!
//! Whoever tries again and again gets no turn beside a process that releases a lock and takes it at
//! once again. A call that waits gets one, but cannot be called off. So a thread makes the call, with
//! a handle of its own. A caller that waits no longer leaves it the handle: when the thread gets the
//! lock it releases it.

use crate::Result;
use crate::patience::{Patience, Waiting, lock};
use densite_disk::sync::{Condvar, Mutex};
use densite_disk::{File, LockKind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a caller is asked whether it waits on.
const ASK: Duration = Duration::from_millis(10);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The thread has made its call.
    done: Option<(Box<dyn File>, bool)>,
    is_abandoned: bool,
}

impl Shared {
    /// The thread.
    fn run(&self, file: Box<dyn File>, kind: LockKind) {
        let is_locked = file.lock(kind).is_ok();
        let mut state = self.state.lock();
        if !state.is_abandoned {
            state.done = Some((file, is_locked));
            self.changed.notify_all();
            return;
        }
        drop(state);
        // Closing the file would do, but for a child of this process that has it open, too.
        file.unlock().ok();
    }
}

/// Takes the lock of a file of this name, which this handle does not have; answers the handle.
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
                // No such waiting here.
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
