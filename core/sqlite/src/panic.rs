//! Catches panics, so that no panic crosses into C.

use crate::{Api, Code, Error};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The message for a panic in a callback.
pub const INTERNAL_ERROR: &str =
    "densite: internal error, a bug; please report it with what SQLite's error log says";

/// The error for a panic in a callback.
pub(crate) fn internal_error() -> Error {
    Error::new(Code::INTERNAL, INTERNAL_ERROR)
}

/// Runs a callback's body. A panic is logged through SQLite and gives `fallback`.
pub(crate) fn guard<T>(api: Api, name: &str, fallback: T, body: impl FnOnce() -> T) -> T {
    guard_else(api, name, || fallback, body)
}

/// The same with a fallback that is made only after a panic. Callbacks of virtual tables run for
/// every value, so making it each time would cost time.
#[inline]
pub(crate) fn guard_else<T>(
    api: Api,
    name: &str,
    fallback: impl FnOnce() -> T,
    body: impl FnOnce() -> T,
) -> T {
    // After a panic, the state of the body is only closed by its owner and not read otherwise.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(value) => value,
        Err(payload) => {
            report(api, name, payload);
            fallback()
        }
    }
}

/// Writes a panic to SQLite's log.
#[cold]
fn report(api: Api, name: &str, payload: Box<dyn Any + Send>) {
    let what = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    api.log(
        Code::INTERNAL,
        &format!("densite: internal error in {name}: {what}"),
    );
    // Dropping a payload can run code that panics, so it is leaked.
    std::mem::forget(payload);
}
