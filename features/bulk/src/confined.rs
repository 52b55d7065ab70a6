//! State that the tables and cursors of one connection share.
//!
//! SQLite requires that they can move between threads with their connection, and uses them under
//! its mutex. So their shared state needs no lock of its own, which would cost two atomic
//! operations per row.

use std::ops::Deref;
use std::rc::Rc;

/// A value that a connection's table and its cursors share.
pub(crate) struct Confined<T>(Rc<T>);

// SAFETY: the caller of `new` guarantees that one thread at a time uses all copies.
unsafe impl<T: Send> Send for Confined<T> {}

impl<T> Confined<T> {
    /// Shares a value.
    ///
    /// # Safety
    /// It and all its clones belong to virtual tables and cursors of one connection. They are used
    /// and dropped only within SQLite's calls of these.
    pub(crate) unsafe fn new(value: T) -> Confined<T> {
        Confined(Rc::new(value))
    }
}

impl<T> Clone for Confined<T> {
    fn clone(&self) -> Confined<T> {
        Confined(Rc::clone(&self.0))
    }
}

impl<T> Deref for Confined<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
