//! The registered sets of columns, by number.

use crate::set::Set;
use crate::{Error, Result};
use densite_disk::sync::Mutex;
use densite_sqlite::PerProcess;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

static NEXT: AtomicI64 = AtomicI64::new(1);
/// Empty in a forked child: the parent's memory can be in the middle of a change.
static SETS: PerProcess<Mutex<BTreeMap<i64, Arc<Set>>>> = PerProcess::new();

/// Registers a set and returns its number.
pub fn add(set: Set) -> i64 {
    let handle = NEXT.fetch_add(1, Ordering::Relaxed);
    SETS.get().lock().insert(handle, Arc::new(set));
    handle
}

/// The set with a number.
///
/// # Errors
/// [`Error::Misuse`] if there is no such set.
pub fn get(handle: i64) -> Result<Arc<Set>> {
    SETS.get()
        .lock()
        .get(&handle)
        .cloned()
        .ok_or_else(|| unknown(handle))
}

/// Changes a set that no statement is reading.
///
/// # Errors
/// [`Error::Misuse`] if there is no such set, [`Error::Busy`] while a statement reads it; those of
/// `change`.
pub fn change<T>(handle: i64, change: impl FnOnce(&mut Set) -> Result<T>) -> Result<T> {
    /// Puts the set back, also after a panic: the caller that made it still has to release it.
    struct Taken(i64, Option<Arc<Set>>);
    impl Drop for Taken {
        fn drop(&mut self) {
            SETS.get()
                .lock()
                .extend(self.1.take().map(|set| (self.0, set)));
        }
    }
    // Meanwhile the set is not in the map: a change can take long, and can call the producer of a
    // stream.
    let mut taken = Taken(handle, Some(take(handle)?));
    match taken.1.as_mut().and_then(Arc::get_mut) {
        Some(set) => change(set),
        None => Err(busy()),
    }
}

/// Releases a set.
///
/// # Errors
/// [`Error::Misuse`] if there is no such set, [`Error::Busy`] while a statement reads it: then it
/// stays.
pub fn release(handle: i64) -> Result<()> {
    let set = take(handle)?;
    match Arc::try_unwrap(set) {
        Ok(set) => {
            drop(set);
            Ok(())
        }
        Err(set) => {
            SETS.get().lock().insert(handle, set);
            Err(busy())
        }
    }
}

fn take(handle: i64) -> Result<Arc<Set>> {
    SETS.get()
        .lock()
        .remove(&handle)
        .ok_or_else(|| unknown(handle))
}

fn unknown(handle: i64) -> Error {
    Error::Misuse(format!(
        "there are no columns with the handle {handle} in this process; they were released, or registered by its parent before a fork"
    ))
}

fn busy() -> Error {
    Error::Busy("the columns are read by a statement; finish or reset it first".into())
}
