//! Stand-ins for collations that only an application has.

use crate::Result;
use crate::connection::Connection;
use crate::ffi::{self, Db};
use crate::routines::Routines;
use std::ffi::{CStr, c_char, c_int, c_void};

/// The collations that SQLite has.
const OWN: [&[u8]; 3] = [b"BINARY", b"NOCASE", b"RTRIM"];

/// Gives each collation that is missing in a connection a stand-in, by which a key comes behind all
/// keys that are there. So b-trees that are copied in their order keep it. A stand-in orders
/// nothing else: the caller compares the results.
///
/// # Errors
/// SQLite's.
pub fn stand_in_for_collations(connection: &Connection) -> Result<()> {
    let routines = connection.api().as_ptr().cast_mut().cast::<c_void>();
    // SAFETY: an open connection. The table of API pointers lives as long as its library.
    connection.check(unsafe {
        (connection.api().raw().collation_needed)(connection.as_ptr(), routines, Some(needed))
    })
}

unsafe extern "C" fn needed(routines: *mut c_void, db: *mut Db, _: c_int, name: *const c_char) {
    // SAFETY: `stand_in_for_collations` gave this table to SQLite.
    let Some(routines) = (unsafe { routines.cast::<Routines>().as_ref() }) else {
        return;
    };
    // SAFETY: SQLite calls with the terminated name of the collation.
    let called = unsafe { CStr::from_ptr(name) }.to_bytes();
    // SQLite asks for its own, too, in a database in UTF-16, and then converts text for them.
    if OWN.iter().any(|own| own.eq_ignore_ascii_case(called)) {
        return;
    }
    // SAFETY: SQLite calls with its connection and the terminated name of the collation. If this
    // fails, the collation stays missing, and SQLite's statement fails.
    unsafe {
        (routines.create_collation_v2)(
            db,
            name,
            ffi::UTF8,
            std::ptr::null_mut(),
            Some(is_before),
            None,
        );
    }
}

/// SQLite compares a key that is there with a new one.
unsafe extern "C" fn is_before(
    _: *mut c_void,
    _: c_int,
    _: *const c_void,
    _: c_int,
    _: *const c_void,
) -> c_int {
    -1
}
