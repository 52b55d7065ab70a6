//! Memory in large pages, and memory that goes back to the system when it is freed.
//!
//! A program that reads scattered addresses waits for the page table as often as for the memory
//! itself. A page of 2 MiB has one entry where small pages have 512.

/// The size of a large page of the system, in bytes.
const LARGE: usize = 2 << 20;

/// Smaller allocations can lie in an allocator's heap, and holes in a heap stay with the process.
/// This is the greatest mmap threshold of glibc's malloc, which raises its threshold up to this by
/// itself.
const APART: usize = 32 << 20;

/// Memory for this many values, in a mapping of its own and in large pages where possible. Only
/// written memory is resident, and all of it goes back to the system when it is dropped. Growing or
/// shrinking it can lose that. If address space is scarce, it is ordinary memory.
pub fn apart<T>(values: usize) -> Vec<T> {
    let mut memory = mapped(values);
    prefer_large_pages(&mut memory);
    memory
}

/// Memory for this many values, in a mapping of its own with the system's usual page size. With
/// glibc's malloc, shrinking it to the written part keeps it a mapping of its own and frees the
/// other addresses.
pub fn mapped<T>(values: usize) -> Vec<T> {
    let least = (APART + LARGE) / size_of::<T>().max(1);
    let mut memory = Vec::new();
    if memory.try_reserve_exact(values.max(least)).is_err() {
        memory.reserve_exact(values);
    }
    memory
}

/// Asks the system to use large pages for the whole large pages within this memory. Call it before
/// the first write: memory that is already written stays where it is. It is only a hint that
/// affects speed and rounding to pages, so errors are ignored.
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
            // SAFETY: the `len` bytes from there belong to this vector. The advice changes no byte
            // and no access right.
            unsafe { rustix::mm::madvise(from.cast(), len, how) }.ok();
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = memory;
}
