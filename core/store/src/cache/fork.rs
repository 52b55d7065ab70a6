//! Locks that a child of fork does not wait for.
//!
//! A thread that decodes ahead, or that watches the memory, can hold a lock while another thread
//! forks. It does not exist in the child, where the lock stays locked for ever (rule S15). What is
//! under it can be half changed.

use std::process;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// The process that made the locks.
pub(super) struct Owner(u32);

impl Owner {
    /// This process.
    pub(super) fn new() -> Owner {
        Owner(process::id())
    }

    /// Takes a lock. `None` in another process if it is locked. Ignoring poison is safe: only code
    /// of the cache runs under its locks, and a panic cannot leave broken data behind.
    pub(super) fn lock<'a, T>(&self, of: &'a Mutex<T>) -> Option<MutexGuard<'a, T>> {
        match of.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if self.0 != process::id() => None,
            Err(TryLockError::WouldBlock) => {
                Some(of.lock().unwrap_or_else(PoisonError::into_inner))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_does_not_wait_for_a_lock_that_its_parent_held() {
        let (free, held) = (Mutex::new(1), Mutex::new(2));
        let guard = held.lock().expect("free");
        let parents = Owner(1);
        assert!(parents.lock(&held).is_none());
        assert_eq!(parents.lock(&free).as_deref(), Some(&1));
        drop(guard);
        assert_eq!(Owner::new().lock(&held).as_deref(), Some(&2));
    }
}
