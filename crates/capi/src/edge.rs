//! Pointers of the caller's.

use crate::failure::{Failure, Result};
use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A terminated string; `None` for null.
///
/// # Safety
/// `text` is null or a terminated string that lives unchanged for `'a`.
pub(crate) unsafe fn bytes<'a>(text: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: as the caller vouches.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// Text that must be there, in UTF-8; `what` names it.
///
/// # Safety
/// As [`bytes`].
pub(crate) unsafe fn text<'a>(what: &str, text: *const c_char) -> Result<&'a str> {
    // SAFETY: passed on.
    let bytes = unsafe { bytes(text) };
    let bytes = bytes.ok_or_else(|| Failure::misuse(format!("{what} is NULL")))?;
    std::str::from_utf8(bytes).map_err(|_| Failure::misuse(format!("{what} is not UTF-8")))
}

/// A path that must be there.
///
/// # Safety
/// As [`bytes`].
pub(crate) unsafe fn path<'a>(what: &str, text: *const c_char) -> Result<&'a Path> {
    // SAFETY: passed on.
    let path = unsafe { optional_path(text) };
    path.ok_or_else(|| Failure::misuse(format!("{what} is NULL")))
}

/// A path, or `None` for null.
///
/// # Safety
/// As [`bytes`].
pub(crate) unsafe fn optional_path<'a>(text: *const c_char) -> Option<&'a Path> {
    // SAFETY: passed on.
    unsafe { bytes(text) }.map(|bytes| Path::new(OsStr::from_bytes(bytes)))
}

/// Puts text where the caller wants it, for [`densite_free`]; null is no wish.
///
/// # Safety
/// `out` is null or a place for a pointer.
pub(crate) unsafe fn give(out: *mut *mut c_char, text: &str) {
    if !out.is_null() {
        // JSON has no NUL, and names from files cannot have one.
        let text = CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default();
        // SAFETY: a place, as the caller vouches.
        unsafe { *out = text.into_raw() };
    }
}

/// `densite_free`: frees text that a function of ours gave; null is fine.
///
/// # Safety
/// `text` is null or was given by a function of this library, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn densite_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: made by `give`, given back once.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// `densite_version`: this library's version.
#[unsafe(no_mangle)]
pub extern "C" fn densite_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// `densite_version_number`: the same as a number, as `DENSITE_VERSION_NUMBER` in the header.
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
