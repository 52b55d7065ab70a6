//! Locks whose waiting threads stand nowhere but in the lock itself.
//!
//! A child of fork has copies of all locks, and none of the threads that waited for them. With the standard library's a lock is a word or two of its own, so a lock that the child makes is free and has
//! nobody waiting. `parking_lot`, which has all waiting threads of a process in one table, leaves the child with a table of threads that are not there, in which it hangs as soon as
//! one of its own waits: also where nothing but an idle thread of ours waited for work (rule 15).
//!
//! A panic while a lock is held leaves it as if there had been none: what must not be left half done is guarded by its owner.

use std::sync::{PoisonError, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::time::{Duration, Instant};

pub use std::sync::MutexGuard;

/// Between two looks at a lock that is waited for so long and no longer.
const STEP: Duration = Duration::from_millis(1);

/// One thread at a time.
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Free.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    /// What it guarded.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` while somebody has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(e)) => Some(e.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Waits for it no longer than so long.
    pub fn try_lock_for(&self, time: Duration) -> Option<MutexGuard<'_, T>> {
        let until = Instant::now() + time;
        loop {
            let guard = self.try_lock();
            if guard.is_some() || Instant::now() >= until {
                return guard;
            }
            std::thread::sleep(STEP);
        }
    }

    /// Nobody else can have it.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Many that read, or one that writes.
#[derive(Debug, Default)]
pub struct RwLock<T: ?Sized>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    /// Free.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(std::sync::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until nobody writes.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody else is there.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What threads wait for that have a [`Mutex`].
#[derive(Debug, Default)]
pub struct Condvar(std::sync::Condvar);

impl Condvar {
    /// Nobody waits.
    pub const fn new() -> Condvar {
        Condvar(std::sync::Condvar::new())
    }

    /// Waits to be notified; now and then it returns without.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// [`Condvar::wait`], no longer than so long.
    pub fn wait_for<'a, T>(&self, guard: MutexGuard<'a, T>, time: Duration) -> MutexGuard<'a, T> {
        let done = self.0.wait_timeout(guard, time);
        done.unwrap_or_else(PoisonError::into_inner).0
    }

    /// [`Condvar::wait`], no longer than until then.
    pub fn wait_until<'a, T>(&self, guard: MutexGuard<'a, T>, until: Instant) -> MutexGuard<'a, T> {
        self.wait_for(guard, until.saturating_duration_since(Instant::now()))
    }

    /// Wakes one of those who wait.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all who wait.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
