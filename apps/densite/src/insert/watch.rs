//! Calls the caller's function while an insert reads its rows, and stops the insert for it.
//!
//! The function runs inside SQLite, which a panic must not pass through. So a panic stops the
//! statement, and continues after the rows are undone.

use crate::set::Registered;
use crate::{Error, Result};
use std::any::Any;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Why the caller's function ended the insert.
enum Stop {
    Asked,
    Panicked(Box<dyn Any + Send>),
}

/// Watches an insert.
pub(super) struct Watch(Arc<Mutex<Option<Stop>>>);

impl Watch {
    /// Has `progress` called with the number of rows read so far and the number of all rows.
    pub(super) fn begin<P>(columns: &Registered, mut progress: P) -> Result<Watch>
    where
        P: FnMut(u64, u64) -> ControlFlow<()> + Send + 'static,
    {
        let all = columns.ask(densite_bulk::Set::rows)? as u64;
        let stopped = Arc::new(Mutex::new(None));
        let stop = Arc::clone(&stopped);
        let call = move |done| catch_unwind(AssertUnwindSafe(|| progress(done, all)));
        let call = Mutex::new(call);
        columns.watch(Box::new(move |done| {
            let answer = (locked(&call))(done);
            let ended = match answer {
                Ok(ControlFlow::Continue(())) => return true,
                Ok(ControlFlow::Break(())) => Stop::Asked,
                Err(panic) => Stop::Panicked(panic),
            };
            *locked(&stop) = Some(ended);
            false
        }))?;
        Ok(Watch(stopped))
    }

    /// The result of the insert, which has ended.
    pub(super) fn end(self, result: Result<u64>) -> Result<u64> {
        match locked(&self.0).take() {
            None => result,
            Some(Stop::Asked) => Err(Error::Stopped),
            Some(Stop::Panicked(panic)) => resume_unwind(panic),
        }
    }
}

/// No code panics while it holds one of these locks.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
