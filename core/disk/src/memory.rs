//! Memory in large pages, and memory that goes back to the system when it is freed.
//!
//! A program that reads scattered addresses waits for the page table as often as for the memory
//! itself. A page of 2 MiB has one entry where small pages have 512.

#[cfg(target_os = "linux")]
use rustix::mm::{self, Advice, MapFlags, ProtFlags};
#[cfg(target_os = "linux")]
use std::ptr::{self, NonNull};

/// The size of a large page of the system, in bytes.
pub const LARGE: usize = 2 << 20;

/// The largest usual size of the system's pages, in bytes, where they are not large.
#[cfg(target_os = "linux")]
const SYSTEM_PAGE: usize = 64 << 10;

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
            let (from, how) = (begin.wrapping_add(skipped), Advice::LinuxHugepage);
            // SAFETY: the `len` bytes from there belong to this vector. The advice changes no byte
            // and no access right.
            unsafe { mm::madvise(from.cast(), len, how) }.ok();
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = memory;
}

/// Bytes, zero at first, in a mapping of their own, to be used in [pieces](Mapping::pieces). All of
/// it goes back to the system when it is dropped. The system provides the memory at once, not at the
/// first write to each of its pages. A multiple of [`LARGE`] is in large pages where possible.
pub struct Mapping {
    #[cfg(target_os = "linux")]
    begin: NonNull<u8>,
    #[cfg(target_os = "linux")]
    len: usize,
    #[cfg(not(target_os = "linux"))]
    bytes: Box<[u8]>,
}

#[cfg(not(target_os = "linux"))]
impl Mapping {
    /// `len` bytes. `None` if the system has no address for them.
    pub fn new(len: usize) -> Option<Mapping> {
        Some(Mapping {
            bytes: vec![0; len].into_boxed_slice(),
        })
    }
}

#[cfg(target_os = "linux")]
impl Mapping {
    /// `len` bytes. `None` if `len` is 0, or if the system has no address for them.
    pub fn new(len: usize) -> Option<Mapping> {
        let large = len.is_multiple_of(LARGE);
        // Room to begin at a multiple of a large page.
        let whole = len.checked_add(if large { LARGE } else { 0 })?;
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: the system chooses the address, so nothing that exists is replaced.
        let begin = unsafe { mm::mmap_anonymous(ptr::null_mut(), whole, access, flags) };
        let begin = NonNull::new(begin.ok()?.cast::<u8>())?;
        let mapping = Mapping { begin, len: whole };
        let mapping = if large {
            mapping.cut(begin.align_offset(LARGE), len)
        } else {
            mapping
        };
        let how = if large {
            Advice::LinuxHugepage
        } else {
            Advice::LinuxPopulateWrite
        };
        // It is only a hint that affects speed, so errors are ignored.
        // SAFETY: these bytes belong to the mapping. The advice changes no byte and no access right.
        unsafe { mm::madvise(mapping.begin.as_ptr().cast(), mapping.len, how) }.ok();
        Some(mapping)
    }

    /// The part of `len` bytes from `skip` on. The rest goes back to the system.
    fn cut(self, skip: usize, len: usize) -> Mapping {
        let (begin, end) = (self.begin, self.len);
        std::mem::forget(self);
        for (from, to) in [(0, skip), (skip + len, end)] {
            if from < to {
                drop(Mapping {
                    // SAFETY: `from` is within the mapping, whose address is not null.
                    begin: unsafe { begin.add(from) },
                    len: to - from,
                });
            }
        }
        Mapping {
            // SAFETY: as above.
            begin: unsafe { begin.add(skip) },
            len,
        }
    }
}

#[cfg(target_os = "linux")]
impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: these bytes belong to this value alone, and no reference to them is left.
        unsafe { mm::munmap(self.begin.as_ptr().cast(), self.len) }.ok();
    }
}

// SAFETY: the mapping belongs to this value alone, as the heap memory of a boxed slice.
#[cfg(target_os = "linux")]
unsafe impl Send for Mapping {}

// SAFETY: a shared reference to a mapping gives no access to its bytes. Each piece has its own.
#[cfg(target_os = "linux")]
unsafe impl Sync for Mapping {}

/// A part of a [`Mapping`] with an owner of its own. Its memory goes back to the system when it is
/// dropped, the addresses when the last part of the mapping is.
pub struct Piece {
    #[cfg(target_os = "linux")]
    mapping: std::sync::Arc<Mapping>,
    #[cfg(target_os = "linux")]
    from: usize,
    #[cfg(target_os = "linux")]
    len: usize,
    #[cfg(not(target_os = "linux"))]
    bytes: Box<[u8]>,
}

impl Mapping {
    /// Divides the mapping into pieces of `len` bytes, the last one of the rest.
    #[cfg(target_os = "linux")]
    pub fn pieces(self, len: usize) -> Vec<Piece> {
        let mapping = std::sync::Arc::new(self);
        let from = (0..mapping.len).step_by(len.max(1));
        let piece = |from| Piece {
            from,
            len: len.min(mapping.len - from),
            mapping: std::sync::Arc::clone(&mapping),
        };
        from.map(piece).collect()
    }

    /// Divides the mapping into pieces of `len` bytes, the last one of the rest.
    #[cfg(not(target_os = "linux"))]
    pub fn pieces(self, len: usize) -> Vec<Piece> {
        let pieces = self.bytes.chunks(len.max(1));
        pieces
            .map(|bytes| Piece {
                bytes: bytes.into(),
            })
            .collect()
    }
}

#[cfg(target_os = "linux")]
impl Piece {
    fn begin(&self) -> *mut u8 {
        // SAFETY: `from` is within the mapping.
        unsafe { self.mapping.begin.add(self.from) }.as_ptr()
    }
}

#[cfg(target_os = "linux")]
impl Drop for Piece {
    fn drop(&mut self) {
        // The system rounds up to its pages, and must not take memory of the next piece.
        if self.from.is_multiple_of(SYSTEM_PAGE) && self.len.is_multiple_of(SYSTEM_PAGE) {
            // SAFETY: these bytes belong to this piece alone, and no reference to them is left.
            unsafe { mm::madvise(self.begin().cast(), self.len, Advice::LinuxDontNeed) }.ok();
        }
    }
}

impl std::ops::Deref for Piece {
    type Target = [u8];

    #[cfg(target_os = "linux")]
    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping has these bytes, which are initialised with zeros. Only its pieces
        // refer to it, and no two of them have a byte in common.
        unsafe { std::slice::from_raw_parts(self.begin(), self.len) }
    }

    #[cfg(not(target_os = "linux"))]
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl std::ops::DerefMut for Piece {
    #[cfg(target_os = "linux")]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and the exclusive reference excludes all others.
        unsafe { std::slice::from_raw_parts_mut(self.begin(), self.len) }
    }

    #[cfg(not(target_os = "linux"))]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}
