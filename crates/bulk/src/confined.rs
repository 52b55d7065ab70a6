//! State that the tables and cursors of one connection share.
//!
//! SQLite wants them to go from thread to thread with their connection, and uses them under its
//! mutex. So what they share needs no lock of its own, which would be two atomic operations for
//! each row.

use std::ops::Deref;
use std::rc::Rc;

/// One value for a connection's table and its cursors.
pub(crate) struct Confined<T>(Rc<T>);

// SAFETY: who makes one vouches that all copies are used by one thread at a time.
unsafe impl<T: Send> Send for Confined<T> {}

impl<T> Confined<T> {
    /// Shares a value.
    ///
    /// # Safety
    /// It and all its clones belong to virtual tables and cursors of one connection, and are used
    /// and dropped within SQLite's calls of these alone.
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
