//! Memory in large pages.
//!
//! Who looks at places far apart waits for the page table as often as for the memory itself; a page of 2 MiB has one entry where small ones have 512.

use std::ptr::NonNull;

/// The system's large page, in bytes.
const LARGE: usize = 2 << 20;

/// Memory of one large page. It is the system's until it is written to, and goes back to it at the end, whatever an allocator would keep.
#[derive(Debug)]
pub struct LargePage(NonNull<u8>);

// SAFETY: memory that nobody else has; whoever writes to it sees to it that nobody else does.
unsafe impl Send for LargePage {}
// SAFETY: as above: it hands out an address and touches nothing.
unsafe impl Sync for LargePage {}

impl LargePage {
    /// How many bytes there are; they begin at a multiple of that.
    pub const BYTES: usize = LARGE;

    /// A page of zeros; `None` where the system has none to give. That it is one large page rather than many small ones is a wish.
    #[cfg(target_os = "linux")]
    pub fn new() -> Option<LargePage> {
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
        // Twice as much has one that is aligned in it; the rest goes back at once.
        // SAFETY: new memory, of which what is given back was never handed out; the advice changes no byte.
        unsafe {
            let rights = ProtFlags::READ | ProtFlags::WRITE;
            let all = mmap_anonymous(std::ptr::null_mut(), 2 * LARGE, rights, MapFlags::PRIVATE);
            let all = all.ok()?.cast::<u8>();
            let before = all.align_offset(LARGE).min(LARGE);
            let page = all.add(before);
            if before > 0 {
                munmap(all.cast(), before).ok();
            }
            munmap(page.add(LARGE).cast(), LARGE - before).ok();
            madvise(page.cast(), LARGE, Advice::LinuxHugepage).ok();
            NonNull::new(page).map(LargePage)
        }
    }

    /// A page of zeros: none on this system.
    #[cfg(not(target_os = "linux"))]
    pub fn new() -> Option<LargePage> {
        None
    }

    /// Where it begins.
    pub fn start(&self) -> NonNull<u8> {
        self.0
    }
}

impl Drop for LargePage {
    fn drop(&mut self) {
        #[cfg(target_os = "linux")]
        // SAFETY: mapped by `new`, and given back once; who has an address in it has a share of this.
        unsafe {
            rustix::mm::munmap(self.0.as_ptr().cast(), LARGE).ok();
        }
    }
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
