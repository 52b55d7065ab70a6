//! Values by the address of a connection, without a lock.
//!
//! A callback for each changed row looks its connection up, and a lock held by another thread would
//! stay locked in a forked child (rule S15). There are as many slots as connections had a value at
//! the same time. SQLite has one writer for each database, so these are few.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// One slot. Slots are never freed, but used again.
struct Slot<T> {
    /// 0 while the slot is free.
    connection: AtomicUsize,
    value: AtomicPtr<T>,
    next: *mut Slot<T>,
}

/// See the module.
pub(super) struct Slots<T>(AtomicPtr<Slot<T>>);

impl<T: Send + Sync> Slots<T> {
    pub(super) const fn new() -> Slots<T> {
        Slots(AtomicPtr::new(null_mut()))
    }

    fn all(&self) -> impl Iterator<Item = &Slot<T>> {
        let mut next = self.0.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            // SAFETY: null, or a slot that was leaked by `set` and does not move.
            let slot = unsafe { next.as_ref() }?;
            next = slot.next;
            Some(slot)
        })
    }

    fn find(&self, connection: usize) -> Option<&Slot<T>> {
        self.all()
            .find(|slot| slot.connection.load(Ordering::Acquire) == connection)
    }

    /// Sets the connection's value, and drops the one before.
    pub(super) fn set(&self, connection: usize, value: T) {
        self.take(connection);
        let value = Box::into_raw(Box::new(value));
        let take = |slot: &&Slot<T>| {
            let (free, taken) = (Ordering::Relaxed, Ordering::AcqRel);
            slot.connection
                .compare_exchange(0, connection, taken, free)
                .is_ok()
        };
        if let Some(slot) = self.all().find(take) {
            slot.value.store(value, Ordering::Release);
            return;
        }
        let slot = Box::into_raw(Box::new(Slot {
            connection: AtomicUsize::new(connection),
            value: AtomicPtr::new(value),
            next: self.0.load(Ordering::Acquire),
        }));
        loop {
            // SAFETY: the slot is not shared before it is in the list.
            let next = unsafe { (*slot).next };
            match (self.0).compare_exchange(next, slot, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                // SAFETY: as above.
                Err(other) => unsafe { (*slot).next = other },
            }
        }
    }

    /// The connection's value.
    ///
    /// # Safety
    /// No other thread sets or takes this connection's value while the reference lives.
    pub(super) unsafe fn get(&self, connection: usize) -> Option<&T> {
        let value = self.find(connection)?.value.load(Ordering::Acquire);
        // SAFETY: null, or a box of `set` that `take` has not freed, by the caller's guarantee.
        unsafe { value.as_ref() }
    }

    /// Takes the connection's value.
    pub(super) fn take(&self, connection: usize) -> Option<Box<T>> {
        let slot = self.find(connection)?;
        let value = slot.value.swap(null_mut(), Ordering::AcqRel);
        slot.connection.store(0, Ordering::Release);
        // SAFETY: a box of `set`, which the swap takes out once.
        (!value.is_null()).then(|| unsafe { Box::from_raw(value) })
    }
}

// SAFETY: slots are reached through atomics, and values are shared between threads as `T` allows.
unsafe impl<T: Send + Sync> Sync for Slots<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_used_again() {
        let slots = Slots::new();
        for round in 0..10 {
            for connection in 1..4 {
                slots.set(connection, round * 10 + connection);
            }
            for connection in 1..4 {
                // SAFETY: one thread.
                let value = unsafe { slots.get(connection) };
                assert_eq!(value, Some(&(round * 10 + connection)));
            }
            assert_eq!(slots.take(2).map(|v| *v), Some(round * 10 + 2));
            assert_eq!(slots.take(2), None);
            slots.set(3, 7);
            assert_eq!(slots.take(3).map(|v| *v), Some(7));
        }
        assert_eq!(slots.all().count(), 3);
    }

    #[test]
    fn threads_do_not_see_each_other() {
        static SLOTS: Slots<usize> = Slots::new();
        let threads = (1..9).map(|connection| {
            std::thread::spawn(move || {
                for n in 0..10_000 {
                    SLOTS.set(connection, n);
                    // SAFETY: this thread alone uses the connection.
                    assert_eq!(unsafe { SLOTS.get(connection) }, Some(&n));
                    assert_eq!(SLOTS.take(connection).map(|v| *v), Some(n));
                }
            })
        });
        for thread in threads.collect::<Vec<_>>() {
            thread.join().expect("it does not panic");
        }
    }
}
