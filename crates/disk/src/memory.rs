//! Memory in large pages, and memory that goes back to the system.
//!
//! Who looks at places far apart waits for the page table as often as for the memory itself; a page of 2 MiB has one entry where small ones have 512.

/// The system's large page, in bytes.
const LARGE: usize = 2 << 20;

/// What is smaller may lie in an allocator's heap, whose holes stay the process's: the greatest threshold of glibc's malloc, which rises to it by itself.
const APART: usize = 32 << 20;

/// Room for so many values in a piece of memory of its own, in large pages if it may be. Only what is written of it is resident, and all of it goes back to the system when it is
/// dropped. Growing or shrinking it may lose that. Where addresses are scarce it is any memory.
pub fn apart<T>(values: usize) -> Vec<T> {
    let mut memory = mapped(values);
    prefer_large_pages(&mut memory);
    memory
}

/// Room for so many values in a piece of memory of its own, in the system's usual pages. It is still one when it is shrunk to what was written, and then takes no more addresses than that
/// (where malloc is glibc's).
pub fn mapped<T>(values: usize) -> Vec<T> {
    let least = (APART + LARGE) / size_of::<T>().max(1);
    let mut memory = Vec::new();
    if memory.try_reserve_exact(values.max(least)).is_err() {
        memory.reserve_exact(values);
    }
    memory
}

/// Asks the system to put what will be written into this memory into large pages, as far as they lie wholly in it. To be asked before the first write: what is
/// there stays where it is. A wish: nothing but time and the rounding to pages depends on it, so errors are not told.
pub fn prefer_large_pages<T>(memory: &mut Vec<T>) {
    #[cfg(target_os = "linux")]
    {
        let bytes = memory.capacity().saturating_mul(size_of::<T>());
        let begin = memory.as_mut_ptr().cast::<u8>();
        let skipped = begin.align_offset(LARGE);
        let len = bytes.saturating_sub(skipped) / LARGE * LARGE;
        if len > 0 {
            let (from, how) = (
                begin.wrapping_add(skipped),
                rustix::mm::Advice::LinuxHugepage,
            );
            // SAFETY: `len` bytes from there on are this vector's. The advice changes no byte and no right of access.
            unsafe { rustix::mm::madvise(from.cast(), len, how) }.ok();
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = memory;
}
