//! Memory in large pages.
//!
//! Who looks at places far apart waits for the page table as often as for the memory itself; a page of 2 MiB has one entry where small ones have 512.

/// The system's large page, in bytes.
#[cfg(target_os = "linux")]
const LARGE: usize = 2 << 20;

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
