//! The number of this process, cached for callers that need it often.

#[cfg(target_os = "linux")]
mod kept {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
    use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

    /// The number, in a page that the system clears in every child, whichever call makes the child.
    /// Null until it is first needed.
    static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());
    /// `PAGE` points to this if the system has no such pages.
    static ABSENT: AtomicU32 = AtomicU32::new(0);
    const LEN: usize = size_of::<AtomicU32>();

    /// A page of zeros that the system clears in each child.
    fn made() -> *mut AtomicU32 {
        let absent = std::ptr::from_ref(&ABSENT).cast_mut();
        // SAFETY: new memory at an address that the system chooses.
        let page = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                LEN,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        };
        let Ok(page) = page else { return absent };
        // SAFETY: the memory was just mapped and no other thread has it.
        match unsafe { madvise(page, LEN, Advice::LinuxWipeOnFork) } {
            Ok(()) => page.cast(),
            Err(_) => {
                // SAFETY: as above; nothing uses it afterwards.
                unsafe { munmap(page, LEN) }.ok();
                absent
            }
        }
    }

    pub(super) fn number() -> u32 {
        let mut page = PAGE.load(Ordering::Acquire);
        if page.is_null() {
            let fresh = made();
            // Another thread may have been first. Its page is equally good; this one is leaked.
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
        // SAFETY: the page is never unmapped. It holds zeros or the number stored below, and both
        // are valid for an atomic number.
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

/// The same as [`std::process::id`], which makes a system call each time. This makes one system
/// call per process; a forked child makes its own.
///
/// A child that shares its parent's memory (`vfork`, `CLONE_VM`) gets its parent's number. Such a
/// child may only execute another program.
pub fn id() -> u32 {
    #[cfg(target_os = "linux")]
    return kept::number();
    #[cfg(not(target_os = "linux"))]
    return std::process::id();
}
