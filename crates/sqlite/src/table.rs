//! Table-valued functions: read-only tables whose rows are computed when asked for.

use crate::api::{Api, c_string};
use crate::connection::Connection;
use crate::ffi::{self, Context, Db, IndexInfo, RawValue, Vtab, VtabCursor};
use crate::function::{arguments_of, set_result};
use crate::panic::guard;
use crate::value::Value;
use crate::{Code, Error, Result};
use std::ffi::{c_char, c_int, c_void};

type Rows = dyn Fn(&Connection, &[Option<Value>]) -> Result<Vec<Vec<Value>>> + Send;

struct Function {
    api: Api,
    name: String,
    /// `CREATE TABLE x(...)`, visible columns first, then the hidden ones.
    declaration: String,
    visible: usize,
    hidden: usize,
    rows: Box<Rows>,
}

/// `Vtab` with our fields behind it.
#[repr(C)]
struct Table {
    base: Vtab,
    db: *mut Db,
    function: *const Function,
}

/// `VtabCursor` with our fields behind it.
#[repr(C)]
struct Cursor {
    base: VtabCursor,
    function: *const Function,
    arguments: Vec<Option<Value>>,
    rows: Vec<Vec<Value>>,
    at: usize,
}

/// Adds a table-valued function to a connection: `SELECT columns FROM name(arguments)`.
///
/// `columns` are the visible columns and `arguments` the hidden ones, in order. `rows`
/// gets the arguments that were given and answers all rows, each with as many values as
/// there are columns; an error becomes the statement's, and so does a panic.
///
/// # Errors
/// SQLite's.
pub fn create_table_function(
    connection: &Connection,
    name: &str,
    columns: &[&str],
    arguments: &[&str],
    rows: impl Fn(&Connection, &[Option<Value>]) -> Result<Vec<Vec<Value>>> + Send + 'static,
) -> Result<()> {
    let api = connection.api();
    let hidden = arguments.iter().map(|name| format!("{name} HIDDEN"));
    let declared: Vec<String> = columns
        .iter()
        .map(ToString::to_string)
        .chain(hidden)
        .collect();
    let function = Box::new(Function {
        api,
        name: name.to_string(),
        declaration: format!("CREATE TABLE x({})", declared.join(", ")),
        visible: columns.len(),
        hidden: arguments.len(),
        rows: Box::new(rows),
    });
    let name = c_string(name);
    // SAFETY: an open connection, a terminated name, a static module; the function's memory
    // goes to SQLite, which gives it to `destroy` once, also when this call fails.
    connection.check(unsafe {
        (api.raw().create_module_v2)(
            connection.as_ptr(),
            name.as_ptr(),
            &raw const MODULE,
            Box::into_raw(function).cast::<c_void>(),
            Some(destroy),
        )
    })
}

/// Without xCreate: the table exists by itself and cannot be made with CREATE VIRTUAL TABLE.
static MODULE: ffi::Module = ffi::Module {
    iVersion: 1,
    xCreate: None,
    xConnect: Some(connect),
    xBestIndex: Some(best_index),
    xDisconnect: Some(disconnect),
    xDestroy: None,
    xOpen: Some(open),
    xClose: Some(close),
    xFilter: Some(filter),
    xNext: Some(next),
    xEof: Some(eof),
    xColumn: Some(column),
    xRowid: Some(rowid),
    xUpdate: None,
    xBegin: None,
    xSync: None,
    xCommit: None,
    xRollback: None,
    xFindFunction: None,
    xRename: None,
};

unsafe extern "C" fn destroy(function: *mut c_void) {
    // SAFETY: what `create_table_function` gave to SQLite, given back once.
    let function = unsafe { Box::from_raw(function.cast::<Function>()) };
    guard(function.api, "a table's destructor", (), || drop(function));
}

unsafe extern "C" fn connect(
    db: *mut Db,
    data: *mut c_void,
    _: c_int,
    _: *const *const c_char,
    out: *mut *mut Vtab,
    _: *mut *mut c_char,
) -> c_int {
    // SAFETY: the data that the module was made with; it outlives the module's tables.
    let function = unsafe { &*data.cast::<Function>() };
    let declaration = c_string(&function.declaration);
    // SAFETY: the connection that connects, and a terminated string.
    let rc = unsafe { (function.api.raw().declare_vtab)(db, declaration.as_ptr()) };
    if rc != Code::OK.0 {
        return rc;
    }
    let table = Box::new(Table {
        base: Vtab {
            pModule: std::ptr::null(),
            nRef: 0,
            zErrMsg: std::ptr::null_mut(),
        },
        db,
        function,
    });
    // SAFETY: a place for the table, which SQLite gives back to `disconnect`.
    unsafe { *out = Box::into_raw(table).cast::<Vtab>() };
    Code::OK.0
}

unsafe extern "C" fn disconnect(table: *mut Vtab) -> c_int {
    // SAFETY: made by `connect`, given back once.
    drop(unsafe { Box::from_raw(table.cast::<Table>()) });
    Code::OK.0
}

unsafe extern "C" fn best_index(table: *mut Vtab, info: *mut IndexInfo) -> c_int {
    // SAFETY: our table, and the plan that SQLite asks about; both alive during the call,
    // and the two arrays have `nConstraint` entries.
    let (function, info) = unsafe { (&*(*table.cast::<Table>()).function, &mut *info) };
    let n = usize::try_from(info.nConstraint).unwrap_or(0);
    let (mut given, mut next): (c_int, c_int) = (0, 1);
    for argument in 0..function.hidden.min(31) {
        let column = c_int::try_from(function.visible + argument).unwrap_or(c_int::MAX);
        let mut unusable = false;
        let mut chosen = None;
        for i in 0..n {
            // SAFETY: within the array.
            let constraint = unsafe { &*info.aConstraint.add(i) };
            if constraint.iColumn == column && constraint.op == ffi::INDEX_CONSTRAINT_EQ {
                if constraint.usable == 0 {
                    unusable = true;
                } else {
                    chosen = chosen.or(Some(i));
                }
            }
        }
        match chosen {
            Some(i) => {
                // SAFETY: within the array.
                let usage = unsafe { &mut *info.aConstraintUsage.add(i) };
                usage.argvIndex = next;
                usage.omit = 1;
                given |= 1 << argument;
                next += 1;
            }
            // An argument that comes from another table must be known first.
            None if unusable => return Code::CONSTRAINT.0,
            None => {}
        }
    }
    info.idxNum = given;
    info.estimatedCost = 100.0;
    info.estimatedRows = 100;
    Code::OK.0
}

unsafe extern "C" fn open(table: *mut Vtab, out: *mut *mut VtabCursor) -> c_int {
    // SAFETY: our table, alive during the call.
    let function = unsafe { (*table.cast::<Table>()).function };
    let cursor = Box::new(Cursor {
        base: VtabCursor { pVtab: table },
        function,
        arguments: Vec::new(),
        rows: Vec::new(),
        at: 0,
    });
    // SAFETY: a place for the cursor, which SQLite gives back to `close`.
    unsafe { *out = Box::into_raw(cursor).cast::<VtabCursor>() };
    Code::OK.0
}

unsafe extern "C" fn close(cursor: *mut VtabCursor) -> c_int {
    // SAFETY: made by `open`, given back once.
    drop(unsafe { Box::from_raw(cursor.cast::<Cursor>()) });
    Code::OK.0
}

unsafe extern "C" fn filter(
    cursor: *mut VtabCursor,
    given: c_int,
    _: *const c_char,
    n: c_int,
    values: *mut *mut RawValue,
) -> c_int {
    // SAFETY: our cursor; SQLite uses it from one thread at a time.
    let cursor = unsafe { &mut *cursor.cast::<Cursor>() };
    let table = cursor.base.pVtab.cast::<Table>();
    // SAFETY: the function outlives its tables, and these their cursors.
    let (function, db) = unsafe { (&*cursor.function, (*table).db) };
    let api = function.api;
    cursor.rows.clear();
    cursor.at = 0;
    let failed = Err(Error::new(Code::INTERNAL, "densite: internal error"));
    let answer = guard(api, &function.name, failed, || {
        // SAFETY: SQLite hands over `n` live values for the time of the call.
        let mut values = unsafe { arguments_of(api, n, values) }.into_iter();
        let arguments: Vec<Option<Value>> = (0..function.hidden)
            .map(|i| {
                let is_given = i < 31 && given & (1 << i) != 0;
                if is_given {
                    values.next().map(|value| value.to_owned())
                } else {
                    None
                }
            })
            .collect();
        // SAFETY: the connection is alive during the call, and SQLite holds its mutex.
        let connection = unsafe { Connection::borrow(api, db) };
        let connection = connection.ok_or_else(|| Error::from(Code::MISUSE))?;
        let rows = (function.rows)(&connection, &arguments)?;
        Ok((arguments, rows))
    });
    match answer {
        Ok((arguments, rows)) => {
            cursor.arguments = arguments;
            cursor.rows = rows;
            Code::OK.0
        }
        Err(error) => {
            // SAFETY: our table; its message is null or of SQLite's allocator.
            unsafe {
                (api.raw().free)((*table).base.zErrMsg.cast());
                (*table).base.zErrMsg = api.string(&error.message);
            }
            error.code.0
        }
    }
}

unsafe extern "C" fn next(cursor: *mut VtabCursor) -> c_int {
    // SAFETY: our cursor.
    unsafe { (*cursor.cast::<Cursor>()).at += 1 };
    Code::OK.0
}

unsafe extern "C" fn eof(cursor: *mut VtabCursor) -> c_int {
    // SAFETY: our cursor.
    let cursor = unsafe { &*cursor.cast::<Cursor>() };
    c_int::from(cursor.at >= cursor.rows.len())
}

unsafe extern "C" fn column(cursor: *mut VtabCursor, context: *mut Context, i: c_int) -> c_int {
    // SAFETY: our cursor, and the function outlives it.
    let (cursor, function) = unsafe {
        let cursor = &*cursor.cast::<Cursor>();
        (cursor, &*cursor.function)
    };
    let i = usize::try_from(i).unwrap_or(usize::MAX);
    let value = match i.checked_sub(function.visible) {
        None => cursor.rows.get(cursor.at).and_then(|row| row.get(i)),
        Some(argument) => cursor.arguments.get(argument).and_then(Option::as_ref),
    };
    // SAFETY: the context of this call.
    unsafe { set_result(function.api, context, value.unwrap_or(&Value::Null)) };
    Code::OK.0
}

unsafe extern "C" fn rowid(cursor: *mut VtabCursor, out: *mut i64) -> c_int {
    // SAFETY: our cursor, and a place for the number.
    unsafe { *out = i64::try_from((*cursor.cast::<Cursor>()).at).unwrap_or(i64::MAX) };
    Code::OK.0
}
