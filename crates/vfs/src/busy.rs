//! The busy handler of the connection that has a file open.
//!
//! SQLite calls it where a lock is busy, but not for a PRAGMA of ours, which runs while it is
//! compiled. SQLite tells its VFS where the handler is (SQLITE_FCNTL_BUSYHANDLER) and which
//! connection has the file (SQLITE_FCNTL_PDB), for as long as the file is open.

use densite_sqlite::{Api, Connection, ffi::Db};
use std::ffi::{c_int, c_void};

/// Called with its argument; 0: do not wait any longer.
type Handler = unsafe extern "C" fn(*mut c_void) -> c_int;

/// Where SQLite keeps the handler, and the connection.
#[derive(Default)]
pub(crate) struct Busy {
    handler: Option<*const *mut c_void>,
    connection: Option<*const *mut Db>,
}

// SAFETY: these are addresses of SQLite's. They are read only under the connection's mutex, in a
// call of SQLite's (`Busy::begin`, `Busy::waits`).
unsafe impl Send for Busy {}

impl Busy {
    /// Notes where the handler and its argument are, one behind the other.
    pub(crate) fn set_handler(&mut self, place: *mut c_void) {
        self.handler = (!place.is_null()).then_some(place.cast_const().cast());
    }

    /// Notes where the connection's address is.
    pub(crate) fn set_connection(&mut self, place: *mut c_void) {
        self.connection = (!place.is_null()).then_some(place.cast_const().cast());
    }

    /// Begins to wait: the handler counts its calls, and SQLite sets the count back only when a
    /// statement runs.
    ///
    /// # Safety
    /// As [`Busy::waits`]; and SQLite calls nothing of the file for a statement that uses no table.
    pub(crate) unsafe fn begin(&self, api: Api) {
        let Some(place) = self.connection else { return };
        // SAFETY: SQLite's own place, in use as long as the file is open.
        let connection = unsafe { Connection::borrow(api, *place) };
        if let Some(connection) = connection {
            // Where it fails there was no wait to count.
            let _ = connection.query_i64("SELECT 1");
        }
    }

    /// Lets the handler wait; false: the time is over, or there is no handler.
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
