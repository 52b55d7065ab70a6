//! State that belongs to this process and not to its parent.

use std::sync::atomic::{AtomicPtr, Ordering};

/// A static that starts empty in a forked child. There, a thread that does not exist can hold a
/// mutex, and the guarded data is about the parent's connections.
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
    /// An empty static; the value is made at its first use.
    pub const fn new() -> Self {
        PerProcess(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// This process's value.
    pub fn get(&'static self) -> &'static T {
        let process = std::process::id();
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            // SAFETY: null, or leaked by this function: never freed and never changed.
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
                    // SAFETY: just made; from now on never freed or changed. The parent's value, if
                    // there was one, is leaked.
                    return unsafe { &(*fresh).value };
                }
                Err(now) => {
                    // SAFETY: just made and not published, so no other thread has it.
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
