//! `sqlite3_filename`: a file name followed by the URI's parameters.

use crate::api::Api;
use crate::companions::Companions;
use crate::{Code, Result};
use std::ffi::{CStr, c_char, c_int};
use std::marker::PhantomData;
use std::ptr::NonNull;

/// A name that SQLite passes to xOpen for a main database, journal or WAL.
///
/// The pointer is SQLite's own and is passed on unchanged. The names of the journal and the WAL,
/// and the parameters, are in the memory around it.
#[derive(Clone, Copy)]
pub struct FileName<'a> {
    api: Api,
    ptr: NonNull<c_char>,
    /// Whether parameters and companion names are around it. Not so for temporary files and
    /// super-journals.
    full: bool,
    life: PhantomData<&'a CStr>,
}

impl<'a> FileName<'a> {
    /// Takes a name from SQLite; `None` for null.
    ///
    /// # Safety
    /// `ptr` is null or a `sqlite3_filename` (of a main database, journal or WAL) of this library
    /// that lives for `'a`.
    pub unsafe fn from_ptr(api: Api, ptr: *const c_char) -> Option<FileName<'a>> {
        Some(FileName {
            api,
            ptr: NonNull::new(ptr.cast_mut())?,
            full: true,
            life: PhantomData,
        })
    }

    /// Takes a plain path without parameters; `None` for null.
    ///
    /// # Safety
    /// `ptr` is null or a terminated string that lives for `'a`.
    pub unsafe fn from_plain_ptr(api: Api, ptr: *const c_char) -> Option<FileName<'a>> {
        Some(FileName {
            api,
            ptr: NonNull::new(ptr.cast_mut())?,
            full: false,
            life: PhantomData,
        })
    }

    /// The raw pointer, for calls of SQLite.
    pub fn as_ptr(self) -> *const c_char {
        self.ptr.as_ptr()
    }

    /// The path without its parameters.
    pub fn path(self) -> &'a CStr {
        // SAFETY: the type guarantees that it is terminated and alive for `'a`.
        unsafe { CStr::from_ptr(self.ptr.as_ptr()) }
    }

    /// The value of a URI parameter.
    pub fn parameter(self, key: &CStr) -> Option<&'a CStr> {
        if !self.full {
            return None;
        }
        // SAFETY: a `sqlite3_filename` and a terminated string.
        let value = unsafe { (self.api.raw().uri_parameter)(self.ptr.as_ptr(), key.as_ptr()) };
        // SAFETY: null or a terminated string inside the name's memory.
        (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) })
    }

    /// A URI parameter as SQLite parses booleans (yes, true, on, a number; no, false, off, 0).
    pub fn boolean(self, key: &CStr, default: bool) -> bool {
        if !self.full {
            return default;
        }
        // SAFETY: as above.
        unsafe {
            (self.api.raw().uri_boolean)(self.ptr.as_ptr(), key.as_ptr(), c_int::from(default)) != 0
        }
    }

    /// The keys of all parameters, in order.
    pub fn keys(self) -> impl Iterator<Item = &'a CStr> {
        (0..).take_while(move |_| self.full).map_while(move |n| {
            // SAFETY: a `sqlite3_filename` and any number.
            let key = unsafe { (self.api.raw().uri_key)(self.ptr.as_ptr(), n) };
            // SAFETY: null or a terminated string inside the name's memory.
            (!key.is_null()).then(|| unsafe { CStr::from_ptr(key) })
        })
    }

    /// The name of the database's rollback journal.
    pub fn journal(self) -> Option<FileName<'a>> {
        if !self.full {
            return None;
        }
        // SAFETY: a `sqlite3_filename`; the result is in the same memory.
        unsafe {
            FileName::from_ptr(
                self.api,
                (self.api.raw().filename_journal)(self.ptr.as_ptr()),
            )
        }
    }

    /// The name of the database's WAL.
    pub fn wal(self) -> Option<FileName<'a>> {
        if !self.full {
            return None;
        }
        // SAFETY: a `sqlite3_filename`; the result is in the same memory.
        unsafe { FileName::from_ptr(self.api, (self.api.raw().filename_wal)(self.ptr.as_ptr())) }
    }
}

/// A name made by this crate in SQLite's form; freed when dropped.
pub struct OwnedName {
    api: Api,
    ptr: NonNull<c_char>,
}

impl OwnedName {
    /// Makes the name of a database, with SQLite's names for its journal and its WAL.
    ///
    /// # Errors
    /// If out of memory.
    pub fn new(api: Api, path: &CStr, parameters: &[(&CStr, &CStr)]) -> Result<OwnedName> {
        OwnedName::with(api, path, Companions::PLAIN, parameters)
    }

    /// The same with these endings of the journal and the WAL.
    ///
    /// # Errors
    /// If out of memory.
    pub fn with(
        api: Api,
        path: &CStr,
        companions: Companions,
        parameters: &[(&CStr, &CStr)],
    ) -> Result<OwnedName> {
        let beside = |suffix: &str| {
            let mut name = path.to_bytes().to_vec();
            name.extend_from_slice(suffix.as_bytes());
            // Neither part contains a NUL.
            std::ffi::CString::new(name).unwrap_or_default()
        };
        let (journal, wal) = (beside(companions.journal), beside(companions.wal));
        let mut flat: Vec<*const c_char> = Vec::with_capacity(parameters.len() * 2);
        for (key, value) in parameters {
            flat.push(key.as_ptr());
            flat.push(value.as_ptr());
        }
        // SAFETY: three terminated strings and `parameters.len()` pairs of them. All are alive
        // during the call, which copies them.
        let ptr = unsafe {
            (api.raw().create_filename)(
                path.as_ptr(),
                journal.as_ptr(),
                wal.as_ptr(),
                c_int::try_from(parameters.len()).unwrap_or(0),
                flat.as_mut_ptr(),
            )
        };
        match NonNull::new(ptr.cast_mut()) {
            Some(ptr) => Ok(OwnedName { api, ptr }),
            None => Err(Code::NOMEM.into()),
        }
    }

    /// The name, to open a file with.
    pub fn as_name(&self) -> FileName<'_> {
        FileName {
            api: self.api,
            ptr: self.ptr,
            full: true,
            life: PhantomData,
        }
    }
}

// SAFETY: the memory belongs to this value alone, is not bound to a thread, and never changes.
unsafe impl Send for OwnedName {}
// SAFETY: as above.
unsafe impl Sync for OwnedName {}

impl Drop for OwnedName {
    fn drop(&mut self) {
        // SAFETY: made by `sqlite3_create_filename` and freed once.
        unsafe { (self.api.raw().free_filename)(self.ptr.as_ptr()) }
    }
}
