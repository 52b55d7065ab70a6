//! The text of the statement that calls us.

use super::Connection;
use crate::api::Api;
use crate::ffi::Stmt;
use std::ffi::CStr;
use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};

/// A statement that is running, during a callback that it makes.
pub struct Running<'a> {
    api: Api,
    statement: NonNull<Stmt>,
    connection: PhantomData<&'a Connection>,
}

impl Connection {
    /// The statements that are running and can write, newest first.
    pub fn running(&self) -> impl Iterator<Item = Running<'_>> {
        let (api, db) = (self.api(), self.as_ptr());
        let mut last = null_mut();
        let all = std::iter::from_fn(move || {
            // SAFETY: an open connection, and null or a statement of it: none is finalized while
            // the connection is borrowed.
            last = unsafe { (api.raw().next_stmt)(db, last) };
            NonNull::new(last)
        });
        // SAFETY: statements of the connection.
        let writes = move |statement: &NonNull<Stmt>| unsafe {
            (api.raw().stmt_busy)(statement.as_ptr()) != 0
                && (api.raw().stmt_readonly)(statement.as_ptr()) == 0
        };
        all.filter(writes).map(move |statement| Running {
            api,
            statement,
            connection: PhantomData,
        })
    }
}

impl Running<'_> {
    /// Its text, as it was prepared.
    pub fn text(&self) -> &str {
        // SAFETY: a statement that is not finalized while this exists.
        let text = unsafe { (self.api.raw().sql)(self.statement.as_ptr()) };
        if text.is_null() {
            return "";
        }
        // SAFETY: a terminated text that the statement owns.
        let text = unsafe { CStr::from_ptr(text) };
        text.to_str().unwrap_or_default()
    }

    /// Its text with the values of its parameters; `None` if there is not enough memory, or if it
    /// would be too long.
    pub fn expanded(&self) -> Option<String> {
        // SAFETY: as in `text`.
        let text = unsafe { (self.api.raw().expanded_sql)(self.statement.as_ptr()) };
        if text.is_null() {
            return None;
        }
        // SAFETY: a terminated text.
        let copy = unsafe { CStr::from_ptr(text) }.to_str();
        let copy = copy.ok().map(str::to_owned);
        // SAFETY: the text is ours to free, and is not used again.
        unsafe { self.api.free(text.cast()) };
        copy
    }
}
