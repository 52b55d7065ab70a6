//! The callbacks between SQLite and a [`VirtualTable`].
//!
//! Ownership: SQLite holds a table from xCreate or xConnect until xDisconnect or a successful
//! xDestroy, and a cursor from xOpen until xClose. It calls them under the connection's mutex. A
//! table outlives its cursors, the registered data outlives its tables, and the connection outlives
//! all of them.

use super::{Arguments, Change, Conflict, Existence, Origin, Plan, TableCursor, VirtualTable};
use crate::api::{Api, c_string};
use crate::connection::Connection;
use crate::ffi::{self, Context, Db, IndexInfo, Module, RawValue, Vtab, VtabCursor};
use crate::function::{arguments_of, set_result};
use crate::panic::{guard, guard_else, internal_error};
use crate::{Code, Error, Result};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;

/// The data that a module was registered with.
pub(super) struct Registered<T: VirtualTable> {
    pub(super) api: Api,
    pub(super) shared: T::Shared,
}

/// `Vtab` followed by our fields.
#[repr(C)]
struct Table<T> {
    base: Vtab,
    api: Api,
    db: *mut Db,
    table: T,
}

/// `VtabCursor` followed by our fields.
#[repr(C)]
struct Cursor<C> {
    base: VtabCursor,
    cursor: C,
}

pub(super) struct Glue<T>(PhantomData<T>);

fn internal<R>() -> Result<R> {
    Err(internal_error())
}

impl<T: VirtualTable> Table<T> {
    /// Calls the table; its error becomes SQLite's, with its message.
    ///
    /// # Safety
    /// `table` is one of ours and alive during the call.
    unsafe fn call<R>(
        table: *mut Vtab,
        what: &str,
        body: impl FnOnce(&T, &Connection) -> Result<R>,
    ) -> std::result::Result<R, c_int> {
        // SAFETY: the caller guarantees it. The reference is shared, because a call can lead to
        // another one.
        let this = unsafe { &*table.cast::<Table<T>>() };
        let done = guard_else(this.api, what, internal, || {
            // SAFETY: the connection is alive during the call, and SQLite holds its mutex.
            let connection = unsafe { Connection::borrow(this.api, this.db) };
            let connection = connection.ok_or_else(|| Error::from(Code::MISUSE))?;
            body(&this.table, &connection)
        });
        // SAFETY: as above; the table is no longer borrowed.
        done.map_err(|error| unsafe { Self::fail(table, &error) })
    }

    /// Stores an error's message for SQLite and returns its code.
    ///
    /// # Safety
    /// `table` is one of ours and alive during the call.
    #[cold]
    unsafe fn fail(table: *mut Vtab, error: &Error) -> c_int {
        // SAFETY: our table and its connection, which exists while a statement of it runs. The
        // table's message is null or of SQLite's allocator, and only this code and SQLite access
        // it.
        unsafe {
            let api = (*table.cast::<Table<T>>()).api;
            // The call can have run a function of the application that closed the connection.
            if let Some(connection) = Connection::borrow(api, (*table.cast::<Table<T>>()).db) {
                connection.silence_if_closed();
            }
            let message = &raw mut (*table).zErrMsg;
            (api.raw().free)((*message).cast());
            *message = api.string(&error.message);
        }
        error.code.0
    }

    fn code(done: std::result::Result<(), c_int>) -> c_int {
        done.err().unwrap_or(Code::OK.0)
    }
}

impl<T: VirtualTable> Glue<T> {
    const MODULE: Module = Module {
        iVersion: 2,
        xCreate: match T::EXISTENCE {
            Existence::ByItself => None,
            Existence::Created => Some(Self::create),
            // SQLite recognises this kind of table by the two functions being the same.
            Existence::Both => Some(Self::connect),
        },
        xConnect: Some(Self::connect),
        xBestIndex: Some(Self::best_index),
        xDisconnect: Some(Self::disconnect),
        xDestroy: match T::EXISTENCE {
            Existence::ByItself => None,
            Existence::Created | Existence::Both => Some(Self::destroy),
        },
        xOpen: Some(Self::open),
        xClose: Some(Self::close),
        xFilter: Some(Self::filter),
        xNext: Some(Self::next),
        xEof: Some(Self::eof),
        xColumn: Some(Self::column),
        xRowid: Some(Self::rowid),
        xUpdate: if T::WRITABLE {
            Some(Self::update)
        } else {
            None
        },
        xBegin: if T::WRITABLE { Some(Self::begin) } else { None },
        xSync: if T::WRITABLE { Some(Self::sync) } else { None },
        xCommit: if T::WRITABLE {
            Some(Self::commit)
        } else {
            None
        },
        xRollback: if T::WRITABLE {
            Some(Self::rollback)
        } else {
            None
        },
        xFindFunction: None,
        xRename: None,
        xSavepoint: if T::WRITABLE {
            Some(Self::savepoint)
        } else {
            None
        },
        xRelease: if T::WRITABLE {
            Some(Self::release)
        } else {
            None
        },
        xRollbackTo: if T::WRITABLE {
            Some(Self::rollback_to)
        } else {
            None
        },
    };

    pub(super) fn module() -> *const Module {
        const { &Self::MODULE }
    }

    pub(super) unsafe extern "C" fn destroy_module(registered: *mut c_void) {
        // SAFETY: `create_module` gave it to SQLite, which returns it once.
        let registered = unsafe { Box::from_raw(registered.cast::<Registered<T>>()) };
        guard(registered.api, "a module's destructor", (), || {
            drop(registered);
        });
    }

    unsafe extern "C" fn create(
        db: *mut Db,
        data: *mut c_void,
        n: c_int,
        arguments: *const *const c_char,
        out: *mut *mut Vtab,
        message: *mut *mut c_char,
    ) -> c_int {
        // SAFETY: the arguments that SQLite passes.
        unsafe { Self::make(db, data, n, arguments, out, message, true) }
    }

    unsafe extern "C" fn connect(
        db: *mut Db,
        data: *mut c_void,
        n: c_int,
        arguments: *const *const c_char,
        out: *mut *mut Vtab,
        message: *mut *mut c_char,
    ) -> c_int {
        // SAFETY: the arguments that SQLite passes.
        unsafe { Self::make(db, data, n, arguments, out, message, false) }
    }

    /// Creates or connects a table.
    ///
    /// # Safety
    /// The arguments are those of xCreate or xConnect.
    unsafe fn make(
        db: *mut Db,
        data: *mut c_void,
        n: c_int,
        arguments: *const *const c_char,
        out: *mut *mut Vtab,
        message: *mut *mut c_char,
        is_new: bool,
    ) -> c_int {
        // SAFETY: the data that the module was registered with; it outlives the module's tables.
        let registered = unsafe { &*data.cast::<Registered<T>>() };
        let api = registered.api;
        let made = guard_else(api, "a table", internal, || {
            // SAFETY: the connection is alive during the call, and SQLite holds its mutex.
            let connection = unsafe { Connection::borrow(api, db) };
            let connection = connection.ok_or_else(|| Error::from(Code::MISUSE))?;
            let texts = (0..usize::try_from(n).unwrap_or(0)).map(|i| {
                // SAFETY: `n` terminated strings, alive during the call.
                let text = unsafe { CStr::from_ptr(*arguments.add(i)) };
                text.to_string_lossy().trim().to_owned()
            });
            let mut texts = texts.collect::<Vec<String>>().into_iter();
            let mut first = || texts.next().unwrap_or_default();
            let (module, schema, table) = (first(), first(), first());
            let origin = Origin {
                module,
                schema,
                table,
                arguments: texts.collect(),
                is_new,
            };
            let (table, declaration) = T::connect(&registered.shared, &connection, &origin)?;
            let declaration = c_string(&declaration);
            // SAFETY: the connection that connects, and a terminated string.
            connection.check(unsafe { (api.raw().declare_vtab)(db, declaration.as_ptr()) })?;
            // SAFETY: within xCreate or xConnect; these settings take no argument or one int.
            unsafe {
                if T::DIRECT_ONLY {
                    (api.raw().vtab_config)(db, ffi::VTAB_DIRECTONLY);
                }
                if T::INNOCUOUS {
                    (api.raw().vtab_config)(db, ffi::VTAB_INNOCUOUS);
                }
                if T::WRITABLE {
                    (api.raw().vtab_config)(db, ffi::VTAB_CONSTRAINT_SUPPORT, 1 as c_int);
                }
            }
            Ok(table)
        });
        match made {
            Ok(table) => {
                let base = Vtab {
                    pModule: std::ptr::null(),
                    nRef: 0,
                    zErrMsg: std::ptr::null_mut(),
                };
                let table = Box::new(Table {
                    base,
                    api,
                    db,
                    table,
                });
                // SAFETY: `out` is valid for writing. SQLite returns the table to `disconnect` or
                // `destroy`.
                unsafe { *out = Box::into_raw(table).cast::<Vtab>() };
                Code::OK.0
            }
            Err(error) => {
                // SAFETY: `message` is valid for a text of SQLite's allocator.
                unsafe { *message = api.string(&error.message) };
                error.code.0
            }
        }
    }

    unsafe extern "C" fn disconnect(table: *mut Vtab) -> c_int {
        // SAFETY: made by `make`, and SQLite returns it once.
        let table = unsafe { Box::from_raw(table.cast::<Table<T>>()) };
        guard(table.api, "a table's end", (), || drop(table));
        Code::OK.0
    }

    unsafe extern "C" fn destroy(table: *mut Vtab) -> c_int {
        // SAFETY: our table.
        let done =
            unsafe { Table::<T>::call(table, "a table that is dropped", |t, _| t.destroy()) };
        match done {
            // SAFETY: after a success SQLite no longer uses the table.
            Ok(()) => unsafe { Self::disconnect(table) },
            Err(code) => code,
        }
    }

    unsafe extern "C" fn best_index(table: *mut Vtab, info: *mut IndexInfo) -> c_int {
        // SAFETY: our table; SQLite uses it from one thread at a time.
        let done = unsafe {
            let api = (*table.cast::<Table<T>>()).api;
            Table::<T>::call(table, "a table's plan", |t, _| {
                // The plan of this call, alive during the call.
                t.best_index(&mut Plan::new(api, &mut *info))
            })
        };
        done.map_or_else(|code| code, |possible| Plan::outcome(possible).0)
    }

    unsafe extern "C" fn open(table: *mut Vtab, out: *mut *mut VtabCursor) -> c_int {
        // SAFETY: our table.
        match unsafe { Table::<T>::call(table, "a cursor", |t, _| t.open()) } {
            Ok(cursor) => {
                let base = VtabCursor { pVtab: table };
                let cursor = Box::new(Cursor { base, cursor });
                // SAFETY: `out` is valid for writing. SQLite returns the cursor to `close`.
                unsafe { *out = Box::into_raw(cursor).cast::<VtabCursor>() };
                Code::OK.0
            }
            Err(code) => code,
        }
    }

    unsafe extern "C" fn close(cursor: *mut VtabCursor) -> c_int {
        // SAFETY: made by `open`, and SQLite returns it once; its table outlives it.
        let (cursor, api) = unsafe {
            let cursor = Box::from_raw(cursor.cast::<Cursor<T::Cursor>>());
            let api = (*cursor.base.pVtab.cast::<Table<T>>()).api;
            (cursor, api)
        };
        guard(api, "a cursor's end", (), || drop(cursor));
        Code::OK.0
    }

    /// Calls a cursor; its error becomes SQLite's. SQLite calls it several times per row, so it
    /// does only what each call needs.
    ///
    /// # Safety
    /// `cursor` is one of ours and alive during the call.
    #[inline]
    unsafe fn with(
        cursor: *mut VtabCursor,
        body: impl FnOnce(&mut T::Cursor, &Table<T>) -> Result<()>,
    ) -> c_int {
        // SAFETY: our cursor, which SQLite calls one call at a time; its table outlives it.
        let (cursor, base, table) = unsafe {
            let cursor = &mut *cursor.cast::<Cursor<T::Cursor>>();
            let base = cursor.base.pVtab;
            (&mut cursor.cursor, base, &*base.cast::<Table<T>>())
        };
        match guard_else(table.api, "a cursor", internal, || body(cursor, table)) {
            Ok(()) => Code::OK.0,
            // SAFETY: our table, which is no longer borrowed.
            Err(error) => unsafe { Table::<T>::fail(base, &error) },
        }
    }

    unsafe extern "C" fn filter(
        cursor: *mut VtabCursor,
        number: c_int,
        text: *const c_char,
        n: c_int,
        values: *mut *mut RawValue,
    ) -> c_int {
        let text = if text.is_null() {
            ""
        } else {
            // SAFETY: the text that the plan chose: terminated, made from a string, and alive
            // during the call.
            unsafe { CStr::from_ptr(text) }.to_str().unwrap_or_default()
        };
        // SAFETY: our cursor; `n` values that are alive during the call.
        unsafe {
            Self::with(cursor, |cursor, table| {
                // The connection is alive during the call, and SQLite holds its mutex.
                let connection = Connection::borrow(table.api, table.db);
                let connection = connection.ok_or_else(|| Error::from(Code::MISUSE))?;
                let arguments = Arguments::new(table.api, n, values);
                cursor.filter(&connection, number, text, arguments)
            })
        }
    }

    unsafe extern "C" fn next(cursor: *mut VtabCursor) -> c_int {
        // SAFETY: our cursor.
        unsafe { Self::with(cursor, |cursor, _| cursor.next()) }
    }

    unsafe extern "C" fn eof(cursor: *mut VtabCursor) -> c_int {
        let mut end = true;
        // SAFETY: our cursor.
        unsafe {
            Self::with(cursor, |cursor, _| {
                end = cursor.is_at_end();
                Ok(())
            })
        };
        c_int::from(end)
    }

    unsafe extern "C" fn column(
        cursor: *mut VtabCursor,
        context: *mut Context,
        column: c_int,
    ) -> c_int {
        // SAFETY: our cursor and the context of this call.
        unsafe {
            Self::with(cursor, |cursor, table| {
                let value = cursor.column(usize::try_from(column).unwrap_or(usize::MAX))?;
                set_result(table.api, context, value);
                Ok(())
            })
        }
    }

    unsafe extern "C" fn rowid(cursor: *mut VtabCursor, out: *mut i64) -> c_int {
        // SAFETY: our cursor; `out` is valid for writing.
        unsafe {
            Self::with(cursor, |cursor, _| {
                *out = cursor.row_id()?;
                Ok(())
            })
        }
    }

    unsafe extern "C" fn update(
        table: *mut Vtab,
        n: c_int,
        values: *mut *mut RawValue,
        out: *mut i64,
    ) -> c_int {
        // SAFETY: our table; `n` values that are alive during the call; `out` is valid for writing.
        let done = unsafe {
            Table::<T>::call(table, "a change of a row", |table, db| {
                let values = arguments_of(db.api(), n, values);
                let conflict = Conflict::of((db.api().raw().vtab_on_conflict)(db.as_ptr()));
                let change = Change::of(&values, conflict);
                let change = change.ok_or_else(|| Error::from(Code::MISUSE))?;
                let row_id = table.update(db, &change)?;
                if matches!(change, Change::Insert { .. }) && !out.is_null() {
                    *out = row_id;
                }
                Ok(())
            })
        };
        Table::<T>::code(done)
    }

    unsafe extern "C" fn begin(table: *mut Vtab) -> c_int {
        // SAFETY: our table.
        Table::<T>::code(unsafe { Table::<T>::call(table, "xBegin", |t, db| t.begin(db)) })
    }

    unsafe extern "C" fn sync(table: *mut Vtab) -> c_int {
        // SAFETY: our table.
        Table::<T>::code(unsafe { Table::<T>::call(table, "xSync", |t, db| t.sync(db)) })
    }

    unsafe extern "C" fn commit(table: *mut Vtab) -> c_int {
        // SAFETY: our table.
        let done = unsafe {
            Table::<T>::call(table, "xCommit", |t, _| {
                t.commit();
                Ok(())
            })
        };
        Table::<T>::code(done)
    }

    unsafe extern "C" fn rollback(table: *mut Vtab) -> c_int {
        // SAFETY: our table.
        let done = unsafe {
            Table::<T>::call(table, "xRollback", |t, _| {
                t.rollback();
                Ok(())
            })
        };
        Table::<T>::code(done)
    }

    unsafe extern "C" fn savepoint(table: *mut Vtab, n: c_int) -> c_int {
        // SAFETY: our table.
        Table::<T>::code(unsafe { Table::<T>::call(table, "xSavepoint", |t, _| t.savepoint(n)) })
    }

    unsafe extern "C" fn release(table: *mut Vtab, n: c_int) -> c_int {
        // SAFETY: our table.
        Table::<T>::code(unsafe { Table::<T>::call(table, "xRelease", |t, _| t.release(n)) })
    }

    unsafe extern "C" fn rollback_to(table: *mut Vtab, n: c_int) -> c_int {
        // SAFETY: our table.
        Table::<T>::code(unsafe { Table::<T>::call(table, "xRollbackTo", |t, _| t.rollback_to(n)) })
    }
}
