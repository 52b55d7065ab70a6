//! Pointers from the caller.

use crate::failure::{Failure, Result};
use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A terminated string; `None` for null.
///
/// # Safety
/// `text` is null or a terminated string that lives unchanged for `'a`.
pub(crate) unsafe fn bytes<'a>(text: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: the caller guarantees it.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// Required text in UTF-8; `what` is its name for messages.
///
/// # Safety
/// As [`bytes`].
pub(crate) unsafe fn text<'a>(what: &str, text: *const c_char) -> Result<&'a str> {
    // SAFETY: the caller guarantees it.
    let bytes = unsafe { bytes(text) };
    let bytes = bytes.ok_or_else(|| Failure::misuse(format!("{what} is NULL; give a text")))?;
    std::str::from_utf8(bytes).map_err(|_| Failure::misuse(format!("{what} is not UTF-8")))
}

/// A required path; `what` is its name for messages.
///
/// # Safety
/// As [`bytes`].
pub(crate) unsafe fn path<'a>(what: &str, text: *const c_char) -> Result<&'a Path> {
    // SAFETY: the caller guarantees it.
    let path = unsafe { optional_path(text) };
    path.ok_or_else(|| Failure::misuse(format!("{what} is NULL; give a text")))
}

/// A path, or `None` for null.
///
/// # Safety
/// As [`bytes`].
pub(crate) unsafe fn optional_path<'a>(text: *const c_char) -> Option<&'a Path> {
    // SAFETY: the caller guarantees it.
    unsafe { bytes(text) }.map(|bytes| Path::new(OsStr::from_bytes(bytes)))
}

/// Stores text for the caller, to be freed with [`densite_free`]. Does nothing if `out` is null.
///
/// # Safety
/// `out` is null or valid for writing a pointer.
pub(crate) unsafe fn give(out: *mut *mut c_char, text: &str) {
    if !out.is_null() {
        // JSON has no NUL, and names from files cannot have one.
        let text = CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default();
        // SAFETY: the caller guarantees that it is valid.
        unsafe { *out = text.into_raw() };
    }
}

/// `densite_free`: frees text that a function of this library returned; null is allowed.
///
/// # Safety
/// `text` is null or came from a function of this library, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn densite_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: made by `give` and freed once.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// `densite_version`: this library's version.
#[unsafe(no_mangle)]
pub extern "C" fn densite_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// `densite_version_number`: the version as a number, as `DENSITE_VERSION_NUMBER` in the header.
#[unsafe(no_mangle)]
pub extern "C" fn densite_version_number() -> c_int {
    const fn number(digits: &str) -> c_int {
        match c_int::from_str_radix(digits, 10) {
            Ok(number) => number,
            Err(_) => 0,
        }
    }
    const {
        number(env!("CARGO_PKG_VERSION_MAJOR")) * 1_000_000
            + number(env!("CARGO_PKG_VERSION_MINOR")) * 1_000
            + number(env!("CARGO_PKG_VERSION_PATCH"))
    }
}
