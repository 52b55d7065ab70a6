//! The preupdate hook: every change of a row of an ordinary table, before SQLite makes it
//! (<https://www.sqlite.org/c3ref/preupdate_blobwrite.html>).
//!
//! It reports what no trigger sees: rows that REPLACE deletes. It is not in the table of functions
//! that extensions get, and SQLite has it only if it was built with `SQLITE_ENABLE_PREUPDATE_HOOK`.
//! So its functions are looked up in the shared library that the table's functions are in. A linked
//! SQLite names them itself ([`provide_preupdate`]).
//!
//! A connection has one hook. The session extension registers its own, and takes the pointer of the
//! hook before it for one of its sessions. So this hook has none, and finds its observer by the
//! connection. A hook that was registered before it or after it is recognized by its pointer.

mod faults;
mod slots;

pub use faults::{PreupdateFaults, preupdate_faults};

use crate::api::Api;
use crate::connection::Connection;
use crate::ffi::{Db, RawValue};
use crate::panic::{guard_else, internal_error};
use crate::value::ValueRef;
use crate::{Code, Error, Result};
use slots::Slots;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The hook's type.
type Hook =
    unsafe extern "C" fn(*mut c_void, *mut Db, c_int, *const c_char, *const c_char, i64, i64);

/// The type of the functions for values.
type ValueOf = unsafe extern "C" fn(*mut Db, c_int, *mut *mut RawValue) -> c_int;

/// The functions of one SQLite library.
#[derive(Debug, Clone, Copy)]
struct Functions {
    hook: unsafe extern "C" fn(*mut Db, Option<Hook>, *mut c_void) -> *mut c_void,
    old: ValueOf,
    new: ValueOf,
    blobwrite: unsafe extern "C" fn(*mut Db) -> c_int,
}

/// The names of the functions, in the order of [`provide_preupdate`].
const NAMES: [&CStr; 4] = [
    c"sqlite3_preupdate_hook",
    c"sqlite3_preupdate_old",
    c"sqlite3_preupdate_new",
    c"sqlite3_preupdate_blobwrite",
];

impl Functions {
    /// # Safety
    /// The addresses of the functions [`NAMES`] of one SQLite library.
    unsafe fn at([hook, old, new, blobwrite]: [*const c_void; 4]) -> Functions {
        type Register = unsafe extern "C" fn(*mut Db, Option<Hook>, *mut c_void) -> *mut c_void;
        type Number = unsafe extern "C" fn(*mut Db) -> c_int;
        // SAFETY: SQLite's functions of these names have these types in every version.
        unsafe {
            Functions {
                hook: std::mem::transmute::<*const c_void, Register>(hook),
                old: std::mem::transmute::<*const c_void, ValueOf>(old),
                new: std::mem::transmute::<*const c_void, ValueOf>(new),
                blobwrite: std::mem::transmute::<*const c_void, Number>(blobwrite),
            }
        }
    }
}

/// The operation of a changed row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowOp {
    /// A new row.
    Insert,
    /// New values.
    Update,
    /// The row is removed.
    Delete,
}

/// A row that is about to change.
pub struct RowChange<'a> {
    connection: &'a Connection,
    functions: Functions,
    is_utf8: bool,
    op: RowOp,
    schema: &'a CStr,
    table: &'a CStr,
    row_id: i64,
}

impl RowChange<'_> {
    /// The operation.
    pub fn op(&self) -> RowOp {
        self.op
    }

    /// The schema: main, temp or the name of an attached database.
    pub fn schema(&self) -> &CStr {
        self.schema
    }

    /// The table.
    pub fn table(&self) -> &CStr {
        self.table
    }

    /// The row id before the change. Not defined for a new row, and in a table WITHOUT ROWID.
    pub fn row_id(&self) -> i64 {
        self.row_id
    }

    /// The connection, to read the row as it is before the change. Statements must only read, and
    /// must find the row in the table itself: SQLite has already removed it from indexes.
    pub fn connection(&self) -> &Connection {
        self.connection
    }

    /// Whether a blob is written in place (`sqlite3_blob_write`). The new value is not known then.
    pub fn is_blob_write(&self) -> bool {
        // SAFETY: the connection that calls the hook.
        unsafe { (self.functions.blobwrite)(self.connection.as_ptr()) >= 0 }
    }

    /// The value of a column before the change; NULL for a new row.
    ///
    /// # Errors
    /// SQLite's: out of memory, a row that cannot be read, no such column.
    pub fn before(&self, column: usize) -> Result<ValueRef<'_>> {
        match self.op {
            RowOp::Insert => Ok(ValueRef::Null),
            _ => self.value(self.functions.old, column),
        }
    }

    /// The value of a column after the change; NULL for a removed row.
    ///
    /// # Errors
    /// As [`RowChange::before`].
    pub fn after(&self, column: usize) -> Result<ValueRef<'_>> {
        match self.op {
            RowOp::Delete => Ok(ValueRef::Null),
            _ => self.value(self.functions.new, column),
        }
    }

    fn value(&self, of: ValueOf, column: usize) -> Result<ValueRef<'_>> {
        let mut value = std::ptr::null_mut();
        let column = c_int::try_from(column).unwrap_or(c_int::MAX);
        // SAFETY: within the hook of this connection; `value` is valid for writing.
        Code(unsafe { of(self.connection.as_ptr(), column, &raw mut value) }).ok()?;
        if value.is_null() {
            return Ok(ValueRef::Null);
        }
        // SAFETY: a protected value that lives until the hook returns. Its text is in the encoding of
        // the database.
        Ok(unsafe {
            match self.is_utf8 {
                true => ValueRef::from_raw_utf8(self.connection.api(), value),
                false => ValueRef::from_raw(self.connection.api(), value),
            }
        })
    }
}

/// Gets the changed rows of a connection.
pub trait Observer: Send + Sync + 'static {
    /// A row is about to change. The connection must not be used, except as
    /// [`RowChange::connection`] says.
    fn changes(&self, change: &RowChange<'_>);
}

struct Observed {
    api: Api,
    functions: Functions,
    is_utf8: bool,
    observer: Arc<dyn Observer>,
    /// The observer has panicked, so it lacks a change.
    has_panicked: AtomicBool,
}

/// The observers of this process's connections.
static OBSERVED: Slots<Observed> = Slots::new();

/// How many SQLite libraries of one process can be observed.
const LIBRARIES: usize = 8;

/// A SQLite library.
struct Library {
    api: Api,
    /// `None` for a library without the hook.
    functions: Option<Functions>,
    /// Known after [`preupdate_faults`].
    faults: OnceLock<PreupdateFaults>,
}

static LIBRARY: [OnceLock<Library>; LIBRARIES] = [const { OnceLock::new() }; LIBRARIES];

fn library_or(api: Api, of: impl Fn() -> Option<Functions>) -> Option<&'static Library> {
    let new = || Library {
        api,
        functions: of(),
        faults: OnceLock::new(),
    };
    let mut places = LIBRARY.iter();
    let place = places.find(|place| place.get_or_init(new).api == api)?;
    place.get()
}

/// `None` if there are too many libraries.
fn library_of(api: Api) -> Option<&'static Library> {
    library_or(api, || look_up(api))
}

/// Names the functions of a SQLite that is linked into the program.
///
/// # Safety
/// The addresses of `sqlite3_preupdate_hook`, `_old`, `_new` and `_blobwrite` of the library of
/// `api`.
pub unsafe fn provide_preupdate(api: Api, addresses: [*const c_void; 4]) {
    // SAFETY: the caller guarantees it.
    library_or(api, || Some(unsafe { Functions::at(addresses) }));
}

/// Looks the functions up in the shared library that `sqlite3_libversion` is in.
fn look_up(api: Api) -> Option<Functions> {
    let place = |address: *const c_void| {
        let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: any address is allowed; `info` is valid for writing, and zeros are a value of it.
        let found = unsafe { libc::dladdr(address, info.as_mut_ptr()) };
        // SAFETY: as above.
        (found != 0).then(|| unsafe { info.assume_init() })
    };
    let own = place(api.raw().libversion as *const c_void)?;
    if own.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the name of a library that is loaded; it is not loaded again. The handle is kept for
    // ever, as the library is.
    let library = unsafe { libc::dlopen(own.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if library.is_null() {
        return None;
    }
    let find = |name: &CStr| {
        // SAFETY: a loaded library and a terminated name.
        let symbol = unsafe { libc::dlsym(library, name.as_ptr()) }.cast_const();
        // The search also finds functions of other libraries, and a process can have two SQLites.
        (!symbol.is_null() && place(symbol)?.dli_fbase == own.dli_fbase).then_some(symbol)
    };
    let [hook, old, new, blobwrite] = NAMES.map(find);
    // SAFETY: the functions of these names in the library that was asked.
    Some(unsafe { Functions::at([hook?, old?, new?, blobwrite?]) })
}

/// An observer of a connection's changes, until this is dropped. The connection must be open then.
pub struct Observation {
    functions: Functions,
    /// Its address.
    connection: usize,
}

impl Observation {
    /// Registers the observer of a connection. `is_utf8`: its databases have text in UTF-8.
    ///
    /// # Errors
    /// If SQLite has no such hook, or if the application has registered its own. That one is
    /// removed then.
    pub fn begin(
        connection: &Connection,
        observer: Arc<dyn Observer>,
        is_utf8: bool,
    ) -> Result<Observation> {
        let api = connection.api();
        let functions = library_of(api).and_then(|library| library.functions);
        let functions = functions.ok_or_else(|| {
            Error::new(
                Code::ERROR,
                "this SQLite has no preupdate hook that Densite can reach; use one that was built with SQLITE_ENABLE_PREUPDATE_HOOK as a shared library",
            )
        })?;
        let observation = Observation {
            functions,
            connection: connection.as_ptr().expose_provenance(),
        };
        let observed = Observed {
            api,
            functions,
            is_utf8,
            observer,
            has_panicked: AtomicBool::new(false),
        };
        OBSERVED.set(observation.connection, observed);
        observation.check(connection)?;
        Ok(observation)
    }

    /// Checks that the observer got every change so far.
    ///
    /// # Errors
    /// If the application has registered another hook, which is removed then, or if the observer has
    /// panicked.
    pub fn check(&self, connection: &Connection) -> Result<()> {
        let db = connection.as_ptr();
        // SAFETY: an open connection, whose mutex SQLite takes; the hook is a static function.
        let other = unsafe { (self.functions.hook)(db, Some(before), std::ptr::null_mut()) };
        // SAFETY: only this thread uses the connection, and so its slot.
        let observed = unsafe { OBSERVED.get(self.connection) };
        if observed.is_none_or(|o| o.has_panicked.load(Ordering::Relaxed)) {
            return Err(internal_error());
        }
        match other.is_null() {
            true => Ok(()),
            false => Err(Error::new(
                Code::ERROR,
                "this connection has another preupdate hook (a session of the session extension, for example); use another connection for tables whose changes Densite records",
            )),
        }
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        let db = std::ptr::with_exposed_provenance_mut::<Db>(self.connection);
        // SAFETY: the connection is still open, by the contract of this type.
        unsafe { (self.functions.hook)(db, None, std::ptr::null_mut()) };
        OBSERVED.take(self.connection);
    }
}

/// SQLite's call before a change.
unsafe extern "C" fn before(
    _: *mut c_void,
    db: *mut Db,
    op: c_int,
    schema: *const c_char,
    table: *const c_char,
    row_id: i64,
    _: i64,
) {
    // SAFETY: SQLite holds the connection's mutex, so its slot does not change meanwhile.
    let Some(observed) = (unsafe { OBSERVED.get(db.addr()) }) else {
        return;
    };
    let panicked = || observed.has_panicked.store(true, Ordering::Relaxed);
    guard_else(observed.api, "the preupdate hook", panicked, || {
        let op = match op {
            18 => RowOp::Insert,
            23 => RowOp::Update,
            _ => RowOp::Delete,
        };
        // SAFETY: terminated names that live until the hook returns.
        let (schema, table) = unsafe { (CStr::from_ptr(schema), CStr::from_ptr(table)) };
        // SAFETY: the connection that calls the hook, which is open until the hook returns.
        let Some(connection) = (unsafe { Connection::borrow(observed.api, db) }) else {
            return;
        };
        observed.observer.changes(&RowChange {
            connection: &connection,
            functions: observed.functions,
            is_utf8: observed.is_utf8,
            op,
            schema,
            table,
            row_id,
        });
    });
}
