//! A compiled statement that is kept across calls, for example by a cursor of a virtual table.

use crate::Result;
use crate::connection::Connection;
use crate::statement::Statement;
use crate::value::ValueRef;
use std::mem::ManuallyDrop;

/// A statement that keeps the part of its connection that it needs.
///
/// It must be dropped before the connection is closed by `sqlite3_close`, which refuses otherwise.
/// So keep it in a virtual table or a cursor, which SQLite drops first, or beside your own
/// connection.
#[derive(Debug)]
pub struct OwnedStatement {
    /// Finalised in `drop`, before the connection's wrapper is dropped.
    statement: ManuallyDrop<Statement<'static>>,
    /// Boxed, because the statement points to it.
    connection: Box<Connection>,
}

// SAFETY: a statement is not bound to a thread. One thread at a time uses it and its connection:
// the methods of a virtual table under the connection's mutex, or the owner of the connection.
unsafe impl Send for OwnedStatement {}

impl OwnedStatement {
    /// Compiles one statement.
    ///
    /// # Errors
    /// As [`Connection::prepare`].
    pub fn prepare(connection: &Connection, sql: &str) -> Result<OwnedStatement> {
        // SAFETY: the wrapper lives exactly as long as the statement, and SQLite frees no
        // connection that has a statement.
        let lent = unsafe { Connection::borrow(connection.api(), connection.as_ptr()) };
        let lent = lent.ok_or_else(|| crate::Error::from(crate::Code::MISUSE))?;
        let boxed = Box::new(lent);
        // SAFETY: the box is neither moved out of nor dropped before the statement.
        let kept: &'static Connection = unsafe { &*std::ptr::from_ref(&*boxed) };
        Ok(OwnedStatement {
            statement: ManuallyDrop::new(kept.prepare(sql)?),
            connection: boxed,
        })
    }

    /// As [`Statement::bind_ref`].
    ///
    /// # Errors
    /// As [`Statement::bind_ref`].
    pub fn bind(&mut self, index: usize, value: ValueRef<'_>) -> Result<()> {
        self.statement.bind_ref(index, value)
    }

    /// As [`Statement::step`].
    ///
    /// # Errors
    /// As [`Statement::step`].
    pub fn step(&mut self) -> Result<bool> {
        self.statement.step()
    }

    /// Its connection.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// As [`Statement::reset`].
    pub fn reset(&mut self) {
        self.statement.reset();
    }

    /// As [`Statement::take_prepared_again`].
    pub fn take_prepared_again(&mut self) -> bool {
        self.statement.take_prepared_again()
    }

    /// As [`Statement::column`].
    pub fn column(&self, index: usize) -> ValueRef<'_> {
        self.statement.column(index)
    }
}

impl Drop for OwnedStatement {
    fn drop(&mut self) {
        // SAFETY: this is the only place that drops it.
        unsafe { ManuallyDrop::drop(&mut self.statement) };
    }
}
