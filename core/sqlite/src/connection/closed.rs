//! A closed connection that still exists for its statements (`sqlite3_close_v2`).
//!
//! After closing a connection, a host can free what its callbacks need. CPython's `sqlite3` does so
//! with the functions of `set_progress_handler` and `set_trace_callback`. A remaining statement
//! would call them.

use super::Connection;
use crate::Code;
use std::ffi::{c_int, c_uint, c_void};
use std::mem::transmute;
use std::ptr::null_mut;

type Callback = Option<unsafe extern "C" fn()>;
type SetProgress = unsafe extern "C" fn(*mut crate::ffi::Db, c_int, Callback, *mut c_void);
type SetTrace = unsafe extern "C" fn(*mut crate::ffi::Db, c_uint, Callback, *mut c_void) -> c_int;

impl Connection {
    /// Whether the connection is closed.
    fn is_closed(&self) -> bool {
        // SAFETY: a connection that still has a statement; for a closed one SQLite returns MISUSE.
        let said = unsafe { (self.api.raw().extended_errcode)(self.as_ptr()) };
        // MISUSE can also be the result of the newest call on an open connection.
        Code(said) == Code::MISUSE && self.exec("").is_err_and(|e| e.code == Code::MISUSE)
    }

    /// Removes the progress handler and the trace callback of a closed connection.
    pub(crate) fn silence_if_closed(&self) {
        if !self.is_closed() {
            return;
        }
        let raw = self.api.raw();
        // SAFETY: the entries' own types, if the library has them. Null removes a callback, and
        // SQLite keeps the memory of a connection that has statements.
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
