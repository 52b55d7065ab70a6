//! The busy handler of the connection that has a file open.
//!
//! SQLite calls it when a lock is busy. It does not call it for our PRAGMAs, which run while they
//! are compiled. SQLite tells its VFS where the handler is (SQLITE_FCNTL_BUSYHANDLER); that stays
//! valid while the file is open. The handler counts its calls. SQLite resets the count before it
//! passes a PRAGMA to the VFS (SQLITE_FCNTL_PRAGMA).

use std::ffi::{c_int, c_void};

/// Called with its argument. It returns 0 to stop waiting.
type Handler = unsafe extern "C" fn(*mut c_void) -> c_int;

/// Where SQLite keeps the handler.
#[derive(Default)]
pub(crate) struct Busy {
    handler: Option<*const *mut c_void>,
}

// SAFETY: this is an address in SQLite's memory. It is read only under the connection's mutex, in a
// call from SQLite (`Busy::waits`).
unsafe impl Send for Busy {}

impl Busy {
    /// Notes where the handler and its argument are stored, one after the other.
    pub(crate) fn set_handler(&mut self, place: *mut c_void) {
        self.handler = (!place.is_null()).then_some(place.cast_const().cast());
    }

    /// Calls the handler, which waits. Returns false if the time is over or there is no handler.
    ///
    /// # Safety
    /// The thread is in a call from SQLite on the connection, so it holds its mutex, and the file
    /// is open.
    pub(crate) unsafe fn waits(&self) -> bool {
        let Some(place) = self.handler else {
            return false;
        };
        // SAFETY: two words of SQLite, a function and its argument, as SQLite documents this
        // operation.
        unsafe {
            let handler: Option<Handler> = std::mem::transmute(*place);
            handler.is_some_and(|handler| handler(*place.add(1)) != 0)
        }
    }
}
