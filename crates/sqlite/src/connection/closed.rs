//! A connection that was closed and lives on for its statements (`sqlite3_close_v2`).
//!
//! Whoever closes a connection may free what its callbacks need at once: CPython's `sqlite3` does so with the functions of `set_progress_handler` and
//! `set_trace_callback`. A statement that is still there would call them.

use super::Connection;
use crate::Code;
use std::ffi::{c_int, c_uint, c_void};
use std::mem::transmute;
use std::ptr::null_mut;

type Callback = Option<unsafe extern "C" fn()>;
type SetProgress = unsafe extern "C" fn(*mut crate::ffi::Db, c_int, Callback, *mut c_void);
type SetTrace = unsafe extern "C" fn(*mut crate::ffi::Db, c_uint, Callback, *mut c_void) -> c_int;

impl Connection {
    /// Whether it was closed.
    fn is_closed(&self) -> bool {
        // SAFETY: a connection that still has a statement; of a closed one SQLite answers MISUSE.
        let said = unsafe { (self.api.raw().extended_errcode)(self.as_ptr()) };
        // MISUSE may also be what the newest call on an open connection answered.
        Code(said) == Code::MISUSE && self.exec("").is_err_and(|e| e.code == Code::MISUSE)
    }

    /// Has a connection that was closed call no progress handler and no trace callback any more.
    pub(crate) fn silence_if_closed(&self) {
        if !self.is_closed() {
            return;
        }
        let raw = self.api.raw();
        // SAFETY: the entries' own types, where the library has them; null takes a callback away, and SQLite keeps the memory of a connection
        // with statements.
        unsafe {
            if let Some(set) = raw.progress_handler {
                let set = transmute::<unsafe extern "C" fn(), SetProgress>(set);
                set(self.as_ptr(), 0, None, null_mut());
            }
            if let Some(set) = raw.trace_v2 {
                let set = transmute::<unsafe extern "C" fn(), SetTrace>(set);
                set(self.as_ptr(), 0, None, null_mut());
            }
        }
    }
}
