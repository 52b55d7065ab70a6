//! The number of this process, for who asks often.

#[cfg(target_os = "linux")]
mod kept {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
    use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

    /// The number, in a page that the system gives to a child empty, by whatever call the child is made; `None` if there is no such page.
    static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());
    /// Where `PAGE` points to when the system has none.
    static ABSENT: AtomicU32 = AtomicU32::new(0);
    const LEN: usize = size_of::<AtomicU32>();

    /// A page of zeros that no child inherits.
    fn made() -> *mut AtomicU32 {
        let absent = std::ptr::from_ref(&ABSENT).cast_mut();
        // SAFETY: new memory at a place that the system chooses.
        let page = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                LEN,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        };
        let Ok(page) = page else { return absent };
        // SAFETY: the memory that was just made, and that nobody else knows; the same for its end.
        match unsafe { madvise(page, LEN, Advice::LinuxWipeOnFork) } {
            Ok(()) => page.cast(),
            Err(_) => {
                // SAFETY: as above.
                unsafe { munmap(page, LEN) }.ok();
                absent
            }
        }
    }

    pub(super) fn number() -> u32 {
        let mut page = PAGE.load(Ordering::Acquire);
        if page.is_null() {
            let fresh = made();
            // Another thread may have been first; its page is as good, and this one is left as it is.
            page = match PAGE.compare_exchange(
                std::ptr::null_mut(),
                fresh,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => fresh,
                Err(theirs) => theirs,
            };
        }
        if std::ptr::eq(page, &raw const ABSENT) {
            return std::process::id();
        }
        // SAFETY: memory that is never given back, zeros or what is stored below: an atomic number in both cases.
        let kept = unsafe { &*page };
        match kept.load(Ordering::Relaxed) {
            0 => {
                let number = std::process::id();
                kept.store(number, Ordering::Relaxed);
                number
            }
            number => number,
        }
    }
}

/// As [`std::process::id`], which is a call of the system each time. This asks once in each process, a child after a fork included.
///
/// A child that shares its parent's memory (`vfork`, `CLONE_VM`) gets its parent's number; all it may do is execute another program.
pub fn id() -> u32 {
    #[cfg(target_os = "linux")]
    return kept::number();
    #[cfg(not(target_os = "linux"))]
    return std::process::id();
}
