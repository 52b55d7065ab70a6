//! Slices of memory that others own.
//!
//! A [`Slice`] works like `&[T]` and keeps the owner of its memory alive. All `unsafe` code for
//! reading columns is here: the caller that makes a slice guarantees pointer, length and lifetime.
//! Everything after that is checked.

use std::any::Any;
use std::ops::Deref;
use std::sync::Arc;

/// Keeps memory alive while slices of it exist: an Arrow array, a vector, or a promise of the
/// caller.
pub type Owner = Arc<dyn Any + Send + Sync>;

/// Types that can be read from any bytes.
///
/// # Safety
/// Every bit pattern is a valid value, and there is no padding.
pub unsafe trait Plain: Copy + Send + Sync + 'static {}
macro_rules! plain { ($($t:ty)*) => { $(
    // SAFETY: a primitive number.
    unsafe impl Plain for $t {}
)* }; }
plain!(u8 i8 u16 i16 u32 i32 u64 i64 f32 f64);
// SAFETY: an array of bytes.
unsafe impl<const N: usize> Plain for [u8; N] {}

/// Values in memory that its owner keeps alive.
pub struct Slice<T> {
    ptr: *const T,
    len: usize,
    _owner: Owner,
}

// SAFETY: the memory does not change while the owner is alive, and the owner can move to any
// thread.
unsafe impl<T: Plain> Send for Slice<T> {}
// SAFETY: as above.
unsafe impl<T: Plain> Sync for Slice<T> {}

impl<T: Plain> Slice<T> {
    /// `len` values from `ptr` on, at any address. Null is an empty slice.
    ///
    /// # Safety
    /// The memory is valid and does not change while `owner` is alive.
    pub unsafe fn new(ptr: *const T, len: usize, owner: &Owner) -> Slice<T> {
        if ptr.is_null() || len == 0 {
            return Slice::from(Vec::new());
        }
        if ptr.is_aligned() {
            return Slice {
                ptr,
                len,
                _owner: Arc::clone(owner),
            };
        }
        // SAFETY: within the memory that the caller guarantees.
        Slice::from(
            (0..len)
                .map(|i| unsafe { ptr.add(i).read_unaligned() })
                .collect::<Vec<T>>(),
        )
    }

    /// A copy of `len` values, each `stride` bytes after the previous one.
    ///
    /// # Safety
    /// The memory can be read during the call.
    pub unsafe fn gather(ptr: *const T, len: usize, stride: isize) -> Slice<T> {
        let at = |i: usize| {
            let bytes = isize::try_from(i)
                .unwrap_or(isize::MAX)
                .wrapping_mul(stride);
            // SAFETY: within the memory that the caller guarantees.
            unsafe { ptr.byte_offset(bytes).read_unaligned() }
        };
        Slice::from((0..len).map(at).collect::<Vec<T>>())
    }
}

impl<T> Clone for Slice<T> {
    fn clone(&self) -> Slice<T> {
        Slice {
            ptr: self.ptr,
            len: self.len,
            _owner: Arc::clone(&self._owner),
        }
    }
}

impl<T: Plain> From<Vec<T>> for Slice<T> {
    fn from(values: Vec<T>) -> Slice<T> {
        let owner = Arc::new(values);
        Slice {
            ptr: owner.as_ptr(),
            len: owner.len(),
            _owner: owner,
        }
    }
}

impl<T> Deref for Slice<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: aligned, and the owner keeps it alive. A vector's pointer is valid for any length
        // up to its own, including 0.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_addresses_and_strides_are_copied() {
        let bytes: Vec<u8> = (0..33).collect();
        let owner: Owner = Arc::new(());
        // SAFETY: within `bytes`, which outlives both slices.
        let (odd, apart, back) = unsafe {
            let at = bytes.as_ptr().add(1).cast::<i32>();
            (
                Slice::new(at, 2, &owner),
                Slice::gather(bytes.as_ptr().cast::<u16>(), 3, 10),
                Slice::gather(bytes.as_ptr().add(3), 4, -1),
            )
        };
        assert_eq!(*odd, [0x0403_0201, 0x0807_0605]);
        assert_eq!(*apart, [0x0100, 0x0b0a, 0x1514]);
        assert_eq!(*back, [3, 2, 1, 0]);
    }
}
