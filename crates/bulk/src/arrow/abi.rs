//! The structures, and owners that release them.

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
        /// One of those structures that is ours; it is released at the end.
        $vis struct $owner(pub(super) $raw);

        // SAFETY: the interface allows a structure to be moved and released on any thread.
        unsafe impl Send for $owner {}
        // SAFETY: what is shared is only read.
        unsafe impl Sync for $owner {}

        impl $owner {
            /// Takes over what a producer made; its place is left as released. `None` where it was
            /// released already.
            ///
            /// # Safety
            /// `place` is null or a structure of the producer's that keeps the interface's rules.
            $vis unsafe fn take(place: *mut $raw) -> Option<$owner> {
                // SAFETY: as the caller vouches; a structure may be moved bit by bit, if the place
                // is marked.
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
                    // SAFETY: ours, and released once.
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
    /// A place for a stream.
    pub fn empty() -> ArrowArrayStream {
        // SAFETY: null pointers and no functions are all allowed.
        unsafe { std::mem::zeroed() }
    }

    /// Releases it, unless that was done or it was moved out.
    ///
    /// # Safety
    /// A stream that keeps the interface's rules.
    pub unsafe fn release(&mut self) {
        // SAFETY: as the caller vouches.
        drop(unsafe { OwnedStream::take(self) });
    }
}

impl ArrowSchema {
    /// A place for a schema.
    pub(super) fn empty() -> ArrowSchema {
        // SAFETY: null pointers, zeros and no function are all allowed.
        unsafe { std::mem::zeroed() }
    }

    /// The children.
    ///
    /// # Safety
    /// A schema that keeps the interface's rules.
    pub(super) unsafe fn children(&self) -> Vec<&ArrowSchema> {
        let n = usize::try_from(self.n_children).unwrap_or(0);
        // SAFETY: as many pointers as there are children, each to a schema that lives as long.
        (0..n)
            .filter_map(|i| unsafe { (*self.children.add(i)).as_ref() })
            .collect()
    }
}

impl ArrowArray {
    /// A place for an array.
    pub(super) fn empty() -> ArrowArray {
        // SAFETY: null pointers, zeros and no function are all allowed.
        unsafe { std::mem::zeroed() }
    }

    /// The children.
    ///
    /// # Safety
    /// An array that keeps the interface's rules.
    pub(super) unsafe fn children(&self) -> Vec<&ArrowArray> {
        let n = usize::try_from(self.n_children).unwrap_or(0);
        // SAFETY: as many pointers as there are children, each to an array that lives as long.
        (0..n)
            .filter_map(|i| unsafe { (*self.children.add(i)).as_ref() })
            .collect()
    }

    /// A buffer; null where there is none.
    ///
    /// # Safety
    /// An array that keeps the interface's rules.
    pub(super) unsafe fn buffer(&self, index: usize) -> *const c_void {
        if i64::try_from(index).is_ok_and(|i| i < self.n_buffers) && !self.buffers.is_null() {
            // SAFETY: within the array of buffers.
            unsafe { *self.buffers.add(index) }
        } else {
            std::ptr::null()
        }
    }
}

/// Text of a structure's; empty for null.
///
/// # Safety
/// `text` is null or a terminated string.
pub(super) unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as the caller vouches.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}
