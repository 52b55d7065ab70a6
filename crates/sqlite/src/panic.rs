//! No panic crosses into C.

use crate::{Api, Code};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a callback's body; a panic is logged through SQLite and becomes `fallback`.
pub(crate) fn guard<T>(api: Api, name: &str, fallback: T, body: impl FnOnce() -> T) -> T {
    // Nothing of the body is looked at after a panic but what its owner must close anyway.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(value) => value,
        Err(payload) => {
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
            fallback
        }
    }
}
