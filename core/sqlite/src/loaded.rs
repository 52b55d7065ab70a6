//! The shared library that this code is in.

use std::ffi::{CStr, CString, c_void};

/// The path by which it was loaded, or that of the program.
pub fn library_path() -> Option<CString> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let own = library_path as *const c_void;
    // SAFETY: any address is allowed; `info` is valid for writing, and zeros are a value of it.
    let found = unsafe { libc::dladdr(own, info.as_mut_ptr()) };
    // SAFETY: as above.
    let name = unsafe { info.assume_init() }.dli_fname;
    // SAFETY: a terminated name that lives as long as the library.
    (found != 0 && !name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_owned())
}

/// Keeps it loaded until the process ends, whatever its loader does. SQLite unloads an extension
/// whose entry point returns an error, also if it has registered functions before.
pub fn keep_loaded() {
    let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
    if let Some(path) = library_path() {
        // SAFETY: a terminated name of a library that is loaded; it is not loaded again. It fails
        // for a program, which is never unloaded.
        unsafe { libc::dlopen(path.as_ptr(), flags) };
    }
}
