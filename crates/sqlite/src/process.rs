//! State that belongs to this process and not to its parent.

use std::sync::atomic::{AtomicPtr, Ordering};

/// A static that starts anew in the child after a fork: there, a mutex may be held by a
/// thread that does not exist, and what it guards is about the parent's connections.
pub struct PerProcess<T: 'static>(AtomicPtr<Owned<T>>);

struct Owned<T> {
    process: u32,
    value: T,
}

impl<T: Default + Send + Sync> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Default + Send + Sync> PerProcess<T> {
    /// Not there until it is first asked for.
    pub const fn new() -> Self {
        PerProcess(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// This process's value.
    pub fn get(&'static self) -> &'static T {
        let process = densite_disk::process::id();
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            // SAFETY: null, or leaked by this function: never freed, never changed.
            if let Some(owned) = unsafe { seen.as_ref() }
                && owned.process == process
            {
                return &owned.value;
            }
            let fresh = Box::into_raw(Box::new(Owned {
                process,
                value: T::default(),
            }));
            match self
                .0
                .compare_exchange(seen, fresh, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => {
                    // SAFETY: just made, and from now on never freed or changed. The
                    // parent's value, if there was one, is left as it is.
                    return unsafe { &(*fresh).value };
                }
                Err(now) => {
                    // SAFETY: just made, and nobody has seen it.
                    drop(unsafe { Box::from_raw(fresh) });
                    seen = now;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_value_within_a_process() {
        static COUNT: PerProcess<std::sync::atomic::AtomicU32> = PerProcess::new();
        COUNT.get().store(7, Ordering::Relaxed);
        let other = std::thread::spawn(|| COUNT.get().load(Ordering::Relaxed));
        assert_eq!(other.join().expect("no panic"), 7);
    }
}
