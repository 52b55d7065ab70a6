//! Scalar SQL functions.

use crate::api::{Api, c_string};
use crate::connection::Connection;
use crate::ffi::{self, Context, RawValue};
use crate::panic::{guard, guard_else, internal_error};
use crate::statement::transient;
use crate::value::{Value, ValueRef};
use crate::{Code, Error, Result};
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

type Body = dyn Fn(&Connection, &[ValueRef<'_>]) -> Result<Value> + Send;

struct Function {
    api: Api,
    name: String,
    body: Box<Body>,
}

/// Adds a scalar function to a connection. `arguments` is their number, -1 for any. `flags` are
/// `DETERMINISTIC`, `INNOCUOUS` and similar ones of [`ffi`]. The function gets the connection that
/// calls it. An error or a panic becomes the statement's error.
///
/// # Errors
/// SQLite's.
pub fn create_function(
    connection: &Connection,
    name: &str,
    arguments: i32,
    flags: i32,
    body: impl Fn(&Connection, &[ValueRef<'_>]) -> Result<Value> + Send + 'static,
) -> Result<()> {
    let api = connection.api();
    let function = Box::new(Function {
        api,
        name: name.to_string(),
        body: Box::new(body),
    });
    let callback = callback_of(api)?;
    let name = c_string(name);
    // SAFETY: an open connection and a terminated name. SQLite owns the function's memory and
    // passes it to `destroy` once, also if this call fails.
    connection.check(unsafe {
        (api.raw().create_function_v2)(
            connection.as_ptr(),
            name.as_ptr(),
            arguments,
            ffi::UTF8 | flags,
            Box::into_raw(function).cast::<c_void>(),
            Some(callback),
            None,
            None,
            Some(destroy),
        )
    })
}

unsafe extern "C" fn destroy(function: *mut c_void) {
    // SAFETY: `create_function` gave it to SQLite, which returns it once.
    let function = unsafe { Box::from_raw(function.cast::<Function>()) };
    guard(function.api, "a function's destructor", (), || {
        drop(function)
    });
}

/// How many SQLite libraries of one process can have functions registered.
const LIBRARIES: usize = 8;

/// The libraries that functions were registered with.
///
/// A function's callback gets only a context, and reading the function's data from the context
/// needs the API table of the library that calls. So each library has a place here, and its own
/// callback that knows the place.
static LIBRARY: [OnceLock<Api>; LIBRARIES] = [const { OnceLock::new() }; LIBRARIES];

/// The callbacks by place.
const CALLBACKS: [ffi::FunctionCallback; LIBRARIES] = [
    call::<0>, call::<1>, call::<2>, call::<3>, call::<4>, call::<5>, call::<6>, call::<7>,
];

/// Checks that functions can be registered with a library.
///
/// # Errors
/// If too many other libraries of the process have functions.
pub fn serves(api: Api) -> Result<()> {
    callback_of(api).map(drop)
}

/// The callback for a library, which takes the first free place if it has none.
fn callback_of(api: Api) -> Result<ffi::FunctionCallback> {
    let mut places = LIBRARY.iter();
    let place = places.position(|place| *place.get_or_init(|| api) == api);
    let callback = place.and_then(|place| CALLBACKS.get(place));
    callback.copied().ok_or_else(|| {
        Error::new(
            Code::ERROR,
            format!("Densite serves at most {LIBRARIES} SQLite libraries in one process; load it into fewer of them"),
        )
    })
}

/// xFunc of every function, for the library at place `N`.
unsafe extern "C" fn call<const N: usize>(
    context: *mut Context,
    n: c_int,
    arguments: *mut *mut RawValue,
) {
    let Some(api) = LIBRARY.get(N).and_then(OnceLock::get).copied() else {
        return;
    };
    // SAFETY: the library at this place calls with a live context of a function made by
    // `create_function`, whose data lives until `destroy`.
    let Some(function) = (unsafe { (api.raw().user_data)(context).cast::<Function>().as_ref() })
    else {
        return;
    };
    let failed = || Err(internal_error());
    let answer = guard_else(api, &function.name, failed, || {
        // SAFETY: the connection is alive during the call, and SQLite holds its mutex.
        let connection = unsafe { Connection::borrow(api, (api.raw().context_db_handle)(context)) };
        let connection = connection.ok_or_else(|| Error::from(Code::MISUSE))?;
        // SAFETY: SQLite passes `n` values that are alive during the call.
        let values = unsafe { arguments_of(api, n, arguments) };
        (function.body)(&connection, &values)
    });
    match answer {
        // SAFETY: the context of this call.
        Ok(value) => unsafe { set_result(api, context, value.as_ref()) },
        // SAFETY: as above; the text is copied.
        Err(error) => unsafe {
            let text = c_string(&error.message);
            (api.raw().result_error)(context, text.as_ptr(), -1);
            (api.raw().result_error_code)(context, error.code.0);
        },
    }
}

/// The arguments of a callback.
///
/// # Safety
/// `arguments` are `n` values of that library, alive and unchanged for `'a`.
pub(crate) unsafe fn arguments_of<'a>(
    api: Api,
    n: c_int,
    arguments: *mut *mut RawValue,
) -> Vec<ValueRef<'a>> {
    (0..usize::try_from(n).unwrap_or(0))
        // SAFETY: the caller guarantees it.
        .map(|i| unsafe { ValueRef::from_raw(api, *arguments.add(i)) })
        .collect()
}

/// Sets the result of a context.
///
/// # Safety
/// `context` is the live context of a running callback of that library.
#[inline]
pub(crate) unsafe fn set_result(api: Api, context: *mut Context, value: ValueRef<'_>) {
    let t = api.raw();
    // SAFETY: the caller guarantees the context; text and blobs are copied before the call returns.
    unsafe {
        match value {
            ValueRef::Null => (t.result_null)(context),
            ValueRef::Integer(n) => (t.result_int64)(context, n),
            ValueRef::Real(x) => (t.result_double)(context, x),
            ValueRef::Text(text) => (t.result_text64)(
                context,
                text.as_ptr().cast(),
                text.len() as u64,
                transient(),
                1, // SQLITE_UTF8
            ),
            ValueRef::Blob(blob) => (t.result_blob64)(
                context,
                blob.as_ptr().cast(),
                blob.len() as u64,
                transient(),
            ),
        }
    }
}
