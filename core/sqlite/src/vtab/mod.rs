//! Virtual tables: a module of SQLite as a trait (<https://www.sqlite.org/vtab.html>), which
//! [`create_module`] registers. A [`VirtualTable`] has [`TableCursor`]s for scans. [`Plan`] has
//! SQLite's questions before a scan (xBestIndex), [`Arguments`] the values that the scan then
//! starts with, and [`Change`] a row to insert, update or delete (xUpdate).
//!
//! SQLite calls a table and its cursors under the mutex of their connection. Calls can nest: a
//! table can be written to while it is read. So the methods take `&self`.

mod arguments;
mod best_index;
mod glue;

pub use arguments::{Arguments, Change, Conflict};
pub use best_index::{Constraint, Operator, Plan};

use crate::api::c_string;
use crate::connection::Connection;
use crate::value::ValueRef;
use crate::{Code, Error, Result};
use glue::{Glue, Registered};
use std::ffi::c_void;

/// How tables of a module are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existence {
    /// One table exists by itself, under the module's name; `CREATE VIRTUAL TABLE` is refused.
    /// Table-valued functions are such tables.
    ByItself,
    /// By `CREATE VIRTUAL TABLE … USING module(arguments)`.
    Created,
    /// Both ways. [`Origin::is_new`] is then always false.
    Both,
}

/// The arguments that a table is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The module's name.
    pub module: String,
    /// The schema that the table is in: "main", "temp" or the name of an attached one.
    pub schema: String,
    /// The table's name.
    pub table: String,
    /// The arguments in parentheses, as written, without surrounding spaces.
    pub arguments: Vec<String>,
    /// Whether `CREATE VIRTUAL TABLE` is running; false for a table that was created before.
    pub is_new: bool,
}

/// A virtual table.
pub trait VirtualTable: Send + Sized + 'static {
    /// The data that all tables of the module share.
    type Shared: Send + 'static;
    /// A scan.
    type Cursor: TableCursor;

    /// How tables are created.
    const EXISTENCE: Existence;
    /// Whether rows can be changed. If so, `update` and the methods of a transaction are called.
    const WRITABLE: bool = false;
    /// Whether triggers and views must not use it (`SQLITE_VTAB_DIRECTONLY`). True for tables with
    /// effects outside the database.
    const DIRECT_ONLY: bool = false;
    /// Whether triggers and views can use it even if the application does not trust the schema
    /// (`SQLITE_VTAB_INNOCUOUS`).
    const INNOCUOUS: bool = false;

    /// Creates or connects a table. Returns it, and `CREATE TABLE x(...)` with its columns.
    ///
    /// # Errors
    /// The statement's.
    fn connect(
        shared: &Self::Shared,
        connection: &Connection,
        origin: &Origin,
    ) -> Result<(Self, String)>;

    /// Chooses how to scan. Returns false if this plan is impossible, because in this order of
    /// tables its arguments are not known yet.
    ///
    /// # Errors
    /// The statement's.
    fn best_index(&self, plan: &mut Plan<'_>) -> Result<bool>;

    /// Opens a cursor for a scan.
    ///
    /// # Errors
    /// The statement's.
    fn open(&self) -> Result<Self::Cursor>;

    /// `DROP TABLE`.
    ///
    /// # Errors
    /// The statement's; the table stays.
    fn destroy(&self) -> Result<()> {
        Ok(())
    }

    /// Changes a row. Returns the row id of an inserted row; for other changes the number is
    /// ignored.
    ///
    /// # Errors
    /// The statement's. The statement's conflict clause applies to [`Code::CONSTRAINT`]: see
    /// [`Conflict`].
    fn update(&self, _connection: &Connection, _change: &Change<'_>) -> Result<i64> {
        Err(Error::new(Code::READONLY, "the table cannot be changed"))
    }

    /// A transaction that changes the table begins.
    ///
    /// # Errors
    /// The statement's.
    fn begin(&self, _connection: &Connection) -> Result<()> {
        Ok(())
    }

    /// The first half of a commit: makes it durable. Called before the connection's own commit, and
    /// again when a COMMIT that was busy is repeated.
    ///
    /// # Errors
    /// COMMIT's. The transaction is rolled back, unless the error is [`Code::BUSY`].
    fn sync(&self, _connection: &Connection) -> Result<()> {
        Ok(())
    }

    /// The second half of a commit, which cannot fail.
    fn commit(&self) {}

    /// Rolls the transaction back, possibly after `sync`.
    fn rollback(&self) {}

    /// Savepoint `n` begins; inner savepoints have greater numbers.
    ///
    /// # Errors
    /// The statement's.
    fn savepoint(&self, _n: i32) -> Result<()> {
        Ok(())
    }

    /// Ends savepoint `n` and those within it; their changes stay.
    ///
    /// # Errors
    /// The statement's.
    fn release(&self, _n: i32) -> Result<()> {
        Ok(())
    }

    /// Undoes the changes since savepoint `n`; the savepoint stays open.
    ///
    /// # Errors
    /// The statement's.
    fn rollback_to(&self, _n: i32) -> Result<()> {
        Ok(())
    }
}

/// A scan of a virtual table.
pub trait TableCursor: Send + 'static {
    /// Begins or restarts the scan as [`VirtualTable::best_index`] chose, with its number and text
    /// and the values that it asked for.
    ///
    /// # Errors
    /// The statement's.
    fn filter(
        &mut self,
        connection: &Connection,
        number: i32,
        text: &str,
        arguments: Arguments<'_>,
    ) -> Result<()>;

    /// Goes to the next row.
    ///
    /// # Errors
    /// The statement's.
    fn next(&mut self) -> Result<()>;

    /// Whether the scan is past the last row.
    fn is_at_end(&self) -> bool;

    /// A column of the current row; 0 is the first.
    ///
    /// # Errors
    /// The statement's.
    fn column(&mut self, column: usize) -> Result<ValueRef<'_>>;

    /// The current row's id.
    ///
    /// # Errors
    /// The statement's.
    fn row_id(&mut self) -> Result<i64>;
}

/// Registers a module with a connection.
///
/// # Errors
/// SQLite's.
pub fn create_module<T: VirtualTable>(
    connection: &Connection,
    name: &str,
    shared: T::Shared,
) -> Result<()> {
    let api = connection.api();
    let registered = Box::new(Registered::<T> { api, shared });
    let name = c_string(name);
    // SAFETY: an open connection, a terminated name, a static module. SQLite owns the registered
    // memory and passes it to `destroy_module` once, also if this call fails.
    connection.check(unsafe {
        (api.raw().create_module_v2)(
            connection.as_ptr(),
            name.as_ptr(),
            Glue::<T>::module(),
            Box::into_raw(registered).cast::<c_void>(),
            Some(Glue::<T>::destroy_module),
        )
    })
}
