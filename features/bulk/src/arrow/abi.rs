//! The structures of the interface, and owners that release them.

use std::ffi::{CStr, c_char, c_int, c_void};

/// `struct ArrowSchema`
#[repr(C)]
pub struct ArrowSchema {
    pub(super) format: *const c_char,
    pub(super) name: *const c_char,
    pub(super) metadata: *const c_char,
    pub(super) flags: i64,
    pub(super) n_children: i64,
    pub(super) children: *mut *mut ArrowSchema,
    pub(super) dictionary: *mut ArrowSchema,
    pub(super) release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    pub(super) private_data: *mut c_void,
}

/// `struct ArrowArray`
#[repr(C)]
pub struct ArrowArray {
    pub(super) length: i64,
    pub(super) null_count: i64,
    pub(super) offset: i64,
    pub(super) n_buffers: i64,
    pub(super) n_children: i64,
    pub(super) buffers: *mut *const c_void,
    pub(super) children: *mut *mut ArrowArray,
    pub(super) dictionary: *mut ArrowArray,
    pub(super) release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    pub(super) private_data: *mut c_void,
}

/// `struct ArrowArrayStream`
#[repr(C)]
pub struct ArrowArrayStream {
    pub(super) get_schema:
        Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int>,
    pub(super) get_next:
        Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int>,
    pub(super) get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    pub(super) release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    pub(super) private_data: *mut c_void,
}

macro_rules! owned {
    ($vis:vis $owner:ident, $raw:ident) => {
        /// An owned structure; it is released on drop.
        $vis struct $owner(pub(super) $raw);

        // SAFETY: the interface allows a structure to be moved and released on any thread.
        unsafe impl Send for $owner {}
        // SAFETY: shared structures are only read.
        unsafe impl Sync for $owner {}

        impl $owner {
            /// Takes over a producer's structure and marks the original as released. `None` if it
            /// was already released.
            ///
            /// # Safety
            /// `place` is null or a structure of a producer that keeps the interface's rules.
            $vis unsafe fn take(place: *mut $raw) -> Option<$owner> {
                // SAFETY: the caller guarantees it. The interface allows moving a structure bit by
                // bit if the original is marked as released.
                unsafe {
                    let raw = place.as_mut()?;
                    raw.release?;
                    let taken = std::ptr::read(raw);
                    raw.release = None;
                    Some($owner(taken))
                }
            }
        }

        impl Drop for $owner {
            fn drop(&mut self) {
                if let Some(release) = self.0.release {
                    // SAFETY: it is owned, and released once.
                    unsafe { release(&raw mut self.0) };
                }
            }
        }
    };
}

owned!(pub OwnedSchema, ArrowSchema);
owned!(pub OwnedArray, ArrowArray);
owned!(pub(super) OwnedStream, ArrowArrayStream);

impl ArrowArrayStream {
    /// An empty stream, to be written to.
    pub fn empty() -> ArrowArrayStream {
        // SAFETY: null pointers and absent functions are allowed values.
        unsafe { std::mem::zeroed() }
    }

    /// Releases it, unless it was released or moved out.
    ///
    /// # Safety
    /// The stream keeps the interface's rules.
    pub unsafe fn release(&mut self) {
        // SAFETY: the caller guarantees it.
        drop(unsafe { OwnedStream::take(self) });
    }
}

impl ArrowSchema {
    /// An empty schema, to be written to.
    pub(super) fn empty() -> ArrowSchema {
        // SAFETY: null pointers, zeros and an absent function are allowed values.
        unsafe { std::mem::zeroed() }
    }

    /// The children.
    ///
    /// # Safety
    /// The schema keeps the interface's rules.
    pub(super) unsafe fn children(&self) -> Vec<&ArrowSchema> {
        let n = usize::try_from(self.n_children).unwrap_or(0);
        // SAFETY: there are `n_children` pointers, each to a schema that lives as long as this one.
        (0..n)
            .filter_map(|i| unsafe { (*self.children.add(i)).as_ref() })
            .collect()
    }
}

impl ArrowArray {
    /// An empty array, to be written to.
    pub(super) fn empty() -> ArrowArray {
        // SAFETY: null pointers, zeros and an absent function are allowed values.
        unsafe { std::mem::zeroed() }
    }

    /// The children.
    ///
    /// # Safety
    /// The array keeps the interface's rules.
    pub(super) unsafe fn children(&self) -> Vec<&ArrowArray> {
        let n = usize::try_from(self.n_children).unwrap_or(0);
        // SAFETY: there are `n_children` pointers, each to an array that lives as long as this one.
        (0..n)
            .filter_map(|i| unsafe { (*self.children.add(i)).as_ref() })
            .collect()
    }

    /// A buffer; null if there is no such buffer.
    ///
    /// # Safety
    /// The array keeps the interface's rules.
    pub(super) unsafe fn buffer(&self, index: usize) -> *const c_void {
        if i64::try_from(index).is_ok_and(|i| i < self.n_buffers) && !self.buffers.is_null() {
            // SAFETY: within the array of buffers.
            unsafe { *self.buffers.add(index) }
        } else {
            std::ptr::null()
        }
    }
}

/// A text of a structure; empty for null.
///
/// # Safety
/// `text` is null or a terminated string.
pub(super) unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller guarantees it.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}
