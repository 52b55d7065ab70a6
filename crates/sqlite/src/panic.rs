//! No panic crosses into C.

use crate::{Api, Code};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a callback's body; a panic is logged through SQLite and becomes `fallback`.
pub(crate) fn guard<T>(api: Api, name: &str, fallback: T, body: impl FnOnce() -> T) -> T {
    guard_else(api, name, || fallback, body)
}

/// The same for a fallback that is not for nothing: it is made for a panic alone, and callbacks of virtual tables are called for every value.
#[inline]
pub(crate) fn guard_else<T>(
    api: Api,
    name: &str,
    fallback: impl FnOnce() -> T,
    body: impl FnOnce() -> T,
) -> T {
    // Nothing of the body is looked at after a panic but what its owner must close anyway.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(value) => value,
        Err(payload) => {
            report(api, name, payload);
            fallback()
        }
    }
}

/// Tells SQLite's log of a panic.
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
    // Dropping a payload may run code that panics; a leak may not.
    std::mem::forget(payload);
}
