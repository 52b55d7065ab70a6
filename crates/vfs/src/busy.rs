//! The busy handler of the connection that has a file open.
//!
//! SQLite calls it when a lock is busy, but not for a PRAGMA of ours, which runs while it is
//! compiled. SQLite tells its VFS where the handler is (SQLITE_FCNTL_BUSYHANDLER), for as long as
//! the file is open. The handler counts its calls; SQLite resets the count before it gives a PRAGMA
//! to the VFS (SQLITE_FCNTL_PRAGMA).

use std::ffi::{c_int, c_void};

/// Called with its argument; 0: do not wait any longer.
type Handler = unsafe extern "C" fn(*mut c_void) -> c_int;

/// Where SQLite keeps the handler.
#[derive(Default)]
pub(crate) struct Busy {
    handler: Option<*const *mut c_void>,
}

// SAFETY: this is an address of SQLite's. It is read only under the connection's mutex, in a call
// of SQLite's (`Busy::waits`).
unsafe impl Send for Busy {}

impl Busy {
    /// Notes where the handler and its argument are, one behind the other.
    pub(crate) fn set_handler(&mut self, place: *mut c_void) {
        self.handler = (!place.is_null()).then_some(place.cast_const().cast());
    }

    /// Calls the handler, which waits; false: the time is over, or there is no handler.
    ///
    /// # Safety
    /// The thread is in a call of SQLite's on the connection, and so holds its mutex; the file is
    /// open.
    pub(crate) unsafe fn waits(&self) -> bool {
        let Some(place) = self.handler else {
            return false;
        };
        // SAFETY: SQLite's own two words, a function and its argument, as SQLite's documentation of
        // the operation says.
        unsafe {
            let handler: Option<Handler> = std::mem::transmute(*place);
            handler.is_some_and(|handler| handler(*place.add(1)) != 0)
        }
    }
}
